"""`dynid collect`: execute a list of trajectories, one bag each; interrupted, the same call goes on with the rest."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MountOption, RobotOption, WithoutOption
from dynid.commands.terminal import stderr, stdout
from dynid.errors import DynidError

if TYPE_CHECKING:
    from dynid.nodes.collect import Report

MOST_MISSED = 0.001  # of a bag's cycles; see `data` in identification.yaml for what identification itself takes


def collect(
    trajectories: Annotated[list[str], typer.Argument(help="Trajectories, or quoted patterns such as 'PA*'.")],
    out: Annotated[Path, typer.Option(help="Folder of the collection; one that was interrupted is gone on with.")],
    robot: RobotOption = DEFAULT_ROBOT,
    profile: Annotated[str, typer.Option(help="Excitation profile; limited keeps the real joint limits.")] = "limited",
    real_arm: Annotated[
        str | None, typer.Option("--real-arm", metavar="PORT", help="Serial port of a REAL arm. It will move.")
    ] = None,
    cool_to: Annotated[
        float | None, typer.Option(help="Warmest servo at which a motion begins [deg C]; else safety.yaml's derating.")
    ] = None,
    mount: MountOption = None,
    without: WithoutOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulated arm's noise.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Execute trajectories with the running chain and record one bag of each; what is done is not done again.

    The arm is held between two motions, and the next one waits until the servos have cooled down. Exit code 1 if a bag
    lost states or missed more than one cycle in a thousand.
    """
    from dynid.hardware.safety_settings import load_safety
    from dynid.robot import load_robot
    from dynid.simulation.bag_jobs import chosen_names
    from dynid.simulation.nuisances import magnitudes
    from dynid.trajectory.families import load_excitation

    loaded = load_robot(robot)
    excitation = load_excitation(loaded)
    names = tuple(chosen_names(trajectories, excitation.names))
    durations = {name: excitation.trajectory(name, profile).duration for name in names}
    loaded.gravity(mount)
    magnitudes(loaded, without or ())
    try:
        from dynid.nodes.chain import ChainOptions
        from dynid.nodes.collection import CollectionOptions, run_collection
    except ImportError as error:
        raise DynidError(
            f"collecting needs ROS 2 for Python ({error.name} is missing): pip install 'dynid[ros]', or source a ROS 2 "
            "installation for this Python"
        ) from error
    limit = load_safety(loaded).derate_from_deg_c if cool_to is None else cool_to
    chain = ChainOptions(robot, real_arm, mount, tuple(without or ()), seed, identification=False)
    options = CollectionOptions(names, profile, chain, out.absolute(), limit)
    console = stderr() if as_json else stdout()
    try:
        with _motion_bar() as report:
            collection = run_collection(
                loaded, options, durations, report, lambda text: console.print(text, markup=False)
            )
    except (DynidError, KeyboardInterrupt):
        console.print(f"what is done stays in {out}; the same call goes on with the rest", soft_wrap=True, markup=False)
        raise
    done = collection.done
    poor = [name for name, one in done.items() if one["lost"] or one["missed_fraction"] > MOST_MISSED]
    if as_json:
        print(json.dumps({"folder": str(options.folder), "bags": done, "poor": poor}))
    else:
        for name, one in done.items():
            console.print(
                f"  {collection.bag(name)}  [dim]{one['duration_s']:.1f} s, {one['lost']} states lost, "
                f"{100 * one['missed_fraction']:.3f} % of cycles missed[/dim]", soft_wrap=True, highlight=False,
            )  # fmt: skip
        if poor:
            console.print(f"[bold red]x[/bold red] not all states are in {', '.join(poor)}: was the host busy?")
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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(collect)
