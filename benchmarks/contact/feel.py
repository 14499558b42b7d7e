"""All figures of `./run benchmark feel`, and the acceptance limits that they miss."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contact.bound import benchmark_bound
from benchmarks.contact.feeling import benchmark_feeling
from benchmarks.contact.scenes import IDENTIFICATION, PROFILE, Scene
from benchmarks.contact.weighing import benchmark_drawn, benchmark_weighing
from benchmarks.speed.hand_push import pushes
from dynid.control.model_laws import GravityCompensation
from dynid.robot import Robot

GUIDED_SEED, MARGIN_RAD = 9000, 0.4
BARS = {
    "detect_ms": 20.0,
    "false_alarms": 0.0,
    "force_rms_still_n": 1.0,
    "force_rms_moving_n": 2.0,
    "payload_error_g": 10.0,
}
PUSH_BAR = 0.5
HONEST = (0.85, 0.95)  # accepted shares of 90 % intervals that contain the true value
DRAWN_SEED = 0


def push_ratios(scene: Scene) -> tuple[dict[str, float], dict[str, float]]:
    """Return the push that moves each joint with friction compensation [N m], and its ratio to the push without it."""
    robot, settings = scene.robot, scene.settings
    pose = scene.excitation.trajectory(IDENTIFICATION, PROFILE).waypoints[1]
    pose = np.clip(pose, robot.lower + MARGIN_RAD, robot.upper - MARGIN_RAD)
    before, after = (
        pushes(
            robot,
            GravityCompensation(scene.identified, scene.dynamics, share),
            settings.pseudo_differentiation_s,
            mount=None,
            seed=GUIDED_SEED,
            pose=pose,
        )
        for share in (0.0, settings.friction_share)
    )
    names = robot.joint_names
    return dict(zip(names, after.tolist(), strict=True)), dict(zip(names, (after / before).tolist(), strict=True))


def benchmark_feel(
    robot: Robot, places: int, minutes: float, payloads: int, arms: int, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Return all figures; those named `..._nominal` belong to the nominal model.

    Args:
        robot: the robot.
        places: number of pulls per force, for a moving and for a still arm.
        minutes: duration of motion without contact.
        payloads: number of motions per mass.
        arms: number of drawn arms that are identified and estimate one body of each mass.
        progress: function that is called with the progress.

    Raises:
        DataError: no model was accepted.
    """
    progress("identifying")
    scene = Scene.of(robot)
    felt = benchmark_feeling(scene, places, minutes, progress)
    bound = benchmark_bound(scene, places, progress)
    held = benchmark_weighing(scene, payloads, progress)
    drawn = benchmark_drawn(robot, arms, DRAWN_SEED, progress) if arms else None
    progress("leading by hand")
    push, ratio = push_ratios(scene)
    own, nominal = felt[0] | held[0], felt[1] | held[1]
    return (
        {key: own[key] for key in BARS}
        | {f"{key}_nominal": nominal[key] for key in BARS}
        | {key: value for key, value in own.items() if key not in BARS}
        | {"push_nm": push, "push_ratio": ratio, "friction_share": scene.settings.friction_share}
        | {"by_force_nominal": nominal["by_force"], "drawn_arms": drawn}
        | bound
    )


def missed(figures: dict[str, Any]) -> list[str]:
    """Return a sentence for each acceptance limit that the figures of `benchmark_feel` miss."""
    found = [
        f"{key} is {'null' if figures[key] is None else format(figures[key], '.3g')}, required at most {bar:g}"
        for key, bar in BARS.items()
        if figures[key] is None or not figures[key] <= bar
    ]
    found += [
        f"the push that leads {joint} is {ratio:.2f} of that without help, required at most {PUSH_BAR:g}"
        for joint, ratio in figures["push_ratio"].items()
        if not ratio <= PUSH_BAR
    ]
    shares = {f"pulls, {state}": share for state, share in figures["force_in_90_percent_interval_share"].items()}
    shares["payloads"] = figures["payload_in_90_percent_interval_share"]
    if figures["drawn_arms"] is not None and figures["drawn_arms"]["payloads"]:
        shares["payloads of drawn arms"] = figures["drawn_arms"]["payload_in_90_percent_interval_share"]
    found += [
        f"{100 * share:.0f} % of the 90 % intervals of {what} hold it, required {100 * HONEST[0]:.0f} to "
        f"{100 * HONEST[1]:.0f} %"
        for what, share in shares.items()
        if not HONEST[0] <= share <= HONEST[1]
    ]
    return found
