"""`dynid collect`: execute a list of trajectories, one bag each; the same call resumes an interrupted collection."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say, stderr, stdout
from dynid.errors import DynidError

if TYPE_CHECKING:
    from dynid.nodes.collect import Report

MOST_MISSED = 0.001  # of a bag's cycles; see `data` in identification.yaml for what identification itself takes


def collect(
    trajectories: Annotated[list[str], typer.Argument(help="Trajectories, or quoted patterns such as 'PA*'.")],
    out: Annotated[Path, typer.Option(help="Folder of the collection; an interrupted collection is resumed.")],
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    profile: opt.ProfileOption = opt.DEFAULT_PROFILE,
    real_arm: opt.RealArmOption = None,
    cool_to: Annotated[
        float | None,
        typer.Option(
            help=(
                "Servo temperature below which a motion starts [deg C]; default: derating temperature in safety.yaml."
            )
        ),
    ] = None,
    mount: opt.MountOption = None,
    without: opt.WithoutOption = None,
    friction: opt.FrictionOption = None,
    seed: opt.SeedOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Execute trajectories with the whole chain and record one bag each; an interrupted collection is resumed.

    The arm holds between motions, and each motion waits until the servos have cooled down. Exit code 1 if a bag lost
    states or missed more than one cycle in a thousand.
    """
    from dynid.hardware.safety.settings import load_safety
    from dynid.simulation.lockstep.bag_jobs import chosen_names
    from dynid.trajectory.families import load_excitation

    loaded = opt.load_arm(robot, mount, without, friction)
    excitation = load_excitation(loaded)
    names = tuple(chosen_names(trajectories, excitation.names))
    durations = {name: excitation.trajectory(name, profile).duration for name in names}
    with opt.needs_ros("collecting"):
        from dynid.nodes.chain import ChainOptions
        from dynid.nodes.collection import CollectionOptions, run_collection
    limit = load_safety(loaded).derate_from_deg_c if cool_to is None else cool_to
    chain = ChainOptions(robot, real_arm, mount, tuple(without or ()), seed, identification=False, friction=friction)
    options = CollectionOptions(names, profile, chain, out.absolute(), limit)
    console = stderr() if as_json else stdout()
    try:
        with _motion_bar() as report:
            collection = run_collection(
                loaded, options, durations, report, lambda text: console.print(text, markup=False)
            )
    except (DynidError, KeyboardInterrupt):
        console.print(f"finished motions stay in {out}; repeat the same call to resume", soft_wrap=True, markup=False)
        raise
    done = collection.done
    poor = [name for name, one in done.items() if one["lost"] or one["missed_fraction"] > MOST_MISSED]
    if as_json:
        print_json({"folder": str(options.folder), "bags": done, "poor": poor})
    else:
        for name, one in done.items():
            say(
                f"  {collection.bag(name)}  [dim]{one['duration_s']:.1f} s, {one['lost']} states lost, "
                f"{100 * one['missed_fraction']:.3f} % of cycles missed[/dim]"
            )
        if poor:
            console.print(f"[bold red]x[/bold red] states are missing in {', '.join(poor)}: was the host busy?")
    raise typer.Exit(1 if poor else 0)


@contextmanager
def _motion_bar() -> "Iterator[Report]":
    """Yields what shows the motion under way."""
    console = stderr()
    columns = (TextColumn("{task.description:48}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting the chain", total=None)

        def report(text: str, done: float, total: float) -> None:
            bar.update(task, description=text, completed=done, total=total or None)

        yield report
