"""What no law of friction holds of a gear: smooth functions of speed and load, of a size that residuals show.

A law that is nearly right leaves little in the residuals, for its parameters take up most of what is missing: in just
the directions in which they are then wrong. So for every axis friction may be off by

    sign(dq) sum_k u_k f_k,    f = exp(-|dq| / v)    and    |tau| exp(-|dq| / v),    v of `SPEEDS_RAD_S` (and infinite)

with u ~ N(0, s^2), one s for the functions of speed and one for those of load: random effects. The sizes s are the most
likely ones given the residuals (empirical Bayes, by expectation and maximisation), the fitted parameters being
projected out; so they rest on what is seen of the misfit, and the covariance then has what is not seen of it. A size
that chance could make is none.
"""

import numpy as np
from numpy.typing import NDArray

from dynid.identification.estimators.uncertainty import correlation_factor, unit_scale
from dynid.robot import FloatArray

SPEEDS_RAD_S = (0.15, 0.5, 1.5)
LOAD_SPEEDS_RAD_S = (0.15, 0.5, np.inf)
STEPS, STEPS_AFTER = 60, 10  # of expectation and maximisation, to begin with and after an effect is left out
START = 0.1  # of the residual's deviation, where it begins
SURE = 2.71  # twice the gain of the likelihood's logarithm that chance reaches in one of twenty cases
LEAST = 1e-6  # of the residual's variance: an effect of no size


def friction_effects(
    dq: FloatArray,
    torque: FloatArray,
    columns: FloatArray,
    residual: FloatArray,
    weights: FloatArray,
    known: FloatArray,
    transition_rad_s: float,
) -> FloatArray:
    """Torques of the effects, each times its most likely size, (N, n, k) [N m].

    Args:
        dq: velocities, (N, n) [rad/s].
        torque: as predicted, (N, n) [N m]: measured ones would bring their own errors in.
        columns: of all that was fitted, (N, n, p).
        residual: that they leave, (N, n) [N m].
        weights: one over each row's deviation, (N, n).
        known: standard deviations of what is known of the columns' factors beforehand, (p,).
        transition_rad_s: speed of the sign of dq.
    """
    effects, groups = friction_functions(dq, torque, weights, transition_rad_s)
    size = effects.shape[2]
    if not size:
        return effects
    X = (columns * weights[..., None]).reshape(-1, columns.shape[2])
    B = (effects * weights[..., None]).reshape(-1, size)
    r = residual * weights
    variance = float(np.mean(r**2)) * correlation_factor(r)
    if variance == 0.0:
        return np.zeros_like(effects)
    there = np.linalg.norm(X, axis=0) > 0.0
    X, known = X[:, there], known[there]
    scale = unit_scale(X, variance, known)
    X, known = X / scale, known * scale
    inverse = np.linalg.pinv(X.T @ X + np.diag(variance / known**2), rcond=1e-12, hermitian=True)
    across = X.T @ B
    normal = (B.T @ B - across.T @ inverse @ across) / variance
    values, vectors = np.linalg.eigh(normal)  # rounding may leave a little less than nothing
    normal = (vectors * np.maximum(values, 0.0)) @ vectors.T
    seen = (B.T @ r.ravel() - across.T @ inverse @ (X.T @ r.ravel())) / variance
    return np.asarray(effects * _sizes(normal, seen, groups))


def _sizes(normal: FloatArray, seen: FloatArray, groups: NDArray[np.int64]) -> FloatArray:
    """The most likely deviations (k,) of effects u, the data being normal with `normal` u = `seen`."""
    count = int(groups.max()) + 1
    squares = _likeliest(normal, seen, groups, np.full(count, START**2), STEPS)
    # one after the other, for two that stand for the same would each be missed by nobody
    while (left := np.flatnonzero(squares)).size:
        whole = _likelihood(normal, seen, squares[groups])
        gains = [whole - _likelihood(normal, seen, np.where(groups == k, 0.0, squares[groups])) for k in left]
        if 2.0 * min(gains) > SURE:
            break
        squares[left[int(np.argmin(gains))]] = 0.0
        squares = _likeliest(normal, seen, groups, squares, STEPS_AFTER)
    return np.asarray(np.sqrt(squares[groups]))


def _likeliest(
    normal: FloatArray, seen: FloatArray, groups: NDArray[np.int64], squares: FloatArray, steps: int
) -> FloatArray:
    """The most likely variances of groups (g,), from where they are; what is nothing stays so."""
    sizes = np.bincount(groups)
    for _ in range(steps):
        covariance = np.linalg.inv(normal + np.diag(1.0 / np.maximum(squares, LEAST)[groups]))
        moments = (covariance @ seen) ** 2 + np.maximum(np.diag(covariance), 0.0)
        squares = np.where(squares > 0.0, np.bincount(groups, moments) / sizes, 0.0)
    return squares


def _likelihood(normal: FloatArray, seen: FloatArray, squares: FloatArray) -> float:
    """Logarithm of the likelihood of variances (k,) of the effects, less that of none."""
    own = np.maximum(squares, LEAST)
    inside = normal + np.diag(1.0 / own)
    return 0.5 * float(seen @ np.linalg.solve(inside, seen) - np.linalg.slogdet(inside)[1] - np.log(own).sum())


def friction_functions(
    dq: FloatArray, torque: FloatArray, weights: FloatArray, transition_rad_s: float
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Effects (N, n, k) whose weighted root mean square is 1 each, and the group (k,) that shares a size."""
    speed, side = np.abs(dq), np.tanh(dq / transition_rad_s)
    plain = [side * np.exp(-speed / v) for v in SPEEDS_RAD_S]
    loaded = [side * np.abs(torque) * np.exp(-speed / v) for v in LOAD_SPEEDS_RAD_S]
    count, n = speed.shape
    found, groups = [], []
    for kind, functions in enumerate((plain, loaded)):
        for axis in range(n):
            for function in functions:
                strength = float(np.sqrt(np.mean((function * weights)[:, axis] ** 2)))
                if strength > 0.0:
                    column = np.zeros((count, n))
                    column[:, axis] = function[:, axis] / strength
                    found.append(column)
                    groups.append(n * kind + axis)
    numbers = np.unique(np.array(groups, dtype=np.int64), return_inverse=True)[1].astype(np.int64)
    return np.stack(found, axis=-1) if found else np.zeros((count, n, 0)), numbers
