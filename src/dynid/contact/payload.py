"""What an arm holds, weighed while it moves: recursive weighted least squares on the observer's residual.

A model that does not know of a payload with the ten parameters d of the last link leaves the residual r = -P d. P is
the payload's regressor through the observer's own filters,

    dP/dt = K (d(Yp)/dt - Yc - P),    Yp d = M_L(q) dq,    Yc d = C_L' dq - g_L,

so it needs no acceleration either. Every joint counts by its deviation, so one that sticks says little. What the model
and friction leave of a torque lasts, it does not average out within `MEMORY_S`, while noise of the encoder is gone
after 2 / K: samples add information by their share of these times, so that hundreds that say the same count as one.

The estimate is a sum of point masses in a box about the tool, so at every step some body has it: its mass is not
negative, its centre lies in the box, and its pseudo-inertia is positive semidefinite. The same box is what is known
beforehand: a mass m has first moments about the tool of m b / sqrt(3) and inertia of m b^2, b being half a side. That
grows with m, so it is the prior of the last round's m in a few rounds.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from dynid.contact.error_bars import ErrorBars
from dynid.contact.force import ToolForce
from dynid.contact.observer import LONGEST_STEP_S, STEP_RAD, MomentumObserver
from dynid.control.control_model import ControlModel
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.model.regressor import LinkMotion, link_columns, link_motions
from dynid.model.standard import six
from dynid.robot import FloatArray, Robot, read_only

PERIOD_S = 0.01  # of the estimate: the observer's filter passes 10 Hz
MEMORY_S = 1.0  # residuals nearer than this say the same, as in `identification.estimators.uncertainty`
BOX_M = 0.1  # half a side of the box about the tool in which a payload lies
GRID = (-1.0, 0.0, 1.0)
STANDARD_GRAVITY = 9.80665
ROUNDS, LEAST_KG = 4, 0.01  # the prior's m does not fall below this


@dataclass(frozen=True, eq=False)
class HeldMass:
    """An estimate of what the arm holds.

    Attributes:
        mass_kg: its mass.
        mass_deviation_kg: its deviation, as if nothing but the prior constrained it.
        centre_m: centre of mass in the last URDF link frame, (3,); the tool where nothing is held.
        centre_deviation_m: per direction of the last modified DH frame, (3,).
        parameters: consistent standard parameters in the last modified DH frame, (10,), SI.
    """

    mass_kg: float
    mass_deviation_kg: float
    centre_m: FloatArray
    centre_deviation_m: FloatArray
    parameters: FloatArray


class PayloadEstimator:
    """Weighs what the arm holds, a cycle at a time.

    Args:
        robot: its tool, and what its drives lift.
        arm: geometry and gravity as it is mounted.
        observer, bars: of the arm without payload, updated before `update`.
    """

    def __init__(self, robot: Robot, arm: ArmModel, observer: MomentumObserver, bars: ErrorBars) -> None:
        self._arm, self._observer, self._bars = arm, observer, bars
        most = ToolForce(robot, arm.mdh).largest_n / STANDARD_GRAVITY
        placement = arm.mdh.in_link[-1]
        self._rotation, self._origin = placement[:3, :3], placement[:3, 3]
        self._tool = np.array(robot.file.tool_m)
        self._most_kg = most
        self._to_tool = np.linalg.inv(_from_point(self._rotation.T @ (self._tool - self._origin)))
        points = [self._rotation.T @ (self._tool + BOX_M * np.array(p) - self._origin) for p in product(GRID, repeat=3)]
        self._masses = np.array([_point_mass(point) for point in points]).T
        self.reset()

    def reset(self) -> None:
        """Forget: something was picked up or put down."""
        c = self._arm.chain_size
        self._information, self._score = np.zeros((10, 10)), np.zeros(10)
        self._columns, self._known, self._momentum = np.zeros((3, c, 10))
        self._last_ns: int | None = None

    def update(self, stamp_ns: int, q: FloatArray) -> None:
        """One state, stamp [ns] and q (n,) [rad], after observer and bars have had it."""
        dt = 0.0 if self._last_ns is None else (stamp_ns - self._last_ns) * 1e-9
        if self._last_ns is not None and dt < PERIOD_S - 5e-4:
            return
        first = self._last_ns is None or dt > PERIOD_S + LONGEST_STEP_S
        self._last_ns = stamp_ns
        seen, c = self._observer, self._arm.chain_size
        momentum, known = self._terms(q[:c], seen.velocity[:c])
        if first:
            self._columns, self._known = -known, known  # as if the arm had stood: what it holds pulls by its weight
        else:
            lag = seen.velocity_s
            self._known = self._known + (known - self._known) * (1.0 - np.exp(-dt / lag) if lag else 1.0)
            new = (momentum - self._momentum) / dt - self._known
            self._columns = self._columns + (1.0 - np.exp(-seen.gain_1_s * dt)) * (new - self._columns)
            white, all_of_it = self._bars.noise[:c] ** 2, self._bars.deviation[:c] ** 2
            density = white * 2.0 / seen.gain_1_s + (all_of_it - white) * MEMORY_S
            weighted = self._columns * (dt / density)[:, None]
            self._information += weighted.T @ self._columns.reshape(c, 10)
            self._score -= weighted.T @ seen.torque[:c]
        self._momentum = momentum

    def explained(self, parameters: FloatArray) -> FloatArray:
        """The residual that a body with these parameters (10,) would leave now, (c,) [N m]."""
        return np.asarray(-self._columns @ parameters)

    def apart(self, one: FloatArray, other: FloatArray) -> float:
        """By how many deviations of what was seen two bodies, (10,) each, differ in all that was felt of them."""
        return float(np.sqrt((one - other) @ self._information @ (one - other)))

    def forget(self, kept: float) -> None:
        """Let what was seen so far count less, by a share from 0 to 1."""
        self._information *= kept
        self._score *= kept

    def _terms(self, q: FloatArray, dq: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Yp and Yc, (c, 10) each."""
        mdh, none = self._arm.mdh, np.zeros_like(q)
        h = STEP_RAD / max(float(np.abs(dq).max()), STEP_RAD)
        places, rates = np.stack([q, q + h * dq, q - h * dq]), np.stack([dq, dq, dq])
        moved = _last(link_motions(mdh, places, 0.0 * rates, rates, np.zeros(3)))
        load = _last(link_motions(mdh, q[None], dq[None], none[None], self._arm.gravity))[0]
        return moved[0], (moved[1] - moved[2]) / (2.0 * h) - load

    def estimate(self) -> HeldMass:
        """What all updates since the reset say."""
        mass = self._most_kg
        for _ in range(ROUNDS):
            sizes = np.array([mass * BOX_M**2] * 6 + [mass * BOX_M / np.sqrt(3.0)] * 3 + [self._most_kg])
            known = self._to_tool / sizes[:, None]
            information = self._information + known.T @ known
            root = np.linalg.cholesky(information)
            weights, _ = nnls(root.T @ self._masses, solve_triangular(root, self._score, lower=True))
            found = self._masses @ weights
            mass = max(float(found[9]), LEAST_KG)
        deviations = np.sqrt(np.diag(np.linalg.inv(information)))
        mass = float(found[9])
        centre = self._rotation @ (found[6:9] / mass) + self._origin if mass > 0.0 else self._tool
        open_m = deviations[6:9] / mass if mass > 0.0 else np.full(3, np.inf)
        return HeldMass(mass, float(deviations[9]), read_only(centre), read_only(open_m), read_only(found))


