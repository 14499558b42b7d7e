"""Fits of properties of an arm that change with time, from the information matrices of time windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import fdtrc

from dynid.identification.estimators.uncertainty import SERIES
from dynid.robot import FloatArray

LAGS = 2  # fewest lags in windows of Bartlett's weights: windows of `MEMORY_S` are correlated with their neighbours
SEPARATE = 1e-3  # least share of a column's squared length that the others do not reproduce
RIDGE = 1e-9  # ridge for unit columns, so that the factorisation succeeds with dependent columns
LEAST_FREEDOM = 6.0  # least degrees of freedom in the denominator of F
NEGLIGIBLE = 1e-3  # relative size of a term that ends the series of the correction for leverage
LEAST_CORRELATION = 1e-6  # least eigenvalue of a correlation matrix; smaller ones are rounding


@dataclass(frozen=True, eq=False)
class ChangeFit:
    """Least-squares fit of a property of the arm (such as a joint's friction) that changes with time.

    The property has k regressor columns, which contain the torques per unit of the property. The torques of the change
    are these columns, times a given function of time, times `values`.

    Attributes:
        values: factors of the columns, (k,).
        deviations: standard deviations of the values, (k,).
        explained: weighted squared residual that the change removes.
        by_noise: expectation of `explained` for noise alone.
        chance: probability of values this large if nothing changed.
        theta_at_start: difference (p,) between the parameters of the arm at the start of the recordings, from a fit
            that includes the change, and the parameters from a fit without the change.
        theta_at_end: the same difference for the parameters of the arm at the end of the recordings.
    """

    values: FloatArray
    deviations: FloatArray
    explained: float
    by_noise: float
    chance: float
    theta_at_start: FloatArray
    theta_at_end: FloatArray


class Information:
    """Products [X Z y]'[X Z y] of the regression rows of each time window, from which changes over time are fitted.

    X are the regressor columns of all fitted parameters. Z are those of the properties of the arm that are tested for
    changes, such as a joint's friction. y is the residual of the fit.
    """

    def __init__(self, products: FloatArray, parameters: int, lags: int = LAGS) -> None:
        """Store the products [X Z y]'[X Z y] of each time window, and factor the sum of the products X'X.

        Args:
            products: products of w windows, (w, k, k), any unit.
            parameters: number of columns X (of fitted parameters), which come first.
            lags: largest number of windows between two windows whose residuals are correlated.
        """
        self.products, self.size, self.lags = products, parameters, lags
        total = products.sum(axis=0)
        X = total[:parameters, :parameters]
        self.scale = np.sqrt(np.maximum(np.diag(X), np.finfo(float).tiny))
        scaled = X / np.outer(self.scale, self.scale)
        self.root = np.linalg.cholesky(scaled + RIDGE * np.eye(parameters))
        across = products[:, :parameters, parameters:] / self.scale[None, :, None]
        flat = across.transpose(1, 0, 2).reshape(parameters, -1)
        freed = solve_triangular(self.root, flat, lower=True)
        self.across = freed.reshape(parameters, len(products), -1).transpose(1, 0, 2)  # L^-1 X'[Z y] by windows
        self.own = products[:, parameters:, parameters:]

    def without(self, columns: Sequence[int], course: FloatArray, beside: bool) -> tuple[FloatArray, FloatArray]:
        """Return the normal equations of a change over time, after elimination of all other unknowns.

        D are the k regressor columns of a tested property, times a function of time, and y is the residual of the fit.
        Both are first projected onto the orthogonal complement of the columns of all fitted parameters. The equations
        are D'D x = D'y, with matrix D'D (..., k, k) and right-hand side D'y (..., k), any unit.

        Args:
            columns: indices of the k columns among those of all tested properties.
            course: values of one or several functions of time, one value per window, (..., w).
            beside: whether the property also has an unknown constant part, in addition to the change. D and y are then
                also projected onto the orthogonal complement of the property's columns without the function of time.
        """
        c = list(columns)
        own, target = self.own[:, c][:, :, c], self.own[:, c, -1]
        across = np.tensordot(course, self.across[:, :, c], 1)
        y = self.across[:, :, -1].sum(axis=0)
        G = np.tensordot(course**2, own, 1) - across.swapaxes(-1, -2) @ across
        b = course @ target - across.swapaxes(-1, -2) @ y
        if beside:
            constant = self.across[:, :, c].sum(axis=0)
            Z = own.sum(axis=0) - constant.T @ constant
            mixed = np.tensordot(course, own, 1) - constant.T @ across  # Z'D
            left = target.sum(axis=0) - constant.T @ y
            inverse = np.linalg.pinv(Z, rcond=SEPARATE, hermitian=True)
            removed = mixed.swapaxes(-1, -2) @ inverse
            G, b = G - removed @ mixed, b - removed @ left
        return G, b

    def explains(self, columns: Sequence[int], courses: FloatArray, beside: bool) -> FloatArray:
        """Return the squared residual that a change over time removes, (...), for each of several functions of time.

        Args:
            columns: indices of the changing property's columns among those of all tested properties.
            courses: values of each function of time, one per window, (..., w).
            beside: whether the property also has an unknown constant part, which is then eliminated.
        """
        G, b = self.without(columns, courses, beside)
        return np.asarray(np.einsum("...i,...ij,...j", b, self._inverse(G, columns, courses), b))

    def _inverse(self, G: FloatArray, columns: Sequence[int], course: FloatArray) -> FloatArray:
        """Return the pseudo-inverse of the normal matrix of a change over time, (..., k, k).

        The normal matrix is almost singular in directions that the columns of the fitted parameters reproduce. The
        pseudo-inverse is zero in these directions.

        Args:
            G: normal matrix D'D of the change, (..., k, k), as returned by `without`.
            columns: indices of the property's columns among those of all tested properties.
            course: values of the function of time, one per window, (..., w).
        """
        size = np.sqrt(np.maximum(course**2 @ self.own[:, list(columns), list(columns)], np.finfo(float).tiny))
        unit = size[..., :, None] * size[..., None, :]
        values, vectors = np.linalg.eigh(G / unit)
        kept = values > SEPARATE
        scaled = (vectors * (kept / np.where(kept, values, 1.0))[..., None, :]) @ vectors.swapaxes(-1, -2)
        return np.asarray(scaled / unit)

    def fit(self, columns: Sequence[int], course: FloatArray, beside: bool) -> ChangeFit:
        """Return the fit of a change over time, with standard deviations from the residuals in each time window.

        Args:
            columns: indices of the changing property's columns among those of all tested properties.
            course: values of the function of time, one per window, (w,).
            beside: whether the property also has an unknown constant part, which is then eliminated.
        """
        G, b = self.without(columns, course, beside)
        inverse = self._inverse(G, columns, course)
        values = inverse @ b
        S, freedom = self._spread(columns, course, beside, values, inverse)
        V = inverse @ S @ inverse
        chance = _chance(values, V, freedom)
        start = self._moved(columns, course)
        end = self._moved(columns, course - course[-1]) if beside else start
        return ChangeFit(values, np.sqrt(np.diag(V)), float(b @ values), float(np.sum(inverse * S)), chance, start, end)

    def _moved(self, columns: Sequence[int], course: FloatArray) -> FloatArray:
        """Return the shift of all fitted parameters (p,) [SI] if the fit also contains a property's change over time.

        Args:
            columns: indices of the changing property's columns among those of all tested properties.
            course: values of the function of time, one per window, (w,). The shifted parameters describe the arm at the
                times at which the function is zero.
        """
        G, b = self.without(columns, course, False)
        values = self._inverse(G, columns, course) @ b
        across = np.tensordot(course, self.across[:, :, list(columns)], 1) @ values
        return np.asarray(-solve_triangular(self.root, across, lower=True, trans="T") / self.scale)

    def _spread(
        self, columns: Sequence[int], course: FloatArray, beside: bool, values: FloatArray, inverse: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the covariance (k, k) of D'y, any unit, and the degrees of freedom of this covariance.

        D are the k regressor columns of a tested property, times a function of time, and y is the residual of the fit,
        both projected as in `without`. The results are estimated from the contributions of each time window to D'y. The
        fit adapts to its data, so these contributions are corrected for leverage.

        Args:
            columns: indices of the property's columns among those of all tested properties.
            course: values of the function of time, one per window, (w,).
            beside: whether the property also has an unknown constant part, which is then eliminated.
            values: fitted factors of D, (k,).
            inverse: inverse (k, k) of D'D.
        """
        c = [self.size + k for k in columns]
        own = [*range(self.size), *(c if beside else [])]
        total = self.products.sum(axis=0)
        N = total[np.ix_(own, own)]
        size = np.sqrt(np.maximum(np.diag(N), np.finfo(float).tiny))
        pseudo = np.linalg.pinv(N / np.outer(size, size), rcond=1e-10, hermitian=True) / np.outer(size, size)
        imitated = pseudo @ np.tensordot(course, self.products[:, own][:, :, c], 1)  # D by the other columns, (m, k)
        u = np.zeros((len(course), self.products.shape[1]))
        u[:, -1], u[:, own] = 1.0, -(pseudo @ total[own, -1] - imitated @ values)
        u[:, c] -= course[:, None] * values
        errors = np.einsum("wij,wj->wi", self.products, u)
        every, m = np.array([*own, *c]), len(own)
        products = self.products[:, every[:, None], every]
        weights = np.ones((len(course), len(every)))
        weights[:, m:] = course[:, None]
        remaining = np.concatenate([-imitated, np.eye(len(c))])  # D by all columns, after the projection

        def share(scores: FloatArray) -> FloatArray:
            """Return A_w A^-1 s_w, (w, m + k), with the products A_w of the other columns and D in each window."""
            solved = (scores @ remaining) @ inverse @ remaining.T
            solved[:, :m] += scores[:, :m] @ pseudo
            return np.asarray(weights * (products @ (weights * solved)[..., None])[..., 0])

        scores = _less_leverage(share, errors[:, every] * weights, remaining)
        weighted = weights[..., None] * remaining
        shown = np.einsum("wik,wik->wk", products @ weighted, weighted)
        return _covariance(scores, self.lags), _freedom(shown, self.lags)

    def with_course(self, columns: Sequence[int], course: FloatArray) -> "Information":
        """Return a copy in which a property's change over time is one of the fitted parameters.

        Args:
            columns: indices of the changing property's columns among those of all tested properties.
            course: values of the function of time, one per window, (w,), any unit.
        """
        c = [self.size + k for k in columns]
        more = self.products[:, :, c] * course[:, None, None]
        corner = more[:, c] * course[:, None, None]
        p = self.size
        rows = np.concatenate([self.products[:, :p], more.transpose(0, 2, 1), self.products[:, p:]], axis=1)
        cross = np.concatenate([more[:, :p], corner, more[:, p:]], axis=1)
        return Information(np.concatenate([rows[:, :, :p], cross, rows[:, :, p:]], axis=2), p + len(c), self.lags)


def _less_leverage(share: Callable[[FloatArray], FloatArray], scores: FloatArray, remaining: FloatArray) -> FloatArray:
    """Return combinations of the scores of time windows, (w, k), corrected for leverage.

    The score s_w of each window becomes (I - A_w A^-1)^-1/2 s_w, as in `uncertainty`, before the combination.

    Args:
        share: function that multiplies the score of each window by A_w A^-1, the window's part of the normal matrix.
        scores: columns times residual, summed over each window, (w, p).
        remaining: factors of the combinations, (p, k).
    """
    term, corrected = scores, scores @ remaining
    for k in range(1, SERIES):
        term = (2 * k - 1) / (2 * k) * share(term)
        added = term @ remaining
        corrected = corrected + added
        if (np.abs(added).max(axis=0) <= NEGLIGIBLE * np.abs(corrected).max(axis=0)).all():
            break
    return corrected


def _covariance(scores: FloatArray, lags: int) -> FloatArray:
    """Return the covariance (k, k) of the sum of scores, any unit, including the correlation of neighbouring windows.

    Scores (w, k) are regressor columns times residual, summed over each of w time windows. Their products are weighted
    by Bartlett's weights up to a distance of `lags` windows.
    """
    S = scores.T @ scores
    for lag in range(1, min(lags, len(scores) - 1) + 1):
        both = scores[lag:].T @ scores[:-lag]
        S = S + (1.0 - lag / (lags + 1.0)) * (both + both.T)
    values, vectors = np.linalg.eigh(0.5 * (S + S.T))
    plain = scores.T @ scores
    least = 0.25 * float(np.trace(plain)) / max(len(S), 1) * 1e-6
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)


