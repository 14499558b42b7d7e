"""Control laws that a model of the arm feeds: gravity compensation and computed torque (paper eq. 3 for the model)."""

from dataclasses import replace

import numpy as np

from dynid.control.control_model import ControlModel
from dynid.control.controller import ControllerSettings, Gains
from dynid.control.dynamics_kernel import TRANSITION_RAD_S, InverseDynamics
from dynid.model.drive import KINDS, RESISTING, of_kinds
from dynid.model.friction import FrictionLaw
from dynid.robot import FloatArray, read_only

# A position that changes by two encoder steps and back seems to move at 0.06 rad/s (`arm_controller.LED_S`).
UNCERTAIN_RAD_S = 0.08
LED_TRANSITION_RAD_S = 0.1  # beyond that speed, help grows over this


class GravityCompensation:
    """tau = g(q) + share F(dq): the arm carries its own weight; hand guiding works against the remaining friction.

    Where a joint is led, a share of the friction that resists is given in the direction of its motion. It is below
    what the gear takes at that speed and that load, so motion always dies away. At rest nothing is given: there
    friction holds the arm where it was left, and a sensor that trembles moves nothing.

    Args:
        inverse_dynamics: of the arm as it is mounted, see `dynid.control.dynamics_kernel.compile_single`.
        friction_share: 0 leaves all friction to the arm; 1 would leave none where the model is perfect.
    """

    name = "gravity_compensation"
    follows_reference = False

    def __init__(self, model: ControlModel, inverse_dynamics: InverseDynamics, friction_share: float = 0.0) -> None:
        self.model, self.friction_share, self.dynamics = model, friction_share, inverse_dynamics
        self._inverse_dynamics = inverse_dynamics
        self._still = read_only(np.zeros(model.friction.axes))
        self._links = of_kinds(model.phi, KINDS, others=True).values
        self._drag = read_only(friction_share * of_kinds(model.phi, RESISTING).values)
        self._law = replace(_resisting(model.friction).scaled(friction_share), transition_rad_s=0.0)
        self._offset = model.friction["of"]
        _warm_up(self, len(self._still))

    def torque(
        self, q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Torque (n,) [N m] at q (n,) [rad] and the velocity dq of an arm that is led; the reference does not count."""
        still = self._still
        holding = self._inverse_dynamics(q, still, still, self.model.phi.values) + self._offset
        if not self.friction_share:
            return holding
        gravity = self._inverse_dynamics(q, still, still, self._links)
        drag = self._inverse_dynamics(still, dq, still, self._drag)
        helped = self._law.motor_torque(dq, gravity + drag, -gravity) - gravity
        certain = np.tanh(np.maximum(np.abs(dq) - UNCERTAIN_RAD_S, 0.0) / LED_TRANSITION_RAD_S)
        return holding + certain * helped

    def stuck(self, q: FloatArray) -> FloatArray:
        """What the gears of an arm that stands at q (n,) [rad] may carry or hide, (n,) [N m]."""
        gravity = self._inverse_dynamics(q, self._still, self._still, self._links)
        return self.model.friction.budget(self._still, gravity, -gravity)

    def gains(self) -> Gains:
        """The share of friction, and the model: phi and the friction beside it."""
        return {"friction_share": self.friction_share} | _model_gains(self.model)


class ComputedTorque:
    """tau = F(dq_ref, tau, te, M(q) a + C(q, dq_ref) dq_ref + g(q)), a = ddq_ref + K_V de + K_P e.

    With a perfect model the error obeys e'' + K_V e' + K_P e = 0, the same for every joint and posture. Velocity terms
    take the reference's velocity: it has no encoder steps, and friction that is fed forward cannot chatter. Friction
    that depends on the motor's torque is solved for it; its load te is what gravity and Coriolis forces put on the
    joints at the reference.

    Args:
        settings: K_P and K_V, the same as of FF+PD.
        inverse_dynamics: of the arm as it is mounted, see `dynid.control.dynamics_kernel.compile_single`.
    """

    name = "computed_torque"
    follows_reference = True

    def __init__(self, settings: ControllerSettings, model: ControlModel, inverse_dynamics: InverseDynamics) -> None:
        self.settings, self.model, self._inverse_dynamics = settings, model, inverse_dynamics
        self._stiffness = read_only(settings.proportional_gain_1_s2)
        self._damping = read_only(settings.velocity_gain_1_s)
        self._links = of_kinds(model.phi, KINDS, others=True).values
        self._still = read_only(np.zeros(settings.size))
        self._law = replace(model.friction, transition_rad_s=TRANSITION_RAD_S)
        _warm_up(self, settings.size)

    def torque(
        self, q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Torque (n,) [N m]; dq is the pseudo-differentiated velocity."""
        acceleration = self._damping * (dq_ref - dq)
        acceleration += self._stiffness * (q_ref - q)
        acceleration += ddq_ref
        wanted = self._inverse_dynamics(q, dq_ref, acceleration, self.model.phi.values)
        load = -self._inverse_dynamics(q_ref, dq_ref, self._still, self._links) if self._law.depends_on_load else 0.0
        return self._law.motor_torque(dq_ref, wanted, load)

    def gains(self) -> Gains:
        """K_P, K_V, Tf and the model: phi and the friction beside it."""
        own = self.settings.gains()
        return {key: own[key] for key in ("K_P", "K_V", "Tf")} | _model_gains(self.model)


def _resisting(law: FrictionLaw) -> FrictionLaw:
    """The law without its offsets, which do not resist motion."""
    return law.with_values({"of": 0.0})


def _model_gains(model: ControlModel) -> Gains:
    """phi, and the terms of the friction beside it that are there, by symbol."""
    gains: Gains = {"phi": tuple(model.phi.values.tolist())}
    return gains | {f"friction_{symbol}": tuple(model.friction[symbol].tolist()) for symbol in model.friction.terms}


def _warm_up(law: "GravityCompensation | ComputedTorque", size: int) -> None:
    """Compile what a step runs: a control loop must not wait for a compiler."""
    still = np.zeros(size)
    law.torque(still, still, still, still, still)
