"""Consistent projection: base parameters that some physical arm has (design 5.3, beyond the paper's eq. 8).

A set of standard parameters is consistent if every link's pseudo-inertia is at least delta I. Then M(q) is positive
definite at EVERY pose, no poses need to be sampled, and a URDF exists. Two stages:

    1. min || L (K pi - phi0) ||   over consistent pi within the physical bounds;
    2. min || pi - pi_prior ||     over the same set with K pi fixed to the first stage's.

Without bounds on masses and centres of mass a solver returns links of hundreds of kilograms.
"""

from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from dynid.errors import InfeasibleError
from dynid.identification.semidefinite import minimise
from dynid.model.base_parameters import PRODUCTS, Regrouping
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import MINIMUM_ROTOR_INERTIA, BaseParameters, StandardParameters
from dynid.model.standard import LinkInertia, from_link_frame, pseudo_inertia, to_link_frame
from dynid.robot import FloatArray, PhysicalBounds
from dynid.robot_file import LinkBounds

# The solver works in these units, so that masses, moments and inertias are all of order one.
LENGTH_UNIT_M = 0.1
MASS_UNIT_KG = 0.1
MARGIN_RESERVE = 1.05  # the solver aims a little inside delta; its tolerance may leave that, too
MARGIN_TOLERANCE = 0.1  # of delta; where no more is missing, a link is lifted onto delta
FRICTION = ("FV", "FC", "FS", "FVM", "FCM")  # takes energy, so it is not negative; an offset OF may have any sign
SECOND_STAGE_FREEDOM = 1e-5  # of a base parameter's unit, so 1e-8 kg m^2 of an inertia
BOUND_TOLERANCE = 1e-3  # by so much of its scale a result may leave a bound of robot.yaml: the solver's accuracy


@dataclass(frozen=True, eq=False)
class ConsistentModel:
    """Outcome of a consistent projection.

    Attributes:
        standard: the consistent standard parameters.
        base: K pi, exactly.
        distance: || phi - phi0 ||, in the mixed SI units of the parameters.
        margin: smallest eigenvalue of all pseudo-inertias, computed from the returned values.
        total_mass: [kg].
    """

    standard: StandardParameters
    base: BaseParameters
    distance: float
    margin: float
    total_mass: float


def solver_units(names: tuple[str, ...]) -> FloatArray:
    """The solver's unit of every standard parameter, (s,)."""
    inertia, moment = MASS_UNIT_KG * LENGTH_UNIT_M**2, MASS_UNIT_KG * LENGTH_UNIT_M
    by_kind = {"M": MASS_UNIT_KG, "MX": moment, "MY": moment, "MZ": moment, **dict.fromkeys((*FRICTION, "OF"), 0.1)}
    return np.array([by_kind.get(name.rstrip("0123456789"), inertia) for name in names])


def pseudo_inertia_constraint(parameters: cp.Expression, margin: float) -> cp.Constraint:
    """Pseudo-inertia >= margin I of ten standard parameters, an expression (10,) in SI units."""
    xx, xy, xz, yy, yz, zz, mx, my, mz, m = (parameters[k] for k in range(10))
    half = 0.5 * (xx + yy + zz)
    J = cp.bmat([[half - xx, -xy, -xz, mx], [-xy, half - yy, -yz, my], [-xz, -yz, half - zz, mz], [mx, my, mz, m]])
    # a congruence brings the blocks to one size: lengths in LENGTH_UNIT_M, masses in MASS_UNIT_KG
    scale = np.diag([1 / LENGTH_UNIT_M] * 3 + [1.0])
    return scale @ (J - margin * MARGIN_RESERVE * np.eye(4)) @ scale / MASS_UNIT_KG >> 0


def link_constraints(
    parameters: cp.Expression, link: LinkBounds, margin: float, placement: FloatArray
) -> list[cp.Constraint]:
    """Pseudo-inertia >= margin I, mass bounds and the box of the centre of mass, for one link.

    Args:
        parameters: the ten standard parameters of the link, an expression (10,) in SI units.
        link: bounds of its mass and centre of mass.
        margin: smallest eigenvalue of the pseudo-inertia.
        placement: of its modified DH frame in the URDF link frame, (4, 4).
    """
    mx, my, mz, m = (parameters[k] for k in range(6, 10))
    moment = placement[:3, :3] @ cp.hstack([mx, my, mz]) + placement[:3, 3] * m  # in the URDF link frame
    unit = MASS_UNIT_KG * LENGTH_UNIT_M
    return [
        pseudo_inertia_constraint(parameters, margin),
        m >= link.mass_kg[0],
        m <= link.mass_kg[1],
        (moment - np.array(link.centre_of_mass_lower_m) * m) / unit >= 0,
        (np.array(link.centre_of_mass_upper_m) * m - moment) / unit >= 0,
    ]


