"""`./run benchmark bus`: cycle rate of the control cycle, in the chain, alone, and with a faulty line."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dynid.commands.options import DEFAULT_ROBOT, AdapterOption, JsonOption, RateOption, RobotOption
from dynid.commands.terminal import print_json, stderr, stdout

CHAIN_S, SOAK_S = 600.0, 60.0
SHORTEST_CHAIN_S = 5.0  # states are judged between the driver's reports, one per second [s]


def bus(
    robot: RobotOption = DEFAULT_ROBOT,
    seconds: Annotated[
        float | None, typer.Option(min=3.0, help="Measured time [s]; default: 600, with --soak 60.")
    ] = None,
    soak: Annotated[bool, typer.Option("--soak", help="Run only the cycle, with random line faults.")] = False,
    probability: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Probability of a line fault per reply, with --soak.")
    ] = 0.01,
    seed: Annotated[int, typer.Option(help="Seed of the line faults, with --soak.")] = 0,
    realtime: Annotated[
        bool, typer.Option("--realtime/--no-realtime", help="Apply the real-time settings that this user is permitted.")
    ] = True,
    adapter: AdapterOption = "uart",
    rate: RateOption = 0,
    out: Annotated[Path | None, typer.Option(help="New folder to keep logs and bag in.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the timing of the control cycle in real time, on the emulated bus at the robot's baud rate.

    The whole chain publishes and records one motion after the other (the bag grows by some 2 MB per second). If
    permitted (as root, with two processors), the benchmark applies the settings of a real-time machine and prints them:
    SCHED_FIFO, a processor for the driver, no CPU idle states, kernel workers first. Rates that the machine cannot keep
    are reported under not_kept and throttled; exit code 1 if the arm could not be driven at the rate. With --soak only
    the cycle runs, replies are corrupted, and every sample is compared with the time it was read.
    """
    from dynid.hardware.loop.realtime import prefer_latency
    from dynid.resources import refuse_existing
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    duration_s = seconds or (SOAK_S if soak else CHAIN_S)
    if out is not None:
        refuse_existing(out)
    if soak:
        from benchmarks.chain.soak import soak as run_soak

        prefer_latency()
        figures = _with_bar(
            "soak", duration_s, lambda progress: run_soak(loaded, duration_s, probability, seed, progress)
        )
    else:
        if duration_s < SHORTEST_CHAIN_S:
            raise typer.BadParameter(
                f"--seconds {duration_s:g}: a run of the chain takes at least {SHORTEST_CHAIN_S:g}"
            )
        figures = _with_bar("the chain", duration_s, partial(_chain, robot, duration_s, out, realtime, adapter, rate))
    found = asdict(figures)
    if as_json:
        print_json(found)
    else:
        for name, value in found.items():
            stdout().print(f"{name:24} {value}", highlight=False)
    raise typer.Exit(1 if found.get("not_kept") else 0)


def _chain(
    robot: str,
    seconds: float,
    out: Path | None,
    realtime: bool,
    adapter: str,
    rate_hz: int,
    progress: Callable[[float], None],
) -> Any:
    from dynid.errors import DynidError

    try:
        from benchmarks.chain.bus_benchmark import measure
    except ImportError as error:
        raise DynidError(
            f"this benchmark needs ROS 2 for Python ({error.name} is missing): pip install 'dynid[ros]', or take --soak"
        ) from error
    return measure(robot, seconds, out, progress, realtime=realtime, adapter=adapter, rate_hz=rate_hz)


def _with_bar(text: str, seconds: float, run: Callable[[Callable[[float], None]], Any]) -> Any:
    """Run a function with a progress bar on standard error, separate from the figures on standard output."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr(), transient=True) as bar:
        task = bar.add_task(text, total=seconds)
        return run(lambda elapsed_s: bar.update(task, completed=elapsed_s))


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(bus)
