"""Sway of a held arm: within its limits, not during motions, and at most by the allowed amplitude."""

import numpy as np
import pytest

from dynid.control.controller import TorqueLaw, load_controller
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.sway import MOST_RAD, RAMP_S, STANDSTILL_S, SWAY_HZ, SWAY_RAD, SwayingController
from dynid.errors import ConfigurationError
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("crane_x7")
N, SETTINGS = ROBOT.size, load_controller(ROBOT)


class Seen(FeedforwardPdLaw):
    """Law that records the references that it is asked to follow."""

    def torque(
        self, q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        self.rows = [*getattr(self, "rows", []), np.stack([q_ref, dq_ref, ddq_ref])]
        return super().torque(q, dq, q_ref, dq_ref, ddq_ref)


def followed(posture: FloatArray, speed: float = 0.0, law: TorqueLaw | None = None) -> FloatArray:
    """References (cycles, 3, n) that the law got within 2.6 seconds."""
    seen = law or Seen(SETTINGS)
    controller = SwayingController(seen, 0.002, ROBOT)
    controller.reset(posture)
    for _ in range(2600):
        controller.update(0.001, posture, posture, np.full(N, speed), np.zeros(N))
    return np.array(seen.rows)  # type: ignore[attr-defined]


def test_a_held_joint_sways_about_its_posture_and_no_two_turn_at_once() -> None:
    posture = 0.5 * (ROBOT.lower + ROBOT.upper)
    q, dq, ddq = np.moveaxis(followed(posture), 1, 0)
    settled = q[1200:] - posture
    np.testing.assert_allclose(settled.max(axis=0), SWAY_RAD, rtol=0.01)
    np.testing.assert_allclose(settled.min(axis=0), -SWAY_RAD, rtol=0.01)
    np.testing.assert_allclose(np.gradient(settled, 0.001, axis=0)[1:-1], dq[1201:-1], atol=2e-3)
    np.testing.assert_allclose(np.gradient(dq[1200:], 0.001, axis=0)[1:-1], ddq[1201:-1], atol=0.05)
    turns = [np.flatnonzero(np.diff(np.sign(dq[1200:, j])))[0] for j in range(N)]
    assert len(set(turns)) == N
    begun = round(1000 * STANDSTILL_S)
    np.testing.assert_array_equal(q[: begun - 1], np.tile(posture, (begun - 1, 1)))  # it may be a pause of a motion
    assert 0.0 < np.abs(q[: begun + round(100 * RAMP_S)] - posture).max() < 0.2 * SWAY_RAD  # it begins slowly


def test_a_moving_reference_does_not_sway_and_one_at_a_limit_stays_within() -> None:
    posture = 0.5 * (ROBOT.lower + ROBOT.upper)
    np.testing.assert_array_equal(followed(posture, speed=0.1)[:, 0], np.tile(posture, (2600, 1)))
    at_limit = ROBOT.upper.copy()
    at_limit[0] -= 0.5 * SWAY_RAD
    q = followed(at_limit)[:, 0]
    assert (q <= ROBOT.upper + 1e-12).all()
    np.testing.assert_allclose(np.ptp(q[1200:, 0]), SWAY_RAD, rtol=0.01)  # half as much as elsewhere
    assert np.ptp(q[:, 1:], axis=0).max() == 0.0


@pytest.mark.parametrize(
    ("amplitude", "frequency"), [(-0.01, SWAY_HZ), (1.01 * MOST_RAD, 1.0), (0.03, 6.0), (0.03, 0.0), (np.nan, 1.0)]
)
def test_an_arm_may_not_sway_far_or_fast(amplitude: float, frequency: float) -> None:
    with pytest.raises(ConfigurationError, match="cannot sway"):
        SwayingController(FeedforwardPdLaw(SETTINGS), 0.002, ROBOT, amplitude, frequency)


def test_sway_amplitude_changes_without_a_jump_and_0_rad_is_off() -> None:
    posture, seen = 0.5 * (ROBOT.lower + ROBOT.upper), Seen(SETTINGS)
    controller = SwayingController(seen, 0.002, ROBOT, 0.0)
    controller.reset(posture)
    for amplitude, frequency in ((0.0, SWAY_HZ), (SWAY_RAD, SWAY_HZ), (0.5 * SWAY_RAD, 4.0), (0.0, SWAY_HZ)):
        controller.sway(amplitude, frequency)
        for _ in range(1800):
            controller.update(0.001, posture, posture, np.zeros(N), np.zeros(N))
    away = np.array(seen.rows)[:, 0] - posture
    assert not away[:1800].any() and not away[-1000:].any()
    for end, amplitude in ((3600, SWAY_RAD), (5400, 0.5 * SWAY_RAD)):
        np.testing.assert_allclose(np.abs(away[end - 500 : end]).max(axis=0), amplitude, rtol=0.02)
    fastest = 2.0 * np.pi * SWAY_HZ * SWAY_RAD + SWAY_RAD / RAMP_S
    assert np.abs(np.diff(away, axis=0)).max() < 0.001 * fastest
