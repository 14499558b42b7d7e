"""Delays between the signals of a log, before anything is known of the arm.

Torque against position is scanned (`torque_delay`); the fit of the parameters then refines it and gives its deviation.
Goal against position and torque: a
servo in position control answers with tau = k_p (g - q) + k_d dq + k_0 as long as no limit cuts it, whether its output
is a current or a voltage behind a winding, and the delay is taken at which that leaves least.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.identification.data.curves import curves_through
from dynid.identification.data.fine_states import FineStates
from dynid.identification.data.weak_form import HOPS, cubic_spline
from dynid.identification.logs.rows import RowSettings, stretches
from dynid.identification.torque_delay import lowest, scanned_delay
from dynid.model.dynamics import ArmModel
from dynid.recording.log import Log
from dynid.robot import FloatArray, read_only

LONGEST_S, EARLIEST_S = 0.6, -0.1
COARSE_S, FINE_S = 0.04, 0.005
NEAR_LIMIT = 0.97  # of the largest torque that was seen


@dataclass(frozen=True, eq=False)
class GoalDelay:
    """From the stamp of a goal to its effect, with the servos' gains.

    Attributes:
        delay_s, deviation_s: mean of the joints, and how far they are apart.
        gains: k_p [N m/rad], k_d [N m s/rad], k_0 [N m] of every joint, (n, 3).
        explained: share of the torques' variance that the law explains, (n,).
    """

    delay_s: float
    deviation_s: float
    gains: FloatArray
    explained: FloatArray


def torque_delay(model: ArmModel, logs: Sequence[Log], settings: RowSettings) -> float:
    """By how much logged torques lag behind logged positions [s], within 10 ms or so; see `fit` for the rest."""
    parts, kernel = [], cubic_spline(settings.length // HOPS)
    reach = len(kernel) // 2
    for log in logs:
        if log.tau is None:
            continue
        motion, torques = curves_through(log.time, log.q), curves_through(log.torque_time, log.tau)
        for time in stretches(log.time[0], log.time[-1], settings):
            nodes = np.arange(reach, len(time) - reach, settings.length // HOPS)
            states = motion.states(time)
            parts.append(FineStates(*states, np.zeros((0, 6)), nodes, torques.states(time)[0], kernel=kernel))
    return scanned_delay(model, parts, settings.grid_s, settings.slow_rad_s)


def goal_delay(log: Log, torque_delay_s: float) -> GoalDelay | None:
    """From the stamp of a goal to its effect; None where goals or torques were not logged."""
    if log.goal is None or log.tau is None:
        return None
    curves = curves_through(log.time, log.q)
    inside = (log.time > log.time[0] + LONGEST_S) & (log.time < log.time[-1] - LONGEST_S)
    time = log.time[inside]
    q, dq, _ = curves.states(time)
    tau = curves_through(log.torque_time, log.tau).states(time + torque_delay_s)[0]
    coarse = np.arange(EARLIEST_S, LONGEST_S, COARSE_S)
    first = float(coarse[np.argmin(np.log(_laws(log, time, q, dq, tau, coarse)[0]).sum(axis=1))])
    near = first + np.arange(-COARSE_S, COARSE_S + FINE_S, FINE_S)
    left, gains = _laws(log, time, q, dq, tau, near)
    each = np.array([lowest(np.log(one), near) for one in left.T])
    best = int(np.argmin(np.log(left).sum(axis=1)))
    spread = float(np.std(each, ddof=1)) if len(each) > 1 else COARSE_S
    return GoalDelay(float(np.mean(each)), spread, read_only(gains[best]), read_only(1.0 - left[best]))


def _laws(
    log: Log, time: FloatArray, q: FloatArray, dq: FloatArray, tau: FloatArray, delays: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Share of every joint's variance that the law leaves at each delay, (K, n), and its gains, (K, n, 3)."""
    assert log.goal is not None
    left, gains = np.ones((len(delays), q.shape[1])), np.zeros((len(delays), q.shape[1], 3))
    for i in range(q.shape[1]):
        free = np.abs(tau[:, i]) <= NEAR_LIMIT * np.abs(tau[:, i]).max()
        b = tau[free, i]
        for k, delay in enumerate(delays):
            goal = np.interp(time - delay, log.time, log.goal[:, i])
            A = np.stack([goal - q[:, i], dq[:, i], np.ones_like(goal)], axis=1)[free]
            gains[k, i] = np.linalg.lstsq(A, b, rcond=1e-10)[0]
            left[k, i] = max(float(np.var(b - A @ gains[k, i]) / max(np.var(b), 1e-30)), 1e-12)
    return left, gains