class _Problem:
    """Variable and constraints that both stages share; `pi` is the cvxpy expression in SI units."""

    def __init__(self, model: ArmModel, bounds: PhysicalBounds) -> None:
        self.names = model.regrouping.standard
        self.units = solver_units(self.names)
        self.x = cp.Variable(len(self.names))
        self.pi = cp.multiply(self.units, self.x)
        self.constraints: list[cp.Constraint] = []
        index = {name: k for k, name in enumerate(self.names)}
        for j in range(model.chain_size):
            self.constraints += link_constraints(
                self.pi[10 * j : 10 * (j + 1)], bounds.links[j], bounds.pseudo_inertia_margin, model.mdh.in_link[j]
            )
        self.constraints.append(
            sum(self.pi[index[f"M{j + 1}"]] for j in range(model.chain_size)) <= bounds.total_mass_kg
        )
        for name, k in index.items():
            kind = name.rstrip("0123456789")
            if kind == "IA":
                self.constraints.append(self.x[k] >= MINIMUM_ROTOR_INERTIA / self.units[k])
            elif kind in FRICTION and name in model.drive.modelled_names:
                self.constraints.append(self.x[k] >= 0)
            elif kind in FRICTION or (kind in PRODUCTS and not model.structure.products_of_inertia):
                self.constraints.append(self.x[k] == 0)

    def solve(self, objective: cp.Expression, extra: list[cp.Constraint], stage: str) -> FloatArray:
        minimise(
            cp.Problem(cp.Minimize(objective), self.constraints + extra),
            f"consistent projection, {stage}",
            "the physical bounds in robot.yaml (masses, centres of mass, total mass) exclude every model: widen them",
        )
        return np.asarray(self.units * self.x.value)


def prior_from_bounds(model: ArmModel, bounds: PhysicalBounds) -> FloatArray:
    """Standard parameters (s,) of an arm of solid boxes in the middle of the bounds: where nothing better is known."""
    parts = []
    for j, link in enumerate(bounds.links):
        lower, upper = np.array(link.centre_of_mass_lower_m), np.array(link.centre_of_mass_upper_m)
        mass, size = float(np.mean(link.mass_kg)), upper - lower
        box = LinkInertia(mass, (lower + upper) / 2, np.diag(mass / 12 * (size @ size - size**2)))
        parts.append(from_link_frame(box, model.mdh.in_link[j]))
    return np.concatenate([*parts, np.zeros(len(model.regrouping.standard) - 10 * model.chain_size)])


def consistent_projection(
    model: ArmModel, phi0: BaseParameters, bounds: PhysicalBounds, *, prior: FloatArray | None = None,
    metric: FloatArray | None = None,
) -> ConsistentModel:  # fmt: skip
    """The consistent model nearest to phi0.

    Args:
        model: geometry and structure.
        phi0: base parameters to project, of this model.
        bounds: physical bounds.
        prior: standard parameters (s,) that the second stage stays close to; None: boxes in the middle of the bounds.
        metric: (k, p) matrix L of the first stage's norm; None is the plain Euclidean distance in phi. The R factor of
            a regressor makes it the least-squares fit under the constraints.

    Raises:
        InfeasibleError: no consistent model within the bounds.
    """
    regrouping: Regrouping = model.regrouping
    L = np.eye(len(phi0.names)) if metric is None else np.asarray(metric)
    L = L / np.abs(L).max()
    problem = _Problem(model, bounds)
    base_units = problem.units[list(regrouping.representatives)]
    typical = np.median(base_units)
    error = L @ (regrouping.K @ problem.pi - phi0.values) / typical
    first = problem.solve(cp.norm(error), [], "first stage")
    phi = regrouping.K @ first
    near = prior_from_bounds(model, bounds) if prior is None else prior
    # not exactly: where the first stage ends on its bounds, the second one would have no interior to move in
    fixed = cp.abs(cp.multiply(1 / base_units, regrouping.K @ problem.pi - phi)) <= SECOND_STAGE_FREEDOM
    free = [k for k, name in enumerate(regrouping.standard) if k < 10 * model.chain_size or name.startswith("IA")]
    second = problem.solve(cp.norm(problem.x[free] - near[free] / problem.units[free]), [fixed], "second stage")
    return _outcome(model, phi0, second, bounds)


