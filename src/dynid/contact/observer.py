"""External torque without a sensor: what an arm's momentum gains beyond what motors, gears and gravity explain.

With the momentum p = M(q) dq, rotors included, friction F and the external torque tau_ext,

    dp/dt = tau - F + C' dq - g + tau_ext,
    r = K (p - integral of (tau - F + C' dq - g + r) dt),    so    dr/dt = K (tau_ext - r):

the residual r is tau_ext behind a first-order low-pass filter, and no acceleration is needed (De Luca and Mattone
2005; Haddadin, De Luca and Albu-Schaeffer 2017). F is the identified law, whose load is -(C dq + g) + r: a contact
loads the gears, too. An estimated velocity lags behind; motor torques and positions are then delayed alike, so that a
lag changes when r answers and not what it says.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from dynid.codegen.emit import RANGE
from dynid.codegen.kernels import load_kernels
from dynid.control.control_model import ControlModel
from dynid.control.dynamics_kernel import (
    SINGLE_STATE,
    TRANSITION_RAD_S,
    compile_single,
    generate,
    single_state,
    within_a_turn,
)
from dynid.control.filters import PseudoDifferentiator
from dynid.errors import ConfigurationError, SafetyError
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray

GAIN_1_S = 60.0
VELOCITY_S = 0.015  # an encoder step of 1.5 mrad is then 0.1 rad/s, with 2 ms as of controllers 0.6 rad/s
LONGEST_STEP_S = 0.02  # after a longer gap in the states nobody knows what happened: start again
STEP_RAD = 1e-4  # of the central difference along dq; its error is 1e-8 of the term


def momentum_terms(q: Any, dq: Any, phi: Any, step: float, inertia: Any, gained: Any, load: Any) -> int:
    """M(q) into `inertia` (n, n), C' dq - g into `gained` and C dq + g into `load`, (n,) each, friction left out.

    C' dq = dM/dt dq - C dq, where dM/dt dq is a central difference of M dq along dq.
    Returns how many positions were out of the polynomials' range.
    """
    n = q.shape[0]
    none, unit, moved, held, change = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    outside = single_state(q, none, none, phi, held)
    for k in range(n):
        unit[k] = 1.0
        single_state(q, none, unit, phi, moved)
        unit[k] = 0.0
        for i in range(n):
            inertia[i, k] = moved[i] - held[i]
    fastest = np.abs(dq).max()
    if fastest > 0.0:
        h = step / fastest
        for sign in (1.0, -1.0):
            place = q + sign * h * dq
            outside += single_state(place, none, dq, phi, moved)
            single_state(place, none, none, phi, held)
            for i in range(n):
                change[i] += sign * (moved[i] - held[i]) / (2.0 * h)
    single_state(q, dq, none, phi, load)
    for i in range(n):
        gained[i] = change[i] - load[i]
    return outside


class MomentumObserver:
    """The external torque of one arm, a cycle at a time.

    Args:
        arm: geometry, structure and gravity as the arm is mounted.
        model: parameters and friction.
        gain_1_s: K [1/s]; a contact is seen to 63 % after 1 / K.
        velocity_s: lag of the velocity [s]: of the observer's own estimate, or of the one that `update` gets.
        torque_delay_s: from the torque that `update` gets to the motors [s].

    Attributes:
        torque: r, the external torque after the last update, (n,) [N m].
        velocity: that the last update used, (n,) [rad/s].
        inertia: M(q), (n, n) [kg m^2].
        load: C dq + g, (n,) [N m].
        friction: F that the last update took off, (n,) [N m].
        restarted: whether the last update was the first, or the first after a gap.

    Raises:
        ConfigurationError: a gain that is not positive, or a negative lag or delay.
    """

    def __init__(
        self,
        arm: ArmModel,
        model: ControlModel,
        *,
        gain_1_s: float = GAIN_1_S,
        velocity_s: float = VELOCITY_S,
        torque_delay_s: float = 0.0,
    ) -> None:
        if not (gain_1_s > 0.0 and velocity_s >= 0.0 and torque_delay_s >= 0.0):
            raise ConfigurationError(
                f"the observer got a gain of {gain_1_s} 1/s, a lag of {velocity_s} s and a delay of {torque_delay_s} s"
                "; expected a positive gain, and neither lag nor delay below 0"
            )
        self.gain_1_s, self.velocity_s, n = gain_1_s, velocity_s, arm.axes
        self._kernel = load_kernels("momentum", arm, lambda: generate(arm), [*SINGLE_STATE, momentum_terms])
        self._inverse_dynamics = compile_single(arm)
        kept = [kind for kind in KINDS if kind != "IA"]
        self._links = of_kinds(model.phi, kept, others=True).values
        self._drag = of_kinds(model.phi, kept).values
        self._law, self._aperiodic = replace(model.friction, transition_rad_s=TRANSITION_RAD_S), arm.aperiodic
        self._lag_s = velocity_s + torque_delay_s
        self._own = PseudoDifferentiator(velocity_s, n) if velocity_s else None
        self.torque, self.velocity, self.load, self.friction, self._gained, self._applied = np.zeros((6, n))
        self.inertia = np.zeros((n, n))
        self._still, self._momentum, self._q = np.zeros((3, n))
        self._last_ns: int | None = None
        self.restarted = False
        self._terms(np.zeros(n), np.zeros(n), np.zeros(n))  # compiles: a control loop must not wait for a compiler

    def reset(self) -> None:
        """Forget everything; the next update is the first."""
        self._last_ns = None
        self.torque[:] = 0.0

    def update(self, stamp_ns: int, q: FloatArray, dq: FloatArray | None, tau: FloatArray) -> FloatArray:
        """One state of the arm.

        Args:
            stamp_ns: of the state [ns]; a state that is not newer changes nothing, and a gap starts again from 0.
            q: measured positions, (n,) [rad].
            dq: velocities that lag by `velocity_s`, (n,) [rad/s]; None estimates them from q.
            tau: torques commanded to the motors between the last state and this one, (n,) [N m].

        Returns:
            r, (n,) [N m]; a new array.

        Raises:
            SafetyError: a joint that slides or has a spring is far beyond where the generated dynamics hold, or a
                position is not finite.
            ConfigurationError: no velocities, and no lag to estimate them with.
        """
        dt = 0.0 if self._last_ns is None else (stamp_ns - self._last_ns) * 1e-9
        if self._last_ns is not None and dt <= 0.0:
            return self.torque.copy()
        first = self.restarted = self._last_ns is None or dt > LONGEST_STEP_S
        self._last_ns = stamp_ns
        self._applied += (tau - self._applied) * (1.0 if first or not self._lag_s else 1.0 - np.exp(-dt / self._lag_s))
        known, momentum = self._terms(q, self._velocity(dt, q, dq, first), self._applied)
        if first:
            self.torque[:] = 0.0
        else:
            seen = (momentum - self._momentum) / dt - known
            self.torque += (1.0 - np.exp(-self.gain_1_s * dt)) * (seen - self.torque)
        self._momentum = momentum
        return self.torque.copy()

    def _velocity(self, dt: float, q: FloatArray, dq: FloatArray | None, first: bool) -> FloatArray:
        if dq is not None:
            return dq
        if self._own is None:
            raise ConfigurationError("the observer got no velocities, and a lag of 0 s to estimate them with")
        if first:
            self._own.reset(q)
            return self._still
        return self._own.update(dt, q)

    def _terms(self, q: FloatArray, dq: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
        """tau - F + C' dq - g and M dq, (n,) each."""
        # where a joint was when it had the velocity that is known: what a filter of that lag makes of q
        self._q[:], self.velocity[:] = (
            within_a_turn(q - self.velocity_s * dq, self._aperiodic),
            dq,
        )  # arrays of one kind: numba compiles anew for others
        if self._kernel.momentum_terms(
            self._q, self.velocity, self._links, STEP_RAD, self.inertia, self._gained, self.load
        ):
            raise SafetyError(
                f"a joint is at {np.abs(q).max():.3f} rad; the dynamics are computed within +-{RANGE} rad"
            )
        drag = self._inverse_dynamics(self._still, dq, self._still, self._drag)
        self.friction[:] = drag + self._law.torque(dq, tau, self.torque - self.load)
        return tau - self.friction + self._gained, self.inertia @ dq
