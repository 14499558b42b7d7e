"""Covariances of estimates whose residuals are correlated and differ in size, and whose model is incomplete.

After a low-pass, neighbouring samples carry almost the same information, and unmodelled friction lasts as long as a
joint moves in one direction. Treating residuals as independent makes standard deviations several times too small. The
sandwich

    cov(phi) = A^-1 S A^-1,    A = sum_k X_k' X_k,    S = sum_kl b(k - l) s_k s_l',    s_k = X_k' e_k

uses the actual residuals e_k of sample k and its regressor rows X_k. It accounts for residuals that differ in size
between axes, that are correlated between axes, and that are correlated in time up to `MEMORY_S`, with Bartlett's
weights b (Newey and West 1987). Sums of scores over sliding windows of length `MEMORY_S` are equivalent to Bartlett's
weights, and are computed instead. In short recordings, the windows are shorter.

A fit adapts to its own data. So residuals are smaller than errors, above all if few samples excite a parameter.
Therefore the residuals e_w of a window w are first multiplied by (I - X_w A^-1 X_w')^-1/2, which makes S unbiased if
errors are white (CR2, Bell and McCaffrey 2002). The window's score s_w = X_w' e_w thus becomes (I - X_w' X_w A^-1)^-1/2
s_w. If few windows excite a parameter, its confidence intervals follow Student's distribution. Its degrees of freedom
are 3/2 of the number of windows (Priestley 1981). Windows that hardly excite the parameter should not count fully, so
(sum q)^2 / sum q^2 takes the place of the number of windows, where q are the contributions of the windows to the
variance. Users multiply standard deviations by factors of the normal distribution. So the standard deviations are
increased by the ratio of the quantiles of both distributions, which makes 90 % confidence intervals correct.

Errors that repeat in every motion, such as those from backlash, are not noise: the fitted parameters absorb them, and
residuals hardly show them. The torques of such effects are modelled as Z u with u ~ N(0, 1); the columns of Z are the
torques of each effect at its standard deviation. They add A^-1 X' Z Z' X A^-1 to the covariance. This increases the
standard deviations of parameters whose torques resemble those of an effect. The standard deviations of the effects are
estimated from the data, see `play` and `discrepancy`.
"""

import numpy as np
from scipy.special import ndtri, stdtrit

from dynid.robot import FloatArray

MEMORY_S = 1.0  # time after which residuals are uncorrelated [s]
MOST_LAGS = 25  # largest lag in samples over which a correlation time is summed
HOPS = 4  # overlapping windows per length of one window
SERIES = 16  # terms of (1 - h)^-1/2: exact to 1e-4 up to a leverage h of 0.5, beyond it they bound the correction
LEVEL = 0.95  # one-sided probability at which the quantiles of Student's and the normal distribution are compared
LEAST_FREEDOM = 3.0  # fewest degrees of freedom of Student's distribution: fewer windows do not determine a deviation
FEWEST_WINDOWS = 8  # fewest windows for S: in short recordings, windows are shorter than MEMORY_S


