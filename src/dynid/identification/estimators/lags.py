"""What lags in a recording: positions behind gears with play, and torques behind positions.

Both look alike at reversals, and so does friction that builds up over some milliradians after each of them. So they are
estimated at once, by linear least squares at a fit of friction: half the play of every joint (`play`), a delay of every
joint's torques, and friction that is not yet whole. Play and friction of that kind stay within what gears have, by
priors. Deviations hold for residuals that are correlated and of several sizes (`uncertainty`).

Stamps are late for all joints alike, friction that no law holds by another time at each, and the more, the more of a
joint's torque is friction. So the delay is what the joints have in common, with the deviation of random effects
(DerSimonian and Laird 1986), after each joint's deviation is widened by `UNSURE_S` times friction over links.
"""

from dataclasses import dataclass

import numpy as np

from dynid.identification.data.fine_states import FineStates, grid_step_s
from dynid.identification.estimators.discrepancy import friction_functions
from dynid.identification.estimators.gear_fit import GearFit, GearFitter
from dynid.identification.estimators.gear_rows import GearRows
from dynid.identification.estimators.play import PRIOR_RAD, FoundPlay, play_columns
from dynid.identification.estimators.uncertainty import correlation_factor, whole_covariance
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

PRIOR_DELAY_S = 5e-3  # deviation of the delay of a recording of which nothing is stated
BUILT_UP = (0.005, 0.03)  # rad or m, over which friction builds up after a reversal
PRIOR_BUILT_UP = 0.3  # deviation of that friction, over the joint's torque
PRIOR_OTHER = 3.0  # deviation of friction that no law holds, over the residual's
UNSURE_S = 1.5e-3  # by which a joint's torques look early or late, where friction is as large as the links' torques
UNLIKE = 0.3  # of the play that gears of one arm have in common: by which they differ, at least
RIDGE = 1e-9  # of a column's squares: what no column tells apart stays as it is


@dataclass(frozen=True, eq=False)
class FoundDelay:
    """By how much all torques lag behind positions.

    Attributes:
        value, deviation: of the delay [s].
        column: torques of sliding states per second of it, (N, n) [N m/s].
    """

    value: float
    deviation: float
    column: FloatArray

    @property
    def remaining(self) -> float:
        """Root mean square of the delay that a recording has, given what was found and `PRIOR_DELAY_S` [s]."""
        share = PRIOR_DELAY_S**2 / (PRIOR_DELAY_S**2 + self.deviation**2)
        return float(np.sqrt(share * self.deviation**2 + (share * self.value) ** 2))

    @property
    def effects(self) -> FloatArray:
        """Torques of a delay of this size, (N, n, 1) [N m]."""
        return (self.column * self.remaining)[..., None]


def find_lags(fitter: GearFitter, fit: GearFit) -> tuple[FoundPlay, FoundDelay]:
    """Estimate play and delay beside all that is fitted, each axis in units of its deviation."""
    rows, n = fitter.rows, fitter.rows.model.axes
    residual = fit.target - fit.columns @ fit.theta
    weights = fitter.trust / fitter.sigma(residual)
    D, (late, dry) = play_columns(rows, fit), _late_columns(rows, fit)
    more = _building_up(rows)
    other, _ = friction_functions(rows.samples.dq, rows.target - residual, weights, fitter.transition_rad_s)
    whole = np.concatenate([fit.columns, D, late, more, other], axis=2)
    size = fit.columns.shape[2]
    known = np.repeat(
        [np.inf, PRIOR_RAD, PRIOR_DELAY_S, PRIOR_BUILT_UP, PRIOR_OTHER], [size, n, n, more.shape[2], other.shape[2]]
    )
    values, covariance = _estimated(whole * weights[..., None], residual * weights, known, rows)
    play, delay = slice(size, size + n), slice(size + n, size + 2 * n)
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    common, its = in_common(values[delay], np.hypot(deviations[delay], UNSURE_S * dry))
    return FoundPlay(*pooled(values[play], deviations[play]), D), FoundDelay(common, its, late.sum(axis=2))


