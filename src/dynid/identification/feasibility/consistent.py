"""Consistent projection: physically consistent base parameters (design 5.3, beyond the paper's eq. 8).

A set of standard parameters is consistent if every link's pseudo-inertia is at least delta I. Then M(q) is positive
definite at EVERY pose, no poses need to be sampled, and a URDF exists. That some body has them does not say that it
would fit into the arm: so no link has mass beyond a box around it (`link_rows`), and none is thinner than a spread.
Two stages:

    1. min || L (K pi - phi0) ||   over consistent pi within the physical bounds;
    2. min || pi - pi_prior ||     over the same set with K pi fixed to the first stage's.

Without bounds on masses and centres of mass a solver returns links of hundreds of kilograms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import block_diag

from dynid.errors import InfeasibleError
from dynid.identification.feasibility.conic import Cone, minimise, norm_below, positive, semidefinite, zero
from dynid.model.base_parameters import PRODUCTS
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import MINIMUM_ROTOR_INERTIA, BaseParameters, StandardParameters
from dynid.model.springs import is_spring
from dynid.model.standard import LinkInertia, from_link_frame, pseudo_inertia
from dynid.model.within_limits import LENGTH_UNIT_M, MASS_UNIT_KG, link_rows, outside, spread_out
from dynid.robot import FloatArray, PhysicalBounds
from dynid.robot.link_limits import ArmLimits

MARGIN_RESERVE = 1.05  # of delta: the solver aims a little inside; its tolerance may leave that, too
SPREAD_RESERVE = 1.001
BOX_RESERVE = 1e-4  # of a box's size
MARGIN_TOLERANCE = 0.1  # of delta; where no more is missing, a link is lifted onto delta
FRICTION = ("FV", "FC", "FS", "FVM", "FCM")  # takes energy, so it is not negative; an offset OF may have any sign
FARTHEST = 1e3  # solver's units, for parameters without an upper bound of their own
STRAIN = 5.0  # standard deviations: what moves a parameter by more is no chance, but data that contradict the bounds
OF_NEGATIVE_ROTOR = (
    "torques that are measured behind the gears hold no rotor inertia: if yours are, set rotor_inertia to false under "
    "structure in robot.yaml"
)
OF_NEGATIVE_FRICTION = "torques and positions may be of different instants, or friction of another kind"
SPRING_UNIT = 1.0  # N m/rad^power: between springs of small arms and counterbalances
SECOND_STAGE_FREEDOM = 1e-5  # of a base parameter's unit, so 1e-8 kg m^2 of an inertia


@dataclass(frozen=True, eq=False)
class ConsistentModel:
    """Outcome of a consistent projection.

    Attributes:
        standard: the consistent standard parameters.
        base: K pi, exactly.
        distance: || phi - phi0 ||, in the mixed SI units of the parameters.
        margin: smallest eigenvalue of all pseudo-inertias, computed from the returned values.
        total_mass: [kg].
        strained: base parameters that the bounds moved by more than `STRAIN` standard deviations, and by how many. The
            covariance of `base` holds what they were moved by, because either data or bounds are wrong.
        negative: those of them that no arm has below zero, rotor inertias and friction, and that the data put there.
    """

    standard: StandardParameters
    base: BaseParameters
    distance: float
    margin: float
    total_mass: float
    strained: Mapping[str, float] = field(default_factory=dict)
    negative: tuple[str, ...] = ()

    @property
    def strain_sentence(self) -> str:
        """That the data contradict the bounds, in words; "" where they do not."""
        if not self.strained:
            return ""
        worst = max(self.strained, key=lambda name: self.strained[name])
        others, far = len(self.strained) - 1, f"{self.strained[worst]:.3g} of its standard deviations"
        beside = f" {others} others are moved by more than {STRAIN:g};" if others else ""
        end = f";{beside} the deviations of these parameters were widened by what they were moved"
        if worst in self.negative:
            advice = OF_NEGATIVE_ROTOR if kind_and_number(worst)[0] == "IA" else OF_NEGATIVE_FRICTION
            return f"the data put {worst} {far} below zero, where it cannot be: {advice}{end}"
        return (
            f"physical_bounds in robot.yaml move {worst} by {far}: the bounds or the data are wrong. Check the masses "
            f"and boxes ('dynid robot check'){end}"
        )


def solver_units(names: tuple[str, ...], prismatic: Sequence[bool] = ()) -> FloatArray:
    """The solver's unit of every standard parameter, (s,); the rotor of a `prismatic` axis is a mass."""
    inertia, moment = MASS_UNIT_KG * LENGTH_UNIT_M**2, MASS_UNIT_KG * LENGTH_UNIT_M
    by_kind = {"M": MASS_UNIT_KG, "MX": moment, "MY": moment, "MZ": moment, **dict.fromkeys((*FRICTION, "OF"), 0.1)}
    own = dict.fromkeys((f"IA{k + 1}" for k in np.flatnonzero(prismatic)), MASS_UNIT_KG)
    own |= dict.fromkeys(filter(is_spring, names), SPRING_UNIT)
    return np.array([own.get(name, by_kind.get(name.rstrip("0123456789"), inertia)) for name in names])