def on_their_bounds(model: ArmModel, pi: FloatArray, margin: float) -> StandardParameters:
    """A solver's standard parameters (s,), on their exact bounds where its tolerance left them a hair outside."""
    names = model.regrouping.standard
    pi = np.array([_settled(name, value, model) for name, value in zip(names, pi, strict=True)])
    for j in range(model.chain_size):
        pi[10 * j : 10 * j + 10] = lifted(pi[10 * j : 10 * j + 10], margin)
    return StandardParameters(names, pi, model.chain_size)


def _settled(name: str, value: float, model: ArmModel) -> float:
    kind = name.rstrip("0123456789")
    if kind in PRODUCTS and not model.structure.products_of_inertia:
        return 0.0
    if kind == "IA":
        return max(value, MINIMUM_ROTOR_INERTIA)
    return max(value, 0.0) if kind in FRICTION else value


def lifted(parameters: FloatArray, margin: float) -> FloatArray:
    """A link's standard parameters (10,) with a pseudo-inertia of at least margin I, where little was missing.

    eps I is added to the pseudo-inertia: the second moments and the mass grow by eps, so the inertias by 2 eps. What
    misses by more than MARGIN_TOLERANCE comes back as it is. So an inertia moves by a fifth of the margin at most.
    """
    missing = margin - float(np.linalg.eigvalsh(pseudo_inertia(parameters))[0])
    if not 0 < missing <= MARGIN_TOLERANCE * margin:
        return parameters
    eps = missing + 1e-6 * margin  # beyond the rounding of eigenvalues
    return parameters + eps * np.array([2.0, 0, 0, 2.0, 0, 2.0, 0, 0, 0, 1.0])


def _refuse_outside(standard: StandardParameters, model: ArmModel, bounds: PhysicalBounds) -> None:
    """Raise InfeasibleError where masses or centres of mass leave their bounds by more than a solver's tolerance."""
    for j, link in enumerate(bounds.links):
        body = to_link_frame(standard.link(j), model.mdh.in_link[j])
        slack = BOUND_TOLERANCE * LENGTH_UNIT_M
        inside = (body.centre_of_mass >= np.array(link.centre_of_mass_lower_m) - slack).all()
        inside &= (body.centre_of_mass <= np.array(link.centre_of_mass_upper_m) + slack).all()
        lightest, heaviest = link.mass_kg
        if not (inside and lightest * (1 - BOUND_TOLERANCE) <= body.mass <= heaviest * (1 + BOUND_TOLERANCE)):
            raise InfeasibleError(
                f"consistent projection: link {j + 1} has mass {body.mass:.6g} kg and centre of mass "
                f"{np.round(body.centre_of_mass, 5).tolist()} m, outside its bounds in robot.yaml: the solver failed"
            )


def _outcome(model: ArmModel, phi0: BaseParameters, pi: FloatArray, bounds: PhysicalBounds) -> ConsistentModel:
    """The result, judged by its own numbers rather than by the solver's word."""
    standard = on_their_bounds(model, pi, bounds.pseudo_inertia_margin)
    pi = standard.values
    margin = min(float(np.linalg.eigvalsh(pseudo_inertia(standard.link(j)))[0]) for j in range(model.chain_size))
    if margin < bounds.pseudo_inertia_margin:
        raise InfeasibleError(
            f"consistent projection: smallest pseudo-inertia eigenvalue {margin:.3g} is below the required "
            f"{bounds.pseudo_inertia_margin:.3g}; the problem is badly scaled for the solver"
        )
    base = BaseParameters(model.names, model.regrouping.K @ pi, phi0.covariance)
    total = sum(standard[f"M{j + 1}"] for j in range(model.chain_size))
    _refuse_outside(standard, model, bounds)
    if total > bounds.total_mass_kg * (1 + BOUND_TOLERANCE):
        raise InfeasibleError(f"consistent projection: total mass {total:.6g} kg exceeds {bounds.total_mass_kg} kg")
    return ConsistentModel(standard, base, float(np.linalg.norm(base.values - phi0.values)), margin, total)