def _chance(values: FloatArray, V: FloatArray, windows: float) -> float:
    """Return the probability that noise alone gives values at least as large as the fitted ones.

    Args:
        values: fitted values, (k,).
        V: covariance of the values, (k, k).
        windows: degrees of freedom of the covariance, which was estimated from windows of time.
    """
    spread = np.sqrt(np.maximum(np.diag(V), np.finfo(float).tiny))
    correlation, vectors = np.linalg.eigh(V / np.outer(spread, spread))
    kept = correlation > LEAST_CORRELATION
    d = int(kept.sum())
    if not d:
        return 1.0
    along = vectors[:, kept].T @ (values / spread)
    wald, freedom = float((along**2 / correlation[kept]).sum()), max(LEAST_FREEDOM, windows - d)
    return float(fdtrc(d, freedom, wald / d * freedom / (freedom + d)))


def _freedom(shown: FloatArray, lags: int) -> float:
    """Return the degrees of freedom of a variance that is estimated from windows of time.

    The formula is Priestley's for Bartlett's weights, with windows that last `MEMORY_S` as independent samples. So
    shorter windows, whose residuals are correlated over more than `LAGS` windows, count less.

    Args:
        shown: contribution of each window to the normal matrix's diagonal, (w, k), any unit.
        lags: largest number of windows between two windows whose residuals are correlated.
    """
    total, squares = shown.sum(axis=0), (shown**2).sum(axis=0)
    shorter = (LAGS + 1.0) / (lags + 1.0)
    return 1.5 * shorter * float(np.min(total**2 / np.maximum(squares, np.finfo(float).tiny)))
