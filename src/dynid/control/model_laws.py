"""Control laws that a model of the arm feeds: gravity compensation and computed torque (paper eq. 3 for the model)."""

import numpy as np

from dynid.control.control_model import ControlModel
from dynid.control.controller import ControllerSettings, Gains
from dynid.control.dynamics_kernel import InverseDynamics
from dynid.robot import FloatArray, read_only

# Below this reference velocity Coulomb friction rises linearly: a torque that jumps with the sign would shake the arm.
COULOMB_ZONE_RAD_S = 0.02


class GravityCompensation:
    """tau = g(q): the arm carries itself and is led by hand.

    Friction is left to the arm: it is what holds the arm where it was left, and what ends a motion after a push.

    Args:
        model: the identified model.
        inverse_dynamics: of the arm as it is mounted, see `dynid.control.dynamics_kernel.compile_single`.
    """

    name = "gravity_compensation"
    follows_reference = False

    def __init__(self, model: ControlModel, inverse_dynamics: InverseDynamics) -> None:
        self.model, self._inverse_dynamics = model, inverse_dynamics
        self._still = read_only(np.zeros(len(model.coulomb)))

    def torque(
        self, q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Torque (n,) [N m] that holds the arm at q (n,) [rad]; nothing else counts."""
        return self._inverse_dynamics(q, self._still, self._still, self.model.phi.values)

    def gains(self) -> Gains:
        """The model: phi."""
        return {"phi": tuple(self.model.phi.values.tolist())}


class ComputedTorque:
    """tau = M(q) a + C(q, dq_ref) dq_ref + g(q) + F_V dq_ref + F_C sat(dq_ref), a = ddq_ref + K_V de + K_P e.

    With a perfect model the error obeys e'' + K_V e' + K_P e = 0, the same for every joint and posture. Velocity terms
    take the reference's velocity: it has no encoder steps, and friction that is fed forward cannot chatter.

    Args:
        settings: K_P and K_V, the same as of FF+PD.
        model: the identified model.
        inverse_dynamics: of the arm as it is mounted, see `dynid.control.dynamics_kernel.compile_single`.
    """

    name = "computed_torque"
    follows_reference = True

    def __init__(self, settings: ControllerSettings, model: ControlModel, inverse_dynamics: InverseDynamics) -> None:
        self.settings, self.model, self._inverse_dynamics = settings, model, inverse_dynamics
        self._stiffness = read_only(settings.proportional_gain_1_s2)
        self._damping = read_only(settings.velocity_gain_1_s)

    def torque(
        self, q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Torque (n,) [N m]; dq is the pseudo-differentiated velocity."""
        acceleration = self._damping * (dq_ref - dq)
        acceleration += self._stiffness * (q_ref - q)
        acceleration += ddq_ref
        torque = self._inverse_dynamics(q, dq_ref, acceleration, self.model.phi.values)
        slope = dq_ref * (1.0 / COULOMB_ZONE_RAD_S)
        torque += self.model.coulomb * np.minimum(np.maximum(slope, -1.0), 1.0)
        return torque

    def gains(self) -> Gains:
        """K_P, K_V, Tf and the model: phi and F_C."""
        own = self.settings.gains()
        return {key: own[key] for key in ("K_P", "K_V", "Tf")} | {
            "phi": tuple(self.model.phi.values.tolist()),
            "F_C": tuple(self.model.coulomb.tolist()),
        }
