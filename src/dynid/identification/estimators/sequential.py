"""Estimation of physically feasible standard parameters, one joint at a time from the last joint inward.

The regressor of standard parameters is block upper triangular: the torque of joint i depends on links i..n only. So the
torque of the last joint determines the identifiable parameters of the last link. Once these are known, the torque of
the joint before it determines the parameters of its own link, and so on:

    min || tau_i - sum_{j > i} W_ij pi_j - W_ii x ||   over x = pi_i whose pseudo-inertia J(x) >= delta I,

This is one small semidefinite program per joint instead of one for the whole arm.

Mass on a joint's own axis does not affect its torque. Let J = [[A, B], [B', C]], ordered such that C contains the
second moment along z, the first moment along z and the mass. The torque of a revolute joint depends on A and B and
never on C. (That of a prismatic joint depends on mass and first moments; C then contains all second moments.) The
torque does not determine how C is divided between this link and the previous link. So C of this link can be chosen, and
the program of the previous link finds the rest. If the chosen C is too large, the previous link would need negative
mass, and its program cannot fit the torques. Among all C that make J positive definite, there is a smallest one,

    C = B' (A - delta I)^-1 B + delta I,

for which the remainder for the previous link is positive semidefinite. So without noise, the sequential fit is as good
as a fit of all joints at once. With noise, A may be close to the margin delta, and C would exceed the limits of a link.
So a second program per joint minimises mass and second moment among all parameters that fit equally well within the
noise. The resulting links are as light as the torques allow, and the mass that is assigned to the previous link need
not lie within that link. The consistent projection that follows redistributes this mass among the links. It enforces
the bounds of robot.yaml: masses, boxes around the links, and the minimum standard deviation of a link's mass
distribution.

The method requires products of inertia, because mass that is assigned to the previous link generally has products of
inertia in that link's frame. A structure without products of inertia raises an error.
"""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.special import chdtri

from dynid.errors import ConfigurationError, DataError, InfeasibleError
from dynid.identification.feasibility.conic import Cone, minimise, norm_below, positive, semidefinite
from dynid.identification.feasibility.consistent import (
    FRICTION,
    MARGIN_RESERVE,
    on_their_bounds,
    pseudo_inertia_rows,
    solver_units,
)
from dynid.model.base_parameters import PRODUCTS
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import MINIMUM_ROTOR_INERTIA, StandardParameters
from dynid.model.standard import pseudo_inertia, ten_parameters
from dynid.model.within_limits import LENGTH_UNIT_M, MASS_UNIT_KG
from dynid.robot import FloatArray, PhysicalBounds

PULL = 1e-5  # ridge weight of unexcited parameters, relative to the joint's largest column in the solver's units
CONFIDENCE = 0.95  # confidence level of the set of parameters that count as fitting equally well
EXACT = 1e-4  # residual relative to the torque below which data count as noise-free, with only solver errors
ROUND_OFF = 1e-7  # slack of the second program relative to the torque, for noise-free data
BODY_M = 0.5  # largest extension of a link beyond the range of its centre of mass [m]
TURNING, SLIDING = (0, 1), (3,)  # rows of J that affect the torque of a revolute and of a prismatic joint


@dataclass(frozen=True, eq=False)
class SequentialModel:
    """Result of the sequential fit, which finds physically consistent parameters joint by joint.

    Attributes:
        standard: standard parameters, physically consistent for every link.
        residual_rms: rms residual of every joint's torque, (n,) [N m].
        margin: smallest eigenvalue of the pseudo-inertias of all links, computed from `standard`.
        solver_seconds: time in all semidefinite programs together [s].
    """

    standard: StandardParameters
    residual_rms: FloatArray
    margin: float
    solver_seconds: float


