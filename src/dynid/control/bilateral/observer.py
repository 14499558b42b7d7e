"""Observer of an arm's motion and external torque, from encoders and commanded torques alone.

The observer is a Luenberger observer of M(q) (ddq - d) + C dq + g + F = tau with the states q, dq and the disturbance d
[rad/s^2]. All three poles lie at -w. With e the difference between measured and estimated position, and u the
acceleration due to the torque in force,

    u = M(q)^-1 (tau - C dq - g - F),  q' = dq + 3 w e,  dq' = u + d + 3 w^2 e,  d' = w^3 e,

M d is the external torque. This is the disturbance observer of Ohnishi, Shibata and Murakami (IEEE/ASME Trans.
Mechatronics 1, 1996) with the identified model instead of a nominal inertia. The disturbance then consists of external
torques only, so the observer is also the reaction torque observer of the same authors.

Static friction is not a function of velocity. Its direction z, from -1 to 1, depends on the joint's displacement dx as
in Dahl's model: dz = (sign(dx) - z) |dx| / `REVERSAL_RAD`. A dead band removes encoder steps from dx. While something
presses on the arm, z is constant at rest, because a gear under load keeps the direction of its friction. If nothing
presses on a slow arm, this direction is unknown, and z decays to 0 with the time constant `FADE_S`.

In code these equations are `predict`, `reverse_friction` and `estimate_external` of the module `equations`.
"""

import math
from collections import deque

import numpy as np

from dynid.control.bilateral.equations import (
    ANCHOR,
    ARM_ROWS,
    BIAS,
    DQ,
    EXTERNAL,
    FRICTION,
    IN_FORCE,
    MEASURED,
    RIGID,
    D,
    Q,
    estimate_external,
    predict,
)
from dynid.control.control_model import ControlModel
from dynid.control.dynamics_kernel import SingleState
from dynid.control.equation_terms import compile_terms
from dynid.errors import DataError
from dynid.robot import FloatArray

BANDWIDTH_1_S = 120.0


class ArmObserver:
    """Observer of one arm's position, velocity and external torque, from measured positions and torques in force.

    In each cycle, call `update` with the measured position, then `applied` with the torque that is sent.

    Args:
        model: identified model of the arm.
        dynamics: inverse dynamics of the arm as mounted, see `dynid.control.dynamics_kernel.compile_single`.
        delay_cycles: number of cycles between sending a torque and its effect.
        bandwidth_1_s: bandwidth w of the observer.

    Attributes:
        rows: matrix with all vectors of the arm as rows, see `dynid.control.bilateral.equations`, (rows, n), SI; the
            next cycle overwrites it.
        q: estimated positions, (n,) [rad].
        dq: estimated velocities, (n,) [rad/s].
        disturbance: estimated disturbance d, the joint acceleration that external torques cause, (n,) [rad/s^2].
        inertia: inertia matrix M(q), (n, n) [kg m^2]; the next cycle overwrites it.
        bias: torques of the base parameters at zero acceleration (gravity, Coriolis forces, springs, and friction that
            is among the base parameters), (n,) [N m].
        friction: torques of the friction terms that are not base parameters, (n,) [N m].
        external: external torque M d, (n,) [N m].
    """

    def __init__(
        self, model: ControlModel, dynamics: SingleState, *, delay_cycles: int = 1, bandwidth_1_s: float = BANDWIDTH_1_S
    ) -> None:
        n = model.friction.axes
        self.dynamics, self._terms, self._w = dynamics, compile_terms(dynamics), bandwidth_1_s
        self.exchange(model)
        self._sent: deque[FloatArray] = deque(maxlen=delay_cycles + 1)
        self.rows, self.inertia = np.zeros((ARM_ROWS, n)), np.eye(n)
        self.q, self.dq, self.disturbance, self._rigid = (self.rows[row] for row in (Q, DQ, D, RIGID))
        self.bias, self.friction, self.external = (self.rows[row] for row in (BIAS, FRICTION, EXTERNAL))
        still = np.zeros(n)
        self.reset(still)
        self.update(0.001, still)  # compile before the control loop starts
        self.reset(still)

    def exchange(self, model: ControlModel) -> None:
        """Replace the model by another model of the same arm; the estimates of the observer are kept."""
        self.model, self._phi, self._gears = model, model.phi.values, model.friction.values

    def reset(self, q: FloatArray) -> None:
        """Reset the estimates to rest at the measured posture q, (n,) [rad], with zero external torque."""
        self.rows[:] = 0.0
        self.rows[Q] = self.rows[ANCHOR] = q
        self._sent.clear()
        self._evaluate_model()

    def _evaluate_model(self) -> None:
        self._terms(self.q, self.dq, self._phi, self.inertia, self._rigid, self.bias)

    def applied(self, tau: FloatArray) -> None:
        """Store the torque (n,) [N m] that is sent in this cycle, already clipped to the drives' limits."""
        self._sent.append(np.array(tau))

    def update(self, dt: float, q: FloatArray, pressed: float = 0.0, in_force: FloatArray | None = None) -> None:
        """Advance the estimates of position, velocity and external torque by one cycle.

        Args:
            dt: time since the previous cycle [s].
            q: measured positions, (n,) [rad].
            pressed: confidence that something presses on the arm, 0 to 1; at 1, static friction keeps its direction.
            in_force: torques in force since the previous cycle, (n,) [N m]; None means the torques that were sent
                `delay_cycles` cycles earlier.

        Raises:
            DataError: dt is not positive and finite.
            SafetyError: a joint is outside the range for which the dynamics are computed.
        """
        if not 0.0 < dt < math.inf:
            raise DataError(f"the observer got a cycle of {dt} s; stamps must increase")
        tau = self._sent[0] if len(self._sent) == self._sent.maxlen else None
        tau = tau if in_force is None else in_force
        if tau is None:  # until the first torque is in force, assume that the arm is carried
            tau = self.bias + self.friction
        self.rows[MEASURED], self.rows[IN_FORCE] = q, tau
        predict(self.rows, self.inertia, dt, self._w)
        self._evaluate_model()
        estimate_external(self.rows, self.inertia, self._gears, dt, pressed)
