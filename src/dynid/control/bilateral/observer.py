"""What one arm does and what pushes it, from encoders and commanded torques alone: no force sensor, no acceleration.

A Luenberger observer of M(q) (ddq - d) + C dq + g + F = tau with the states q, dq and the disturbance d [rad/s^2]. All
three poles lie at -w. With e the encoder's error and u what the torque in force does,

    u = M(q)^-1 (tau - C dq - g - F),  q' = dq + 3 w e,  dq' = u + d + 3 w^2 e,  d' = w^3 e,

M d is the torque from outside: the disturbance observer of Ohnishi, Shibata and Murakami (IEEE/ASME Trans. Mechatronics
1, 1996) with the identified model in place of a nominal inertia, and thereby also their reaction torque observer.

Friction at rest is not a function of velocity. Its direction z, -1 to 1, follows the path as in Dahl's model, with a
play for what the encoder's steps alone do: dz = (sign(dx) - z) |dx| / `TURN_RAD`. A gear that came to rest under load
keeps its direction. Where nothing presses, friction at rest is whatever is left over: there z fades with `FADE_S`.
"""

import math
from collections import deque

import numba
import numpy as np

from dynid.control.control_model import ControlModel
from dynid.control.dynamics_kernel import InverseDynamics
from dynid.errors import DataError
from dynid.model.drive import KINDS, of_kinds
from dynid.model.friction import FV, OF, budget_of
from dynid.robot import FloatArray

BANDWIDTH_1_S = 120.0
TURN_RAD = 0.002  # the path on which friction turns round
PLAY_RAD = 0.001  # of a slow joint: less than an encoder count
FAST_RAD_S = 0.1  # beyond that the estimated velocity is sure
FADE_S, SLOW_RAD_S = 0.2, 0.05


@numba.njit(cache=True)
def directed_friction(
    p: FloatArray, z: FloatArray, dq: FloatArray, tm: FloatArray, te: FloatArray, out: FloatArray
) -> None:
    """Friction torques (n,) [N m] into `out`, of parameters p (terms, n), in the directions z (n,) from -1 to 1."""
    for i in range(dq.shape[0]):
        out[i] = p[FV, i] * dq[i] + p[OF, i] + z[i] * budget_of(p, i, z[i], dq[i], tm[i], te[i])


class ArmObserver:
    """One arm's state: `update` once per cycle with a measured position, then `applied` with the torque that is sent.

    Args:
        inverse_dynamics: of the arm as it is mounted, see `dynid.control.dynamics_kernel.compile_single`.
        delay_cycles: how many cycles after it was sent a torque is in force.
        bandwidth_1_s: w.

    Attributes:
        q, dq: estimates, (n,) [rad, rad/s].
        disturbance: d, (n,) [rad/s^2].
        inertia: M(q), (n, n) [kg m^2].
        bias: C dq + g and what else the base parameters take, (n,) [N m].
        friction: of the gears, beside the base parameters, (n,) [N m].
        external: the torque from outside M d, (n,) [N m].
    """

    def __init__(
        self,
        model: ControlModel,
        inverse_dynamics: InverseDynamics,
        *,
        delay_cycles: int = 1,
        bandwidth_1_s: float = BANDWIDTH_1_S,
    ) -> None:
        n = model.friction.axes
        self.model, self._dynamics, self._w = model, inverse_dynamics, bandwidth_1_s
        self._links = of_kinds(model.phi, KINDS, others=True).values
        self._still, self._units = np.zeros(n), np.eye(n)
        self._sent: deque[FloatArray] = deque(maxlen=delay_cycles + 1)
        self.q, self.dq, self.disturbance, self._z, self._anchor = np.zeros((5, n))
        self.bias, self.friction, self.external = np.zeros((3, n))
        self.inertia = np.eye(n)
        self.reset(self.q)
        self.update(0.001, self.q)  # compiles: a control loop must not wait for a compiler
        self.reset(self.q)

    def reset(self, q: FloatArray) -> None:
        """Start at rest at the measured posture q, (n,) [rad], with nothing pushing."""
        self.q, self._anchor = np.array(q, dtype=np.float64), np.array(q, dtype=np.float64)
        for state in (self.dq, self.disturbance, self._z, self.external, self.friction):
            state[:] = 0.0
        self._sent.clear()
        self._evaluate_model()

    def _evaluate_model(self) -> None:
        phi, still = self.model.phi.values, self._still
        gravity = self._dynamics(self.q, still, still, phi)
        for i, unit in enumerate(self._units):
            self.inertia[i] = self._dynamics(self.q, still, unit, phi) - gravity
        self.bias = self._dynamics(self.q, self.dq, still, phi)

    def applied(self, tau: FloatArray) -> None:
        """The torque (n,) [N m] that is sent in this cycle, within what the drives give."""
        self._sent.append(np.array(tau))

    def update(self, dt: float, q: FloatArray, pressed: float = 0.0, in_force: FloatArray | None = None) -> None:
        """One cycle more.

        Args:
            dt: time since the cycle before [s].
            q: measured positions, (n,) [rad].
            pressed: how surely something presses on the arm, 0 to 1: friction at rest keeps its direction there.
            in_force: torques since the cycle before, (n,) [N m]; None: those that were sent `delay_cycles` before.

        Raises:
            DataError: dt is not positive and finite.
            SafetyError: a joint is beyond what the dynamics are computed for.
        """
        if not 0.0 < dt < math.inf:
            raise DataError(f"the observer got a cycle of {dt} s; stamps must increase")
        tau = self._sent[0] if len(self._sent) == self._sent.maxlen else None
        tau = tau if in_force is None else in_force
        if tau is None:  # before the first torque is in force something else carries the arm
            tau = self.bias + self.friction
        error, w = q - self.q, self._w
        u = np.linalg.solve(self.inertia, tau - self.bias - self.friction)
        self.q += dt * (self.dq + 3.0 * w * error)
        self.dq += dt * (u + self.disturbance + 3.0 * w * w * error)
        self.disturbance += dt * w**3 * error
        self._evaluate_model()
        self._turn_friction(dt, pressed)
        self.external = self.inertia @ self.disturbance
        load = self.external - self._dynamics(self.q, self.dq, self._still, self._links)
        directed_friction(self.model.friction.values, self._z, self.dq, tau, load, self.friction)

    def _turn_friction(self, dt: float, pressed: float) -> None:
        """Directions of friction after one more cycle."""
        anchor = np.clip(self._anchor, self.q - PLAY_RAD, self.q + PLAY_RAD)
        speed = np.abs(self.dq)
        step = np.where(speed > FAST_RAD_S, dt * self.dq, anchor - self._anchor) / TURN_RAD
        self._anchor = anchor
        self._z = (self._z + step) / (1.0 + np.abs(step))
        self._z *= 1.0 - np.maximum(0.0, 1.0 - speed / SLOW_RAD_S) * (1.0 - pressed) * (dt / FADE_S)
