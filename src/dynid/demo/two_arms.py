"""Demo `dynid demo --two-arms` of bilateral control: a hand guides a leader arm, and a follower arm repeats its motion.

The follower touches a wall, and the leader exerts the force of this contact on the hand.
"""

import html
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynid.control.bilateral.law import BilateralSettings
from dynid.control.bilateral.pair import SIDES
from dynid.control.control_model import from_model_file
from dynid.demo.bench import identified, make_bench
from dynid.recording.lerobot import Episode, write_lerobot
from dynid.reporting.joint_names import short_names
from dynid.reporting.trajectory_figure import STYLE
from dynid.resources import whole_folder
from dynid.robot import FloatArray, Robot, read_only
from dynid.simulation.lockstep.arm_pair import LockstepPair, PairRun
from dynid.simulation.lockstep.hand_and_wall import Hand, Wall, smooth, wandering
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.verdict import Check, Verdict

FREE_S, PRESS_S, HOLD_S, BACK_S, END_S = 5.0, 2.0, 1.5, 1.5, 0.5
WALL_N_M, WALL_M, DEPTH_M, ENGAGED_S = 1500.0, 0.06, 0.11, 1.0
HELD_FROM_S = FREE_S + PRESS_S + 0.2
ALL_S = FREE_S + PRESS_S + HOLD_S + BACK_S + END_S
TASK = "press the wall"
TRACKING_DEG, FORCE_ERROR = 1.0, 0.15  # limits: RMS position difference; RMS force difference / wall force
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Two arms</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b; }}
table {{ border-collapse: collapse; }}
td, th {{ padding: .3rem .8rem; border-bottom: 1px solid #ccc; text-align: left; }}
svg {{ width: 100%; height: auto; }} .passed {{ color: #1b6e2b; }} .failed {{ color: #b3261e; }}
</style></head><body><h1>Two arms as one</h1><p>{summary}</p>
<table><tr><th>check</th><th>value</th><th>limit</th><th></th></tr>{rows}</table>{figures}
<p>Simulated arms with gear friction and all nuisances, in lock-step, each behind its own safety guard. {law}</p>
</body></html>
"""


def leading(time_s: float) -> FloatArray:
    """Return the displacement (3,) [m] of the hand that guides the leader's tool, at a time since the start [s].

    It is relative to the hand's initial position, along the axes of the base; x points forward to the wall. The hand
    moves around, returns, moves forward so that the follower presses the wall, and moves away from it.
    """
    free = wandering(time_s) * (1.0 - smooth((time_s - FREE_S + 1.5) / 1.5))
    forward = smooth((time_s - FREE_S) / PRESS_S) - smooth((time_s - FREE_S - PRESS_S - HOLD_S) / BACK_S)
    return read_only(free + np.array([DEPTH_M * forward, 0.0, 0.0]))


def run_two_arms(
    robot: Robot,
    output: Path,
    *,
    mount: str | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Identify a simulated arm, couple two such arms by bilateral control, and write bags, data set and report.

    The returned verdict has three checks: the follower's tracking error in free motion; the difference between the
    force of the hand on the leader and the force of the wall on the follower; and whether the bilateral control stopped
    or fell back to unilateral mode.

    Args:
        robot: the robot.
        output: new folder.
        mount: name of the arms' mount; None is the robot's default.
        seed: seed of the simulation.
        progress: function that receives the name of each stage.

    Raises:
        OutputExistsError: the folder exists.
        DataError: the identified model failed one of its checks.
    """
    settings = BilateralSettings()
    with whole_folder(output) as folder:
        progress("identify the arm")
        bench = make_bench(robot, mount, seed)
        (folder / "identification").mkdir()
        model = from_model_file(identified(bench, folder / "identification"), bench.arm)
        progress("two arms")
        pair = LockstepPair(robot, bench.dynamics, (model, model), settings, seed=seed, mount=mount)
        start = pair.tool_at_start()
        run = pair.run(ALL_S, Hand(leading, start), Wall(float(start.position[0]) + WALL_M, WALL_N_M))
        progress("bags, data set and report")
        for name, arm in zip(SIDES, pair.arms, strict=True):
            recorded = arm.recorded("two_arms", ALL_S, [("trajectory", 0)])
            write_bag(recorded, robot, settings, folder / "bags" / name, profile="two_arms", law=settings.mode)
        verdict = Verdict(checks=tuple(_checks(run, robot)))
        _write_data_set(folder / "lerobot", run, robot)
        (folder / "report.html").write_text(_page(run, robot, verdict, settings), encoding="utf-8")
    return verdict


def _write_data_set(folder: Path, run: PairRun, robot: Robot) -> None:
    """Write the run of both arms as a LeRobot data set if pyarrow is installed; otherwise do nothing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return
    leader, follower = ({key: rows[side] for key, rows in run.rows.items()} for side in range(2))
    columns = {
        "observation.state": run.measured[1],
        "observation.effort": follower["torque"],
        "observation.external_torque": follower["external"],
        "action": run.measured[0],
        "action.effort": leader["torque"],
        "action.external_torque": leader["external"],
    }
    write_lerobot(folder, [Episode(TASK, run.time_s, columns)], robot.joint_names, robot.name)


def _checks(run: PairRun, robot: Robot) -> list[Check]:
    free = (run.time_s >= ENGAGED_S) & (run.time_s < FREE_S)
    held = (run.time_s >= HELD_FROM_S) & (run.time_s < FREE_S + PRESS_S + HOLD_S)
    apart = (run.rows["q"][0] - run.rows["q"][1])[free, : robot.chain_size]
    hand, wall = run.force[0, :, 0], run.force[1, :, 0]
    force = float(np.sqrt(np.mean((hand + wall)[held] ** 2) / np.mean(wall[held] ** 2)))
    tracking = float(np.rad2deg(np.sqrt(np.mean(apart**2))))
    stopped = float(bool(run.stopped or run.fell_back))
    return [
        _check("tracking", "difference of both arms in free motion, RMS", tracking, TRACKING_DEG, "deg"),
        _check(
            "force_error",
            "difference between the hand's and the wall's force while pressing, relative to the wall's",
            force,
            FORCE_ERROR,
        ),
        _check("stopped", "the pair was stopped, or fell back to the unilateral mode", stopped, 0.0),
    ]


def _check(key: str, name: str, value: float, limit: float, unit: str = "") -> Check:
    return Check(id=f"two_arms_{key}", group="Chain", name=name, value=value, limit=limit, unit=unit)


def _page(run: PairRun, robot: Robot, verdict: Verdict, settings: BilateralSettings) -> str:
    """Return the HTML report of a run with two arms: its checks, and figures of forces, positions and torques."""
    rows = "".join(
        f"<tr><td>{html.escape(one.name)}</td><td>{one.value:.3g} {one.unit}</td><td>{one.limit:.3g} {one.unit}</td>"
        f"<td class={'passed' if one.passed else 'failed'}>{'passed' if one.passed else 'FAILED'}</td></tr>"
        for one in verdict.checks
    )
    summary = (
        f"A hand guides the leader around for {FREE_S:g} s. Then it moves forward until the follower presses against a "
        f"wall of {WALL_N_M:g} N/m, holds, and moves back. Only the control law connects the arms; neither has "
        "a force sensor."
    )
    law = ", ".join(f"{name} = {value:g}" for name, value in settings.gains().items())
    figures = "".join(_svg(draw, run, robot) for draw in (_draw_forces, _draw_positions, _draw_torques))
    law = html.escape(f"Mode {settings.mode}; {law}.")
    return PAGE.format(summary=html.escape(summary), rows=rows, figures=figures, law=law)


def _svg(draw: Callable[[Figure, PairRun, Robot], None], run: PairRun, robot: Robot) -> str:
    content = StringIO()
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": draw.__name__}):
        figure = Figure(figsize=(11.0, 4.0), layout="constrained")
        draw(figure, run, robot)
        figure.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()[content.getvalue().index("<svg") :]


def _touching(axes: Axes, run: PairRun) -> None:
    """Shade the times in a figure's axes at which the follower touches the wall."""
    axes.fill_between(
        run.time_s,
        0,
        1,
        where=run.force[1, :, 0] < 0.0,
        transform=axes.get_xaxis_transform(),
        color="#c77700",
        alpha=0.12,
    )
    axes.set_xlabel("time [s]; shaded: the follower touches the wall")


def _thin(run: PairRun) -> slice:
    return slice(None, None, max(1, len(run.time_s) // 2000))


def _draw_forces(figure: Figure, run: PairRun, robot: Robot) -> None:
    axes, few = figure.subplots(), _thin(run)
    axes.plot(run.time_s[few], run.force[0, few, 0], label="hand on the leader")
    axes.plot(run.time_s[few], -run.force[1, few, 0], label="follower on the wall")
    axes.set_ylabel("force along x [N]")
    axes.set_title("Force on the hand, and force of the follower on the wall")
    axes.legend(frameon=False)
    _touching(axes, run)


def _draw_positions(figure: Figure, run: PairRun, robot: Robot) -> None:
    (left, right), few = figure.subplots(1, 2), _thin(run)
    names, q = short_names(robot.joint_names), np.rad2deg(run.rows["q"])
    for joint in range(robot.chain_size):
        (line,) = left.plot(run.time_s[few], q[0, few, joint], label=names[joint], linewidth=0.9)
        left.plot(run.time_s[few], q[1, few, joint], "--", color=line.get_color(), linewidth=0.9)
        right.plot(run.time_s[few], q[0, few, joint] - q[1, few, joint], color=line.get_color(), linewidth=0.9)
    left.set_title("Joint angles; dashed: the follower")
    left.set_ylabel("angle [deg]")
    left.legend(frameon=False, ncols=2, fontsize=7)
    right.set_title("Leader minus follower")
    right.set_ylabel("difference [deg]")
    _touching(left, run)
    _touching(right, run)


def _draw_torques(figure: Figure, run: PairRun, robot: Robot) -> None:
    few, names = _thin(run), short_names(robot.joint_names)
    push, external = run.rows["push"], run.rows["external"]
    joint = int(np.argmax(np.abs(push[1]).max(axis=0)))
    for side, axes in enumerate(figure.subplots(1, 2, sharey=True)):
        axes.plot(run.time_s[few], external[side, few, joint], label="estimated", linewidth=0.9)
        axes.plot(run.time_s[few], push[side, few, joint], label="true", linewidth=0.9)
        axes.set_title(f"Torque from outside on {names[joint]} of the {SIDES[side]}")
        axes.set_ylabel("torque [N m]")
        axes.legend(frameon=False)
        _touching(axes, run)
