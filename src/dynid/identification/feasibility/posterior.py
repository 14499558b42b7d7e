"""Posterior of consistent standard parameters, given an identification and physical bounds, and draws from it.

The data determine the base parameters and the additional Coulomb friction as y = B x + e with e ~ N(0, C), where x are
the free standard parameters. Physical bounds require two conditions: the distance s from every linear bound (masses,
centres of mass, boxes, rotors, friction) is positive; and for every link, the matrix S, its pseudo-inertia minus the
smallest one that the bounds permit, is positive definite. The prior density within the bounds is a product of factors

    s exp(-s / s0),    det(S) exp(-tr(S0^-1 S)),

that is, of Gamma and Wishart densities. s0 and S0 are the values of s and S for a central arm x0, which maximises the
likelihood times all s and det(S) (an analytic centre). The factors vanish at the bounds, which excludes extreme arms,
such as links that are thin rods or joints without friction. They are largest at x0, so they do not bias base parameters
that the data determine. Far inside the bounds, these parameters have the distribution N(y, C).

The posterior is log-concave. Its mode is found by Newton's method. Hamiltonian Monte Carlo draws from it in the
coordinates in which the Laplace approximation at the mode is N(0, 1): many chains at once, as arrays.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from dynid.errors import DataError, InfeasibleError
from dynid.identification.feasibility.belief import Belief
from dynid.identification.feasibility.consistent import FRICTION, consistent_interior, solver_units
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import MINIMUM_ROTOR_INERTIA, StandardParameters
from dynid.model.springs import is_spring
from dynid.model.within_limits import LENGTH_UNIT_M, MASS_UNIT_KG, link_rows, spread_out
from dynid.robot import FloatArray, PhysicalBounds, read_only
from dynid.robot.link_limits import ArmLimits
from dynid.threads import on_one_thread

CHAINS = 200
LEAPFROGS = (10, 20)  # range of the number of steps of a trajectory, drawn for each
STEP = 0.12  # mean step, in standard deviations of the Laplace approximation
SETTLING = 40  # trajectories before the first draw
BETWEEN = 10  # trajectories between two draws of a chain
LEAST_ACCEPTANCE = 0.05  # smallest share of accepted trajectories: below it the chains have hardly moved
NEWTON_STEPS = 200
LEAST_VARIANCE = 1e-9  # smallest eigenvalue of a correlation matrix: zero would fix directions of the arms
DECREMENT = 1e-10  # Newton decrement at convergence


@dataclass(frozen=True, eq=False)
class PossibleArms:
    """Standard and base parameters of arms drawn from their posterior distribution, given data and physical bounds.

    Attributes:
        names: names of the standard parameters, (s,).
        standard: standard parameters (N, s), every row consistent and within the limits.
        base_names: names of the base parameters, and of Coulomb friction that they do not contain, (k,).
        base: values of the parameters `base_names` of each arm, (N, k).
        chain_size: number of links.
        acceptance: fraction of the Monte Carlo trajectories that were accepted, see `_draw`.
    """

    names: tuple[str, ...]
    standard: FloatArray
    base_names: tuple[str, ...]
    base: FloatArray
    chain_size: int
    acceptance: float

    def arm(self, k: int) -> StandardParameters:
        """Return the standard parameters of the k-th drawn arm; k counts from 0."""
        return StandardParameters(self.names, self.standard[k], self.chain_size)


class _Density:
    """Posterior density of an arm's free standard parameters; a call returns its negative logarithm and the gradient.

    The density is computed for coordinates z (c, d) of c Markov chains at once. The free standard parameters in the
    solver's units are x = origin + axes z. The density depends on three quantities that are affine in z:

        slacks      distances from the m linear bounds, positive inside
        matrices S  one (4, 4) per link: its pseudo-inertia minus the smallest one that the physical bounds permit;
                    positive definite inside the bounds
        residual    base parameters and friction of the arm minus their estimates, decorrelated and in standard
                    deviations

    Each is stored as its derivatives by z and its value at z = 0. A prior can be given that is largest at one arm.

    Attributes:
        slopes: derivatives of the slacks, (m, d).
        levels: slacks at z = 0, (m,).
        shapes: derivatives of the entries of all n matrices S, (16 n, d).
        inertias: entries of all S at z = 0, (16 n,).
        fit: derivatives of the residual, (k, d).
        misses: residual at z = 0, (k,).
        slack_pull: reciprocal slacks of the arm at which the prior is largest, (m,); zero without such a prior.
        inertia_pull: entries of the inverse matrices S of this arm, (16 n,); zero without such a prior.
    """

    def __init__(self, parts: tuple[FloatArray, ...], pulls: tuple[FloatArray, FloatArray] | None = None) -> None:
        self.parts = parts
        self.slopes, self.levels, self.shapes, self.inertias, self.fit, self.misses = parts
        none = np.zeros(len(self.levels)), np.zeros(len(self.inertias))
        self.slack_pull, self.inertia_pull = none if pulls is None else pulls

    def moved(self, origin: FloatArray, axes: FloatArray) -> "_Density":
        """Return this density in new coordinates z_new, with present coordinates z = origin + axes z_new.

        Args:
            origin: present coordinates of the new origin, (d,).
            axes: present coordinates per unit of each new coordinate, (d, d).
        """
        pairs = zip(self.parts[::2], self.parts[1::2], strict=True)
        parts = tuple(part for matrix, offset in pairs for part in (matrix @ axes, offset + matrix @ origin))
        return _Density(parts, (self.slack_pull, self.inertia_pull))

    def pulled_to(self, z: FloatArray) -> "_Density":
        """Return a copy of the posterior density with a prior that is largest at the arm with coordinates z (d,)."""
        _, inverse = _inverse(self._matrices(z[None]))
        return _Density(self.parts, (1.0 / (self.slopes @ z + self.levels), inverse.reshape(-1)))

    def _matrices(self, z: FloatArray) -> FloatArray:
        """Return the matrices S of all n links for c Markov chains, (4, 4, n, c), at coordinates z (c, d).

        S is a link's pseudo-inertia minus the smallest one that the physical bounds permit. The chains are the last
        dimension, so that numpy processes all chains in one vectorised operation.
        """
        flat = self.shapes @ z.T + self.inertias[:, None]
        return flat.reshape(4, 4, -1, len(z))

    def __call__(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the negative logarithm of the posterior density (c,) and its gradient (c, d) at coordinates z (c, d).

        Outside the bounds, the value is infinite.
        """
        slacks = z @ self.slopes.T + self.levels
        miss = z @ self.fit.T + self.misses
        logarithms, inverse = _inverse(self._matrices(z))
        inverse = inverse.reshape(len(self.inertias), -1)
        outside = np.any(slacks <= 0.0, axis=1) | ~np.all(np.isfinite(logarithms), axis=0)
        safe = np.where(slacks > 0.0, slacks, 1.0)
        matrices = self._matrices(z).reshape(len(self.inertias), -1)
        value = 0.5 * (miss**2).sum(axis=1) - np.log(safe).sum(axis=1) + slacks @ self.slack_pull
        value += self.inertia_pull @ matrices - logarithms.sum(axis=0)
        slope = miss @ self.fit + (self.slack_pull - 1.0 / safe) @ self.slopes
        slope += (self.inertia_pull[:, None] - inverse).T @ self.shapes
        return np.where(outside, np.inf, value), np.where(outside[:, None], 0.0, slope)

    def curvature(self, z: FloatArray) -> FloatArray:
        """Return second derivatives (d, d) of the negative logarithm of the posterior density at coordinates z (d,)."""
        scaled = self.slopes / (self.slopes @ z + self.levels)[:, None]
        inverse = _inverse(self._matrices(z[None]))[1][..., 0]
        shapes = self.shapes.reshape(4, 4, -1, len(z))
        turned = np.einsum("abn,bcnd->acnd", inverse, shapes)
        return np.asarray(self.fit.T @ self.fit + scaled.T @ scaled + np.einsum("acnd,cane->de", turned, turned))


