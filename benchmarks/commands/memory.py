"""`./run benchmark memory`: memory and time for a long recording."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, say, stages


def memory(
    rows: Annotated[int, typer.Option(min=10_000, help="Rows of the recording, 1 kHz.")] = 2_000_000,
    robot: RobotOption = DEFAULT_ROBOT,
    as_json: JsonOption = False,
) -> None:
    """Identify from a long CSV recording of all axes, and report peak memory and time.

    Exit code 1 if it takes more than 2048 MiB, or ends without a result.
    """
    from benchmarks.speed.memory import MOST_MIB, measure, write_recording
    from dynid.robot import load_robot

    with tempfile.TemporaryDirectory() as name, stages("benchmark", 2) as begin:
        work = Path(name)
        begin(f"writing {rows} rows")
        mapping = write_recording(load_robot(robot), work / "long.csv", rows)
        size = (work / "long.csv").stat().st_size / 2**20
        begin("identifying")
        found = {"rows": rows, "file_mib": size, **measure(robot, work / "long.csv", mapping, work / "model")}
        whole = (work / "model" / "model.yaml").is_file()
    if as_json:
        print_json(found)
    else:
        say(f"{rows} rows, {size:.0f} MiB: {found['peak_mib']:.0f} MiB at most, {found['seconds']:.0f} s")
    raise typer.Exit(0 if whole and found["peak_mib"] <= MOST_MIB else 1)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(memory)
