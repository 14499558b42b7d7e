"""Hand-guided demonstrations become motions within the limits: the same path, slower where necessary."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynid.control.guided_replay import guided_part, replay_motion
from dynid.control.motion_check import position_and_speed, robot_limits
from dynid.errors import DataError, SafetyError
from dynid.robot import FloatArray, load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.files import load_trajectory_file

ROBOT = load_robot("crane_x7")
EXCITATION = load_excitation(ROBOT)
LIMITS = robot_limits(ROBOT, EXCITATION.acceleration_limits)
TIME = np.arange(0.0, 4.0, 0.001)
AWAY = np.deg2rad([60.0, 20.0, 0.0, -40.0, 30.0, 20.0, 0.0, 10.0])


def led(hurry: float = 1.0) -> FloatArray:
    """A gentle motion there and back, whose second half is quicker by a factor; an encoder's steps."""
    share = np.where(TIME < 2.0, 0.5 - 0.5 * np.cos(np.pi * TIME / 2.0), 0.0)
    back = np.clip((TIME - 2.0) * hurry, 0.0, 2.0)
    share = np.where(TIME < 2.0, share, 0.5 + 0.5 * np.cos(np.pi * back / 2.0))
    step = 2.0 * np.pi / 4096
    return np.round((ROBOT.rest_posture + share[:, None] * AWAY) / step) * step


def test_demonstration_within_limits_is_replayed_unchanged(tmp_path: Path) -> None:
    q = led()
    shown = replay_motion("shown", ROBOT.joint_names, TIME, q, LIMITS)
    assert shown.slowed is None and shown.motion.duration == pytest.approx(TIME[-1])
    replayed = shown.motion.sample_all(TIME)[0]
    np.testing.assert_allclose(replayed, shown.shown_at(TIME), atol=np.deg2rad(0.5))
    shown.save(tmp_path / "shown.yaml")
    read = load_trajectory_file(tmp_path / "shown.yaml", EXCITATION, ROBOT.rest_posture)
    np.testing.assert_allclose(read.sample_all(TIME)[0], replayed, atol=1e-5)
    half = replay_motion("slow", ROBOT.joint_names, TIME, q, LIMITS, speed=0.5)
    assert half.motion.duration == pytest.approx(2.0 * TIME[-1]) and "slowed to 50%" in half.in_words()


def test_demonstration_beyond_limits_is_slowed_only_there() -> None:
    shown = replay_motion("quick", ROBOT.joint_names, TIME, led(6.0), LIMITS)
    _, dq, ddq = shown.motion.sample_all(np.arange(0.0, shown.motion.duration, 0.001))
    assert (np.abs(dq) <= LIMITS.velocity).all() and (np.abs(ddq) <= LIMITS.acceleration).all()
    assert shown.slowed is not None
    least, begin, end = shown.slowed
    assert least < 0.8 and 1.4 < begin < 2.1 and end < 3.0
    assert f"slowed to {least:.0%}" in shown.in_words()
    off = shown.motion.sample_all(shown.motion.knots)[0] - shown.shown_at(shown.motion.knots)
    assert np.abs(off).max() < np.deg2rad(4.0), "the path stays, but for what smoothing takes off its corners"


def test_a_motion_that_stops_hard_brakes_longer() -> None:
    """A joint that sticks stops within a sample; the last brake must keep the limit as well."""
    q = led(3.0)[: np.searchsorted(TIME, 2.4)]
    shown = replay_motion("stopped", ROBOT.joint_names, TIME[: len(q)], q, LIMITS)
    inside = np.linspace(0.0, shown.motion.duration - 1e-6, 20_000)
    assert (np.abs(shown.motion.sample_all(inside)[2]) <= LIMITS.acceleration).all()
    assert shown.slowed is not None and shown.slowed[2] == pytest.approx(TIME[len(q) - 1])


def test_a_path_beyond_joint_limits_is_refused_as_any_motion() -> None:
    far = led() + 6.0 * (led() - ROBOT.rest_posture)
    with pytest.raises(SafetyError, match=r"motion 'far' refused: .* deg at .* allowed is"):
        position_and_speed(ROBOT).check([replay_motion("far", ROBOT.joint_names, TIME, far, LIMITS).motion])


def recording(q: FloatArray, reference: FloatArray | None) -> Any:
    series = None if reference is None else SimpleNamespace(time=TIME, q=reference)
    return SimpleNamespace(time=TIME, q=q, reference=series, joint_names=ROBOT.joint_names, source="bag")


def test_only_hand_guided_motion_is_recorded() -> None:
    q = np.vstack([np.tile(led()[0], (500, 1)), led()[:-500]])
    time, part = guided_part(recording(q, q))
    assert time[0] == 0.0 and time[-1] == pytest.approx(3.5, abs=0.4) and len(part) == len(time)
    with pytest.raises(DataError, match="no topic 'reference'"):
        guided_part(recording(q, None))
    with pytest.raises(DataError, match="was never guided by hand, it followed a reference"):
        guided_part(recording(q, q + 1e-3))
    still = np.tile(q[0], (len(TIME), 1))
    with pytest.raises(DataError, match=r"no hand moved the arm: .* moved most, by 0.0 deg, expected at least 2.9 deg"):
        guided_part(recording(still, still))
    at_its_ends = q + 1e-3 * ((TIME > 0.3) & (TIME < 3.9))[:, None]
    with pytest.raises(DataError, match="no hand moved the arm"):
        guided_part(recording(q, at_its_ends))


def test_sag_after_torque_on_is_not_part_of_the_demonstration() -> None:
    sag = np.where(TIME < 0.4, 0.2 * TIME, 0.08)[:, None] * np.eye(ROBOT.size)[3]
    still = np.tile(led()[0], (len(TIME), 1))
    shown = np.vstack([np.tile(led()[0], (2000, 1)), led()[:-2000]])
    _, part = guided_part(recording(shown - sag, shown - sag))
    assert len(part) < 2000 and np.abs(part[0] - shown[0] + sag[-1]).max() < 0.01
    with pytest.raises(DataError, match="no hand moved the arm"):
        guided_part(recording(still - sag, still - sag))


def test_a_motion_that_begins_at_once_keeps_the_acceleration_limits() -> None:
    quick = led()[200:]
    shown = replay_motion("quick", ROBOT.joint_names, TIME[: len(quick)], quick, LIMITS, speed=2.0)
    _, _, ddq = shown.motion.sample_all(np.arange(0.0, 0.3, 1e-4))
    assert (np.abs(ddq) <= LIMITS.acceleration).all()
    position_and_speed(ROBOT).check([shown.motion])