def owners(model: ArmModel) -> NDArray[np.int64]:
    """Return for each standard parameter the index of the joint whose semidefinite program estimates it, (s,).

    This joint is the outermost joint whose torque depends on the parameter.
    """
    found = []
    for k, name in enumerate(model.regrouping.standard):
        kind, number = kind_and_number(name)
        if k < 10 * model.chain_size:
            found.append(k // 10)
        elif kind in ("IA", "FVM", "FCM"):
            found.append(int(np.flatnonzero(model.drive.coupling[number - 1])[-1]))
        else:
            found.append(number - 1)
    return np.array(found)


def largest(model: ArmModel, bounds: PhysicalBounds, joint: int) -> tuple[float, float]:
    """Return the largest possible mass [kg] and second moment [kg m^2] of all links that a joint moves, together.

    The second moment is about the origin of the joint. The mass is the sum of the links' largest masses, at most the
    largest total mass of the arm. For the second moment, no mass is assumed to be farther away than the length of the
    stretched arm plus `BODY_M`.

    Args:
        model: model of the arm.
        bounds: physical bounds.
        joint: index of the joint, from 0.
    """
    mdh, reach, limits = model.mdh, BODY_M, model.limits(bounds)
    for j in range(joint, model.chain_size):
        corner = np.maximum(*np.abs(limits.links[j].centre))
        reach += float(np.linalg.norm(corner)) + float(np.linalg.norm(mdh.in_link[j][:3, 3]))
        reach += abs(mdh.d[j]) + abs(mdh.r[j]) if j > joint else 0.0
    mass = min(sum(link.mass[1] for link in limits.links[joint:]), limits.total_mass)
    return mass, mass * reach**2


def lightest(link: FloatArray, margin: float, slides: bool = False) -> FloatArray:
    """Return a link's standard parameters (10,), after minimising parameters that do not affect its own joint's torque.

    For a revolute joint, the mass and the first and second moment along the axis z are minimised. For a prismatic
    joint, the second moments are minimised. The removed mass and moments can be added to the previous link without a
    change of any torque. The pseudo-inertia stays at least `margin` times the identity.

    Args:
        link: ten standard parameters of the link. The part of its pseudo-inertia that affects the joint's torque (rows
            and columns x and y of a revolute joint, the mass of a prismatic one) must exceed the margin.
        margin: delta, smallest allowed eigenvalue of the pseudo-inertia.
        slides: whether the joint is prismatic.
    """
    J = np.array(pseudo_inertia(link))
    felt = list(SLIDING if slides else TURNING)
    other = [k for k in range(4) if k not in felt]
    A, B = J[np.ix_(felt, felt)], J[np.ix_(felt, other)]
    smallest = B.T @ np.linalg.solve(A - margin * np.eye(len(felt)), B) + margin * np.eye(len(other))
    J[np.ix_(other, other)] = smallest
    return ten_parameters(J)


def sequential_fit(model: ArmModel, W: FloatArray, tau: FloatArray, bounds: PhysicalBounds) -> SequentialModel:
    """Return physically consistent standard parameters, fitted one joint at a time from the last joint inward.

    Args:
        model: model of the arm.
        W: regressor of the standard parameters (N, n, s), see `ArmModel.standard_regressor`.
        tau: torques (N, n) [N m].
        bounds: margin of the pseudo-inertia, and limits of a link's mass and length; see `largest`.

    Raises:
        ConfigurationError: if the structure does not contain products of inertia.
        DataError: if shapes do not match, values are not finite, there are not more samples than parameters of a joint,
            or the motion does not excite a joint.
        InfeasibleError: if no link satisfies the bounds of mass and pseudo-inertia, or the result is not physically
            consistent.
    """
    if not model.structure.products_of_inertia:
        raise ConfigurationError(
            "the sequential estimator needs products of inertia, which structure in robot.yaml omits: set "
            "products_of_inertia to true there, or fit all joints at once (consistent)"
        )
    names = model.regrouping.standard
    if W.shape != (*tau.shape, len(names)) or tau.shape[1] != model.axes:
        raise DataError(f"regressor {W.shape} and torques {tau.shape}; expected (N, {model.axes}, {len(names)})")
    if not (np.isfinite(W).all() and np.isfinite(tau).all()):
        raise DataError("regressor or torques are not finite; repair the data first")
    pi, owner, seconds = np.zeros(len(names)), owners(model), 0.0
    residual_rms = np.zeros(model.axes)
    for axis in reversed(range(model.axes)):
        mine = np.flatnonzero((owner == axis) & model.modelled)
        if not len(mine):
            continue
        rest = tau[:, axis] - W[:, axis] @ pi  # subtracts the joints further out; all other parameters are still zero
        program = _JointProgram(model, bounds, axis, mine)
        pi[mine] = program.solve(W[:, axis, mine], rest)
        seconds += program.seconds
        if axis < model.chain_size:
            block = slice(10 * axis, 10 * (axis + 1))
            margin = bounds.pseudo_inertia_margin * MARGIN_RESERVE
            pi[block] = lightest(pi[block], margin, model.mdh.prismatic[axis])
        residual_rms[axis] = np.sqrt(np.mean((rest - W[:, axis, mine] @ pi[mine]) ** 2))
    return _outcome(model, bounds, pi, residual_rms, seconds)


class _JointProgram:
    """Semidefinite program that fits the parameters of one axis.

    These are the drive parameters of the axis and, if it is a joint of the kinematic chain, the parameters of the link
    that it moves directly. Other axes have no link.
    """

    def __init__(self, model: ArmModel, bounds: PhysicalBounds, axis: int, mine: NDArray[np.int64]) -> None:
        self.axis = axis
        self.names = tuple(model.regrouping.standard[k] for k in mine)
        self.units = solver_units(self.names, model.prismatic)
        self.x = np.eye(len(mine))
        self.pulled: list[FloatArray] = []
        self.cones: list[Cone] = []
        self.unfelt: FloatArray | None = None
        self.seconds = 0.0  # time in the solver, including the set-up of the problem
        for k, name in enumerate(self.names):
            kind = kind_and_number(name)[0]
            if kind == "IA":
                self.cones.append(positive(self.x[k], np.array([-MINIMUM_ROTOR_INERTIA / self.units[k]])))
            elif kind in FRICTION:
                self.cones.append(positive(self.x[k], np.zeros(1)))
            if kind in (*PRODUCTS, "MX", "MY", "IA"):
                self.pulled.append(self.x[k])
        if axis < model.chain_size:
            place = {int(k) - 10 * axis: position for position, k in enumerate(mine)}
            self._add_link(
                (model.mdh.prismatic[axis], *largest(model, bounds, axis)), bounds.pseudo_inertia_margin, place
            )

    def _add_link(self, largest: tuple[bool, float, float], margin: float, place: dict[int, int]) -> None:
        """Add the constraints of the joint's link: physical consistency, and limits of mass and second moment.

        A part of the mass and of the second moments does not affect the joint's torque. Without limits, noise could
        make this part far too large.

        Args:
            largest: tuple of three values: whether the joint is prismatic, largest mass [kg], and largest second moment
                [kg m^2].
            margin: smallest allowed eigenvalue of the pseudo-inertia.
            place: index of the program's variable for each of the link's ten standard parameters, which are the keys 0
                to 9.
        """
        ten = np.zeros((10, len(self.x)))  # products outside the structure are zero
        for k in range(10):
            if k in place:
                ten[k, place[k]] = self.units[place[k]]
        # twice the margin keeps A above the margin, which the smallest C requires
        self.cones.append(semidefinite(*pseudo_inertia_rows(ten, 2.0 * margin)))
        slides, mass, moment = largest
        self.cones.append(positive(-self.x[place[9]], np.array([mass / self.units[place[9]]])))
        trace = (ten[0] + ten[3] + ten[5]) / self.units[place[5]]
        self.cones.append(positive(-trace, np.array([2.0 * moment / self.units[place[5]]])))
        self.pulled.append(self.x[place[0]] - self.x[place[3]])
        second = 0.5 * (ten[0] + ten[3] + ten[5]) if slides else 0.5 * (ten[0] + ten[3] - ten[5])
        mass_unit = 0.0 if slides else 1.0
        self.unfelt = second / (MASS_UNIT_KG * LENGTH_UNIT_M**2) + mass_unit * ten[9] / MASS_UNIT_KG

    def solve(self, columns: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the joint's parameters (k,) that fit its torques.

        Many sets of parameters fit equally well within the noise. The returned set minimises quantities that do not
        affect the torques, such as mass on the joint's axis.

        Args:
            columns: torques per unit of each parameter, (N, k).
            rest: torques of the joint minus those of the links further out, (N,) [N m].

        Raises:
            DataError: there are not more samples than parameters, or the motion does not excite the joint.
            InfeasibleError: no parameters satisfy the constraints, or the solver failed.
        """
        size = len(self.names)
        if len(rest) <= size:
            raise DataError(f"{len(rest)} samples do not determine the {size} parameters of joint {self.axis + 1}")
        scaled = columns * self.units
        strongest = float(np.linalg.norm(scaled, axis=0).max())
        if strongest == 0.0:
            raise DataError(f"the motion does not excite joint {self.axis + 1}: move it")
        R = qr(np.column_stack([scaled, rest]) / strongest, mode="r", check_finite=False)[0][: size + 1]
        misfit = np.vstack([R[:, :-1], *(PULL * one for one in self.pulled)])
        torque = np.append(-R[:, -1], np.zeros(len(self.pulled)))
        top = np.append(np.zeros(size), 1.0)  # the last variable is an upper bound of the norm
        x = self._minimum(top, norm_below(misfit, torque, top))
        if self.unfelt is None:
            return np.asarray(self.units * x)
        # among fits as good as the best within the noise, take the one with the least mass that affects no torque
        errors = rest - scaled @ x
        exact = np.linalg.norm(errors) < EXACT * np.linalg.norm(rest)
        independent = len(rest) / (1.0 if exact else samples_alike(errors))
        share = np.sqrt(1.0 + chdtri(size, 1.0 - CONFIDENCE) / independent)
        allowed = float(np.linalg.norm(misfit @ x + torque)) * share + ROUND_OFF * float(np.linalg.norm(R[:, -1]))
        return np.asarray(self.units * self._minimum(self.unfelt, norm_below(misfit, torque, np.zeros(size), allowed)))

    def _minimum(self, c: FloatArray, fit: Cone) -> FloatArray:
        """Return the variables x (k,) of the joint's program that minimise the linear cost c' x.

        Args:
            c: cost per unit of each variable, (k,); or (k + 1,) if `fit` has an auxiliary variable, whose cost comes
                last.
            fit: constraint that limits the torque residual, in addition to the joint's other constraints.
        """
        begin = time.perf_counter()
        found = minimise(
            c,
            [*self.cones, fit],
            f"sequential fit, joint {self.axis + 1}",
            "no physically possible link satisfies the masses and the margin of robot.yaml's physical_bounds: correct "
            "them",
        )
        self.seconds += time.perf_counter() - begin
        return found[: len(self.x)]


def samples_alike(errors: FloatArray) -> float:
    """Return the number of consecutive errors (N,) that carry as much information as one independent error, at least 1.

    Unmodelled friction causes errors that last for tenths of a second. If every sample counted as independent, the fit
    of a link would seem far too certain. The number is 2 s - 1, where s is the sum of the autocorrelations from lag 0
    up to the last lag before the first value that is not positive.
    """
    count = len(errors)
    power = np.abs(np.fft.rfft(errors - errors.mean(), 2 * count)) ** 2
    along = np.fft.irfft(power)[:count]
    if along[0] <= 0.0:
        return 1.0
    ends = np.flatnonzero(along <= 0.0)
    return float(max(1.0, 2.0 * along[: ends[0] if len(ends) else count].sum() / along[0] - 1.0))


def _outcome(
    model: ArmModel, bounds: PhysicalBounds, pi: FloatArray, residual_rms: FloatArray, seconds: float
) -> SequentialModel:
    """Return the result of the sequential fit, after a check of the pseudo-inertias that does not rely on the solver.

    Args:
        model: model of the arm.
        bounds: physical bounds.
        pi: standard parameters, (s,).
        residual_rms: rms residual of every joint's torque, (n,) [N m].
        seconds: time in all semidefinite programs together [s].

    Raises:
        InfeasibleError: an eigenvalue of a link's pseudo-inertia is below the margin.
    """
    standard = on_their_bounds(model, pi, bounds.pseudo_inertia_margin)
    margins = [float(np.linalg.eigvalsh(pseudo_inertia(standard.link(j)))[0]) for j in range(model.chain_size)]
    if min(margins) < bounds.pseudo_inertia_margin:
        raise InfeasibleError(
            f"sequential fit: the pseudo-inertia of link {int(np.argmin(margins)) + 1} has the eigenvalue "
            f"{min(margins):.3g}, below the required {bounds.pseudo_inertia_margin:.3g}: the solver failed"
        )
    return SequentialModel(standard, residual_rms, min(margins), seconds)
