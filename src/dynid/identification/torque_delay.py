"""First estimate of the delay of torques relative to positions, by a scan over candidate delays.

For each candidate delay, the torques at t + delay are fitted to the states at t, by the arm's equations with Coulomb
friction. The candidate with the smallest residual is chosen. The fit of the parameters then refines the delay and
estimates its standard deviation. This fit is linearised in the delay, so it needs a first estimate that is close to it.
"""

from collections.abc import Sequence

import numpy as np
import scipy  # `scipy.interpolate` is loaded at first use: most identifications need no splines

from dynid.identification.data.fine_states import FineStates, chosen
from dynid.identification.estimators.triangles import triangle
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray

LONGEST_S, EARLIEST_S = 0.6, -0.1
COARSE_S, FINE_S = 0.04, 0.01
MOST_PARTS = 8  # parts of the recordings that the scan uses


def lowest(costs: FloatArray, at: FloatArray) -> float:
    """Return the abscissa of the minimum of a parabola through the lowest cost and its two neighbours.

    Args:
        costs: costs, (K,), any unit.
        at: equidistant abscissas of the costs, (K,), any unit.
    """
    k = int(np.clip(np.argmin(costs), 1, len(costs) - 2))
    low, mid, high = costs[k - 1 : k + 2]
    bend = low - 2.0 * mid + high
    return float(at[k] + (0.5 * (at[1] - at[0]) * (low - high) / bend if bend > 0.0 else 0.0))


def scanned_delay(model: ArmModel, parts: Sequence[FineStates], grid_s: float, slow_rad_s: float) -> float:
    """Return the delay of torques relative to positions [s], accurate to about 10 ms; positive if torques are late.

    Args:
        model: the arm.
        parts: states and torques of recordings or of parts of them.
        grid_s: time between states [s].
        slow_rad_s: speed below which the states of a joint are ignored [rad/s].
    """
    used = parts[:: -(-len(parts) // MOST_PARTS)]
    coarse = np.arange(EARLIEST_S, LONGEST_S + COARSE_S, COARSE_S)
    first = float(coarse[np.argmin(_costs(model, used, coarse, grid_s, slow_rad_s))])
    near = first + np.arange(-COARSE_S, COARSE_S + 0.5 * FINE_S, FINE_S)
    return lowest(_costs(model, used, near, grid_s, slow_rad_s), near)


def _costs(
    model: ArmModel, parts: Sequence[FineStates], delays: FloatArray, grid_s: float, slow_rad_s: float
) -> FloatArray:
    """Return the logarithm of squared torque error over squared torque at each delay, summed over the joints, (K,).

    The error is the residual of each joint's delayed torques after a fit of the model with Coulomb friction.

    Args:
        model: the arm.
        parts: states and torques of recordings.
        delays: candidate delays of torques relative to positions, (K,) [s].
        grid_s: time between states [s].
        slow_rad_s: speed below which the states of a joint are ignored [rad/s].
    """
    size, rows = len(model.names) + 1 + len(delays), []
    for part in (one for whole in parts for one in _covered(whole, delays, grid_s)):
        time = grid_s * np.arange(len(part.q))
        spline = scipy.interpolate.make_interp_spline(time, part.tau, k=3)
        tau = np.stack([spline(np.clip(time + one, 0.0, time[-1])) for one in delays], axis=2)
        W = model.regressor(part.q, part.dq, part.ddq)
        columns = np.concatenate([W, np.sign(part.dq)[..., None], tau], axis=2)
        rows.append(part.low_pass(columns * (np.abs(part.dq) > slow_rad_s)[..., None]))
    costs = np.zeros(len(delays))
    whole = np.concatenate(rows) if rows else np.zeros((0, model.axes, size))
    for i in range(model.axes):
        R = triangle([whole[:, i]])
        A, b = R[:, : -len(delays)], R[:, -len(delays) :]
        moved = np.linalg.norm(A, axis=0) > 0.0
        if moved.any() and b.any():
            A = A[:, moved] / np.linalg.norm(A[:, moved], axis=0)
            left = b - A @ np.linalg.lstsq(A, b, rcond=1e-9)[0]
            costs += np.log(np.maximum((left**2).sum(axis=0) / (b**2).sum(axis=0), 1e-12))
    return costs


def _covered(part: FineStates, delays: FloatArray, grid_s: float) -> tuple[FineStates, ...]:
    """Return the samples of a part of a recording that have recorded torques at every candidate delay.

    Args:
        part: states and torques of the part.
        delays: candidate delays, (K,) [s].
        grid_s: time between states [s].
    """
    early, late = (round(max(0.0, one) / grid_s) for one in (-float(delays.min()), float(delays.max())))
    reach = 0 if part.kernel is None else len(part.kernel) // 2
    inside = (part.nodes >= early + reach) & (part.nodes < len(part.q) - late - reach)
    return chosen([part], inside)
