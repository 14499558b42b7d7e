"""`dynid validate`: how well a model predicts the torques of recorded motions."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from dynid.commands.options import (
    DEFAULT_ROBOT,
    JsonOption,
    MappingOption,
    RobotOption,
    model_path,
    parameters_for,
    read_mapping,
    read_model,
)
from dynid.commands.terminal import stages, stdout


def validate(
    model: Annotated[str, typer.Argument(help="A model.yaml, a result folder, or the name of a shipped model.")],
    bags: Annotated[list[Path], typer.Argument(metavar="BAG_OR_CSV...", help="Recordings to predict.")],
    robot: RobotOption = DEFAULT_ROBOT,
    interval: Annotated[float | None, typer.Option(help="Sampling interval [s]; else identification.yaml's.")] = None,
    mapping: MappingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the torques of recorded motions; exit code 1 if a check fails."""
    from dynid.identification.held_out import validate_bags
    from dynid.reporting.tables import print_verdict
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    content = read_model(loaded, model_path(loaded, model))
    with stages("validate", 1) as begin:
        begin(f"predicting {len(bags)} recording(s)")
        found = validate_bags(
            loaded, bags, lambda arm: parameters_for(arm, content, loaded), interval,
            torque_constants=content.torque_constants_nm_per_a, friction=content.friction(),
            mapping=read_mapping(mapping),
        )  # fmt: skip
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        console = stdout()
        console.print(_table(found.as_dict()["bags"], loaded.joint_names))
        print_verdict(console, found.verdict, f"{model} on {len(bags)} recording(s)")
        for sentence in found.torques:
            console.print(sentence, soft_wrap=True, highlight=False)
    raise typer.Exit(0 if found.verdict.accepted else 1)


def _table(bags: dict[str, Any], joints: tuple[str, ...]) -> Table:
    """Errors per axis and in all."""
    table = Table(title="torque errors", title_justify="left")
    for heading in ("bag", "axis", "RMSE [N m]", "MNE", "relative"):
        table.add_column(heading, justify="left" if heading in ("bag", "axis") else "right")
    for name, row in bags.items():
        rows = [(joint, *(row["axes"][joint][key] for key in ("rmse_nm", "mne", "relative"))) for joint in joints]
        rows.append(("all", row["rmse_nm"], row["mne"], row["relative"]))
        for joint, *values in rows:
            table.add_row(name, joint, *(f"{value:.4g}" for value in values))
    return table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(validate)
