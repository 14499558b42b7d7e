"""`dynid logs`: list of the recordings in a folder, with their sampling rates and defects."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say, stages, stdout, table
from dynid.errors import ConfigurationError

Moved = Annotated[str | None, typer.Option(hidden=True)]


def logs(
    folder: Annotated[Path, typer.Argument(help="Folder with bags, CSV files or LeRobot data sets, or one of them.")],
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    mapping: opt.MappingOption = None,
    effort: opt.EffortOption = None,
    position: opt.PositionOption = None,
    identify: Annotated[bool, typer.Option("--identify", hidden=True)] = False,
    out: Moved = None,
    processes: Moved = None,
    dask: Moved = None,
    keep: Moved = None,
    as_json: opt.JsonOption = False,
) -> None:
    """List the recordings in a folder, also those not made for identification: rates, signals, gaps, missing data.

    dynid identify takes the same folder and options.
    """
    from dynid.identification.data.log_search import find_logs
    from dynid.reporting.found_logs import log_row
    from dynid.robot import load_robot

    moved = {"--out": out, "--processes": processes, "--dask": dask, "--keep": keep}
    if identify or any(moved.values()):
        given = {"--robot": robot, "--mapping": mapping, "--effort": effort, "--position": position}
        raise ConfigurationError(f"logs only lists recordings; to identify, type: {_instead(folder, given | moved)}")
    loaded = load_robot(robot)
    with stages("logs", 1) as begin:
        begin(f"reading {folder.name}")
        columns = opt.read_mapping(mapping, position=position, effort=effort)
        opt.refuse_unused_mapping(columns, [folder])
        rows = [log_row(one, loaded.joint_names) for one in find_logs(folder, loaded, columns)]
    if as_json:
        print_json({"logs": rows})
        return
    _show(rows, folder)


def _instead(folder: Path, options: dict[str, Any]) -> str:
    """Return the `dynid identify` command for a folder, as text to be proposed to the user.

    `options` are the values of its options by name, such as "--out"; those that are None are left out, except --out,
    which is then NEW_FOLDER.
    """
    arguments = ["dynid", "identify", str(folder)]
    for name, value in (options | {"--out": options["--out"] or "NEW_FOLDER"}).items():
        arguments += [] if value is None else [name, str(value)]
    return shlex.join(arguments)


def _show(rows: list[dict[str, Any]], folder: Path) -> None:
    """Print a table of the recordings, then the defects of each recording."""
    listed = table("logs", "", "log", "rows", "seconds", "rows per second", "torques", "goals", words=2)
    for number, row in enumerate(rows, 1):
        rate = "" if row["rate_hz"] is None else f"{row['rate_hz']:.1f}"
        flags = ("yes" if row[key] else "no" for key in ("torques", "goals"))
        listed.add_row(
            str(number), _short(row["name"], folder), str(row["rows"]), f"{row['seconds']:.1f}", rate, *flags
        )
    stdout().print(listed)
    lines = []
    for number, row in enumerate(rows, 1):
        lines += [f"log {number}: {note}" for note in row["notes"]]
        if row["missing"]:
            lines.append(f"log {number} {_lack(row)}")
    say(*lines, markup=False)


def _short(name: str, folder: Path) -> str:
    """Return the name of a recording relative to the requested folder."""
    return name.removeprefix(f"{folder}/")


def _lack(row: dict[str, Any]) -> str:
    """Return a phrase on what a recording lacks, or why it cannot be used."""
    return f"{'lacks' if row['rows'] else 'cannot be used:'} {row['missing']}"
