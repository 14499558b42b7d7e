"""How much estimates may be off, where residuals are neither independent nor of one size, and the model is not all.

Behind a low-pass neighbouring samples say almost the same, and what is left of friction lasts as long as a joint moves
one way; taking residuals for independent makes standard deviations several times too small. The sandwich

    cov(phi) = A^-1 S A^-1,    A = sum_k X_k' X_k,    S = sum_kl b(k - l) s_k s_l',    s_k = X_k' e_k

takes them as they are: axes of different size, and correlated over `MEMORY_S` with Bartlett's weights b (Newey and
West 1987). The correlation between axes is in it too.

What repeats itself in every motion is no noise: the fit takes it up, and residuals show little of it. Torques Z u of
known nuisances with u ~ N(0, 1) beside the columns, `effects`, add A^-1 X' Z Z' X A^-1, so they widen just those
parameters that they can be mistaken for. Their sizes come from the data, see `play` and `discrepancy`.
"""

import numpy as np

from dynid.robot import FloatArray

MEMORY_S = 1.0  # residuals farther apart say nothing of each other
MOST_LAGS = 25  # of samples, over which a correlation time is summed at most
FEWEST_WINDOWS = 8  # shorter recordings are taken to forget sooner: S needs some windows


def score_covariance(scores: FloatArray, interval_s: float) -> FloatArray:
    """S, (p, p), of the scores s_k (N, p) of samples `interval_s` apart.

    Bartlett's weights are those of sums over a window that slides over the samples, which makes S positive
    semidefinite. The scores of a fit add up to nothing, so window sums are smaller than those of errors would be.
    """
    count = len(scores)
    width = min(max(1, round(MEMORY_S / interval_s)), max(1, count // FEWEST_WINDOWS))
    silent = np.zeros((width, scores.shape[1]))
    sums = np.cumsum(np.concatenate([silent, scores, silent]), axis=0)
    windows = sums[width:] - sums[:-width]
    return np.asarray(windows.T @ windows / width * (count / (count - width + 1)))


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
    scores = np.einsum("knp,kn->kp", columns, residual) / scale
    prior = variance / (known * scale) ** 2
    normal = (stacked / scale).T @ (stacked / scale) + np.diag(prior)
    inverse = inflation * np.linalg.pinv(normal, rcond=1e-12, hermitian=True)
    meat = score_covariance(scores, interval_s) + variance * np.diag(prior)
    if effects is not None:
        biases = (stacked / scale).T @ effects.reshape(len(stacked), -1)
        meat += biases @ biases.T
    found = inverse @ meat @ inverse
    return np.asarray(found / np.outer(scale, scale))


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
