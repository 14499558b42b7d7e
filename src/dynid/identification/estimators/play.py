"""Play between joint and encoder: how far positions are off, found from torques, and taken off the states.

Behind gears with a play of 2 b the encoder sees q - b sign(dq): positions lag at every reversal, where accelerations
are largest, and gravity is that of another posture. Neglected, it biases inertias by some per cent, and friction at low
speeds. To first order in b torques change by

    b D,    D = d tau(q + b s, dq + b ds/dt, ddq + b d2s/dt2) / d b,    s = tanh(dq / v) behind the states' filter

a column per joint. `lags` estimates b beside all that is fitted. What is more than `SIGNIFICANT` deviations above zero
is taken off the states, and friction and base parameters are fitted once more; s is then what a gap of this width makes
of the corrected motion. A joint keeps that only if its error falls on blocks of time that were left out. What remains
open of b, `remaining`, goes into the estimate's covariance.
"""

from dataclasses import dataclass, replace

import numba
import numpy as np

from dynid.identification.data.fine_states import FineStates, grid_step_s
from dynid.identification.data.preprocessing import Samples, central_differences
from dynid.identification.estimators.gear_fit import GearFit
from dynid.identification.estimators.gear_rows import GearRows, solved_torques
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

PRIOR_RAD = 4e-3  # half the play of a worn servo gear, 0.5 deg
SIGNIFICANT = 2.0  # deviations
REVERSAL_RAD_S = 0.05  # v: gears are in touch on one side when faster
ROUNDS = 2  # of finding s from the corrected motion
STEP_RAD = 1e-3  # of the difference quotient


@dataclass(frozen=True, eq=False)
class FoundPlay:
    """Half the play of all axes.

    Attributes:
        half: (n,) [rad; m where a joint slides].
        deviations: of it, (n,).
        columns: D of sliding states, (N, n, n) [N m/rad].
        taken: half the play that was taken off the states, (n,); None: `significant`.
    """

    half: FloatArray
    deviations: FloatArray
    columns: FloatArray
    taken: FloatArray | None = None

    @property
    def significant(self) -> FloatArray:
        """Half the play where it is surely there, else 0, (n,)."""
        return np.where(self.half > SIGNIFICANT * self.deviations, self.half, 0.0)

    @property
    def effects(self) -> FloatArray:
        """Torques of what is left of half the play, each of its likely size, (N, n, n) [N m]."""
        return self.columns * self.remaining

    @property
    def remaining(self) -> FloatArray:
        """Root mean square of what is left of half the play when a part is taken off, (n,)."""
        error = self.half - (self.significant if self.taken is None else self.taken)
        return np.sqrt(self.deviations**2 + error**2)


def _side(samples: Samples, states: FineStates, half: FloatArray | None = None) -> tuple[FloatArray, ...]:
    """s of all states, and its derivatives by time, (M, n) each; of states that are as seen, or rid of `half` (n,)."""
    step = grid_step_s(samples.settings.interval_s, states)
    s = np.tanh(states.dq / REVERSAL_RAD_S)
    if half is not None and half.any():
        s = np.where(half > 0.0, (states.q - _through_gap(states.q, half)) / np.where(half > 0.0, half, 1.0), s)
    s = states.wide_pass(s)
    return s, *central_differences(s, step)


@numba.njit(cache=True)
def _through_gap(q: FloatArray, half: FloatArray) -> FloatArray:
    """What is seen of positions q (M, n) through gaps of half a width (n,): it rests until the gap is crossed."""
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
    """Samples whose fine states are those of the joints, half the play being `half` (n,); the rest stays as it is."""
    found = []
    for states in samples.fine:
        joints = _moved(states, _side(samples, states), half)
        for _ in range(ROUNDS):
            joints = _moved(states, _side(samples, joints, half), half)
        found.append(joints)
    return replace(samples, fine=tuple(found))


def play_columns(rows: GearRows, fit: GearFit) -> FloatArray:
    """D of sliding states at a fit, (N, n, n) [N m/rad]: torques of all axes by half the play of each."""
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