def _estimated(
    columns: FloatArray, residual: FloatArray, known: FloatArray, rows: GearRows
) -> tuple[FloatArray, FloatArray]:
    """Factors (k,) of weighted columns (N, n, k) that fit a residual (N, n), with priors, and their covariance."""
    X = columns.reshape(-1, columns.shape[2])
    variance = float(np.mean(residual**2)) * correlation_factor(residual)
    normal = X.T @ X
    normal[np.diag_indices_from(normal)] *= 1.0 + RIDGE
    normal[np.diag_indices_from(normal)] += variance / known**2 + np.finfo(float).tiny
    values = np.linalg.pinv(normal, hermitian=True) @ (X.T @ residual.ravel())
    left = residual - columns @ values
    return values, whole_covariance(columns, left, known, rows.samples.settings.interval_s)


def in_common(values: FloatArray, deviations: FloatArray) -> tuple[float, float]:
    """Return what estimates (n,) have in common, and its deviation, where they differ by more than their own."""
    weights = 1.0 / (deviations**2 + variance_between(values, deviations))
    return float(weights @ values / weights.sum()), float(weights.sum() ** -0.5)


def variance_between(values: FloatArray, deviations: FloatArray) -> float:
    """Return the variance of true values that the scatter of estimates (n,) leaves over."""
    own = 1.0 / np.maximum(deviations, np.finfo(float).tiny) ** 2
    total = float(own.sum())
    scatter = float(own @ (values - own @ values / total) ** 2) - (len(values) - 1)
    room = total - float((own**2).sum()) / total
    return max(0.0, scatter / room) if room > 0.0 else 0.0


def pooled(values: FloatArray, deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return estimates (n,) of joints and their deviations, given that gears of one arm are alike.

    A joint that hardly shows its play has that of the others, within what they differ by, and at least `UNLIKE`.
    """
    common, its = in_common(values, deviations)
    between = max(variance_between(values, deviations), (UNLIKE * common) ** 2)
    share = between / (between + np.maximum(deviations, np.finfo(float).tiny) ** 2)
    spread = np.sqrt(share * deviations**2 + ((1.0 - share) * its) ** 2)
    return np.asarray(common + share * (values - common)), np.asarray(spread)


def _late_columns(rows: GearRows, fit: GearFit) -> tuple[FloatArray, FloatArray]:
    """Torques of sliding states per second of each axis's delay, (N, n, n) [N m/s], and friction over links, (n,).

    Of the torques of links alone, for friction may be late by itself.
    """
    model, samples, point = rows.model, rows.samples, fit.point
    phi, found, links = BaseParameters(model.names, point.phi), [], []
    for states in samples.fine:
        step = grid_step_s(samples.settings.interval_s, states)
        torque = model.inverse_dynamics(states.q, states.dq, states.ddq, phi)
        found.append(-np.gradient(torque, step, axis=0)[..., None] * np.eye(model.axes))
        links.append(torque)
    whole, measured = np.concatenate(links), np.concatenate([one.tau for one in samples.fine])
    size = np.maximum(np.std(whole, axis=0), np.finfo(float).tiny)
    return rows.sliding(found), np.std(measured - whole, axis=0) / size


def _building_up(rows: GearRows) -> FloatArray:
    """Torques of friction that is not yet whole after a reversal, as large as the joint's own, (N, n, 2 n) [N m]."""
    size = np.sqrt(np.mean(rows.target**2, axis=0))
    found = []
    for states in rows.samples.fine:
        gone = distance_since_reversal(states)
        missing = [np.sign(states.dq) * np.exp(-gone / one) * size for one in BUILT_UP]
        found.append(np.concatenate([one[..., None] * np.eye(len(size)) for one in missing], axis=2))
    return rows.sliding(found)


def distance_since_reversal(states: FineStates) -> FloatArray:
    """Return how far each joint is from where it last reversed, or from the start, (M, n) [rad or m]."""
    q, forward = states.q, states.dq > 0.0
    turned = np.vstack([np.ones((1, q.shape[1]), dtype=bool), forward[1:] != forward[:-1]])
    last = np.maximum.accumulate(np.where(turned, np.arange(len(q))[:, None], 0), axis=0)
    return np.asarray(np.abs(q - np.take_along_axis(q, last, axis=0)))
