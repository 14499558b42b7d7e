"""`dynid robot mapping`: draft of the mapping of a CSV recording, from its header and values."""

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import JsonOption
from dynid.commands.terminal import print_json, say

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
    """Draft the mapping of a CSV recording from its header; the recording is read with it once."""
    from dynid.recording.csv_draft import draft_mapping
    from dynid.recording.csv_mapping import CsvMapping
    from dynid.recording.csv_reader import read_csv
    from dynid.resources import refuse_existing, write_whole, yaml_text
    from dynid.robot import load_robot

    refuse_existing(out)
    loaded = load_robot(robot)
    draft = draft_mapping(csv, loaded, rate_hz)
    content = draft.content
    run = read_csv(csv, loaded, CsvMapping.model_validate(content))
    assumed = "".join(f"# Assumed: {one}.\n" for one in draft.assumed)
    write_whole(out, HEAD.format(csv=csv.name) + assumed + yaml_text(content))
    if as_json:
        print_json(
            {"file": str(out), "rows": len(run.time), "seconds": float(run.time[-1]), "mapping": content}
            | {"assumed": draft.assumed}
        )
        return
    for kind in ("position", "velocity", "torque"):
        if kind in content:
            pairs = zip(loaded.joint_names, content[kind]["columns"], content[kind]["unit"], strict=True)
            say(f"{kind}: " + ", ".join(f"{joint} = {column} [{unit}]" for joint, column, unit in pairs), markup=False)
    say(*(f"assumed: {one}" for one in draft.assumed), markup=False)
    say(f"  {out}  {len(run.time)} rows, {run.time[-1]:.1f} s; check every unit and sign")
