"""Objectives of optimised excitation, and their gradients with respect to the coefficients of a motion.

A motion is a sum of given functions of time, each times a coefficient per joint (see `dynid.excitation.series`).

W is the regressor of all samples for p parameters, and A = W'W (p, p). Both objectives are functions f of A's
eigenvalues. With H = df/dA, a change dW of the regressor changes f by df = 2 sum (W H) . dW:

    condition:  f = (log tr A^m + log tr A^-m) / (2 m), close to log kappa(W) for a large exponent m;
    d_optimal:  f = -log det A / (2 p).

The derivatives of W with respect to the states (q, dq, ddq) of every sample are central differences. They need 6 n
evaluations of the regressor for n joints, whatever the number of coefficients, because the states are linear in the
coefficients, with known factors. Limits are enforced by penalties whose weight grows from round to round, so a result
may still violate limits slightly. The caller checks the result, and if necessary repeats the optimisation with tighter
limits (see `dynid.excitation.optimiser`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import minimize

from dynid.errors import ConfigurationError
from dynid.excitation.series import Series
from dynid.robot import FloatArray, read_only

Objective = Literal["condition", "d_optimal"]
States = tuple[FloatArray, FloatArray, FloatArray]
Regressor = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
DIFFERENCE = 1e-5
SHARPNESS = 6  # exponent m of the condition objective


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of the states and torques of an excitation motion.

    Attributes:
        lower: lower position bounds, (n,) [rad].
        upper: upper position bounds, (n,) [rad].
        velocity: bounds of absolute velocities, (n,) [rad/s].
        acceleration: bounds of absolute accelerations, (n,) [rad/s^2].
        torque: bounds of absolute torques, (n,) [N m].
    """

    lower: FloatArray
    upper: FloatArray
    velocity: FloatArray
    acceleration: FloatArray
    torque: FloatArray


@dataclass(frozen=True, eq=False)
class Problem:
    """Optimisation problem of an excitation motion.

    Attributes:
        series: functions of time whose coefficients are optimised.
        times: times of the samples, (N,) [s].
        regressor: function from states q, dq and ddq (N, n) to the regressor of the base parameters (N, n, p).
        phi: base parameters that predict the torques, (p,) [SI].
        bounds: bounds of the states and torques.
        objective: name of the objective to minimise, "condition" or "d_optimal".
        repulsion: function from postures (N, n) to a penalty on small clearance and its gradient (N, n); None adds no
            such penalty.
    """

    series: Series
    times: FloatArray
    regressor: Regressor
    phi: FloatArray
    bounds: Bounds
    objective: Objective
    repulsion: Callable[[FloatArray], tuple[float, FloatArray]] | None = None


def log_condition(A: FloatArray) -> tuple[float, FloatArray]:
    """Return a smooth approximation of log kappa(W) [-], the log condition number of a regressor, and its gradient.

    Args:
        A: matrix W'W of the regressor W stacked over all samples, (p, p).

    Returns:
        The value, and its gradient with respect to A, (p, p).
    """
    values, vectors = np.linalg.eigh(A)
    values = np.maximum(values, values[-1] * 1e-14)
    high, low = (values / values[-1]) ** SHARPNESS, (values[0] / values) ** SHARPNESS
    value = (np.log(high.sum()) + np.log(low.sum())) / SHARPNESS + np.log(values[-1] / values[0])
    slopes = (high / high.sum() - low / low.sum()) / values
    return 0.5 * float(value), 0.5 * (vectors * slopes) @ vectors.T


def d_optimality(A: FloatArray) -> tuple[float, FloatArray]:
    """Return the D-optimality -log det A / (2 p) [-] of a regressor, and its gradient.

    Args:
        A: matrix W'W of the regressor W stacked over all samples, (p, p).

    Returns:
        The value, and its gradient with respect to A, (p, p).
    """
    values, vectors = np.linalg.eigh(A)
    values = np.maximum(values, values[-1] * 1e-14)
    half = -0.5 / len(values)
    return float(half * np.log(values).sum()), half * (vectors / values) @ vectors.T


OBJECTIVES = {"condition": log_condition, "d_optimal": d_optimality}


