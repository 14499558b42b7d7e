"""`dynid payload`: what changed between two runs, as a payload and as changed parameters, with uncertainty."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MappingOption, RobotOption, read_mapping
from dynid.commands.terminal import stages, stdout

if TYPE_CHECKING:
    from dynid.identification.payload import Change, Payload


def payload(
    before: Annotated[Path, typer.Argument(help="Bag or CSV of the arm as it was.")],
    after: Annotated[Path, typer.Argument(help="Bag or CSV with a tool or a payload at the last link.")],
    robot: RobotOption = DEFAULT_ROBOT,
    mapping: MappingOption = None,
    mapping_after: Annotated[Path | None, typer.Option(help="Mapping of the second CSV, where it differs.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the change at the last link, and which base parameters changed beyond their uncertainty."""
    from dynid.identification.payload import changes_between, find_payload
    from dynid.identification.sources import load_two_runs, torque_sentence
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    first, second = read_mapping(mapping), read_mapping(mapping_after or mapping)
    with stages("payload", 3) as begin:
        begin("reading")
        runs = load_two_runs(loaded, (before, after), (first, second))
        begin("finding the load")
        found = find_payload(runs.model, *runs.samples)
        begin("comparing the parameters")
        changes = changes_between(runs.model, *runs.samples)
    sentence = torque_sentence(runs.torque_constants, loaded.joint_names)
    if as_json:
        print(json.dumps(_as_dict(found, changes) | {"torques": sentence}))
        return
    console = stdout()
    _print(console, found, changes)
    console.print(sentence, soft_wrap=True, highlight=False)


def _as_dict(found: "Payload", changes: "tuple[Change, ...]") -> dict[str, Any]:
    rows = zip(found.names, found.values.tolist(), found.deviations.tolist(), strict=True)
    return {
        "payload": {name: {"value": value, "standard_deviation": deviation} for name, value, deviation in rows},
        "unseen": list(found.unseen),
        "centre_of_mass_m": None if found.centre_of_mass is None else found.centre_of_mass.tolist(),
        "physical": found.physical,
        "changes": {
            change.name: {
                "before": change.before, "after": change.after, "difference": change.difference,
                "standard_deviation": change.deviation, "significant": change.significant,
            }
            for change in changes
        },
    }  # fmt: skip


def _print(console: Console, found: "Payload", changes: "tuple[Change, ...]") -> None:
    table = Table(title="change at the last link", title_justify="left")
    for heading in ("parameter", "change", "deviation"):
        table.add_column(heading, justify="left" if heading == "parameter" else "right")
    for name, value, deviation in zip(found.names, found.values, found.deviations, strict=True):
        table.add_row(name, f"{value:.4g}", f"{deviation:.2g}")
    console.print(table)
    if found.centre_of_mass is not None:
        listed = ", ".join(f"{value:.4f}" for value in found.centre_of_mass)
        console.print(f"centre of mass in the last link's frame: ({listed}) m", highlight=False)
    if found.unseen:
        console.print(f"not shown by the second motion: {', '.join(found.unseen)}", soft_wrap=True, highlight=False)
    if found.physical is False:
        console.print("no single body has these ten parameters: within their deviations some may", highlight=False)
    changed = [change for change in changes if change.significant]
    listed = ", ".join(f"{one.name} {one.before:.4g} -> {one.after:.4g}" for one in changed) or "none"
    console.print(f"base parameters changed beyond 3 deviations: {listed}", soft_wrap=True, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(payload)