def window_width(count: int, interval_s: float) -> int:
    """Return the number of samples in a time window of length `MEMORY_S`, or fewer in short recordings.

    The window is shortened if `count` samples, `interval_s` apart, would give fewer than `FEWEST_WINDOWS` windows.
    """
    return min(max(1, round(MEMORY_S / interval_s)), max(1, count // FEWEST_WINDOWS))


def degrees_of_freedom(count: int, interval_s: float) -> float:
    """Return the degrees of freedom of a variance estimated from correlated samples.

    The number is 3/2 of the number of time windows (Priestley 1981), but not less than `LEAST_FREEDOM`.

    Args:
        count: number of samples.
        interval_s: time between samples [s].
    """
    return max(LEAST_FREEDOM, 1.5 * count / window_width(count, interval_s))


def score_covariance(scores: FloatArray, interval_s: float) -> FloatArray:
    """Return the covariance S (p, p) of the sum of all samples' scores.

    S is computed from sums of scores in a window that slides along the samples. This is equivalent to Bartlett's
    weights, and makes S positive semidefinite. The scores of a fit add up to zero, so the sums are too small; S is
    multiplied by a correction factor.

    Args:
        scores: scores X_k' e_k (regressor columns times residual) of successive samples, (N, p).
        interval_s: time between samples [s].
    """
    count, width = len(scores), window_width(len(scores), interval_s)
    silent = np.zeros((width, scores.shape[1]))
    sums = np.cumsum(np.concatenate([silent, scores, silent]), axis=0)
    windows = sums[width:] - sums[:-width]
    return np.asarray(windows.T @ windows / width * (count / (count - width + 1)))


def noise_covariance(columns: FloatArray, residual: FloatArray, inverse: FloatArray, interval_s: float) -> FloatArray:
    """Return the covariance (p, p) of least-squares parameters due to noise, A^-1 S A^-1, corrected for leverage.

    S is the covariance of the scores, estimated from windows of time.

    Args:
        columns: weighted regressor columns of samples `interval_s` apart, (N, n, p).
        residual: weighted residual of the fit, (N, n).
        inverse: inverse A^-1 (p, p) of the normal matrix of the columns, including the prior.
        interval_s: time between samples [s].
    """
    count, size = len(columns), columns.shape[2]
    width = window_width(count, interval_s)
    hop = max(1, width // HOPS)
    reach = max(1, round(width / hop))
    rows = [(columns[k : k + hop].reshape(-1, size), residual[k : k + hop].ravel()) for k in range(0, count, hop)]
    pieces = [(own.T @ own, own.T @ left) for own, left in rows]
    S, added, squared = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for last in range(len(pieces) + reach - 1):
        window = pieces[max(last - reach + 1, 0) : last + 1]
        share, score = sum(one for one, _ in window) @ inverse, np.sum([one for _, one in window], axis=0)
        corrected = _less_leverage(share, score)
        S += np.outer(corrected, corrected)
        shown = np.einsum("ij,ji->i", inverse, share)
        added, squared = added + shown, squared + shown**2
    freedom = 1.5 / reach * added**2 / np.maximum(squared, np.finfo(float).tiny)
    wider = stdtrit(np.maximum(freedom, LEAST_FREEDOM), LEVEL) / ndtri(LEVEL)
    return np.asarray(inverse @ (S / reach) @ inverse * np.outer(wider, wider))


def _less_leverage(share: FloatArray, score: FloatArray) -> FloatArray:
    """Return (I - share)^-1/2 score, (p,), by a power series: the score of a window, corrected for leverage.

    Args:
        share: X_w' X_w A^-1 (p, p), the contribution of the window to the normal matrix A, relative to A.
        score: score of the window, (p,).
    """
    term = total = score
    for k in range(1, SERIES):
        term = (2 * k - 1) / (2 * k) * share @ term
        total = total + term
    return total


def sandwich(inverse: FloatArray, scores: FloatArray, interval_s: float, freedom: float) -> FloatArray:
    """Return the covariance (p, p) of least-squares parameters, from the scores of correlated samples.

    Args:
        inverse: inverse A^-1 (p, p) of the normal matrix.
        scores: scores X_k' e_k (regressor columns times residual) of successive samples, (N, p).
        interval_s: time between samples [s].
        freedom: ratio of the number of equations to the degrees of freedom of the residual, at least 1.
    """
    return np.asarray(freedom * inverse @ score_covariance(scores, interval_s) @ inverse)


def whole_covariance(
    columns: FloatArray,
    residual: FloatArray,
    known: FloatArray,
    interval_s: float,
    inflation: float = 1.0,
    effects: FloatArray | None = None,
) -> FloatArray:
    """Return the covariance (p, p) of least-squares parameters due to noise, prior, and unmodelled effects.

    Unmodelled effects are torques without a parameter that repeat in every motion, such as those of backlash.

    Args:
        columns: weighted regressor columns of all uncertain parameters, (N, n, p).
        residual: weighted residual of samples `interval_s` apart, (N, n).
        known: prior standard deviations of the parameters, (p,); infinite without a prior.
        interval_s: time between samples [s].
        inflation: factor by which the inverse normal matrix is multiplied; 1 for least squares.
        effects: weighted torques (N, n, k) of k unmodelled effects at their likely sizes (standard deviations); None if
            there are none.
    """
    stacked = columns.reshape(-1, columns.shape[2])
    # variance of residuals, increased because correlated neighbours carry less information than independent samples
    variance = float(np.mean(residual**2)) * correlation_factor(residual)
    scale = unit_scale(stacked, variance, known)
    prior = variance / (known * scale) ** 2
    normal = (stacked / scale).T @ (stacked / scale) + np.diag(prior)
    plain: FloatArray = np.asarray(np.linalg.pinv(normal, rcond=1e-12, hermitian=True), dtype=np.float64)
    inverse = inflation * plain
    meat = variance * np.diag(prior)
    if effects is not None:
        biases = (stacked / scale).T @ effects.reshape(len(stacked), -1)
        meat += biases @ biases.T
    noise = inflation**2 * noise_covariance(columns / scale, residual, plain, interval_s)
    return np.asarray((noise + inverse @ meat @ inverse) / np.outer(scale, scale))


def unit_scale(columns: FloatArray, variance: float, known: FloatArray) -> FloatArray:
    """Return a divisor of each column, (p,), so that the normal matrix including the prior has a unit diagonal.

    If columns were divided by their lengths alone, the prior would give a column near zero a diagonal entry so large
    that a pseudo-inverse would drop all other entries as rounding errors.

    Args:
        columns: the columns, (N, p).
        variance: variance of the residuals.
        known: prior standard deviations of the parameters, (p,).
    """
    scale = np.sqrt(np.einsum("kp,kp->p", columns, columns) + variance / known**2)
    return np.asarray(np.where(scale > 0.0, scale, 1.0))


def correlation_factor(residual: FloatArray) -> float:
    """Return the factor by which correlation of the residuals (N, n) in time increases the variance of their mean."""
    total, factor = float(np.sum(residual**2)), 1.0
    if not total:
        return factor
    for lag in range(1, min(MOST_LAGS, len(residual) - 1)):
        share = float(np.sum(residual[lag:] * residual[:-lag])) / total
        if share <= 0.0:
            break
        factor += 2.0 * share
    return factor
