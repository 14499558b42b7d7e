"""Autocovariance of the noise in a fit, estimated from the residual of the fit.

A fit of many columns to few rows absorbs most of the noise, and most of all the slow noise, which its columns resemble.
So the spectrum of the residual is too small at the frequencies of the columns. The fit may leave out rows. Let B be an
orthonormal basis of the columns, D the diagonal matrix with 1 for fitted rows and 0 for rows that are left out, and
P = D - B B'. The noise e is a sum of stationary components b with unknown variances p_b and known correlations k_b. So
its autocovariance is sum_b p_b k_b(lag). The residual of the fit is r = P e, and

    E[r' K_b r] = sum_c tr(K_b P K_c P) p_c,    K_b[i, j] = k_b(i - j).

This is one equation for each component b. It is divided by the square root of tr(K_b P K_b P), its coefficient of p_b.
On the left side, the value for the observed r replaces the expectation. The equations are then solved for the variances
by least squares with p_b >= 0. The components are white noise and noise with the correlation times `CORRELATION_S`.
MINQUE estimates components of variance in the same way (C. R. Rao, J. Multivariate Analysis 1, 1971). Components that
the fit absorbs completely are left out.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import matmul_toeplitz

from dynid.nonnegative import nonnegative_least_squares
from dynid.robot import FloatArray

CORRELATION_S = (0.0, 0.1, 0.3, 1.0)  # correlation times of the components of noise; 0 is white [s]
ROUNDING = 1e-12  # share of a component that a fit leaves, below which it is rounding


@dataclass(frozen=True, eq=False)
class StationaryNoise:
    """Stationary noise of the rows of a fit, as a sum of components with different correlation times.

    Attributes:
        variances: variances of the components, (c,) [squared unit of the rows]. A component is omitted if the fitted
            columns reproduce it completely, because the residual then does not show it.
        kernels: correlation of each component as a function of the lag, 0 to N - 1 samples, (c, N) [-].
    """

    variances: FloatArray
    kernels: FloatArray

    @classmethod
    def of(cls, residual: FloatArray, basis: FloatArray, counts: FloatArray, interval_s: float) -> "StationaryNoise":
        """Return the stationary noise that explains the residual of a fit.

        Args:
            residual: residual, (N,), zero in rows that are not used.
            basis: orthonormal basis of the fitted columns, (N, k), zero in rows that are not used.
            counts: 1 for each used row, else 0, (N,).
            interval_s: time between rows [s].
        """
        kernels = np.array([_correlation(one, len(residual), interval_s) for one in CORRELATION_S])
        pairs = _pairs(counts)
        smooth = np.array([matmul_toeplitz(one, basis) for one in kernels])
        inner = np.einsum("nk,cnl->ckl", basis, smooth)
        matrix = np.einsum("bn,cn,n->bc", kernels, kernels, pairs)
        rounding = ROUNDING * np.diag(matrix)
        matrix -= 2.0 * np.einsum("n,bnk,cnk->bc", counts, smooth, smooth)
        matrix += np.einsum("bkl,ckl->bc", inner, inner)
        seen = np.array([residual @ matmul_toeplitz(one, residual) for one in kernels])
        left = np.diag(matrix) > rounding
        scale = np.sqrt(np.diag(matrix)[left])
        rows = matrix[np.ix_(left, left)] / scale[:, None]
        return cls(nonnegative_least_squares(rows, seen[left] / scale), kernels[left])

    def covariance(self, columns: FloatArray) -> FloatArray:
        """Return the covariance (k, k) of the vector C' e, for the noise e (N,) of the rows.

        Args:
            columns: matrix C, (N, k), any unit.
        """
        kernel = self.variances @ self.kernels
        return np.asarray(columns.T @ matmul_toeplitz(kernel, columns))


def _pairs(counts: FloatArray) -> FloatArray:
    """Return the number of ordered pairs of used rows for each lag, (N,); `counts` (N,) is 1 for used rows, else 0."""
    spectrum = np.fft.rfft(counts, 2 * len(counts))
    pairs = np.fft.irfft(np.abs(spectrum) ** 2)[: len(counts)].round()
    pairs[1:] *= 2.0
    return np.asarray(pairs)


def _correlation(time_s: float, count: int, interval_s: float) -> FloatArray:
    """Return the correlation of one noise component by lag, (count,) [-].

    Args:
        time_s: correlation time of the component [s]; 0 for white noise.
        count: number of lags.
        interval_s: time between rows, the step of the lags [s].
    """
    lags = np.arange(count, dtype=float)
    return np.exp(-lags * interval_s / time_s) if time_s else (lags == 0.0).astype(float)
