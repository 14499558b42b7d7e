"""Consistent projection: physically consistent base parameters, a stronger condition than eq. 8 of arXiv:2605.15949.

A set of standard parameters is consistent if every link's pseudo-inertia is at least delta I. Then the inertia matrix
M(q) is positive definite at EVERY pose, so no poses need to be sampled. The parameters can also be exported as a URDF,
whose links must be physically possible. A consistent link may still be too large or too thin for the arm. So no link
has mass outside a box around it (`link_rows`), and the standard deviation of its mass distribution is at least the
value that robot.yaml requires. The projection of base parameters phi0 has two stages. K is the matrix from standard
parameters pi to base parameters, and L is a weighting matrix, such as the R factor of a regressor.

    1. min || L (K pi - phi0) ||   over consistent pi within the physical bounds; the minimum is at pi_1;
    2. min || pi - pi_prior ||     over the same set, with K pi = K pi_1 up to a small tolerance.

Without bounds on masses and centres of mass, a solver returns links of hundreds of kilograms.
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

MARGIN_RESERVE = 1.05  # required margin over delta: the solver's tolerance may violate its own bounds
SPREAD_RESERVE = 1.001
BOX_RESERVE = 1e-4  # reserve inside a box, relative to its size
MARGIN_TOLERANCE = 0.1  # largest shortfall, relative to delta, that is corrected by raising a link to delta
FRICTION = ("FV", "FC", "FS", "FVM", "FCM")  # dissipates energy, so it is not negative; an offset OF has any sign
FAR_BOUND = 1e3  # bound of parameters without an upper bound of their own, in the solver's units
STRAIN_DEVIATIONS = 5.0  # change by bounds, in standard deviations, above which data contradict the bounds
OF_NEGATIVE_ROTOR = (
    "torques that are measured behind the gears hold no rotor inertia: if yours are, set rotor_inertia to false under "
    "structure in robot.yaml"
)
OF_NEGATIVE_FRICTION = "torques and positions may be of different instants, or friction of another kind"
SPRING_UNIT = 1.0  # solver's unit of springs [N m/rad^power], between those of small arms and counterbalances
SECOND_STAGE_FREEDOM = 1e-5  # allowed change of base parameters, in their units: 1e-8 kg m^2 for an inertia
EXACT = 1e-3  # relative accuracy of parameters from rows without noise, whose standard deviations are far smaller


@dataclass(frozen=True, eq=False)
class ConsistentModel:
    """Physically consistent model that is nearest to estimated base parameters phi0, see `consistent_projection`.

    Attributes:
        standard: the consistent standard parameters pi.
        base: their base parameters phi, exactly K pi with the matrix K from standard to base parameters.
        distance: || phi - phi0 ||, in the mixed SI units of the parameters.
        margin: smallest eigenvalue of all pseudo-inertias, computed from the returned values.
        total_mass: mass of all links [kg].
        strained: base parameters that the bounds changed by more than `STRAIN_DEVIATIONS` standard deviations and by
            more than the accuracy of exact data, each with its change in standard deviations. Such a change means that
            the data or the bounds are wrong. The covariance of `base` is that of phi0 plus the outer product of these
            changes.
        negative: names of those rotor inertias and friction parameters in `strained` that the data make negative, which
            is physically impossible.
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
        """Sentence about base parameters that the data put far outside the physical bounds; "" if there are none."""
        if not self.strained:
            return ""
        worst = max(self.strained, key=lambda name: self.strained[name])
        others, far = len(self.strained) - 1, f"{self.strained[worst]:.3g} of its standard deviations"
        beside = f" {others} others are moved by more than {STRAIN_DEVIATIONS:g};" if others else ""
        end = f";{beside} the deviations of these parameters were widened by what they were moved"
        if worst in self.negative:
            advice = OF_NEGATIVE_ROTOR if kind_and_number(worst)[0] == "IA" else OF_NEGATIVE_FRICTION
            return f"the data put {worst} {far} below zero, where it cannot be: {advice}{end}"
        return (
            f"physical_bounds in robot.yaml move {worst} by {far}: the bounds or the data are wrong. Check the masses "
            f"and boxes ('dynid robot check'){end}"
        )


def solver_units(names: tuple[str, ...], prismatic: Sequence[bool] = ()) -> FloatArray:
    """Return, for every standard parameter, the unit in which the solver expresses it, (s,), as a number in SI units.

    Args:
        names: names of the standard parameters, (s,).
        prismatic: whether each axis is prismatic; the rotor inertia of such an axis is a mass.
    """
    inertia, moment = MASS_UNIT_KG * LENGTH_UNIT_M**2, MASS_UNIT_KG * LENGTH_UNIT_M
    by_kind = {"M": MASS_UNIT_KG, "MX": moment, "MY": moment, "MZ": moment, **dict.fromkeys((*FRICTION, "OF"), 0.1)}
    own = dict.fromkeys((f"IA{k + 1}" for k in np.flatnonzero(prismatic)), MASS_UNIT_KG)
    own |= dict.fromkeys(filter(is_spring, names), SPRING_UNIT)
    return np.array([own.get(name, by_kind.get(name.rstrip("0123456789"), inertia)) for name in names])


