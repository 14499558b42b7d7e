"""Physically feasible standard parameters one joint at a time, from the last one inward.

The regressor of standard parameters is block upper triangular: the torque of joint i holds links i..n alone. So the
last joint's torque determines what it can of the last link, and with that known, the next joint's torque of the next
link:

    min || tau_i - sum_{j > i} W_ij pi_j - W_ii x ||   over x = pi_i whose pseudo-inertia J(x) >= delta I,

one small semidefinite program per joint instead of one for the whole arm.

What a joint does not feel of its own link is mass on its axis: of J = [[A, B], [B', C]], ordered such that C holds the
second moment along z, the first moment along z and the mass, a turning joint feels A and B and never C (one that slides
feels mass and first moments; C then is all second moments). That part belongs to the link before just as well, so a
share of it can be chosen here, and the rest is found there. If too large a share stays here, the link before has to
have less than nothing, and its program fails to fit. Of all C that make J positive definite there is a smallest one,

    C = B' (A - delta I)^-1 B + delta I,

and with it whatever is left for the link before is positive semidefinite: no program takes away what the next one
needs, and without noise the sequential fit is as good as that of all joints at once. With noise, where A is close to
the margin, C would grow beyond all that a link can be; so a second program per joint takes, of all parameters that fit
equally well within the noise, those with the least mass and second moment. The links so found are as light as torques
allow, and what is handed on need not lie within the link: masses, boxes and the least spread of robot.yaml are the
business of the consistent projection after it, which shares what is handed on among the links again.

All of this needs products of inertia: mass that is handed to the link before has some in that link's frame. A structure
without them is refused.
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

PULL = 1e-5  # to zero where the torque is silent, over the largest column of the joint, columns in the solver's units
CONFIDENCE = 0.95  # that the true parameters are among those that fit
EXACT = 1e-4  # of the torque: no drive's is known so well, so what is left is the solver's
ROUND_OFF = 1e-7  # of the torque: noise-free data still leave the second program room to move in
BODY_M = 0.5  # by which no link extends beyond where its centre of mass may be
TURNING, SLIDING = (0, 1), (3,)  # rows of J that a joint feels


@dataclass(frozen=True, eq=False)
class SequentialModel:
    """Outcome of the sequential programs.

    Attributes:
        standard: standard parameters whose links are all physical.
        residual_rms: of every joint's torque, (n,) [N m].
        margin: smallest eigenvalue of all pseudo-inertias, computed from the returned values.
        solver_seconds: in all semidefinite programs together.
    """

    standard: StandardParameters
    residual_rms: FloatArray
    margin: float
    solver_seconds: float


def owners(model: ArmModel) -> NDArray[np.int64]:
    """The joint whose program finds each standard parameter, (s,): the last one whose torque can hold it."""
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
    """Mass [kg] and second moment about the joint's origin [kg m^2] that everything moving with a joint stays below.

    The mass is that of the bounds; no part of it is farther away than the stretched arm and `BODY_M` beyond.
    """
    mdh, reach, limits = model.mdh, BODY_M, model.limits(bounds)
    for j in range(joint, model.chain_size):
        corner = np.maximum(*np.abs(limits.links[j].centre))
        reach += float(np.linalg.norm(corner)) + float(np.linalg.norm(mdh.in_link[j][:3, 3]))
        reach += abs(mdh.d[j]) + abs(mdh.r[j]) if j > joint else 0.0
    mass = min(sum(link.mass[1] for link in limits.links[joint:]), limits.total_mass)
    return mass, mass * reach**2


def lightest(link: FloatArray, margin: float, slides: bool = False) -> FloatArray:
    """Ten standard parameters (10,) with the smallest share of what their own joint does not feel.

    Args:
        link: ten standard parameters whose A is above the margin.
        margin: delta, smallest eigenvalue of the pseudo-inertia.
        slides: whether the joint slides.
    """
    J = np.array(pseudo_inertia(link))
    felt = list(SLIDING if slides else TURNING)
    other = [k for k in range(4) if k not in felt]
    A, B = J[np.ix_(felt, felt)], J[np.ix_(felt, other)]
    smallest = B.T @ np.linalg.solve(A - margin * np.eye(len(felt)), B) + margin * np.eye(len(other))
    J[np.ix_(other, other)] = smallest
    return ten_parameters(J)


def sequential_fit(model: ArmModel, W: FloatArray, tau: FloatArray, bounds: PhysicalBounds) -> SequentialModel:
    """Physical standard parameters, joint by joint from the last one inward.

    Args:
        W: regressor of the standard parameters (N, n, s), see `ArmModel.standard_regressor`.
        tau: torques (N, n) [N m].
        bounds: margin of the pseudo-inertia, and what is too heavy or too long to be one link; see `largest`.

    Raises:
        ConfigurationError: a structure without products of inertia.
        DataError: other shapes, values that are not finite, or fewer samples than a joint's parameters.
        InfeasibleError: no physical link is below the total mass, or a result is not physically consistent.
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
        rest = tau[:, axis] - W[:, axis] @ pi  # of the joints further out; everything else is still zero
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
    """The semidefinite program of one joint: its link, where it has one, and what its drive adds."""

    def __init__(self, model: ArmModel, bounds: PhysicalBounds, axis: int, mine: NDArray[np.int64]) -> None:
        self.axis = axis
        self.names = tuple(model.regrouping.standard[k] for k in mine)
        self.units = solver_units(self.names, model.prismatic)
        self.x = np.eye(len(mine))
        self.pulled: list[FloatArray] = []
        self.cones: list[Cone] = []
        self.unfelt: FloatArray | None = None
        self.seconds = 0.0  # in the solver, with what it takes to hand it the problem
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
        """The link is physical, and what its joint does not feel is below the `largest` mass and second moment, which
        is what noise would raise it beyond; `place` of the ten parameters among the variables."""
        ten = np.zeros((10, len(self.x)))  # products that the structure has not are zero
        for k in range(10):
            if k in place:
                ten[k, place[k]] = self.units[place[k]]
        # twice the margin leaves A above it, which the smallest C needs
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
        """Parameters (k,) that fit columns (N, k) to torques (N,)."""
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
        top = np.append(np.zeros(size), 1.0)  # what the norm is below
        x = self._minimum(top, norm_below(misfit, torque, top))
        if self.unfelt is None:
            return np.asarray(self.units * x)
        # as good as the best fit to what noise lets tell, and with as little as possible that is not felt
        errors = rest - scaled @ x
        exact = np.linalg.norm(errors) < EXACT * np.linalg.norm(rest)
        independent = len(rest) / (1.0 if exact else samples_alike(errors))
        share = np.sqrt(1.0 + chdtri(size, 1.0 - CONFIDENCE) / independent)
        allowed = float(np.linalg.norm(misfit @ x + torque)) * share + ROUND_OFF * float(np.linalg.norm(R[:, -1]))
        return np.asarray(self.units * self._minimum(self.unfelt, norm_below(misfit, torque, np.zeros(size), allowed)))

    def _minimum(self, c: FloatArray, fit: Cone) -> FloatArray:
        """Variables (k,) with the least c' x within the constraints and that of the fit."""
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
    """How many samples of errors (N,) in order of time say as much as one that stands alone, at least 1.

    Friction that is not in the model errs for tenths of a second alike. As if every sample were new, the first program
    would be believed in the last digit, and mass on an axis grew to the bounds. One more than twice the sum of the
    autocorrelations, up to the first that is not positive.
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
    """The result, judged by its own numbers rather than by the solver's word."""
    standard = on_their_bounds(model, pi, bounds.pseudo_inertia_margin)
    margins = [float(np.linalg.eigvalsh(pseudo_inertia(standard.link(j)))[0]) for j in range(model.chain_size)]
    if min(margins) < bounds.pseudo_inertia_margin:
        raise InfeasibleError(
            f"sequential fit: the pseudo-inertia of link {int(np.argmin(margins)) + 1} has the eigenvalue "
            f"{min(margins):.3g}, below the required {bounds.pseudo_inertia_margin:.3g}: the solver failed"
        )
    return SequentialModel(standard, residual_rms, min(margins), seconds)
