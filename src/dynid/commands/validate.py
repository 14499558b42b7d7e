"""`dynid validate`: errors of the joint torques that a model predicts for recorded motions."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say, stages, stdout, table

if TYPE_CHECKING:
    from dynid.robot import Robot
    from dynid.runtime.model import Model

KEYS = ("rmse_nm", "mne", "relative", "relative_moving")


def validate(
    model: Annotated[
        str,
        typer.Argument(
            help="A model.yaml, a result folder, the name of a shipped model, or an MJCF (.xml) or URDF (.urdf)."
        ),
    ],
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
    """Predict the torques of recorded motions and compare them with the measured ones; exit code 1 if a check fails.

    The checks concern the quality of the recorded data and the errors of the predicted torques.
    """
    from dynid.identification.data.recordings import simulated_sentence
    from dynid.identification.held_out import validate as run
    from dynid.reporting.tables import print_verdict
    from dynid.reporting.verdict_words import joint_labels, outcome
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    predictor, fitted = _predictor(loaded, model)
    columns = opt.read_mapping(mapping, position=position, effort=effort)
    opt.refuse_unused_mapping(columns, bags)
    with stages("validate", 1) as begin:
        begin(f"predicting {len(bags)} recording(s)")
        found = run(predictor, bags, interval_s=interval, mapping=columns)
        again = (
            f"{name} was used for the identification, so it does not validate the model"
            for name, sha in found.sources
            if sha in fitted
        )
        found = replace(found, notes=(*again, *found.notes))
    if as_json:
        print_json(found.as_dict())
    else:
        errors = table(
            "torque errors", "bag", "axis", "RMSE [N m]", "mean normalised error (MNE)", "relative", "moving", words=2
        )
        labels = (*joint_labels(loaded.joint_names), "all")
        for name, row in found.as_dict()["bags"].items():
            for axis, one in zip(labels, (*row["axes"].values(), row), strict=True):
                errors.add_row(name, axis, *(_number(one[key]) for key in KEYS))
        stdout().print(errors)
        print_verdict(stdout(), found.verdict, f"{model} on {len(found.sources)} recording(s)")
        say(*filter(None, (*found.torques, *found.notes, simulated_sentence(found.simulated))), markup=False)
        say(outcome(found.verdict.checks), markup=False)
    raise typer.Exit(0 if found.verdict.accepted else 1)


def _predictor(robot: "Robot", named: str) -> "tuple[Model, set[str]]":
    """Return a model, and the SHA-256 of the recordings to which it was fitted.

    `named` is a model file, a result folder, the name of a shipped model, or an MJCF or URDF file.
    """
    from dynid.model.dynamics import ArmModel
    from dynid.runtime.model import Model
    from dynid.runtime.simulator_file import is_simulator_file, read_simulator_file

    if is_simulator_file(named):
        return read_simulator_file(Path(named), robot), set()
    content = opt.read_model(robot, opt.model_path(robot, named))
    base = opt.parameters_for(ArmModel.of(robot), content, robot)
    model = Model(robot, base, content.friction(), torque_constants=content.torque_constants_nm_per_a)
    return model, {one["sha256"] for one in content.provenance.get("bags", ()) if one["used"] == "fitted"}


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