def pseudo_inertia_rows(parameters: FloatArray, margin: float, spread: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Pseudo-inertia - margin I - mass spread^2 diag(1, 1, 1, 0) as A x + b, (16, n) and (16,), in the solver's units.

    Where it is positive semidefinite, the last term keeps the covariance of the link's mass about its centre above
    spread^2, in whatever frame.

    Args:
        parameters: the link's ten standard parameters in SI units by x, (10, n).
    """
    # a congruence brings the blocks to one size: lengths in LENGTH_UNIT_M, masses in MASS_UNIT_KG
    scale = np.diag([1 / LENGTH_UNIT_M] * 3 + [1.0]) / MASS_UNIT_KG**0.5
    entries = np.array([scale @ spread_out(one, spread * SPREAD_RESERVE) @ scale for one in np.eye(10)]).reshape(10, 16)
    return entries.T @ parameters, -margin * MARGIN_RESERVE * (scale @ scale).ravel()


class ConsistentProblem:
    """Standard parameters pi = units x within physical bounds as a convex set of x.

    Args:
        room: how far inside all bounds they are at least, in the solver's units; None makes it the variable after x.
    """

    def __init__(self, model: ArmModel, limits: ArmLimits, room: float | None = 0.0) -> None:
        self.names = model.regrouping.standard
        self.units = solver_units(self.names, model.prismatic)
        self.size = len(self.names) + (room is None)
        x, links = np.eye(len(self.names)), 10 * model.chain_size
        pi = np.diag(self.units)
        bounds = [link_rows(link, model.mdh.in_link[j], BOX_RESERVE) for j, link in enumerate(limits.links)]
        least: dict[int, float] = {}
        absent: list[int] = []
        for k, name in enumerate(self.names):
            kind = name.rstrip("0123456789")
            if kind == "IA":
                least[k] = MINIMUM_ROTOR_INERTIA / self.units[k]
            elif kind in FRICTION and name in model.drive.modelled_names:
                least[k] = 0.0
            elif kind in FRICTION or (kind in PRODUCTS and not model.structure.products_of_inertia):
                absent.append(k)
        rows = [
            (block_diag(*(G for G, _ in bounds)) @ pi[:links], -np.hstack([h for _, h in bounds])),
            (-pi[9:links:10].sum(axis=0)[None] / MASS_UNIT_KG, np.array([limits.total_mass / MASS_UNIT_KG])),
            (x[list(least)], -np.array(list(least.values()))),
        ]
        self.cones = [positive(*_inside(A, b, np.ones(len(b)), room)) for A, b in rows if len(b)]
        for j in range(model.chain_size):
            A, b = pseudo_inertia_rows(pi[10 * j : 10 * (j + 1)], limits.margin, limits.spread)
            self.cones.append(semidefinite(*_inside(A, b, np.eye(4).ravel(), room)))
        if absent:
            self.cones.append(zero(x[absent], np.zeros(len(absent))))

    def least(self, c: FloatArray, extra: Sequence[Cone], stage: str) -> FloatArray:
        """The variables (size,) with the least c' x in `extra` cones, too.

        Raises:
            InfeasibleError: there are none; names `stage`.
        """
        return minimise(
            c,
            [*self.cones, *extra],
            f"consistent projection, {stage}",
            "the physical bounds in robot.yaml (masses, centres of mass, boxes, total mass) exclude every model: widen "
            "them",
        )

    def nearest(
        self, norms: Sequence[tuple[float, FloatArray, FloatArray]], extra: Sequence[Cone], stage: str
    ) -> FloatArray:
        """The standard parameters (s,) with the least sum of weight || A x + b ||, in `extra` cones, too.

        Args:
            norms: weight, A (m, s) and b (m,) of each.

        Raises:
            InfeasibleError: there are none; names `stage`.
        """
        # each norm is below a variable of its own, and their sum is least
        tops = np.eye(self.size + len(norms))[self.size :]
        cones = [norm_below(A, b, top) for (_, A, b), top in zip(norms, tops, strict=True)]
        found = self.least(np.array([weight for weight, _, _ in norms]) @ tops, [*cones, *extra], stage)
        return np.asarray(self.units * found[: len(self.units)])


def _inside(A: FloatArray, b: FloatArray, unit: FloatArray, room: float | None) -> tuple[FloatArray, FloatArray]:
    """A x + b less room times `unit`, where None is a variable after x."""
    return (np.column_stack([A, -unit]), b) if room is None else (A, b - room * unit)


def prior_from_bounds(model: ArmModel, limits: ArmLimits) -> FloatArray:
    """Standard parameters (s,) of an arm of solid boxes in the middle of the bounds: where nothing better is known."""
    parts = []
    for j, link in enumerate(limits.links):
        lower, upper = link.centre
        mass, size = float(np.mean(link.mass)), upper - lower
        box = LinkInertia(mass, (lower + upper) / 2, np.diag(mass / 12 * (size @ size - size**2)))
        parts.append(from_link_frame(box, model.mdh.in_link[j]))
    return np.concatenate([*parts, np.zeros(len(model.regrouping.standard) - 10 * model.chain_size)])


def consistent_projection(
    model: ArmModel,
    phi0: BaseParameters,
    bounds: PhysicalBounds,
    *,
    prior: FloatArray | None = None,
    metric: FloatArray | None = None,
) -> ConsistentModel:
    """The consistent model nearest to phi0.

    Args:
        phi0: base parameters to project, of this model.
        prior: standard parameters (s,) that the second stage stays close to; None: boxes in the middle of the bounds.
        metric: (k, p) matrix L of the first stage's norm; None is the plain Euclidean distance in phi. The R factor of
            a regressor makes it the least-squares fit under the constraints.

    Raises:
        InfeasibleError: no consistent model within the bounds.
        ConfigurationError: the bounds are no bounds, see `arm_limits`.
    """
    regrouping, limits = model.regrouping, model.limits(bounds)
    problem = ConsistentProblem(model, limits)
    base_units = problem.units[list(regrouping.representatives)]
    by_x = regrouping.K * problem.units  # base parameters
    first = nearest_parameters(model, problem, phi0.values, metric)
    phi = regrouping.K @ first
    near = prior_from_bounds(model, limits) if prior is None else prior
    # not exactly: where the first stage ends on its bounds, the second one would have no interior to move in
    moved, away = by_x / base_units[:, None], phi / base_units
    fixed = [positive(sign * moved, SECOND_STAGE_FREEDOM - sign * away) for sign in (1.0, -1.0)]
    free = [k for k, name in enumerate(regrouping.standard) if k < 10 * model.chain_size or name.startswith("IA")]
    # norms that are not squared: an offset leaves its nominal value only where the bounds demand it
    apart = [(1.0, np.eye(len(near))[own], -near[own] / problem.units[own]) for own in (free, _offsets(model)) if own]
    second = problem.nearest(apart, fixed, "second stage")
    return _outcome(model, phi0, second, limits)


def nearest_parameters(
    model: ArmModel, problem: ConsistentProblem, phi: FloatArray, metric: FloatArray | None
) -> FloatArray:
    """Return the standard parameters (s,) of the first stage: of the consistent base parameters next to phi (p,)."""
    L = np.eye(len(phi)) if metric is None else np.asarray(metric)
    L = L / np.abs(L).max()
    typical = np.median(problem.units[list(model.regrouping.representatives)])
    by_x = model.regrouping.K * problem.units
    return problem.nearest([(1.0, L @ by_x / typical, -L @ phi / typical)], [], "first stage")


def _offsets(model: ArmModel) -> list[int]:
    """Places of constant torques that pass for a weight, as that of a joint that slides up and down does."""
    groups, names = model.regrouping.K != 0.0, model.regrouping.standard
    shared = groups[groups.sum(axis=1) > 1].any(axis=0)
    return [k for k, name in enumerate(names) if (name.startswith("OF") or is_spring(name)) and shared[k]]


def consistent_interior(model: ArmModel, limits: ArmLimits) -> FloatArray:
    """Consistent standard parameters (s,) as far inside all bounds as can be.

    Raises:
        InfeasibleError: no model is strictly inside.
    """
    return _roomiest(model, limits)[0]


def largest_room(model: ArmModel, limits: ArmLimits) -> float:
    """How far inside all bounds a model can be at once, in the solver's units; at most 1.

    Raises:
        InfeasibleError: no model is strictly inside.
    """
    return _roomiest(model, limits)[1]


def _roomiest(model: ArmModel, limits: ArmLimits) -> tuple[FloatArray, float]:
    problem = ConsistentProblem(model, limits, room=None)
    every = np.eye(problem.size)
    x, room = every[:-1], every[-1]
    far = np.full(len(x), FARTHEST)
    found = problem.least(
        -room, [positive(-room, np.ones(1)), positive(x, far), positive(-x, far)], "a model inside all bounds"
    )
    if found[-1] <= 0.0:
        raise InfeasibleError("the physical bounds in robot.yaml leave no room inside: widen them")
    return problem.units * found[:-1], float(found[-1])


def on_their_bounds(model: ArmModel, pi: FloatArray, margin: float, spread: float = 0.0) -> StandardParameters:
    """A solver's standard parameters (s,), on their exact bounds where its tolerance left them a hair outside."""
    names = model.regrouping.standard
    pi = np.array([_settled(name, value, model) for name, value in zip(names, pi, strict=True)])
    for j in range(model.chain_size):
        pi[10 * j : 10 * j + 10] = lifted(pi[10 * j : 10 * j + 10], margin, spread)
    return StandardParameters(names, pi, model.chain_size)


def _settled(name: str, value: float, model: ArmModel) -> float:
    kind = name.rstrip("0123456789")
    if kind in PRODUCTS and not model.structure.products_of_inertia:
        return 0.0
    if kind == "IA":
        return max(value, MINIMUM_ROTOR_INERTIA)
    return max(value, 0.0) if kind in FRICTION else value


def lifted(parameters: FloatArray, margin: float, spread: float = 0.0) -> FloatArray:
    """A link's standard parameters (10,), their `spread_out` at least margin I where little was missing.

    eps I is added to the pseudo-inertia: the second moments and the mass grow by eps, so the inertias by 2 eps. What
    misses by more than MARGIN_TOLERANCE comes back as it is. So an inertia moves by a fifth of the margin at most.
    """
    missing = margin - float(np.linalg.eigvalsh(spread_out(parameters, spread))[0])
    if not 0 < missing <= MARGIN_TOLERANCE * margin:
        return parameters
    # beyond the rounding of eigenvalues; and the mass that is added needs spread, too
    eps = (missing + 1e-6 * margin) / (1.0 - spread**2)
    return parameters + eps * np.array([2.0, 0, 0, 2.0, 0, 2.0, 0, 0, 0, 1.0])


def _outcome(model: ArmModel, phi0: BaseParameters, pi: FloatArray, limits: ArmLimits) -> ConsistentModel:
    """The result, judged by its own numbers rather than by the solver's word."""
    standard = on_their_bounds(model, pi, limits.margin, limits.spread)
    if problem := outside(standard, model, limits):
        raise InfeasibleError(f"consistent projection: {problem}; the problem is badly scaled for the solver")
    margin = min(float(np.linalg.eigvalsh(pseudo_inertia(standard.link(j)))[0]) for j in range(model.chain_size))
    base, strained = _strained(phi0, model.regrouping.K @ standard.values)
    total = sum(standard[f"M{j + 1}"] for j in range(model.chain_size))
    distance = float(np.linalg.norm(base.values - phi0.values))
    below = dict(zip(phi0.names, phi0.values < 0.0, strict=True))
    negative = tuple(name for name in strained if below[name] and kind_and_number(name)[0] in (*FRICTION, "IA"))
    return ConsistentModel(standard, base, distance, margin, total, strained, negative)


def _strained(phi0: BaseParameters, values: FloatArray) -> tuple[BaseParameters, Mapping[str, float]]:
    """The result with its covariance, and what the bounds moved farther than chance does, see `ConsistentModel`."""
    spread, moved = phi0.standard_deviations, values - phi0.values
    if phi0.covariance is None or spread is None:
        return phi0.with_values(values), {}
    far = (spread > 0.0) & (np.abs(moved) > STRAIN * spread)
    change = np.where(far, moved, 0.0)
    by = {phi0.names[k]: float(abs(moved[k]) / spread[k]) for k in np.flatnonzero(far)}
    return BaseParameters(phi0.names, values, phi0.covariance + np.outer(change, change)), by
