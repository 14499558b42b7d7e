"""Motion back along an executed segment, whose path is proven to be free and did not overload the servos."""

import numpy as np

from dynid.robot import FloatArray
from dynid.trajectory.motion import Motion
from dynid.trajectory.polynomial import PolynomialTrajectory, through_points

DURATION_FACTOR, ADDED_S = 2.0, 0.5  # duration of the return: factor on the executed time [-], and added time [s]
KNOT_S = 0.1


def return_duration_s(along_s: float) -> float:
    """Return the duration of the return motion [s] for a segment that was executed for `along_s` [s]."""
    return DURATION_FACTOR * along_s + ADDED_S


def return_motion(motion: Motion, along_s: float, at: FloatArray, joints: tuple[str, ...]) -> PolynomialTrajectory:
    """Return the motion from the present posture back to the start of an executed segment.

    It follows the executed part of the segment's path in reverse, more slowly. The initial offset from this path
    decreases to zero on the way.

    Args:
        motion: the segment.
        along_s: executed time of the segment [s].
        at: present posture, (n,) [rad].
        joints: names of the joints, (n,).
    """
    duration = return_duration_s(along_s)
    times = np.linspace(0.0, duration, 1 + int(np.ceil(duration / KNOT_S)))
    u = times / duration
    # path share from 0 to 1, at rest at both ends, and its two derivatives
    back = u**3 * (10.0 - 15.0 * u + 6.0 * u**2)
    rate = 30.0 * u**2 * (1.0 - u) ** 2 / duration
    change = 60.0 * u * (1.0 - u) * (1.0 - 2.0 * u) / duration**2
    q, dq, ddq = motion.sample_all(along_s * (1.0 - back))
    off = at - q[0]
    left, rate, change = (1.0 - back)[:, None], rate[:, None], change[:, None]
    positions = q + left * off
    velocities = -along_s * rate * dq - rate * off
    accelerations = (along_s * rate) ** 2 * ddq - along_s * change * dq - change * off
    velocities[[0, -1]], accelerations[[0, -1]] = 0.0, 0.0
    return through_points(f"{motion.name} back", joints, times, positions, velocities, accelerations)
