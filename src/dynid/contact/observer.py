"""Momentum observer: estimate external torques from changes of momentum that the model does not explain.

With the momentum p = M(q) dq, rotors included, friction F and the external torque tau_ext,

    dp/dt = tau - F + C' dq - g + tau_ext,
    r = K (p - integral of (tau - F + C' dq - g + r) dt),    so    dr/dt = K (tau_ext - r):

the residual r is tau_ext after a first-order low-pass filter, and no acceleration is needed (De Luca and Mattone 2005;
Haddadin, De Luca and Albu-Schaeffer 2017). F is the friction that the identified model predicts. It may depend on the
load, which is the torque of gravity, Coriolis forces and contact on the joint, -(C dq + g) + r. If the velocity is an
estimate with a lag, motor torques and positions are delayed by the same time. The lag then delays r but causes no
systematic error.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from dynid.codegen.emit import RANGE
from dynid.codegen.kernels import load_kernels
from dynid.control.control_model import ControlModel
from dynid.control.dynamics_kernel import (
    SINGLE_STATE_LOOPS,
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
VELOCITY_S = 0.015  # lag of the velocity estimate [s]: an encoder step of 1.5 mrad becomes 0.1 rad/s
LONGEST_STEP_S = 0.02  # longest gap between states [s]; after a longer one the observer restarts
STEP_RAD = 1e-4  # step of the central difference along dq [rad]; its relative error is 1e-8


def momentum_terms(q: Any, dq: Any, phi: Any, step: float, inertia: Any, gained: Any, load: Any) -> int:
    """Write M(q) into `inertia`, C^T dq - g into `gained` and C dq + g into `load`, all without friction.

    M is the inertia matrix, C dq are Coriolis torques and g are gravity torques. C^T is the transpose of C. Since dM/dt
    = C + C^T, it follows that C^T dq = dM/dt dq - C dq. The term dM/dt dq is computed as a central difference of M dq
    along dq.

    Args:
        q: positions, (n,) [rad].
        dq: velocities, (n,) [rad/s].
        phi: base parameters with friction set to zero, (p,), SI.
        step: step of the central difference [rad].
        inertia: result, (n, n) [kg m^2].
        gained: result, the rate of change of the momentum without motor torque, friction and contact, (n,) [N m].
        load: result, the Coriolis and gravity torques, (n,) [N m].

    Returns:
        The number of positions outside the range in which the generated dynamics are accurate.
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
    """Observer of the external torques of one arm, updated every cycle.

    Args:
        arm: geometry, structure and gravity of the arm as mounted.
        model: control model of the arm, with base parameters and friction.
        gain_1_s: gain K of the observer [1/s]; `torque` reaches 63 % of a constant contact torque after 1 / K.
        velocity_s: lag of the velocity given to `update` behind the positions [s]. If `update` gets no velocity, this
            is the time constant with which the observer itself differentiates the positions.
        torque_delay_s: delay from the torque given to `update` until it acts at the motors [s].

    Attributes:
        torque: residual of the observer after the last update, which estimates the external torque, (n,) [N m].
        velocity: velocity in the last update, (n,) [rad/s].
        inertia: inertia matrix, (n, n) [kg m^2].
        load: Coriolis and gravity torques C dq + g, (n,) [N m].
        friction: friction torque in the last update, (n,) [N m].
        restarted: whether the last update was the first, or the first after a gap.

    Raises:
        ConfigurationError: the gain is not positive, or the lag or the delay is negative.
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
        self._kernel = load_kernels("momentum", arm, lambda: generate(arm), [*SINGLE_STATE_LOOPS, momentum_terms])
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
        self._terms(np.zeros(n), np.zeros(n), np.zeros(n))  # compile now, not in a control loop

    def reset(self) -> None:
        """Clear the observer's state; the next update counts as the first."""
        self._last_ns = None
        self.torque[:] = 0.0

    def update(self, stamp_ns: int, q: FloatArray, dq: FloatArray | None, tau: FloatArray) -> FloatArray:
        """Process one state of the arm and return the residual, which is the estimate of the external torques.

        Args:
            stamp_ns: timestamp of the state [ns]; a state that is not newer than the last one is ignored, and after a
                gap the residual restarts from 0.
            q: measured positions, (n,) [rad].
            dq: velocities with a lag of `velocity_s`, (n,) [rad/s]; None estimates them from q.
            tau: commanded motor torques between the last state and this one, (n,) [N m].

        Returns:
            The residual, (n,) [N m]; a new array.

        Raises:
            SafetyError: a position is not finite, or a prismatic or spring-loaded joint is beyond +-3.5 m or rad
                (`dynid.codegen.emit.RANGE`), where the generated dynamics are not valid. Joints whose torques are
                periodic are shifted into this range.
            ConfigurationError: dq is None and `velocity_s` is zero, so the velocity cannot be estimated.
        """
        dt = 0.0 if self._last_ns is None else (stamp_ns - self._last_ns) * 1e-9
        if self._last_ns is not None and dt <= 0.0:
            self.restarted = False
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
        """Return the momentum's rate of change without contact and the momentum itself, (n,) each.

        The rate is tau - F + C^T dq - g [N m] with friction F and gravity torques g; C^T is the transpose of the matrix
        of the Coriolis torques C dq. The momentum is M dq with the inertia matrix M. All are computed at positions that
        are delayed like the velocity.

        Args:
            q: measured positions, (n,) [rad].
            dq: velocities, (n,) [rad/s].
            tau: motor torques, delayed like the velocity, (n,) [N m].

        Raises:
            SafetyError: a position is outside the range of the generated dynamics, or not finite.
        """
        # positions with the same lag as the velocity
        self._q[:], self.velocity[:] = (
            within_a_turn(q - self.velocity_s * dq, self._aperiodic),
            dq,
        )  # arrays of one type, since numba compiles anew for others
        if self._kernel.momentum_terms(
            self._q, self.velocity, self._links, STEP_RAD, self.inertia, self._gained, self.load
        ):
            raise SafetyError(
                f"a joint is at {np.abs(q).max():.3f} rad; the dynamics are computed within +-{RANGE} rad"
            )
        drag = self._inverse_dynamics(self._still, dq, self._still, self._drag)
        self.friction[:] = drag + self._law.torque(dq, tau, self.torque - self.load)
        return tau - self.friction + self._gained, self.inertia @ dq