def excess(values: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[float, FloatArray]:
    """Return the penalty on values beyond their bounds [-], and its gradient with respect to the values (N, n).

    The penalty is the square of (excess / width), summed over joints and averaged over samples. The width is `upper`
    minus `lower`, or 1 if a bound is infinite.

    Args:
        values: values at N samples, (N, n) in any unit.
        lower: lower bounds, (n,) in the same unit.
        upper: upper bounds, (n,) in the same unit.
    """
    width = np.where(np.isfinite(upper - lower), upper - lower, 1.0)
    over = (np.maximum(values - upper, 0.0) + np.minimum(values - lower, 0.0)) / width
    return float((over**2).sum()) / len(values), 2.0 * over / width / len(values)


def cost(problem: Problem, coefficients: FloatArray, penalty: float) -> tuple[float, FloatArray]:
    """Return the objective of an excitation motion plus weighted penalties on violated bounds [-], and its gradient.

    Args:
        problem: the optimisation problem.
        coefficients: coefficients of the motion, (k, n) [rad].
        penalty: weight of the penalties.

    Returns:
        The value, and its gradient with respect to the coefficients, (k, n).
    """
    shapes = problem.series.functions(problem.times)
    states: States = tuple(shape @ coefficients for shape in shapes)  # type: ignore[assignment]
    W = problem.regressor(*states)
    flat = W.reshape(-1, W.shape[-1])
    value, H = OBJECTIVES[problem.objective](flat.T @ flat / len(problem.times))
    pull = 2.0 * (W @ H) / len(problem.times)
    bounds, slopes = problem.bounds, [np.zeros_like(states[0]) for _ in range(3)]
    limits = (
        (bounds.lower, bounds.upper),
        (-bounds.velocity, bounds.velocity),
        (-bounds.acceleration, bounds.acceleration),
    )
    for k, (state, (low, high)) in enumerate(zip(states, limits, strict=True)):
        more, slope = excess(state, low, high)
        value, slopes[k] = value + penalty * more, slopes[k] + penalty * slope
    more, push = excess(W @ problem.phi, -bounds.torque, bounds.torque)
    value += penalty * more
    pull = pull + penalty * push[..., None] * problem.phi
    if problem.repulsion is not None:
        more, slope = problem.repulsion(states[0])
        value, slopes[0] = value + penalty * more, slopes[0] + penalty * slope
    for k in range(3):
        slopes[k] += _regressor_gradient(problem.regressor, states, k, pull)
    gradient = sum(shape.T @ slope for shape, slope in zip(shapes, slopes, strict=True))
    return value, np.asarray(gradient)


def _regressor_gradient(regressor: Regressor, states: States, which: int, pull: FloatArray) -> FloatArray:
    """Return the gradient (N, n) of a scalar function of the regressor W with respect to q, dq or ddq.

    Args:
        regressor: function from states q, dq and ddq (N, n) to W (N, n, p).
        states: q, dq and ddq, (N, n) each.
        which: 0 for the gradient with respect to q, 1 for dq, 2 for ddq.
        pull: gradient of the scalar function with respect to W, (N, n, p).
    """
    size = states[0].shape[1]
    slope = np.zeros_like(states[0])
    for joint in range(size):
        ends = []
        for sign in (1.0, -1.0):
            moved = [np.array(one) for one in states]
            moved[which][:, joint] += sign * DIFFERENCE
            ends.append(regressor(moved[0], moved[1], moved[2]))
        slope[:, joint] = ((ends[0] - ends[1]) * pull).sum(axis=(1, 2)) / (2.0 * DIFFERENCE)
    return slope


def start_coefficients(problem: Problem, seed: int) -> FloatArray:
    """Return the coefficients (k, n) [rad] of a random motion as the start of an optimisation.

    The motion is scaled to keep the bounds of positions, velocities and accelerations.

    Args:
        problem: the optimisation problem.
        seed: seed of the random motion.
    """
    bounds, series = problem.bounds, problem.series
    drawn = series.rest.T @ np.random.default_rng(seed).normal(size=(series.size, len(bounds.lower)))
    shapes = series.functions(problem.times)
    q, dq, ddq = (shape @ drawn for shape in shapes)
    middle, half = 0.5 * (bounds.lower + bounds.upper), 0.5 * (bounds.upper - bounds.lower)
    offset = q.mean(axis=0)
    share = np.minimum.reduce(
        [
            half / np.abs(q - offset).max(axis=0),
            bounds.velocity / np.abs(dq).max(axis=0),
            bounds.acceleration / np.abs(ddq).max(axis=0),
        ]
    )
    constant = np.linalg.lstsq(shapes[0], np.ones(len(problem.times)), rcond=None)[0]
    return np.asarray(drawn * (0.7 * share) + np.outer(constant, middle - 0.7 * share * offset))


def optimise(
    problem: Problem, seed: int = 0, rounds: tuple[float, ...] = (1e1, 1e2, 1e3, 1e4), iterations: int = 40
) -> FloatArray:
    """Return the coefficients (k, n) [rad] of a motion that minimises the objective, found with a penalty method.

    Violations of bounds are penalised, so the resulting motion may still violate bounds slightly.

    Args:
        problem: the optimisation problem.
        seed: seed of the random motion with which the optimisation starts.
        rounds: weight of the penalties in each round; a round starts at the result of the previous one.
        iterations: maximum of L-BFGS iterations per round.

    Raises:
        ConfigurationError: there are not more equations (samples x joints) than parameters.
    """
    if len(problem.times) * len(problem.bounds.lower) <= len(problem.phi):
        raise ConfigurationError(
            f"{len(problem.times)} samples cannot determine {len(problem.phi)} parameters; use more samples"
        )
    found = start_coefficients(problem, seed)
    scale = max(float(np.abs(found).std()), 1e-3)
    for penalty in rounds:
        result = minimize(
            _flat(problem, penalty, found.shape, scale),
            found.ravel() / scale,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations, "maxcor": 30},
        )
        found = result.x.reshape(found.shape) * scale
    return read_only(found)


def _flat(
    problem: Problem, penalty: float, shape: tuple[int, ...], scale: float
) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    def value_and_gradient(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = cost(problem, x.reshape(shape) * scale, penalty)
        return value, gradient.ravel() * scale

    return value_and_gradient
