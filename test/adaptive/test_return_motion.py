"""Return motions along a stopped segment: start, end and path."""

import numpy as np
import pytest

from dynid.adaptive.return_motion import DURATION_FACTOR, return_motion
from dynid.robot import load_robot
from dynid.trajectory.polynomial import PolynomialTrajectory, through_points

ROBOT = load_robot("crane_x7")
ALONG_S = 1.3


def segment() -> PolynomialTrajectory:
    random = np.random.default_rng(3)
    points = ROBOT.rest_posture + np.vstack([np.zeros(ROBOT.size), random.uniform(-0.5, 0.5, (3, ROBOT.size))])
    return through_points("there", ROBOT.joint_names, np.arange(4.0), points)


@pytest.mark.slow
@pytest.mark.parametrize("off_rad", [0.0, 0.05])
def test_return_motion_follows_the_path_to_its_start(off_rad: float) -> None:
    there = segment()
    reached = there.sample_all(np.array([ALONG_S]))[0][0]
    back = return_motion(there, ALONG_S, reached + off_rad, ROBOT.joint_names)
    times = np.linspace(0.0, back.duration, 2001)
    q, dq, ddq = back.sample_all(times)
    np.testing.assert_allclose(q[0], reached + off_rad, atol=1e-12)
    np.testing.assert_allclose(q[-1], there.sample_all(np.zeros(1))[0][0], atol=1e-12)
    np.testing.assert_allclose(dq[[0, -1]], 0.0, atol=1e-9)
    path, speeds, _ = there.sample_all(np.linspace(0.0, ALONG_S, 4001))
    away = np.abs(q[:, None] - path[None]).max(axis=2).min(axis=1)
    assert away.max() < off_rad + 2e-3
    assert (np.abs(dq).max(axis=0) <= np.abs(speeds).max(axis=0) + 2.0 * off_rad / back.duration + 1e-3).all()
    np.testing.assert_allclose(np.gradient(q, times, axis=0)[5:-5], dq[5:-5], atol=2e-3)
    np.testing.assert_allclose(np.gradient(dq, times, axis=0)[5:-5], ddq[5:-5], atol=5e-2)


def test_return_motion_takes_longer_than_the_segment() -> None:
    there = segment()
    assert (
        return_motion(there, there.duration, there.end, ROBOT.joint_names).duration > DURATION_FACTOR * there.duration
    )