def _inverse(S: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log-determinants (n, c) and inverses (4, 4, n, c) of n c symmetric matrices S (4, 4, n, c).

    There is a matrix for each of n links and c Markov chains. The results are NaN for a matrix that is not positive
    definite.
    """
    size = len(S)
    root, back = np.zeros_like(S), np.zeros_like(S)
    with np.errstate(invalid="ignore", divide="ignore"):
        for i in range(size):
            for j in range(i + 1):
                rest = S[i, j] - np.einsum("k...,k...->...", root[i, :j], root[j, :j])
                root[i, j] = np.sqrt(rest) if i == j else rest / root[j, j]
        for i in range(size):
            back[i, i] = 1.0 / root[i, i]
            for j in range(i):
                back[i, j] = -np.einsum("k...,k...->...", root[i, j:i], back[j:i, j]) * back[i, i]
        logarithms = 2.0 * sum(np.log(root[i, i]) for i in range(size))
    return logarithms, np.einsum("kanc,kbnc->abnc", back, back)


def _mode(density: _Density, z: FloatArray) -> FloatArray:
    """Return the coordinates z (d,) of the density's maximum, by Newton's method from z (d,) inside the bounds."""
    value, slope = (one[0] for one in density(z[None]))
    for _ in range(NEWTON_STEPS if np.isfinite(value) else 0):
        try:
            step = -cho_solve(cho_factor(density.curvature(z)), slope)
        except np.linalg.LinAlgError:
            break  # slacks differ so much in size that rounding errors dominate
        decrement = -float(slope @ step)
        if decrement < DECREMENT:
            return z
        share = 1.0
        while True:
            new_value, new_slope = (one[0] for one in density((z + share * step)[None]))
            if new_value <= value - 0.25 * share * decrement or share < 1e-9:
                break
            share /= 2.0
        z, value, slope = z + share * step, new_value, new_slope
    raise InfeasibleError(
        "the mode of the posterior was not found: the bounds leave hardly any room, or the estimate contradicts them"
    )


class _Arm:
    """Free standard parameters of an arm, and their posterior density, given an estimate of the base parameters.

    Args:
        model: geometry and structure of the arm.
        belief: estimate of base parameters and additional friction, with covariance.
        limits: physical bounds.
        start: standard parameters (s,); those that are not free keep these values.
    """

    def __init__(self, model: ArmModel, belief: Belief, limits: ArmLimits, start: FloatArray) -> None:
        self.names = model.regrouping.standard
        self.rows = np.array([self._row(model, name) for name in belief.names])
        held = np.diag(belief.covariance) == 0.0
        self.free = np.flatnonzero(self._freedom(model, belief.names, held))
        self.units = solver_units(self.names, model.prismatic)[self.free]
        self.fixed = np.array(start)
        self.fixed[self.free] = 0.0
        deviations = np.sqrt(np.diag(belief.covariance)[~held])
        correlation = belief.covariance[np.ix_(~held, ~held)] / np.outer(deviations, deviations)
        root = _whitening(correlation) / deviations
        fit = root @ self.rows[~held], -root @ belief.values[~held]
        maps = (self._bounds(model, limits), self._shapes(model, limits), fit)
        self.density = _Density(
            tuple(one for A, b in maps for one in (A[:, self.free] * self.units, b + A @ self.fixed))
        )

    def _freedom(self, model: ArmModel, names: tuple[str, ...], held: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask (s,) of the standard parameters that are free (not fixed) in the posterior.

        All parameters that the model contains are free, except friction whose estimate has a variance of zero.
        Estimated friction that the model does not contain is free if its variance is above zero.

        Args:
            model: structure of the arm.
            names: names of the estimated parameters, (k,).
            held: whether each of them has a variance of zero, (k,).

        Raises:
            DataError: the estimate of a parameter other than friction has a variance of zero.
        """
        free = np.array(model.modelled)
        for name, row, still in zip(names, self.rows, held, strict=True):
            friction = np.count_nonzero(row) == 1 and kind_and_number(name)[0] in FRICTION
            if still and not friction:
                raise DataError(
                    f"the estimate states no deviation for {name}, so it does not say which arms are possible: "
                    "identify with another estimator, such as ols or wls"
                )
            if friction:
                free[row != 0.0] = not still
        return free

    def _row(self, model: ArmModel, name: str) -> FloatArray:
        """Return the row (s,) whose product with the standard parameters is the estimated parameter `name`."""
        if name in model.names:
            return np.asarray(model.regrouping.K[model.names.index(name)])
        if name in self.names:
            return np.asarray(np.eye(len(self.names))[self.names.index(name)])
        raise DataError(f"the belief's {name} is not a parameter of this model: it is of another robot or structure")

    def _bounds(self, model: ArmModel, limits: ArmLimits) -> tuple[FloatArray, FloatArray]:
        """Return A (m, s) and b (m,) of the linear bounds A pi + b > 0 on the standard parameters pi (s,)."""
        size = len(self.names)
        A, b = [], []
        for j, link in enumerate(limits.links):
            G, h = link_rows(link, model.mdh.in_link[j])
            A.append(np.hstack([np.zeros((len(G), 10 * j)), G, np.zeros((len(G), size - 10 * (j + 1)))]))
            b.append(-h)
        total = np.array([-float(name.startswith("M") and name[1:].isdigit()) for name in self.names]) / MASS_UNIT_KG
        A.append(total[None])
        b.append(np.array([limits.total_mass / MASS_UNIT_KG]))
        units = solver_units(self.names, model.prismatic)
        least = {"IA": MINIMUM_ROTOR_INERTIA, **dict.fromkeys(FRICTION, 0.0)}
        for k in self.free:
            kind = kind_and_number(self.names[k])[0]
            if kind in least:
                A.append(np.eye(size)[k : k + 1] / units[k])
                b.append(np.array([-least[kind] / units[k]]))
        return np.vstack(A), np.concatenate(b)

    def _shapes(self, model: ArmModel, limits: ArmLimits) -> tuple[FloatArray, FloatArray]:
        """Return A (16 n, s) and b (16 n,) such that A pi + b are the entries of all n links' matrices S.

        S is a link's pseudo-inertia minus the smallest one that the physical bounds permit, in the solver's units. The
        entries are in the order of `_Density.shapes`.
        """
        scale = np.diag([1 / LENGTH_UNIT_M] * 3 + [1.0]) / np.sqrt(MASS_UNIT_KG)
        units = np.array([scale @ spread_out(one, limits.spread) @ scale for one in np.eye(10)])
        n = model.chain_size
        A = np.zeros((4, 4, n, len(self.names)))
        for j in range(n):
            A[:, :, j, 10 * j : 10 * (j + 1)] = np.moveaxis(units, 0, -1)
        margin = np.broadcast_to((-limits.margin * scale @ scale)[:, :, None], (4, 4, n))
        return A.reshape(-1, len(self.names)), margin.reshape(-1)

    def inside(self, standard: FloatArray, belief: Belief) -> FloatArray:
        """Return initial values of the free parameters (d,), strictly inside the bounds, in the solver's units.

        The values are those of `standard`, except for friction and springs, which are taken from the estimate, because
        bounds alone determine no plausible values. Friction below its standard deviation is raised to the latter.

        Args:
            standard: standard parameters (s,), strictly inside the bounds except for additional friction.
            belief: estimate of base parameters and additional friction.
        """
        values = np.array(standard)
        for name, value, variance in zip(belief.names, belief.values, np.diag(belief.covariance), strict=True):
            if name in self.names and kind_and_number(name)[0] in FRICTION:
                values[self.names.index(name)] = max(value, np.sqrt(variance))
            elif name in self.names and is_spring(name):
                values[self.names.index(name)] = value
        return np.asarray(values[self.free] / self.units)

    def standard(self, x: FloatArray) -> FloatArray:
        """Return all standard parameters (N, s) for free ones x (N, d) in the solver's units."""
        values = np.tile(self.fixed, (len(x), 1))
        values[:, self.free] = x * self.units
        return values


def _whitening(correlation: FloatArray) -> FloatArray:
    """Return W (k, k) with W' W the inverse of a correlation matrix (k, k).

    Eigenvalues of the correlation matrix below `LEAST_VARIANCE` are raised to this value.
    """
    values, vectors = np.linalg.eigh(correlation)
    return np.asarray((vectors / np.sqrt(np.maximum(values, LEAST_VARIANCE))).T)


@on_one_thread
def possible_arms(
    model: ArmModel,
    belief: Belief,
    bounds: PhysicalBounds,
    count: int,
    *,
    start: FloatArray | None = None,
    seed: int = 0,
) -> PossibleArms:
    """Return arms drawn from the posterior distribution of standard parameters, given data and physical bounds.

    Args:
        model: geometry and structure of the arm.
        belief: estimate of base parameters and additional friction, with covariance.
        bounds: physical bounds.
        count: number of arms.
        start: standard parameters (s,) from which all parameters that are not free take their values, such as those
            that the model's structure does not contain. None takes these values from a model inside the bounds.
        seed: seed of the draws; the same seed gives the same arms.

    Raises:
        InfeasibleError: no arm is strictly inside the bounds, or the mode or the draws of the posterior failed.
        DataError: the estimate is of another model or has no standard deviations, or the count is below 1.
    """
    if count < 1:
        raise DataError(f"{count} arms; expected at least 1")
    limits = model.limits(bounds)
    inside = consistent_interior(model, limits)
    arm = _Arm(model, belief, limits, inside if start is None else start)
    x = _mode(arm.density, arm.inside(inside, belief))
    density = arm.density.pulled_to(x)
    mode = _mode(density, x)
    root = np.linalg.cholesky(density.curvature(mode))
    axes = solve_triangular(root.T, np.eye(len(mode)))
    drawn, acceptance = _draw(density.moved(mode, axes), count, np.random.default_rng(seed))
    if acceptance < LEAST_ACCEPTANCE:
        raise InfeasibleError(
            f"only {100 * acceptance:.2g} % of the trajectories through the posterior were accepted, so these would "
            "not be its arms: the estimate contradicts the bounds of robot.yaml, correct them or the data"
        )
    standard = arm.standard(mode + drawn @ axes.T)
    base = standard @ arm.rows.T
    return PossibleArms(arm.names, read_only(standard), belief.names, read_only(base), model.chain_size, acceptance)


def _draw(density: _Density, count: int, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """Return draws (count, d) by Hamiltonian Monte Carlo, and the fraction of the trajectories that were accepted."""
    chains = min(count, CHAINS)
    z = _start(density, chains, rng)
    value, slope = density(z)
    draws, accepted, trajectories = [], 0, SETTLING + BETWEEN * (-(-count // chains) - 1)
    for trajectory in range(1, trajectories + 1):
        momentum = rng.normal(size=z.shape)
        energy = value + 0.5 * (momentum**2).sum(axis=1)
        new, new_value, new_slope = z, value, slope
        step = STEP * rng.uniform(0.7, 1.3)
        for _ in range(rng.integers(*LEAPFROGS)):
            momentum = momentum - 0.5 * step * new_slope
            new = new + step * momentum
            new_value, new_slope = density(new)
            momentum = momentum - 0.5 * step * new_slope
        change = energy - new_value - 0.5 * (momentum**2).sum(axis=1)
        kept = np.log(rng.uniform(size=chains)) < change
        z, slope = np.where(kept[:, None], new, z), np.where(kept[:, None], new_slope, slope)
        value = np.where(kept, new_value, value)
        accepted += int(kept.sum())
        if trajectory >= SETTLING and (trajectory - SETTLING) % BETWEEN == 0:
            draws.append(z)
    return np.concatenate(draws)[:count], accepted / (chains * trajectories)


def _start(density: _Density, chains: int, rng: np.random.Generator) -> FloatArray:
    """Return an initial point inside the bounds for every chain, (chains, d).

    The points are drawn from the Laplace approximation and moved towards the mode until they are inside.
    """
    z = rng.normal(size=(chains, density.fit.shape[1]))
    while (out := ~np.isfinite(density(z)[0])).any():
        z[out] *= 0.7
    return np.asarray(z)
