"""`dynid robot mapping`: draft a mapping file, which states joint, quantity and unit of each column of a CSV file."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.commands.options import JsonOption
from dynid.commands.terminal import print_json, say
from dynid.errors import ConfigurationError

if TYPE_CHECKING:
    from dynid.recording.csv_draft import Draft
    from dynid.recording.log import Log
    from dynid.recording.mapping import Mappings
    from dynid.robot import Robot

HEAD = """\
# Drafted from the header of {csv} and its values. CHECK every unit and sign: dynid cannot know them.
"""


def mapping(
    csv: Annotated[Path, typer.Argument(help="CSV recording with a header.")],
    robot: Annotated[str, typer.Option(help="Robot name, or a folder with a robot.yaml.")],
    out: Annotated[Path, typer.Option(help="New YAML file.")],
    rate_hz: Annotated[float | None, typer.Option(min=1e-3, help="Rows per second, without a column of time.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Draft the mapping of a CSV recording from its header: the joint, quantity and unit of each column.

    To test the draft, the recording is read with it before the file is written.
    """
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    draft, run = write_draft(csv, loaded, out, rate_hz)
    if as_json:
        print_json(
            {"file": str(out), "rows": len(run.time), "seconds": float(run.time[-1]), "mapping": draft.content}
            | {"assumed": draft.assumed}
        )
        return
    say(*words_of_draft(draft, loaded), markup=False)
    say(f"  {out}  {len(run.time)} rows, {run.time[-1]:.1f} s; check every unit and sign")


def write_draft(csv: Path, robot: "Robot", out: Path, rate_hz: float | None = None) -> "tuple[Draft, Log]":
    """Draft the mapping of a CSV recording, test it by reading the recording, and write it.

    Args:
        csv: the recording.
        robot: the robot whose joints the columns describe.
        out: new YAML file.
        rate_hz: rows per second if the recording has no column of time.

    Returns:
        The draft, and the recording as read with it.

    Raises:
        OutputExistsError: `out` exists.
        DataError: the columns do not determine a mapping, or cannot be read with the draft. The message names the
            columns and the fix.
    """
    from dynid.recording.csv_draft import draft_mapping
    from dynid.recording.csv_mapping import CsvMapping
    from dynid.recording.csv_reader import read_csv
    from dynid.resources import refuse_existing, write_whole, yaml_text

    refuse_existing(out)
    draft = draft_mapping(csv, robot, rate_hz)
    run = read_csv(csv, robot, CsvMapping.model_validate(draft.content))
    assumed = "".join(f"# Assumed: {one}.\n" for one in draft.assumed)
    write_whole(out, HEAD.format(csv=csv.name) + assumed + yaml_text(draft.content))
    return draft, run


def words_of_draft(draft: "Draft", robot: "Robot") -> list[str]:
    """Return lines of text that state the column and unit that a draft assigns to each joint, and its assumptions."""
    lines = []
    for kind in ("position", "velocity", "torque"):
        if kind in draft.content:
            group = draft.content[kind]
            pairs = zip(robot.joint_names, group["columns"], group["unit"], strict=True)
            lines.append(f"{kind}: " + ", ".join(f"{joint} = {column} [{unit}]" for joint, column, unit in pairs))
    return [*lines, *(f"assumed: {one}" for one in draft.assumed)]


def is_interactive() -> bool:
    """Return whether a person can answer a question at the terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def mapping_or_draft(
    columns: "Mappings | None", recordings: Sequence[Path], robot: "Robot", out: Path
) -> "Mappings | None":
    """Return the mappings of recordings; if CSV files have none, draft one and return it after the user's consent.

    The mapping is drafted from the first CSV file. Without CSV files, or if `columns` contains a mapping for them,
    `columns` is returned.

    Args:
        columns: mappings that the user gave; None without any.
        recordings: recordings that are read with the mappings.
        robot: robot whose joints the columns describe.
        out: output of the command; the draft is written next to it, as OUT.mapping.yaml.

    Raises:
        ConfigurationError: the draft's file exists already, there is no terminal at which a draft could be confirmed,
            or the user did not confirm it. The message names the file.
        DataError: the columns do not determine a mapping, or cannot be read with the draft.
    """
    from dynid.commands.options import read_mapping
    from dynid.recording.csv_reader import is_csv
    from dynid.recording.mapping import Mappings

    csv = next((path for path in recordings if is_csv(path) and path.is_file()), None)
    if csv is None or (columns is not None and columns.csv is not None):
        return columns
    file = out.with_name(f"{out.name}.mapping.yaml")
    next_step = f"check every unit and sign in {file}, correct it, and repeat with --mapping {file}"
    if file.exists():
        raise ConfigurationError(f"{csv} needs a mapping, and its draft is there: {next_step}")
    draft, _ = write_draft(csv, robot, file)
    print(*words_of_draft(draft, robot), sep="\n", file=sys.stderr, flush=True)
    if not is_interactive():
        raise ConfigurationError(f"{csv} has no mapping, so one was drafted: {next_step}")
    if not typer.confirm(f"{file} is a draft. Is every unit and sign right?", err=True):
        raise ConfigurationError(f"nothing was identified: {next_step}")
    found, given = read_mapping(file), columns or Mappings()
    assert found is not None
    return Mappings(found.csv, given.bag)