def pseudo_inertia_rows(parameters: FloatArray, margin: float, spread: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Return A (16, n) and b (16,) of the linear matrix inequality that bounds a link's pseudo-inertia.

    A x + b, with the variables x (n,), are the entries of a matrix (4, 4) that must be positive semidefinite. In the
    solver's units, it is J - margin I - m spread^2 diag(1, 1, 1, 0), with the link's pseudo-inertia J and mass m. The
    last term keeps the variance of the mass about its centre at spread^2 or more in every direction. Both `margin` and
    `spread` are increased slightly, because the solver may violate its constraints within its tolerance.

    Args:
        parameters: derivatives of the link's ten standard parameters, in SI units, by x, (10, n).
        margin: smallest allowed eigenvalue of the pseudo-inertia.
        spread: smallest standard deviation of the link's mass distribution [m].
    """
    # a congruence scales the blocks to similar size: lengths in LENGTH_UNIT_M, masses in MASS_UNIT_KG
    scale = np.diag([1 / LENGTH_UNIT_M] * 3 + [1.0]) / MASS_UNIT_KG**0.5
    entries = np.array([scale @ spread_out(one, spread * SPREAD_RESERVE) @ scale for one in np.eye(10)]).reshape(10, 16)
    return entries.T @ parameters, -margin * MARGIN_RESERVE * (scale @ scale).ravel()


class ConsistentProblem:
    """Convex set of all standard parameters within physical bounds, as constraints on scaled variables x.

    The standard parameters are pi = units * x, entry by entry. The units make all variables of similar size.

    Args:
        model: model of the arm.
        limits: physical bounds of the arm.
        room: smallest distance that x must keep from all bounds, in the solver's units. With None the solver chooses
            the distance: it is an additional variable after those of x.
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
        """Return the variables x (k,) that minimise c' x within the physical bounds and the `extra` constraints.

        x contains the standard parameters in the solver's units. If this problem was created with `room` None, the
        distance from the bounds is the next entry. Further variables of the `extra` constraints come last.

        Args:
            c: objective, (k,).
            extra: additional constraints.
            stage: name of the problem in errors.

        Raises:
            InfeasibleError: no x satisfies all constraints; the message names `stage`.
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
        """Return the standard parameters (s,) within physical bounds that minimise the sum of weight || A x + b ||.

        The variables x (s,) are the standard parameters in the solver's units.

        Args:
            norms: weight, A (m, s) and b (m,) of each norm.
            extra: additional constraints.
            stage: name of the problem in errors.

        Raises:
            InfeasibleError: no x satisfies all constraints; the message names `stage`.
        """
        # each norm is bounded by a variable of its own, and their sum is minimised
        tops = np.eye(self.size + len(norms))[self.size :]
        cones = [norm_below(A, b, top) for (_, A, b), top in zip(norms, tops, strict=True)]
        found = self.least(np.array([weight for weight, _, _ in norms]) @ tops, [*cones, *extra], stage)
        return np.asarray(self.units * found[: len(self.units)])


def _inside(A: FloatArray, b: FloatArray, unit: FloatArray, room: float | None) -> tuple[FloatArray, FloatArray]:
    """Return matrix and vector of the constraint A x + b - room * unit >= 0, which keeps a distance from bounds.

    Args:
        A: matrix of the bounds A x + b >= 0, (m, n).
        b: vector of the bounds, (m,).
        unit: vector (m,) that is multiplied by the distance from the bounds.
        room: distance from the bounds. None makes it a variable after those of x, so that the matrix is (m, n + 1).
    """
    return (np.column_stack([A, -unit]), b) if room is None else (A, b - room * unit)


def prior_from_bounds(model: ArmModel, limits: ArmLimits) -> FloatArray:
    """Return standard parameters (s,) of an arm whose links are homogeneous solid boxes.

    They are the default prior of `consistent_projection`. Each box fills the region that the bounds permit for the
    link's centre of mass, and has the mean of the smallest and largest permitted mass. Drive parameters are zero.
    """
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
    """Return the physically consistent model whose base parameters are nearest to phi0.

    Many sets of standard parameters have nearly these base parameters. A second stage selects the set that is closest
    to a prior.

    Args:
        model: model of the arm.
        phi0: base parameters to project, of this model.
        bounds: physical bounds.
        prior: standard parameters (s,) to which the second stage stays close; None is those of `prior_from_bounds`.
        metric: matrix L (k, p) of the norm || L (phi - phi0) ||; None is the plain Euclidean distance. The R factor of
            a regressor makes the result the least-squares fit under the constraints.

    Raises:
        InfeasibleError: there is no consistent model within the bounds.
        ConfigurationError: the bounds are invalid, see `arm_limits`.
    """
    regrouping, limits = model.regrouping, model.limits(bounds)
    problem = ConsistentProblem(model, limits)
    base_units = problem.units[list(regrouping.representatives)]
    by_x = regrouping.K * problem.units  # derivatives of the base parameters by x
    first = nearest_parameters(model, problem, phi0.values, metric)
    phi = regrouping.K @ first
    near = prior_from_bounds(model, limits) if prior is None else prior
    # not exactly fixed: if the first stage ends on bounds, the second stage would otherwise have no interior
    moved, away = by_x / base_units[:, None], phi / base_units
    fixed = [positive(sign * moved, SECOND_STAGE_FREEDOM - sign * away) for sign in (1.0, -1.0)]
    free = [k for k, name in enumerate(regrouping.standard) if k < 10 * model.chain_size or name.startswith("IA")]
    # the norms are not squared: so an offset deviates from its nominal value only if the bounds require it
    apart = [(1.0, np.eye(len(near))[own], -near[own] / problem.units[own]) for own in (free, _offsets(model)) if own]
    second = problem.nearest(apart, fixed, "second stage")
    return _outcome(model, phi0, second, limits)


def nearest_parameters(
    model: ArmModel, problem: ConsistentProblem, phi: FloatArray, metric: FloatArray | None
) -> FloatArray:
    """Return standard parameters (s,) within physical bounds whose base parameters are nearest to phi.

    Args:
        model: model of the arm.
        problem: physical bounds as constraints.
        phi: base parameters, (p,).
        metric: matrix L (k, p) of the norm || L (K pi - phi) || to minimise, with K the regrouping matrix; None is the
            identity.
    """
    L = np.eye(len(phi)) if metric is None else np.asarray(metric)
    L = L / np.abs(L).max()
    typical = np.median(problem.units[list(model.regrouping.representatives)])
    by_x = model.regrouping.K * problem.units
    return problem.nearest([(1.0, L @ by_x / typical, -L @ phi / typical)], [], "first stage")


def _offsets(model: ArmModel) -> list[int]:
    """Return the indices, in the vector of standard parameters, of torque offsets and springs that are not separable.

    A base parameter combines each of them with other standard parameters, so the data do not determine them alone. An
    example is the offset of a vertical prismatic joint, which the data cannot separate from the weight of the links.
    """
    groups, names = model.regrouping.K != 0.0, model.regrouping.standard
    shared = groups[groups.sum(axis=1) > 1].any(axis=0)
    return [k for k, name in enumerate(names) if (name.startswith("OF") or is_spring(name)) and shared[k]]


def consistent_interior(model: ArmModel, limits: ArmLimits) -> FloatArray:
    """Return consistent standard parameters (s,) with the largest distance from the nearest physical bound, up to 1.

    The distance is in the solver's units.

    Raises:
        InfeasibleError: no model is strictly inside.
    """
    return _roomiest(model, limits)[0]


def largest_room(model: ArmModel, limits: ArmLimits) -> float:
    """Return the largest distance from all physical bounds that any parameters of an arm can have, but at most 1.

    The distance of given parameters is that from the nearest bound, in the solver's units. This function returns its
    maximum over all parameters. The solver limits the distance to 1, so a larger maximum is returned as 1.

    Args:
        model: equations of motion of the arm, which define its parameters.
        limits: physical bounds of the arm.

    Raises:
        InfeasibleError: no model is strictly inside.
    """
    return _roomiest(model, limits)[1]


def _roomiest(model: ArmModel, limits: ArmLimits) -> tuple[FloatArray, float]:
    problem = ConsistentProblem(model, limits, room=None)
    every = np.eye(problem.size)
    x, room = every[:-1], every[-1]
    far = np.full(len(x), FAR_BOUND)
    found = problem.least(
        -room, [positive(-room, np.ones(1)), positive(x, far), positive(-x, far)], "a model inside all bounds"
    )
    if found[-1] <= 0.0:
        raise InfeasibleError("the physical bounds in robot.yaml leave no room inside: widen them")
    return problem.units * found[:-1], float(found[-1])


def on_their_bounds(model: ArmModel, pi: FloatArray, margin: float, spread: float = 0.0) -> StandardParameters:
    """Return standard parameters from a solver, moved onto those bounds that they violate within its tolerance.

    Args:
        model: model of the arm.
        pi: standard parameters from the solver, (s,).
        margin: smallest allowed eigenvalue of a link's pseudo-inertia.
        spread: smallest standard deviation of a link's mass distribution [m].
    """
    names = model.regrouping.standard
    pi = np.array([_settled(name, value, model) for name, value in zip(names, pi, strict=True)])
    for j in range(model.chain_size):
        pi[10 * j : 10 * j + 10] = raised_to_bounds(pi[10 * j : 10 * j + 10], margin, spread)
    return StandardParameters(names, pi, model.chain_size)


def _settled(name: str, value: float, model: ArmModel) -> float:
    kind = name.rstrip("0123456789")
    if kind in PRODUCTS and not model.structure.products_of_inertia:
        return 0.0
    if kind == "IA":
        return max(value, MINIMUM_ROTOR_INERTIA)
    return max(value, 0.0) if kind in FRICTION else value


def raised_to_bounds(parameters: FloatArray, margin: float, spread: float = 0.0) -> FloatArray:
    """Return a link's standard parameters (10,), corrected if an eigenvalue is slightly below the required margin.

    The eigenvalues are those of the pseudo-inertia with mass times spread^2 subtracted from its second moments
    (`spread_out`). The correction adds eps I to the pseudo-inertia: the second moments and the mass grow by eps, and
    the inertias by 2 eps. If an eigenvalue is too small by more than `MARGIN_TOLERANCE` (a tenth) of the margin, the
    parameters are returned unchanged. So an inertia grows by at most about a fifth of the margin.

    Args:
        parameters: standard parameters of the link, (10,).
        margin: smallest allowed eigenvalue.
        spread: smallest standard deviation of the link's mass distribution [m].
    """
    missing = margin - float(np.linalg.eigvalsh(spread_out(parameters, spread))[0])
    if not 0 < missing <= MARGIN_TOLERANCE * margin:
        return parameters
    # more than the rounding of eigenvalues; the added mass also needs spread
    eps = (missing + 1e-6 * margin) / (1.0 - spread**2)
    return parameters + eps * np.array([2.0, 0, 0, 2.0, 0, 2.0, 0, 0, 0, 1.0])


def _outcome(model: ArmModel, phi0: BaseParameters, pi: FloatArray, limits: ArmLimits) -> ConsistentModel:
    """Return the result of a projection, after a check that its standard parameters satisfy the physical bounds.

    The check does not rely on the status that the solver reports.

    Args:
        model: model of the arm.
        phi0: base parameters before the projection.
        pi: standard parameters from the solver, (s,).
        limits: physical bounds of the arm.

    Raises:
        InfeasibleError: the standard parameters violate a bound.
    """
    standard = on_their_bounds(model, pi, limits.margin, limits.spread)
    if problem := outside(standard, model, limits):
        raise InfeasibleError(f"consistent projection: {problem}; the problem is badly scaled for the solver")
    margin = min(float(np.linalg.eigvalsh(pseudo_inertia(standard.link(j)))[0]) for j in range(model.chain_size))
    units = solver_units(model.regrouping.standard, model.prismatic)[list(model.regrouping.representatives)]
    base, strained = _strained(phi0, model.regrouping.K @ standard.values, 2.0 * SECOND_STAGE_FREEDOM * units)
    total = sum(standard[f"M{j + 1}"] for j in range(model.chain_size))
    distance = float(np.linalg.norm(base.values - phi0.values))
    below = dict(zip(phi0.names, phi0.values < 0.0, strict=True))
    negative = tuple(name for name in strained if below[name] and kind_and_number(name)[0] in (*FRICTION, "IA"))
    return ConsistentModel(standard, base, distance, margin, total, strained, negative)


def _strained(
    phi0: BaseParameters, values: FloatArray, solver: FloatArray
) -> tuple[BaseParameters, Mapping[str, float]]:
    """Return the projected base parameters with covariance, and the parameters that the projection changed too much.

    These are the parameters that changed by more than `STRAIN_DEVIATIONS` standard deviations. The mapping gives, by
    name, their change in standard deviations. Without noise, standard deviations are smaller than the errors of the
    solver and of the regression. So a change must also exceed these errors.

    Args:
        phi0: base parameters before the projection.
        values: base parameters after the projection, (p,).
        solver: largest change of each base parameter without any bound, because the solver is inexact, (p,).
    """
    spread, moved = phi0.standard_deviations, values - phi0.values
    if phi0.covariance is None or spread is None:
        return phi0.with_values(values), {}
    least = np.maximum(EXACT * np.abs(phi0.values), solver)
    far = (spread > 0.0) & (np.abs(moved) > np.maximum(STRAIN_DEVIATIONS * spread, least))
    change = np.where(far, moved, 0.0)
    by = {phi0.names[k]: float(abs(moved[k]) / spread[k]) for k in np.flatnonzero(far)}
    return BaseParameters(phi0.names, values, phi0.covariance + np.outer(change, change)), by
