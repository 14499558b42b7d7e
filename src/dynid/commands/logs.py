"""`dynid logs`: what logs are in a folder, at which rates, and what can be identified from them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say, stages, stdout, table
from dynid.errors import DataError

if TYPE_CHECKING:
    from dynid.identification.data.readings import FoundLog

MOST_NAMED = 3  # logs that cannot be used
STAGES = 40  # some ten rounds, each said four times


def logs(
    folder: Annotated[Path, typer.Argument(help="Folder with bags, CSV files or LeRobot data sets, or one of them.")],
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    mapping: opt.MappingOption = None,
    mount: opt.MountOption = None,
    effort: opt.EffortOption = None,
    position: opt.PositionOption = None,
    identify: Annotated[
        bool, typer.Option("--identify", help="Identify a model from all logs that can be used.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="New file for the identified parameters (YAML).")] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=0, help="Processes that reduce logs side by side; 0: one per core; default: this one alone."),
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="Reduce logs on a Dask cluster: its scheduler's address, or local to start one.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Folder for finished work: an interrupted command continues there.")
    ] = None,
    as_json: opt.JsonOption = False,
) -> None:
    """List logs that nobody recorded for identification: rates, signals, gaps; and identify from them."""
    from dynid.identification.data.readings import find_logs
    from dynid.identification.logs.identify import identify_logs
    from dynid.identification.logs.spread import LOCAL, kept, spread_over
    from dynid.identification.logs.tables import described, result_content
    from dynid.resources import refuse_existing, write_whole, yaml_text
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    if processes is not None and dask not in (None, LOCAL):
        raise typer.BadParameter("a cluster has workers of its own: leave --processes out")
    wanted = identify or out is not None
    if (keep or dask) and not wanted:
        raise typer.BadParameter("--keep and --dask are for --identify")
    count = 1 if processes is None and dask is None else processes or None
    if out is not None:
        refuse_existing(out)
    with stages("logs", STAGES if wanted else 1) as begin, spread_over(count, dask) as spread:
        begin(f"reading {folder.name}")
        columns = opt.read_mapping(mapping, position=position, effort=effort)
        opt.refuse_unused_units(columns, [folder])
        found = find_logs(folder if dask is None else folder.resolve(), loaded, columns, spread)
        rows = [described(one, loaded.joint_names) for one in found]
        content: dict[str, Any] = {"logs": rows}
        if wanted:
            begin("identifying")
            usable = _usable(found, rows, folder)
            mapper = spread if keep is None else kept(spread, keep)
            result = identify_logs(loaded, usable, mount=mount, mapper=mapper, progress=begin)
            content["model"] = result_content(result)
    if out is not None:
        write_whole(out, yaml_text(content["model"]))
    if as_json:
        print_json(content)
        return
    _show(rows, folder)
    if "model" in content:
        say(*content["model"]["sentences"], markup=False)


def _usable(found: "list[FoundLog]", rows: list[dict[str, Any]], folder: Path) -> "list[FoundLog]":
    """Return the logs with torques; DataError, with what the first ones lack, if there is none."""
    usable = [one for one, row in zip(found, rows, strict=True) if row["torques"]]
    if not usable:
        lacks = [f"{_short(row['name'], folder)}: {_lack(row)}" for row in rows[:MOST_NAMED]]
        others = f"; and {len(rows) - MOST_NAMED} others" * (len(rows) > MOST_NAMED)
        raise DataError(f"no log in {folder} can be used: {'; '.join(lacks)}{others}")
    return usable


def _show(rows: list[dict[str, Any]], folder: Path) -> None:
    """The logs as a table, and what each lacks."""
    listed = table("logs", "", "log", "rows", "seconds", "rows per second", "torques", "goals", words=2)
    for number, row in enumerate(rows, 1):
        rate = "" if row["rate_hz"] is None else f"{row['rate_hz']:.1f}"
        flags = ("yes" if row[key] else "no" for key in ("torques", "goals"))
        listed.add_row(
            str(number), _short(row["name"], folder), str(row["rows"]), f"{row['seconds']:.1f}", rate, *flags
        )
    stdout().print(listed)
    said = []
    for number, row in enumerate(rows, 1):
        said += [f"log {number}: {note}" for note in row["notes"]]
        if row["missing"]:
            said.append(f"log {number} {_lack(row)}")
    say(*said, markup=False)


def _short(name: str, folder: Path) -> str:
    """A log's name without the folder that was asked for."""
    return name.removeprefix(f"{folder}/")


def _lack(row: dict[str, Any]) -> str:
    """What a log lacks, or why it is none."""
    return f"{'lacks' if row['rows'] else 'cannot be used:'} {row['missing']}"
