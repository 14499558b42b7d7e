"""How much estimates may be off, where residuals are neither independent nor of one size.

Behind a low-pass neighbouring samples say almost the same, and what is left of friction lasts as long as a joint moves
one way; taking residuals for independent makes standard deviations several times too small. The sandwich

    cov(phi) = A^-1 S A^-1,    A = sum_k X_k' X_k,    S = sum_kl b(k - l) s_k s_l',    s_k = X_k' e_k

takes them as they are: axes of different size, and correlated over `MEMORY_S` with Bartlett's weights b (Newey and
West 1987). The correlation between axes is in it too.
"""

import numpy as np

from dynid.robot import FloatArray

MEMORY_S = 1.0  # residuals farther apart say nothing of each other
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
