"""What an arm holds, weighed while it moves: recursive weighted least squares on the observer's residual.

A model that does not know of a payload with the ten parameters d of the last link leaves the residual r = -P d. P is
the payload's regressor through the observer's own filters,

    dP/dt = K (d(Yp)/dt - Yc - P),    Yp d = M_L(q) dq,    Yc d = C_L' dq - g_L,

so it needs no acceleration either. Every joint counts by its deviation, so one that sticks says little. What the model
and friction leave of a torque lasts, it does not average out within `MEMORY_S`, while noise of the encoder is gone
after 2 / K: samples add information by their share of these times, so that hundreds that say the same count as one.

The estimate is a body by `PointMasses`.
"""

from dataclasses import dataclass, replace

import numpy as np

from dynid.contact.error_bars import ErrorBars
from dynid.contact.observer import LONGEST_STEP_S, STEP_RAD, MomentumObserver
from dynid.contact.point_masses import PointMasses
from dynid.control.control_model import ControlModel
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.model.regressor import LinkMotion, link_columns, link_motions
from dynid.robot import FloatArray, Robot, read_only

PERIOD_S = 0.01  # of the estimate: the observer's filter passes 10 Hz
MEMORY_S = 1.0  # residuals nearer than this say the same, as in `identification.estimators.uncertainty`


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

    @classmethod
    def of(cls, bodies: PointMasses, found: FloatArray, covariance: FloatArray) -> "HeldMass":
        """What `PointMasses.solve` found, (10 or more,), and its covariance."""
        deviations, mass = np.sqrt(np.diag(covariance)), float(found[9])
        centre = bodies.rotation @ (found[6:9] / mass) + bodies.origin if mass > 0.0 else bodies.tool
        open_m = deviations[6:9] / mass if mass > 0.0 else np.full(3, np.inf)
        body = read_only(np.array(found[:10]))
        return cls(mass, float(deviations[9]), read_only(centre), read_only(open_m), body)


class PayloadEstimator:
    """Weighs what the arm holds, a cycle at a time.

    Args:
        robot: its tool, and what its drives lift.
        arm: geometry and gravity as it is mounted.
        observer, bars: of the arm without payload, updated before `update`.
    """

    def __init__(self, robot: Robot, arm: ArmModel, observer: MomentumObserver, bars: ErrorBars) -> None:
        self._arm, self._observer, self._bars = arm, observer, bars
        self._bodies = PointMasses(robot, arm)
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
        return HeldMass.of(self._bodies, *self._bodies.solve(self._information, self._score))


def _last(motions: list[LinkMotion]) -> FloatArray:
    return link_columns(motions[-1])


def with_payload(arm: ArmModel, model: ControlModel, parameters: FloatArray) -> ControlModel:
    """The model of an arm that holds a body with these parameters (10,) in the last modified DH frame.

    Give it to a controller by `ArmController.switch_to`, which lets the difference in torque in over time.
    """
    last = 10 * (arm.chain_size - 1)
    added = arm.regrouping.K[:, last : last + 10] @ parameters
    phi = BaseParameters(model.phi.names, model.phi.values + added, model.phi.covariance)
    return replace(model, phi=phi)
