"""`dynid replay`: replay of a hand-guided motion."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from dynid.commands import options as opt
from dynid.commands.collect import motion_bar
from dynid.commands.consent import YesOption, ask_before_moving, words_of_motions
from dynid.commands.terminal import print_json, say

if TYPE_CHECKING:
    from dynid.control.guided_replay import GuidedReplay
    from dynid.robot import Robot

TOLERANCE_DEG = 3.0


def replay(
    source: Annotated[Path, typer.Argument(metavar="BAG_OR_YAML", help="Bag of `dynid teach`, or a trajectory file.")],
    model: Annotated[str, typer.Option("--model", help="A model.yaml, or a result folder; it must be accepted.")],
    out: Annotated[Path, typer.Option(help="New folder for the bag, the motion and the logs.")],
    speed: opt.SpeedOption = 1.0,
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    real_arm: opt.RealArmOption = None,
    yes: YesOption = False,
    mount: opt.MountOption = None,
    without: opt.WithoutOption = None,
    friction: opt.FrictionOption = None,
    seed: opt.SeedOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Replay a hand-guided motion: it is smoothed, slowed where it exceeds limits, and checked before the arm moves.

    The arm approaches the first posture slowly, and returns to its rest posture at the end. Exit code 1 if a joint
    deviates by more than 3 deg from the hand-guided path, or from the motion of a trajectory file.
    """
    from dynid.control.guided_replay import replay_of_bag
    from dynid.resources import refuse_existing
    from dynid.trajectory.files import is_file_name

    loaded = opt.load_arm(robot, mount, without, friction)
    path, folder = opt.model_path(loaded, model).absolute(), out.absolute()
    with opt.needs_ros("replaying"):
        from dynid.nodes.chain import Chain, ChainOptions
        from dynid.nodes.supervisor import lower_arm
        from dynid.nodes.teaching import replay_recorded
    refuse_existing(folder)
    shown, motion = None, source.absolute()
    if not is_file_name(source.name):
        shown, motion = replay_of_bag(loaded, source, out.name, speed), folder / "motion.yaml"
    consented = _ask(loaded, real_arm, shown, motion, yes)
    if shown is not None:
        shown.save(motion)
    options = ChainOptions(
        robot, real_arm, mount, tuple(without or ()), seed, identification=False, friction=friction, consented=consented
    )
    with motion_bar() as report, Chain(loaded, options, folder / "logs") as chain:
        chain.bring_up()
        found = replay_recorded(chain, path, motion, folder / "bag", report, shown)
        report("bringing the arm to rest", 0.0, 0.0)
        lower_arm(chain.supervisor)
    error_deg = float(np.rad2deg(found.error_rad if found.shown_error_rad is None else found.shown_error_rad))
    if as_json:
        facts = {"bag": str(folder / "bag"), "largest_error_deg": error_deg, "duration_s": found.duration_s}
        print_json(facts | ({} if shown is None else shown.as_dict()))
    else:
        say(*([] if shown is None else [f"  {shown.in_words()}"]))
        say(
            f"  {folder / 'bag'}  [dim]largest deviation from the demonstration {error_deg:.2f} deg, allowed "
            f"{TOLERANCE_DEG:g} deg[/dim]"
        )
    raise typer.Exit(0 if error_deg <= TOLERANCE_DEG else 1)


def _ask(robot: "Robot", port: str | None, shown: "GuidedReplay | None", motion: Path, yes: bool) -> bool:
    """Ask for consent before a real arm replays a motion; return whether it was given, False for a simulated arm.

    `shown` is the replay of a hand-guided motion. If it is None, the motion is read from the trajectory file `motion`.
    """
    from dynid.trajectory.families import load_excitation
    from dynid.trajectory.files import named_motion

    if port is None:
        return False
    planned = named_motion(load_excitation(robot), str(motion)) if shown is None else shown.motion
    return ask_before_moving(robot, port, words_of_motions(robot, [planned]), yes)
