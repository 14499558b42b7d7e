"""Backlash between joint and encoder: estimation of position errors from torques, and correction of the states.

Behind gears with a backlash of 2 b, the encoder measures q - b sign(dq). At every reversal, the measured position lags
behind q, and the gravity torque of the measured posture is wrong. Accelerations are largest at reversals. If neglected,
backlash biases inertias by some per cent, and friction at low speeds. To first order in b, torques change by

    b D,    D = d tau(q + b s, dq + b ds/dt, ddq + b d2s/dt2) / d b,    s = tanh(dq / v), low-passed,

where D has one column per joint, and s has passed the same low-pass filter as the states. `lags` estimates b together
with all fitted parameters. If b is more than `SIGNIFICANT` standard deviations above zero, the states are corrected for
it, and friction and base parameters are fitted once more. For the correction, s follows from the motion of the joint
through a gap of width 2 b. The correction of a joint is kept only if it reduces the joint's error on held-out blocks of
time. The uncertainty of b that remains is part of the estimate's covariance.
"""

from dataclasses import dataclass, replace

import numba
import numpy as np

from dynid.identification.data.fine_states import FineStates, grid_step_s
from dynid.identification.data.preprocessing import Samples, central_differences
from dynid.identification.estimators.gear_fit import GearFit
from dynid.identification.estimators.gear_rows import GearRows
from dynid.identification.estimators.solved_torques import solved_torques
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

PRIOR_RAD = 4e-3  # prior standard deviation of half the backlash [rad]: a worn servo gear has 0.5 deg in total
SIGNIFICANT = 2.0  # smallest significant backlash, in standard deviations
REVERSAL_RAD_S = 0.05  # velocity v above which the teeth of a gear touch on one side [rad/s]
ROUNDS = 2  # iterations of computing s from the corrected motion
STEP_RAD = 1e-3  # step of the difference quotient [rad]


@dataclass(frozen=True, eq=False)
class FoundPlay:
    """Estimated backlash between the joints and their encoders.

    Attributes:
        half: half the backlash of each joint, (n,) [rad; m for prismatic joints].
        deviations: standard deviations of half the backlash, (n,).
        columns: derivatives of the torques by half the backlash of each joint, (N, n, n) [N m/rad]; states near
            standstill are masked.
        taken: half the backlash for which the states of each joint were corrected, (n,) [rad; m for prismatic joints];
            0 without correction. None means that they were corrected for every significant backlash (`significant`).
    """

    half: FloatArray
    deviations: FloatArray
    columns: FloatArray
    taken: FloatArray | None = None

    @property
    def significant(self) -> FloatArray:
        """Half the backlash of each joint if it exceeds `SIGNIFICANT` standard deviations, else 0, (n,) [rad or m]."""
        return np.where(self.half > SIGNIFICANT * self.deviations, self.half, 0.0)

    @property
    def effects(self) -> FloatArray:
        """Torque errors by backlash that remains after the correction of the states, (N, n, n) [N m].

        There is one column per joint, for the likely size (rms) of the remaining backlash.
        """
        return self.columns * self.remaining

    @property
    def remaining(self) -> FloatArray:
        """Likely size (rms) of half the backlash that remains after the correction of the states, (n,) [rad or m]."""
        error = self.half - (self.significant if self.taken is None else self.taken)
        return np.sqrt(self.deviations**2 + error**2)


def _side(samples: Samples, states: FineStates, half: FloatArray | None = None) -> tuple[FloatArray, ...]:
    """Return the position s of each joint within its backlash gap, -1 to 1, with ds/dt and d2s/dt2, (M, n) each.

    s is the joint position minus the encoder position, divided by half the backlash: about 1 while the joint moves
    in the positive direction, about -1 in the negative one. s is low-passed like the states.

    Args:
        samples: samples, whose interval defines the step of the grid.
        states: states of one recording on a fine grid.
        half: half the backlash, (n,) [rad]. If it is given, `states` must contain corrected joint positions, and s
            follows from their motion through the gap. None computes s from the sign of the velocity.
    """
    step = grid_step_s(samples.settings.interval_s, states)
    s = np.tanh(states.dq / REVERSAL_RAD_S)
    if half is not None and half.any():
        s = np.where(half > 0.0, (states.q - _through_gap(states.q, half)) / np.where(half > 0.0, half, 1.0), s)
    s = states.wide_pass(s)
    return s, *central_differences(s, step)


@numba.njit(cache=True)
def _through_gap(q: FloatArray, half: FloatArray) -> FloatArray:
    """Return encoder positions (M, n) of joints with backlash.

    After a reversal, an encoder position is constant until the joint has crossed the gap.

    Args:
        q: joint positions, (M, n).
        half: half the width of each joint's gap, (n,).
    """
    out = np.empty_like(q)
    for j in range(q.shape[1]):
        seen = q[0, j]
        for k in range(q.shape[0]):
            seen = min(max(seen, q[k, j] - half[j]), q[k, j] + half[j])
            out[k, j] = seen
    return out


def _moved(states: FineStates, side: tuple[FloatArray, ...], half: FloatArray) -> FineStates:
    s, ds, dds = side
    return replace(states, q=states.q + half * s, dq=states.dq + half * ds, ddq=states.ddq + half * dds)


def without_play(samples: Samples, half: FloatArray) -> Samples:
    """Return samples whose states on the fine time grid are corrected for backlash; other arrays are unchanged.

    Args:
        samples: the samples.
        half: half the backlash of each joint, (n,) [rad].
    """
    found = []
    for states in samples.fine:
        joints = _moved(states, _side(samples, states), half)
        for _ in range(ROUNDS):
            joints = _moved(states, _side(samples, joints, half), half)
        found.append(joints)
    return replace(samples, fine=tuple(found))


def play_columns(rows: GearRows, fit: GearFit) -> FloatArray:
    """Return derivatives of the torques by half the backlash of each joint, (N, n, n) [N m/rad].

    States near standstill are masked.

    Args:
        rows: regression rows of the samples.
        fit: fit that gives base parameters and friction.
    """
    model, samples, point = rows.model, rows.samples, fit.point
    phi = BaseParameters(model.names, point.phi)
    found = []
    for states in samples.fine:
        side = _side(samples, states)
        step = grid_step_s(samples.settings.interval_s, states)
        before = sum(solved_torques(model, states, states.tau, states.ripple, phi, point.law, step))
        columns = []
        for axis in range(model.axes):
            half = STEP_RAD * (np.arange(model.axes) == axis)
            moved = _moved(states, side, half)
            after = sum(solved_torques(model, moved, states.tau, states.ripple, phi, point.law, step))
            columns.append((after - before) / STEP_RAD)
        found.append(np.stack(columns, axis=-1))
    return rows.sliding(found)