def _last(motions: list[LinkMotion]) -> FloatArray:
    return link_columns(motions[-1])


def _point_mass(place: FloatArray) -> FloatArray:
    """Ten standard parameters of 1 kg at a place (3,) [m]."""
    inertia = (place @ place) * np.eye(3) - np.outer(place, place)
    return np.concatenate([six(inertia), place, [1.0]])


def _from_point(place: FloatArray) -> FloatArray:
    """Ten parameters about the origin per ten about a place (3,) [m], (10, 10), axes being parallel."""
    out = np.eye(10)
    for k, unit in enumerate(np.eye(3)):
        out[:6, 6 + k] = six(2.0 * (place @ unit) * np.eye(3) - np.outer(place, unit) - np.outer(unit, place))
    out[:, 9] = _point_mass(place)
    return out


def with_payload(arm: ArmModel, model: ControlModel, parameters: FloatArray) -> ControlModel:
    """The model of an arm that holds a body with these parameters (10,) in the last modified DH frame.

    Give it to a controller by `ArmController.switch_to`, which lets the difference in torque in over time.
    """
    last = 10 * (arm.chain_size - 1)
    added = arm.regrouping.K[:, last : last + 10] @ parameters
    phi = BaseParameters(model.phi.names, model.phi.values + added, model.phi.covariance)
    return replace(model, phi=phi)
