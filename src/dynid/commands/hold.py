"""`dynid hold`: gravity compensation of the arm, after a comparison of its torques with the model."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from dynid.commands import options as opt
from dynid.commands.collect import motion_bar
from dynid.commands.consent import YesOption, ask_before_moving, words_of_motions
from dynid.commands.keys import STOP_KEY_NAMES, stop_keys
from dynid.commands.terminal import print_json, say, stdout

if TYPE_CHECKING:
    from dynid.nodes.chain import Chain
    from dynid.nodes.collect import Report
    from dynid.nodes.holding import GuidingResult
    from dynid.robot import Robot
    from dynid.runtime.model import Model
    from dynid.trajectory.trajectory import Trajectory
    from dynid.verdict import Verdict


def hold(
    model: Annotated[str, typer.Option("--model", help="A model.yaml, or a result folder; it must be accepted.")],
    seconds: Annotated[
        float | None,
        typer.Option(min=1.0, help="Duration of gravity compensation [s]; default: until a key is pressed."),
    ] = None,
    logs: Annotated[Path | None, typer.Option(help="New folder for the logs; default: runs/hold-<date>.")] = None,
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    real_arm: opt.RealArmOption = None,
    yes: YesOption = False,
    mount: opt.MountOption = None,
    without: opt.WithoutOption = None,
    friction: opt.FrictionOption = None,
    seed: opt.SeedOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Compensate gravity and some friction, so that the arm carries its own weight and can be guided by hand.

    Before that the arm moves to and fro about two postures, and the measured torque of every joint is compared with the
    model. If a sign, a scale, the mount or a payload is wrong, the command names it, and gravity compensation does not
    start. Enter, space, q, Esc or Ctrl-C end gravity compensation; the arm is then lowered.
    """
    loaded = opt.load_arm(robot, mount, without, friction)
    path = opt.model_path(loaded, model).absolute()
    with opt.needs_ros("gravity compensation"):
        from dynid.nodes.chain import Chain, ChainOptions
        from dynid.nodes.holding import check_motions
        from dynid.nodes.supervisor import lower_arm
    from dynid.resources import refuse_existing
    from dynid.runtime.model import load_model

    model_content = load_model(path, loaded).mounted(mount or loaded.file.default_mount)
    motions = check_motions(model_content)
    how_long = "until a key is pressed" if seconds is None else f"for {seconds:g} s"
    motion = f"{words_of_motions(loaded, motions)}; then it is released for hand guiding, {how_long}"
    consented = ask_before_moving(loaded, real_arm, motion, yes)
    folder = (logs or _dated()).absolute()
    refuse_existing(folder)
    options = ChainOptions(
        robot, real_arm, mount, tuple(without or ()), seed, identification=False, friction=friction, consented=consented
    )
    with motion_bar() as report, Chain(loaded, options, folder) as chain:
        report("starting the chain", 0.0, 0.0)
        verdict, held = _run(chain, model_content, path, motions, report, seconds)
        report("bringing the arm to rest", 0.0, 0.0)
        lower_arm(chain.supervisor)
    _show(loaded, verdict, held, as_json)


def _dated() -> Path:
    from datetime import datetime

    return Path("runs") / f"hold-{datetime.now():%Y%m%d-%H%M%S}"


def _run(
    chain: "Chain",
    model: "Model",
    path: Path,
    motions: "tuple[Trajectory, ...]",
    report: "Report",
    seconds: float | None,
) -> "tuple[Verdict, GuidingResult]":
    """Compare the arm with the model, then compensate gravity for `seconds` [s] or until a key is pressed.

    Return the outcome of the comparison and of the hand guiding.
    """
    from dynid.nodes.holding import check_holding, compensate_gravity

    call = chain.supervisor
    chain.bring_up()
    call.trigger("executor/hold")
    verdict = check_holding(call, model, motions, report)
    with stop_keys() as pressed:
        held = compensate_gravity(call, chain.robot, path, _until(call.now, seconds, pressed, report))
    return verdict, held


def _until(
    now: Callable[[], float], seconds: float | None, pressed: Callable[[], bool], report: "Report"
) -> Callable[[], bool]:
    """Return a function that reports the progress and returns whether gravity compensation ends now.

    Args:
        now: function that returns the present time [s].
        seconds: duration [s]; None for no limit.
        pressed: function that returns whether a key was pressed.
        report: function that shows the progress.
    """
    began_s = now()

    def over() -> bool:
        passed_s = now() - began_s
        report(
            f"released: guide the arm by hand; {STOP_KEY_NAMES} end it", passed_s if seconds else 0.0, seconds or 0.0
        )
        return pressed() or (seconds is not None and passed_s >= seconds)

    return over


def _show(robot: "Robot", verdict: "Verdict", held: "GuidingResult", as_json: bool) -> None:
    from dynid.reporting.tables import print_verdict

    moved = dict(zip(robot.joint_names, np.round(np.rad2deg(held.moved), 3).tolist(), strict=True))
    if as_json:
        print_json(verdict.as_dict() | {"held_s": round(held.seconds, 1), "moved_deg": moved})
        return
    print_verdict(stdout(), verdict, "torque carried by each joint")
    moved_most = max(moved, key=lambda name: moved[name])
    say(f"  released for {held.seconds:.0f} s; {moved_most} moved most, by {moved[moved_most]:.2f} deg")
