"""`dynid payload`: estimate a payload, or another change of the arm, from recordings before and after it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MappingOption, RobotOption, read_two_mappings
from dynid.commands.terminal import print_json, say, stages, stdout, table
from dynid.errors import ConfigurationError

if TYPE_CHECKING:
    from dynid.identification.changes import Change
    from dynid.identification.payload.payload import Payload


def payload(
    before: Annotated[Path, typer.Argument(help="Bag or CSV of the arm before the change.")],
    after: Annotated[
        Path | None, typer.Argument(help="Bag or CSV with a tool or payload at the last link.", show_default=False)
    ] = None,
    robot: RobotOption = DEFAULT_ROBOT,
    mapping: MappingOption = None,
    change_at: Annotated[
        float | None, typer.Option(help="Split BEFORE at this second instead of reading a second recording [s].")
    ] = None,
    mapping_after: Annotated[Path | None, typer.Option(help="Mapping of the second CSV file, if it differs.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate the payload added to the last link, and list base parameters that changed beyond their uncertainty.

    Give recordings before and after the change, or one recording and --change-at. To estimate the payload, the data
    before and after the change are fitted together: only payload and friction may differ between them.
    """
    from dynid.identification.changes import beyond_chance
    from dynid.identification.data.recordings import torque_sentence
    from dynid.identification.payload.payload import changes_between, find_payload
    from dynid.identification.payload.two_runs import load_two_runs, split_run
    from dynid.robot import load_robot

    if (after is None) == (change_at is None):
        raise ConfigurationError("give either a second recording AFTER or --change-at, the second of the change")
    if change_at is not None and mapping_after is not None:
        raise ConfigurationError("--mapping-after belongs to a second recording; --change-at splits the first one")
    loaded = load_robot(robot)
    first, second = read_two_mappings(mapping, mapping_after, [before], [after] if after else [])
    with stages("payload", 3) as begin:
        begin("reading")
        if after is not None:
            runs = load_two_runs(loaded, (before, after), (first, second))
        elif change_at is not None:
            runs = split_run(loaded, before, change_at, first)
        begin("estimating the load")
        found = find_payload(runs.model, *runs.samples)
        begin("comparing the parameters")
        changes = changes_between(runs.model, *runs.samples)
    changed = beyond_chance(changes)
    sentence = torque_sentence(runs.torque_constants, loaded)
    if as_json:
        print_json(_as_dict(found, changes, changed) | {"torques": sentence, "notes": list(runs.notes)})
        return
    _print(found, changed)
    say(sentence, *runs.notes, markup=False)


def _as_dict(found: "Payload", changes: "tuple[Change, ...]", changed: "tuple[Change, ...]") -> dict[str, Any]:
    rows = zip(found.names, found.values.tolist(), found.deviations.tolist(), strict=True)
    return {
        "payload": {name: {"value": value, "standard_deviation": deviation} for name, value, deviation in rows},
        "unseen": list(found.unseen),
        "centre_of_mass_m": None if found.centre_of_mass is None else found.centre_of_mass.tolist(),
        "physical": found.physical,
        "changes": {
            change.name: {
                "before": change.before,
                "after": change.after,
                "difference": change.difference,
                "standard_deviation": change.deviation,
                "significant": change in changed,
            }
            for change in changes
        },
    }


def _print(found: "Payload", changed: "tuple[Change, ...]") -> None:
    rows = table("change at the last link", "parameter", "change", "deviation")
    for name, value, deviation in zip(found.names, found.values, found.deviations, strict=True):
        rows.add_row(name, f"{value:.4g}", f"{deviation:.2g}")
    stdout().print(rows)
    if found.centre_of_mass is not None:
        listed = ", ".join(f"{value:.4f}" for value in found.centre_of_mass)
        say(f"centre of mass in the last link's frame: ({listed}) m")
    if found.unseen:
        say(f"not excited by the second motion: {', '.join(found.unseen)}")
    if found.physical is False:
        say("no single body has exactly these ten parameters; within their standard deviations one may exist")
    listed = ", ".join(f"{one.name} {one.before:.4g} -> {one.after:.4g}" for one in changed) or "none"
    say(f"base parameters that changed beyond chance: {listed}")
