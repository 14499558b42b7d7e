"""Estimation of backlash between joints and encoders, and of the delay of torques behind positions.

Backlash and delay have similar effects at reversals. Friction that builds up over some milliradians after each reversal
has a similar effect, too. So these unknowns are estimated together, by linear least squares: half the backlash of every
joint (`play`), a delay of every joint's torques, friction that builds up, and other friction that the friction law
lacks (`discrepancy`). The torques are linearised at a fit of friction. Priors limit backlash and the friction that
builds up to the range of real gears. The standard deviations account for residuals that are correlated and differ in
size (`uncertainty`).

A true delay is the same for all joints. Friction that the friction law lacks looks like a delay that differs from joint
to joint, and grows with the ratio of the joint's friction to its link torque. So the variance of each joint's delay is
first increased by the square of `UNSURE_S` times this ratio. The delay is then the common part of the joints' delays,
with the standard deviation of a random-effects model (DerSimonian and Laird 1986).
"""

from dataclasses import dataclass

import numpy as np

from dynid.identification.data.fine_states import FineStates, grid_step_s
from dynid.identification.data.zero_phase import butterworth_sections, filtered_both_ways
from dynid.identification.estimators.discrepancy import friction_functions
from dynid.identification.estimators.gear_fit import GearFit, GearFitter
from dynid.identification.estimators.gear_rows import GearRows
from dynid.identification.estimators.play import PRIOR_RAD, FoundPlay, play_columns
from dynid.identification.estimators.uncertainty import correlation_factor, whole_covariance
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

STILL = 1e-9  # largest residual of an axis without rows, relative to the largest residual of all axes
PRIOR_DELAY_S = 5e-3  # prior standard deviation of a recording's delay [s]
BUILT_UP = (0.005, 0.03)  # distances over which friction builds up after a reversal [rad or m]
PRIOR_BUILT_UP = 0.3  # prior standard deviation of that friction, relative to the joint's torque
PRIOR_OTHER = 3.0  # prior standard deviation of friction outside the law, relative to the residual's
UNSURE_S = 1.5e-3  # error of a joint's apparent delay if friction is as large as the links' torques [s]
UNLIKE = 0.3  # smallest assumed scatter of backlash between joints, relative to the mean
SLOW_SHARE = 0.25  # cut-off frequency of the torques' derivative, relative to that of the rows
RIDGE = 1e-9  # relative ridge: inseparable columns keep small factors
LEAST_DEVIATION = 1e-9  # floor of deviations, far below any real one [s, or rad, m]; keeps weights finite


@dataclass(frozen=True, eq=False)
class FoundDelay:
    """Estimated delay of all recorded torques behind the recorded positions, the same for all joints.

    Attributes:
        value: the delay [s]; positive if torques are recorded later than the positions that belong to them.
        deviation: standard deviation of the delay [s].
        column: derivative of the torques by the delay, (N, n) [N m/s]; states near standstill are masked.
    """

    value: float
    deviation: float
    column: FloatArray

    @property
    def remaining(self) -> float:
        """Likely size (root mean square) of the delay [s]; the torques are not corrected for it.

        The mean square is taken over the posterior distribution of the delay. The prior has mean zero and the standard
        deviation `PRIOR_DELAY_S`.
        """
        share = PRIOR_DELAY_S**2 / (PRIOR_DELAY_S**2 + self.deviation**2)
        return float(np.sqrt(share * self.deviation**2 + (share * self.value) ** 2))

    @property
    def effects(self) -> FloatArray:
        """Change of the torques by a delay as large as `remaining`, (N, n, 1) [N m]."""
        return (self.column * self.remaining)[..., None]


def find_lags(fitter: GearFitter, fit: GearFit) -> tuple[FoundPlay, FoundDelay]:
    """Return the backlash of all joints and the delay of torques, estimated from the residual of a fit.

    The fitted friction and base parameters have absorbed a part of the effects of backlash and delay. So corrections of
    these parameters are estimated together with backlash, delay, and friction that the friction law lacks. The rows of
    each axis are divided by its residual standard deviation.

    Args:
        fitter: fitter of the rows.
        fit: fit of friction and base parameters, at which the torques are linearised.
    """
    rows, n = fitter.rows, fitter.rows.model.axes
    residual = fit.target - fit.columns @ fit.theta
    sigma = fitter.sigma(residual)
    still = sigma <= STILL * np.max(sigma)  # an axis that never slides has no residual, and no weight
    weights = np.where(still, 0.0, fitter.trust / np.where(still, 1.0, sigma))
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
    """Return the factors (k,) with which regressor columns fit a residual best, and their covariance (k, k).

    Args:
        columns: weighted columns, (N, n, k).
        residual: weighted residual to which the columns are fitted, (N, n).
        known: prior standard deviations of the factors about zero, (k,).
        rows: regression rows, whose sampling interval is used.
    """
    X = columns.reshape(-1, columns.shape[2])
    variance = float(np.mean(residual**2)) * correlation_factor(residual)
    normal = X.T @ X
    normal[np.diag_indices_from(normal)] *= 1.0 + RIDGE
    normal[np.diag_indices_from(normal)] += variance / known**2 + np.finfo(float).tiny
    values = np.linalg.pinv(normal, hermitian=True) @ (X.T @ residual.ravel())
    left = residual - columns @ values
    return values, whole_covariance(columns, left, known, rows.samples.settings.interval_s)


