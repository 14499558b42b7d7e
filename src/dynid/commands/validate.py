"""`dynid validate`: how well a model predicts the torques of recorded motions."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say, stages, stdout, table


def validate(
    model: Annotated[str, typer.Argument(help="A model.yaml, a result folder, or the name of a shipped model.")],
    bags: Annotated[
        list[Path], typer.Argument(metavar="RECORDING...", help="Bags, CSV files, data sets or folders to predict.")
    ],
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    interval: Annotated[float | None, typer.Option(help="Sampling interval [s]; default: identification.yaml.")] = None,
    mapping: opt.MappingOption = None,
    effort: opt.EffortOption = None,
    position: opt.PositionOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Predict the torques of recorded motions; exit code 1 if a check fails."""
    from dynid.identification.data.sources import simulated_sentence
    from dynid.identification.held_out import validate as run
    from dynid.model.dynamics import ArmModel
    from dynid.reporting.tables import print_verdict
    from dynid.robot import load_robot
    from dynid.runtime.model import Model

    loaded = load_robot(robot)
    content = opt.read_model(loaded, opt.model_path(loaded, model))
    columns = opt.read_mapping(mapping, position=position, effort=effort)
    opt.refuse_unused_units(columns, bags)
    with stages("validate", 1) as begin:
        begin(f"predicting {len(bags)} recording(s)")
        base = opt.parameters_for(ArmModel.of(loaded), content, loaded)
        predictor = Model(loaded, base, content.friction(), torque_constants=content.torque_constants_nm_per_a)
        found = run(predictor, bags, interval_s=interval, mapping=columns)
        fitted = {one["sha256"] for one in content.provenance.get("bags", ()) if one["used"] == "fitted"}
        again = (f"{name} was fitted: it judges nothing new" for name, sha in found.sources if sha in fitted)
        found = replace(found, notes=(*again, *found.notes))
    if as_json:
        print_json(found.as_dict())
    else:
        errors = table("torque errors", "bag", "axis", "RMSE [N m]", "mean normalised error (MNE)", "relative", words=2)
        for name, row in found.as_dict()["bags"].items():
            for axis, one in (*row["axes"].items(), ("all", row)):
                errors.add_row(name, axis, *(f"{one[key]:.4g}" for key in ("rmse_nm", "mne", "relative")))
        stdout().print(errors)
        print_verdict(stdout(), found.verdict, f"{model} on {len(found.sources)} recording(s)")
        say(*filter(None, (*found.torques, *found.notes, simulated_sentence(found.simulated))), markup=False)
    raise typer.Exit(0 if found.verdict.accepted else 1)
