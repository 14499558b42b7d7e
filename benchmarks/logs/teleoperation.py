"""Motions like those of a human hand: smooth reaches, many small and some large, with pauses.

A posture is a sum of minimum-jerk steps (Flash and Hogan 1985), one or more per reach, each joint a little earlier or
later than the others. The motions are not designed for identification.
"""

import numpy as np

from dynid.robot import FloatArray, Robot

LARGE_SHARE, SMALL_RAD, REACH_OF_RANGE = 0.25, 0.15, 0.8
PEAK_RAD_S, SHORTEST_S, PAUSE_SHARE, PAUSE_S = (0.3, 1.8), 0.5, 0.4, 0.8
START_S = 2.0  # time before the first reach [s]
MOVES = 0.7  # share of the joints that take part in a reach


def minimum_jerk(x: FloatArray) -> FloatArray:
    """Return 10 x^3 - 15 x^4 + 6 x^5 for x limited to [0, 1]."""
    x = np.clip(x, 0.0, 1.0)
    return x**3 * (10.0 + x * (6.0 * x - 15.0))


def hand_motion(robot: Robot, duration_s: float, rate_hz: float, seed: int) -> FloatArray:
    """Return postures (N, n) [rad] at a rate, from the robot's rest posture on; equal seeds give equal motions."""
    rng = np.random.default_rng(seed)
    lower, upper = 0.5 * (robot.lower + robot.upper) + np.array([[-0.5], [0.5]]) * REACH_OF_RANGE * (
        robot.upper - robot.lower
    )
    time = np.arange(round(duration_s * rate_hz)) / rate_hz
    posture = np.array(robot.rest_posture)
    found = np.tile(posture, (len(time), 1))
    now = START_S
    while now < duration_s:
        large = rng.random() < LARGE_SHARE
        wanted = rng.uniform(lower, upper) if large else posture + SMALL_RAD * rng.standard_normal(robot.size)
        wanted = np.where(rng.random(robot.size) < MOVES, np.clip(wanted, lower, upper), posture)
        peak = rng.uniform(*PEAK_RAD_S)
        length = max(SHORTEST_S, 1.875 * float(np.abs(wanted - posture).max()) / peak)
        begins, lengths = now + 0.2 * length * rng.random(robot.size), length * rng.uniform(0.8, 1.0, robot.size)
        rows = slice(int(now * rate_hz), None)
        until = slice(rows.start, int((now + 1.3 * length) * rate_hz) + 2)
        share = minimum_jerk((time[until, None] - begins) / lengths)
        found[until] = posture + share * (wanted - posture)
        found[until.stop :] = wanted
        posture = wanted
        now += 1.2 * length + (rng.exponential(PAUSE_S) if rng.random() < PAUSE_SHARE else 0.0)
    return found
