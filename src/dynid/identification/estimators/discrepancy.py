"""Friction that the friction law lacks: smooth functions of speed and load, whose sizes follow from the residuals.

If a friction law lacks a part of the friction, its fitted parameters absorb most of this part. Then the residuals are
small, but the parameters are wrong. So the friction of every axis, with the torque tau, may have an additional part

    sign(dq) sum_k u_k f_k,    f = exp(-|dq| / v)    and    |tau| exp(-|dq| / v),

with the speeds v of `SPEEDS_RAD_S` and `LOAD_SPEEDS_RAD_S`, and random factors u ~ N(0, s^2). One s applies to the
functions of speed, another to the functions of load. The sizes s are the most likely ones given the residuals
(empirical Bayes, by expectation maximisation), with the fitted parameters projected out. The covariance of the
parameters is then widened by friction of these sizes. A size that chance could produce is set to zero.
"""

import numpy as np
from numpy.typing import NDArray

from dynid.identification.estimators.uncertainty import correlation_factor, unit_scale
from dynid.robot import FloatArray

SPEEDS_RAD_S = (0.15, 0.5, 1.5)
LOAD_SPEEDS_RAD_S = (0.15, 0.5, np.inf)
STEPS, STEPS_AFTER = 60, 10  # iterations of expectation maximisation: at first, and after an effect is dropped
START = 0.1  # initial size of an effect, in standard deviations of the residual
SURE = 2.71  # smallest likelihood-ratio statistic of an effect: chance exceeds it in one of twenty cases
LEAST = 1e-6  # variance of an effect, relative to that of the residual, that replaces a variance of zero


def friction_effects(
    dq: FloatArray,
    torque: FloatArray,
    columns: FloatArray,
    residual: FloatArray,
    weights: FloatArray,
    known: FloatArray,
    transition_rad_s: float,
) -> FloatArray:
    """Return torques of friction that the friction law may lack, scaled to their most likely sizes, (N, n, k) [N m].

    Each of the k torques is a smooth function of speed, or of load and speed, at one axis, times a size. The size is
    the most likely standard deviation of the function's random factor, given the residual.

    Args:
        dq: velocities, (N, n) [rad/s].
        torque: predicted torques, (N, n) [N m]; measured torques would add their own errors.
        columns: torques per unit of each fitted parameter, (N, n, p).
        residual: residual of the fit, (N, n) [N m].
        weights: reciprocal standard deviation of each row, (N, n).
        known: prior standard deviations of the fitted parameters, (p,).
        transition_rad_s: transition velocity of the smoothed sign of dq [rad/s].
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
    values, vectors = np.linalg.eigh(normal)  # rounding may give slightly negative values
    normal = (vectors * np.maximum(values, 0.0)) @ vectors.T
    seen = (B.T @ r.ravel() - across.T @ inverse @ (X.T @ r.ravel())) / variance
    return np.asarray(effects * _sizes(normal, seen, groups))


def _sizes(normal: FloatArray, seen: FloatArray, groups: NDArray[np.int64]) -> FloatArray:
    """Return the most likely standard deviations (k,) of random effects u with normal equations `normal` u = `seen`.

    Args:
        normal: normal matrix (k, k).
        seen: right-hand side (k,).
        groups: index (k,) of the group of each effect; all effects of a group have the same standard deviation.
    """
    count = int(groups.max()) + 1
    squares = _likeliest(normal, seen, groups, np.full(count, START**2), STEPS)
    # effects are dropped one at a time: of two redundant ones, each alone would look unnecessary
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
    """Return the most likely variances of random effects, (g,), by expectation maximisation.

    A random effect is a coefficient of the regression with mean zero. All effects of one group have the same variance.

    Args:
        normal: normal matrix of the effects, (k, k).
        seen: right-hand side of the normal equations, (k,).
        groups: index (k,) of the group of each effect.
        squares: initial variances of the groups, (g,); variances of zero stay zero.
        steps: number of iterations.
    """
    sizes = np.bincount(groups)
    for _ in range(steps):
        covariance = np.linalg.inv(normal + np.diag(1.0 / np.maximum(squares, LEAST)[groups]))
        moments = (covariance @ seen) ** 2 + np.maximum(np.diag(covariance), 0.0)
        squares = np.where(squares > 0.0, np.bincount(groups, moments) / sizes, 0.0)
    return squares


def _likelihood(normal: FloatArray, seen: FloatArray, squares: FloatArray) -> float:
    """Return the log-likelihood for given variances of the effects, minus the log-likelihood without effects.

    Args:
        normal: normal matrix of the effects, (k, k).
        seen: right-hand side, (k,).
        squares: variance of each effect, (k,).
    """
    own = np.maximum(squares, LEAST)
    inside = normal + np.diag(1.0 / own)
    return 0.5 * float(seen @ np.linalg.solve(inside, seen) - np.linalg.slogdet(inside)[1] - np.log(own).sum())


def friction_functions(
    dq: FloatArray, torque: FloatArray, weights: FloatArray, transition_rad_s: float
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return torque functions of speed and load, (N, n, k), and the index (k,) of the group to which each belongs.

    Each function is zero at all axes except one, and its weighted root mean square at this axis is 1. The functions of
    speed of one axis form a group, and those of load and speed form another.

    Args:
        dq: velocities, (N, n) [rad/s].
        torque: predicted torques, (N, n) [N m].
        weights: weights of the rows, (N, n).
        transition_rad_s: transition velocity of the smoothed sign of dq [rad/s].
    """
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