def in_common(values: FloatArray, deviations: FloatArray) -> tuple[float, float]:
    """Return the mean of a quantity over all joints, and the mean's standard deviation.

    The quantity, such as a delay, may differ between joints. These differences increase the standard deviation.

    Args:
        values: estimate of the quantity at each joint, (n,).
        deviations: standard deviations of the estimates, (n,).
    """
    weights = 1.0 / (np.maximum(deviations, LEAST_DEVIATION) ** 2 + variance_between(values, deviations))
    return float(weights @ values / weights.sum()), float(weights.sum() ** -0.5)


def variance_between(values: FloatArray, deviations: FloatArray) -> float:
    """Return the variance between joints of the true values of a quantity, such as a delay.

    This variance is the part of the estimates' scatter that exceeds their own uncertainty.

    Args:
        values: estimate of the quantity at each joint, (n,).
        deviations: standard deviations of the estimates, (n,).
    """
    own = 1.0 / np.maximum(deviations, LEAST_DEVIATION) ** 2
    total = float(own.sum())
    scatter = float(own @ (values - own @ values / total) ** 2) - (len(values) - 1)
    room = total - float((own**2).sum()) / total
    return max(0.0, scatter / room) if room > 0.0 else 0.0


def pooled(values: FloatArray, deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return estimates of each joint's backlash (n,), shrunk towards their common mean, and standard deviations (n,).

    The gears of one arm are similar. So a joint with a poorly determined backlash gets a value near the mean of all
    joints. The standard deviation of its backlash is then the scatter between joints, assumed to be at least `UNLIKE`
    times the mean.

    Args:
        values: estimate of each joint's backlash, (n,).
        deviations: standard deviations of the estimates, (n,).
    """
    common, its = in_common(values, deviations)
    between = max(variance_between(values, deviations), (UNLIKE * common) ** 2)
    share = between / (between + np.maximum(deviations, LEAST_DEVIATION) ** 2)
    spread = np.sqrt(share * deviations**2 + ((1.0 - share) * its) ** 2)
    return np.asarray(common + share * (values - common)), np.asarray(spread)


def _late_columns(rows: GearRows, fit: GearFit) -> tuple[FloatArray, FloatArray]:
    """Return derivatives of the torques by each axis's delay, (N, n, n) [N m/s], and ratios of friction to link torque.

    The link torque is the torque of the base parameters. The ratio of each axis, (n,), is the standard deviation of
    measured minus link torque over the standard deviation of the link torque. The derivatives are those of link torques
    alone, because friction may have a delay of its own. They are low-passed, which removes fast encoder errors: a
    controller turns these errors into motor torques, too, and the correlation of both would look like a negative delay.
    States near standstill are masked.
    """
    model, samples, point = rows.model, rows.samples, fit.point
    phi, found, links = BaseParameters(model.names, point.phi), [], []
    for states in samples.fine:
        step = grid_step_s(samples.settings.interval_s, states)
        torque = model.inverse_dynamics(states.q, states.dq, states.ddq, phi)
        slow = butterworth_sections(2, SLOW_SHARE * samples.settings.cutoff_hz, 1.0 / step)
        rate = filtered_both_ways(slow, np.gradient(torque, step, axis=0))
        found.append(-rate[..., None] * np.eye(model.axes))
        links.append(torque)
    whole, measured = np.concatenate(links), np.concatenate([one.tau for one in samples.fine])
    size = np.maximum(np.std(whole, axis=0), np.finfo(float).tiny)
    return rows.sliding(found), np.std(measured - whole, axis=0) / size


def _building_up(rows: GearRows) -> FloatArray:
    """Return regressor columns of friction that builds up gradually after a reversal, (N, n, 2 n) [N m].

    A column contains the torque by which friction is still too small: sign(dq) exp(-distance / d) times the joint's rms
    torque, where the distance is that since the last reversal. Each of the two lengths d in `BUILT_UP` has a column per
    joint. States near standstill are masked.
    """
    size = np.sqrt(np.mean(rows.target**2, axis=0))
    found = []
    for states in rows.samples.fine:
        gone = distance_since_reversal(states)
        missing = [np.sign(states.dq) * np.exp(-gone / one) * size for one in BUILT_UP]
        found.append(np.concatenate([one[..., None] * np.eye(len(size)) for one in missing], axis=2))
    return rows.sliding(found)


def distance_since_reversal(states: FineStates) -> FloatArray:
    """Return each joint's distance from its last reversal, or from the start, (M, n) [rad or m]."""
    q, forward = states.q, states.dq > 0.0
    turned = np.vstack([np.ones((1, q.shape[1]), dtype=bool), forward[1:] != forward[:-1]])
    last = np.maximum.accumulate(np.where(turned, np.arange(len(q))[:, None], 0), axis=0)
    return np.asarray(np.abs(q - np.take_along_axis(q, last, axis=0)))
