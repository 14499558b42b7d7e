"""`./run benchmark interrupts`: the demo, or the launch files, interrupted at random moments."""

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import JsonOption, needs_ros
from dynid.commands.terminal import print_json, stages, stdout


def interrupts(
    runs: Annotated[int, typer.Option(min=1, help="Number of runs that are interrupted.")] = 100,
    latest: Annotated[float, typer.Option(min=1.0, help="Latest moment of an interrupt [s].")] = 90.0,
    seed: Annotated[int, typer.Option(help="Seed of moments and signals.")] = 0,
    launch: Annotated[bool, typer.Option("--launch", help="Interrupt the launch files; needs launch_ros.")] = False,
    in_motion: Annotated[
        bool, typer.Option("--in-motion", help="Interrupt launch files only while the arm moves.")
    ] = False,
    keep: Annotated[
        Path | None, typer.Option(help="New folder for what the processes of each run with a finding printed.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Interrupt the demo, or the launch files, at random moments by SIGINT, SIGTERM or SIGHUP.

    Half of the interrupts come during the start; with `--in-motion` none does. Exit code 1 if a process or file is left
    behind, a traceback is printed, a servo's torque stays on, or an end takes more than 12 s.
    """
    with needs_ros("interrupting the demo"):
        from benchmarks.hostile.interrupts import SLOWEST_S, figures, interrupted
        from benchmarks.hostile.launch_interrupts import interrupted_launches
    from dynid.resources import refuse_existing

    if keep is not None:
        refuse_existing(keep)
    if in_motion and not launch:
        raise typer.BadParameter("--in-motion goes with --launch")
    found = []
    with stages("benchmark", runs) as begin:
        ends = interrupted_launches(runs, latest, seed, in_motion) if launch else interrupted(runs, latest, seed)
        for k, run in enumerate(ends):
            begin(f"interrupted {k + 1} of {runs}: {run.what} after {run.after_s:.1f} s, ended in {run.seconds:.1f} s")
            found.append(run)
            if keep is not None and run.poor:
                run.keep(keep / str(k + 1))
    result = figures(found)
    if as_json:
        print_json(result)
    else:
        stdout().print(*(f"{key:30} {value}\n" for key, value in result.items() if key != "findings"), sep="", end="")
        stdout().print(*result["findings"], sep="\n")
    poor = result["left_behind"] or result["tracebacks"] or result["torque_on_at_end"]
    raise typer.Exit(1 if poor or result["slowest_s"] > SLOWEST_S else 0)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(interrupts)
