"""`dynid collect`: drive the arm along trajectories with all ROS nodes, and record one bag for each trajectory.

The same call resumes an interrupted collection. With --adaptive, segments are planned while the arm moves.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dynid.commands import options as opt
from dynid.commands.consent import YesOption, ask_before_moving, words_of_motions, words_within_limits
from dynid.commands.terminal import print_json, say, stages, stderr, stdout
from dynid.errors import DynidError

if TYPE_CHECKING:
    from rich.console import Console

    from dynid.nodes.chain import ChainOptions
    from dynid.nodes.collect import Report
    from dynid.nodes.collection import Collection
    from dynid.robot import Robot

MOST_MISSED_SHARE = 0.001  # largest share of missed cycles in a bag; `data` in identification.yaml has another limit


def collect(
    out: Annotated[Path, typer.Option(help="Folder of the collection; an interrupted collection is resumed.")],
    trajectories: Annotated[
        list[str] | None, typer.Argument(help="Trajectories, or quoted patterns such as 'PA*'.")
    ] = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Instead: plan segments while the arm moves, and identify.")
    ] = False,
    scene: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|none", help="Free space that every motion keeps, as YAML; default: scene.yaml of the robot."
        ),
    ] = None,
    longest: Annotated[
        float | None, typer.Option(min=9.0, help="With --adaptive: motion at most [s]; default: 30, 10 with --after.")
    ] = None,
    after: Annotated[
        Path | None, typer.Option(help="With --adaptive: model.yaml of the arm before a change: say what changed.")
    ] = None,
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    profile: opt.ProfileOption = opt.DEFAULT_PROFILE,
    real_arm: opt.RealArmOption = None,
    yes: YesOption = False,
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
    """Drive the arm along trajectories and record one bag for each trajectory; resume an interrupted collection.

    The arm keeps its posture between motions, and each motion waits until the servos have cooled down. Exit code 1 if
    a bag lost states or missed more than one cycle in a thousand. With --adaptive, a model is identified while the arm
    moves, and written into a new folder; then exit code 1 means that the model was not accepted.
    """
    if adaptive == bool(trajectories):
        raise typer.BadParameter("name the trajectories, or ask for --adaptive instead")
    if not adaptive and (longest, after) != (None, None):
        raise typer.BadParameter("--longest and --after need --adaptive")
    if adaptive and (profile != opt.DEFAULT_PROFILE or cool_to is not None):
        raise typer.BadParameter("--profile and --cool-to are for trajectories, not for --adaptive")
    if adaptive:
        _refuse_no_scene(scene)
    if adaptive and real_arm and scene is None:
        raise typer.BadParameter(
            "--adaptive moves anywhere in the free space: describe that around your arm in a file; name it with --scene"
        )
    loaded = opt.load_arm(robot, mount, without, friction)
    with opt.needs_ros("collecting"):
        from dynid.nodes.chain import ChainOptions
        from dynid.nodes.collection import CollectionOptions, run_collection
    chain = ChainOptions(robot, real_arm, mount, tuple(without or ()), seed, identification=False, friction=friction)
    if adaptive:
        consented = ask_before_moving(loaded, real_arm, _adaptive_words(loaded, longest, after), yes)
        chain = replace(chain, consented=consented)
        _adaptively(loaded, chain, out.absolute(), None if scene is None else Path(scene), longest, after, as_json)
    chain = replace(chain, scene=_checked_scene(loaded, scene))
    from dynid.hardware.safety.settings import load_safety
    from dynid.simulation.lockstep.bag_jobs import chosen_names
    from dynid.trajectory.families import load_excitation

    excitation = load_excitation(loaded)
    names = tuple(chosen_names(trajectories or (), excitation.names))
    motions = {name: excitation.trajectory(name, profile) for name in names}
    durations = {name: motion.duration for name, motion in motions.items()}
    consented = ask_before_moving(loaded, real_arm, words_of_motions(loaded, list(motions.values())), yes)
    chain = replace(chain, consented=consented)
    limit = load_safety(loaded).derate_from_deg_c if cool_to is None else cool_to
    options = CollectionOptions(names, profile, chain, out.absolute(), limit)
    console = stderr() if as_json else stdout()
    try:
        with motion_bar() as report:
            collection = run_collection(
                loaded, options, durations, report, lambda text: console.print(text, markup=False)
            )
    except (DynidError, KeyboardInterrupt):
        console.print(f"finished motions stay in {out}; repeat the same call to resume", soft_wrap=True, markup=False)
        raise
    raise typer.Exit(1 if _show(collection, console, as_json) else 0)


def _refuse_no_scene(scene: str | None) -> None:
    from dynid.control.safe_box import NO_SCENE

    if scene == NO_SCENE:
        raise typer.BadParameter(
            f"--adaptive needs a free space to plan in, and --scene {NO_SCENE} gives none: name a file"
        )


def _checked_scene(robot: "Robot", scene: str | None) -> str:
    """Return a scene (file of the free space) as the executor node expects it, after a check that the file is valid.

    The result is an absolute path, "none" for no limits, or '' for the robot's scene.yaml.
    """
    from dynid.control.safe_box import NO_SCENE, box_of

    if scene is None:
        return ""
    chosen = NO_SCENE if scene == NO_SCENE else str(Path(scene).absolute())
    box_of(robot, chosen)
    return chosen


def _show(collection: "Collection", console: "Console", as_json: bool) -> list[str]:
    """Print the recorded bags, and return the names of those that lost states or missed too many cycles."""
    done = collection.done
    incomplete = [name for name, one in done.items() if one["lost"] or one["missed_fraction"] > MOST_MISSED_SHARE]
    if as_json:
        print_json({"folder": str(collection.folder), "bags": done, "poor": incomplete})
        return incomplete
    for name, one in done.items():
        say(
            f"  {collection.bag(name)}  [dim]{one['duration_s']:.1f} s, {one['lost']} states lost, "
            f"{100 * one['missed_fraction']:.3f} % of cycles missed[/dim]"
        )
    if incomplete:
        console.print(f"[bold red]x[/bold red] states are missing in {', '.join(incomplete)}: was the host busy?")
    return incomplete


def _adaptive_words(robot: "Robot", longest: float | None, after: Path | None) -> str:
    """Return a description of the motions that `collect --adaptive` may make, for the request for consent.

    `longest` is the maximum duration [s]; None is the default. `after` is a file with the model of the arm before a
    change, None without one; it shortens the default duration.
    """
    from dynid.commands.adaptive import chosen_settings
    from dynid.trajectory.families import load_excitation

    fastest = max(load_excitation(robot).file.velocity_rad_s)
    longest_s = chosen_settings(longest, after).longest_s
    return words_within_limits(
        robot, "anywhere in the free space of the scene", fastest, f"for at most {longest_s:.0f} s of motion"
    )


def _adaptively(
    robot: "Robot",
    options: "ChainOptions",
    out: Path,
    scene: Path | None,
    longest: float | None,
    after: Path | None,
    as_json: bool,
) -> NoReturn:
    """Identify the arm while it moves, print the result, and end the command; arguments are options of `collect`."""
    from dynid.adaptive.files import AdaptiveFiles
    from dynid.commands.adaptive import chosen_settings, exit_code, show
    from dynid.nodes.adaptive import run_with_chain

    settings = chosen_settings(longest, after)
    with stages("collect --adaptive", 120) as begin:
        begin("starting the chain")
        files = AdaptiveFiles(
            robot, out, scene=scene, settings=settings, after=after, mount=options.mount, progress=begin
        )
        result = run_with_chain(robot, options, files, begin)
    show(result, as_json)
    raise typer.Exit(exit_code(result))


@contextmanager
def motion_bar() -> "Iterator[Report]":
    """Show a progress bar, and yield a function that updates it: `report(text, done, total)`.

    Without a terminal, the function prints each new text instead.
    """
    console = stderr()
    last = ""
    columns = (TextColumn("{task.description:48}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting the chain", total=None)

        def report(text: str, done: float, total: float) -> None:
            nonlocal last
            bar.update(task, description=text, completed=done, total=total or None)
            if text != last and not console.is_terminal:  # a log must show that the arm moves, too
                console.print(text, markup=False, highlight=False, soft_wrap=True)
            last = text

        yield report
