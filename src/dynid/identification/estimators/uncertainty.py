"""How much estimates may be off, where residuals are neither independent nor of one size, and the model is not all.

Behind a low-pass neighbouring samples say almost the same, and what is left of friction lasts as long as a joint moves
one way; taking residuals for independent makes standard deviations several times too small. The sandwich

    cov(phi) = A^-1 S A^-1,    A = sum_k X_k' X_k,    S = sum_kl b(k - l) s_k s_l',    s_k = X_k' e_k

takes them as they are: axes of different size, and correlated over `MEMORY_S` with Bartlett's weights b (Newey and
West 1987). The correlation between axes is in it too. Bartlett's weights are those of sums over sliding windows.

A fit bends to the data that it is from, so residuals are smaller than errors, most of all where few samples show a
parameter. So the residuals e_w of a window are multiplied by (I - X_w A^-1 X_w')^-1/2 first, which makes S unbiased if
errors are white (CR2, Bell and McCaffrey 2002): the window's scores become (I - X_w' X_w A^-1)^-1/2 s_w. And few
windows show a parameter, so intervals have Student's distribution: with 3/2 of their number (Priestley 1981) as degrees
of freedom, counted as (sum q)^2 / sum q^2 of the variances q that they add. Deviations are widened so that intervals of
90 % hold as if errors were normal.

What repeats itself in every motion is no noise: the fit takes it up, and residuals show little of it. Torques Z u of
known nuisances with u ~ N(0, 1) beside the columns, `effects`, add A^-1 X' Z Z' X A^-1, so they widen just those
parameters that they can be mistaken for. Their sizes come from the data, see `play` and `discrepancy`.
"""

import numpy as np
from scipy.special import ndtri, stdtrit

from dynid.robot import FloatArray

MEMORY_S = 1.0  # residuals farther apart say nothing of each other
MOST_LAGS = 25  # of samples, over which a correlation time is summed at most
HOPS = 4  # windows overlap: so many begin within the length of one
SERIES = 16  # terms of (1 - h)^-1/2: exact to 1e-4 up to a leverage h of 0.5, beyond it they bound the correction
LEVEL = 0.95  # of one side: the quantile at which Student's and the normal distribution are compared
LEAST_FREEDOM = 3.0  # of Student's distribution: fewer windows that show a parameter are no base for its deviation
FEWEST_WINDOWS = 8  # shorter recordings are taken to forget sooner: S needs some windows


def window_width(count: int, interval_s: float) -> int:
    """Return how many of `count` samples a window of `MEMORY_S` holds; no more than leave some windows."""
    return min(max(1, round(MEMORY_S / interval_s)), max(1, count // FEWEST_WINDOWS))


def degrees_of_freedom(count: int, interval_s: float) -> float:
    """Return those of a variance from the windows of `count` samples: 3/2 of their number (Priestley 1981)."""
    return max(LEAST_FREEDOM, 1.5 * count / window_width(count, interval_s))


def score_covariance(scores: FloatArray, interval_s: float) -> FloatArray:
    """S, (p, p), of the scores s_k (N, p) of samples `interval_s` apart.

    Bartlett's weights are those of sums over a window that slides over the samples, which makes S positive
    semidefinite. The scores of a fit add up to nothing, so window sums are smaller than those of errors would be.
    """
    count, width = len(scores), window_width(len(scores), interval_s)
    silent = np.zeros((width, scores.shape[1]))
    sums = np.cumsum(np.concatenate([silent, scores, silent]), axis=0)
    windows = sums[width:] - sums[:-width]
    return np.asarray(windows.T @ windows / width * (count / (count - width + 1)))


def noise_covariance(columns: FloatArray, residual: FloatArray, inverse: FloatArray, interval_s: float) -> FloatArray:
    """Return A^-1 S A^-1 (p, p) of weighted columns (N, n, p) and the residual (N, n), corrected for leverage.

    Args:
        columns: of samples `interval_s` apart.
        residual: that their fit left.
        inverse: A^-1 (p, p) of the columns, with what is known beforehand.
        interval_s: from sample to sample [s].
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
    """Return (I - share)^-1/2 score, by its series."""
    term = total = score
    for k in range(1, SERIES):
        term = (2 * k - 1) / (2 * k) * share @ term
        total = total + term
    return total


def sandwich(inverse: FloatArray, scores: FloatArray, interval_s: float, freedom: float) -> FloatArray:
    """Covariance (p, p) from A^-1 (p, p) and the scores (N, p); `freedom` is equations over those left by the fit."""
    return np.asarray(freedom * inverse @ score_covariance(scores, interval_s) @ inverse)


def whole_covariance(
    columns: FloatArray,
    residual: FloatArray,
    known: FloatArray,
    interval_s: float,
    inflation: float = 1.0,
    effects: FloatArray | None = None,
) -> FloatArray:
    """Covariance (p, p) of the factors of weighted columns (N, n, p) whose fit leaves a weighted residual (N, n).

    Args:
        columns: of all that is open.
        residual: of samples `interval_s` apart.
        known: standard deviations of what is known of the factors beforehand, (p,); infinite: nothing.
        interval_s: from sample to sample [s].
        inflation: of the inverse normal matrix.
        effects: weighted torques (N, n, k) of nuisances beside the columns, each times its factor's deviation.
    """
    stacked = columns.reshape(-1, columns.shape[2])
    # in units of the residual's variance; neighbours being correlated, a sample says less than it would alone
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
    """Sizes (p,) of columns (N, p) that give their normal matrix, with what is known beforehand, a diagonal of ones.

    Of a column that is nearly nothing, what is known is all there is. By its length alone, its entry would be so large
    that all others were rounding beside it, and a pseudo-inverse leaves rounding out.
    """
    scale = np.sqrt(np.einsum("kp,kp->p", columns, columns) + variance / known**2)
    return np.asarray(np.where(scale > 0.0, scale, 1.0))


def correlation_factor(residual: FloatArray) -> float:
    """By how much the variance of a mean is above that of independent residuals (N, n): twice the correlation time."""
    total, factor = float(np.sum(residual**2)), 1.0
    if not total:
        return factor
    for lag in range(1, min(MOST_LAGS, len(residual) - 1)):
        share = float(np.sum(residual[lag:] * residual[:-lag])) / total
        if share <= 0.0:
            break
        factor += 2.0 * share
    return factor
