"""Test whether physical bounds move an estimate farther than chance does, for all parameters together.

The model phi is the consistent model nearest to the estimate phi0: it minimises || R (phi - phi0) ||, with R from the
regression that gave phi0. The consistent models form a convex set. So the plane through phi that is perpendicular to
g = R'R (phi0 - phi) separates all of them from phi0. The pull of the bounds is the squared distance of phi0 from that
plane, in standard deviations of g' phi0:

    T = (g' (phi0 - phi))^2 / (g' C g)    with C the covariance of phi0.

If the true parameters are within the bounds, T follows a chi-bar-square distribution: a mixture of chi-squares of 0 to
q degrees of freedom. Here q is the number of independent directions of base parameters that the bounds block
(Silvapulle and Sen, Constrained Statistical Inference, 2005, ch. 3). Whatever the weights of the mixture are, its upper
quantiles are at most those of 0.5 chi^2_(q-1) + 0.5 chi^2_q. C is an estimate with nu degrees of freedom, so each
chi^2_k is replaced by k F(k, nu).

Regression rows are computed by finite differences and filters. So even without noise, they determine no parameter to
better than a thousandth of its value. The variance g' C g is increased by this error.

q is the dimension of the space that the gradients of all active bounds span. Directions in which no base parameter
changes are not counted. A bound is active if the nearest consistent parameters lie on it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import orth
from scipy.optimize import brentq
from scipy.special import fdtrc, fdtri

from dynid.identification.feasibility.conic import Cone
from dynid.identification.feasibility.consistent import EXACT, ConsistentModel, ConsistentProblem, nearest_parameters
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, PhysicalBounds

CHANCE = 1e-3  # probability that a correct model's pull exceeds the limit
BOUND_SLACK = 1e-4  # largest slack of a reached bound [solver's units], times a matrix's largest eigenvalue if above 1
LEAST_COSINE = 0.9  # smallest cosine between a direction of reached bounds and one of base parameters that counts


@dataclass(frozen=True)
class BoundsPull:
    """Displacement of estimated base parameters by physical bounds, as a test statistic.

    The displacement is that from the estimate to the nearest physically consistent model.

    Attributes:
        value: T, the squared ratio of the displacement to its standard deviation, see the top of the file.
        directions: q, the number of independent directions in the space of base parameters that the active bounds
            block, see `directions_at_bounds`.
        freedom: degrees of freedom of the estimate's standard deviations.
        worst: name of the base parameter with the largest displacement relative to its standard deviation.
        by: ratio of this displacement to the standard deviation.
    """

    value: float
    directions: int
    freedom: float
    worst: str
    by: float

    @property
    def limit(self) -> float:
        """Limit of the test statistic `value`.

        If the true parameters are within the bounds, the statistic exceeds this limit with a probability of at most
        `CHANCE`.
        """
        return pull_limit(self.directions, self.freedom)

    @property
    def detail(self) -> str:
        """Text that explains the displacement by physical bounds in a report.

        If T exceeds the limit for q = 1, the text also states q, and names the base parameter with the largest
        displacement relative to its standard deviation.
        """
        if self.value <= pull_limit(1, self.freedom):
            return "squared distance in deviations"
        return (
            f"squared distance in deviations; bounds are reached in {self.directions} directions; {self.worst} is "
            f"moved most, by {self.by:.2g} of its deviations"
        )


def pull_limit(directions: int, freedom: float, chance: float = CHANCE) -> float:
    """Return the limit of the test statistic T for a false-alarm probability of `chance`.

    T is the squared ratio of the estimate's displacement by physical bounds to its standard deviation. If the true
    parameters are within the bounds, T exceeds the limit with a probability of at most `chance`.

    Args:
        directions: number q of independent directions in the space of base parameters that the active bounds block.
        freedom: degrees of freedom of the estimate's standard deviations.
        chance: probability that T exceeds the limit although the true parameters are within the bounds.
    """
    q = max(directions, 1)

    def beyond(value: float) -> float:
        parts = [fdtrc(k, freedom, value / k) for k in (q - 1, q) if k > 0]
        return float(0.5 * sum(parts) - chance)

    return float(brentq(beyond, 1e-9, q * fdtri(q, freedom, 1.0 - chance / 2.0) + 1.0))


def pull_of_bounds(
    model: ArmModel,
    estimate: BaseParameters,
    found: ConsistentModel,
    bounds: PhysicalBounds,
    metric: FloatArray,
    freedom: float,
) -> BoundsPull | None:
    """Return the displacement of estimated base parameters by physical bounds; None if their covariance is unknown.

    The displacement is that from the estimate to the nearest consistent model. The result contains the number
    of independent directions that active bounds block. This number is computed only if the test statistic T exceeds
    `pull_limit` for one direction, the smallest limit of all. Otherwise the number does not matter and is given as 1.

    Args:
        model: model of the arm.
        estimate: base parameters before the projection.
        found: result of the projection.
        bounds: physical bounds of the projection.
        metric: matrix R (k, p) of the distance || R (phi - estimate) || that the projection minimised.
        freedom: degrees of freedom of the estimate's standard deviations.

    Raises:
        InfeasibleError: there is no consistent model within the bounds.
    """
    deviations = estimate.standard_deviations
    if estimate.covariance is None or deviations is None or not (deviations > 0.0).all():
        return None
    away = estimate.values - found.base.values
    R = metric / np.abs(metric).max()
    across = R.T @ (R @ away)
    exact = EXACT * across * estimate.values
    variance = float(across @ estimate.covariance @ across + exact @ exact)
    value = float(across @ away) ** 2 / variance if variance > 0.0 else 0.0
    worst = int(np.argmax(np.abs(away) / deviations))
    directions = 1
    if value > pull_limit(1, freedom):
        problem = ConsistentProblem(model, model.limits(bounds))
        nearest = nearest_parameters(model, problem, estimate.values, metric) / problem.units
        directions = directions_at_bounds(problem, model.regrouping.K * problem.units, nearest)
    return BoundsPull(value, directions, freedom, model.names[worst], float(abs(away[worst]) / deviations[worst]))


def directions_at_bounds(problem: ConsistentProblem, by_x: FloatArray, x: FloatArray) -> int:
    """Return the number of independent directions in the space of base parameters that the bounds active at x block.

    A bound is active if x lies on it. Such a bound blocks a direction if base parameters change along its gradient.

    Args:
        problem: the physical bounds, as constraints on x.
        by_x: derivatives (p, s) of the base parameters by x.
        x: standard parameters in the solver's units, (s,).
    """
    rows = np.concatenate([reached_gradients(cone, x) for cone in problem.cones])
    if not len(rows):
        return 0
    by_x = by_x / np.linalg.norm(by_x, axis=1, keepdims=True)
    of_bounds, of_base = (orth(one.T, rcond=BOUND_SLACK) for one in (rows, by_x))
    return int((np.linalg.svd(of_bounds.T @ of_base, compute_uv=False) > LEAST_COSINE).sum())


def reached_gradients(cone: Cone, x: FloatArray) -> FloatArray:
    """Return unit gradients (k, s) of those bounds of a conic constraint that are active, because x lies on them.

    Args:
        cone: the constraint.
        x: standard parameters in the solver's units, (s,).
    """
    A = cone.A[:, : len(x)]
    value = A @ x + cone.b
    if cone.kind == "positive":
        rows = A[value < BOUND_SLACK]
    elif cone.kind == "matrix":
        size = round(len(value) ** 0.5)
        values, vectors = np.linalg.eigh(value.reshape(size, size))
        thin = vectors[:, values < BOUND_SLACK * max(1.0, float(values[-1]))]
        pairs = [(i, j) for i in range(thin.shape[1]) for j in range(i + 1)]
        rows = np.array([np.outer(thin[:, i], thin[:, j]).ravel() @ A for i, j in pairs]).reshape(-1, A.shape[1])
    else:
        rows = A[:0]
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows[sizes[:, 0] > 0.0] / sizes[sizes[:, 0] > 0.0])
