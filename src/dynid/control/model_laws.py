"""Control laws with a model of the arm (arXiv:2605.15949, eq. 3): gravity compensation and computed torque."""

from dataclasses import replace

import numpy as np

from dynid.control.control_model import ControlModel
from dynid.control.controller import ControllerSettings, Gains
from dynid.control.dynamics_kernel import TRANSITION_RAD_S, InverseDynamics
from dynid.model.drive import KINDS, RESISTING, kind_and_number, of_kinds
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only

# Speed below which motion is uncertain: noise of two encoder steps looks like 0.06 rad/s
# (`arm_controller.GUIDED_AVERAGE_S`).
SIGN_RAD_S = 0.08
GUIDED_TRANSITION_RAD_S = 0.1  # range of speed above `SIGN_RAD_S` over which friction compensation grows


class GravityCompensation:
    """Gravity compensation tau = g(q) + share F(dq): motors carry the arm's weight, so that it can be guided by hand.

    While a joint is guided, a fraction of the friction F that resists its motion is compensated. The compensation is
    below the gear's friction at that speed and load, so motion always decays. At rest no friction is compensated, so
    friction holds the arm where it was left, and encoder noise moves nothing.

    Args:
        model: the model.
        inverse_dynamics: inverse dynamics of the arm as mounted, see `dynid.control.dynamics_kernel.compile_single`.
        friction_share: compensated fraction of friction: 0 compensates nothing, 1 all friction of a perfect model.
    """

    name = "gravity_compensation"
    follows_reference, uses_model = False, True

    def __init__(self, model: ControlModel, inverse_dynamics: InverseDynamics, friction_share: float = 0.0) -> None:
        self.model, self.friction_share, self.dynamics = model, friction_share, inverse_dynamics
        self._inverse_dynamics = inverse_dynamics
        self._still = read_only(np.zeros(model.friction.axes))
        self._dry = _dry_friction(inverse_dynamics, model.phi, len(self._still))
        self._links = of_kinds(model.phi, KINDS, others=True).values
        self._drag = read_only(friction_share * of_kinds(model.phi, RESISTING).values)
        self._law = replace(_dissipative(model.friction).scaled(friction_share), transition_rad_s=0.0)
        self._offset = model.friction["of"]
        _warm_up(self, len(self._still))

    def torque(
        self, q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Return the torque (n,) [N m] of gravity compensation for a hand-guided arm.

        Args:
            q: measured positions, (n,) [rad].
            dq: estimated velocities, (n,) [rad/s].
            q_ref: ignored.
            dq_ref: ignored.
            ddq_ref: ignored.
        """
        still = self._still
        holding = self._inverse_dynamics(q, still, still, self.model.phi.values) + self._offset
        if not self.friction_share:
            return holding
        gravity = self._inverse_dynamics(q, still, still, self._links)
        drag = self._inverse_dynamics(still, dq, still, self._drag)
        helped = self._law.motor_torque(dq, gravity + drag, -gravity) - gravity
        certain = np.tanh(np.maximum(np.abs(dq) - SIGN_RAD_S, 0.0) / GUIDED_TRANSITION_RAD_S)
        return holding + certain * helped

    def gains(self) -> Gains:
        """Return a dictionary of the friction share, base parameters phi, and friction terms outside phi."""
        return {"friction_share": self.friction_share} | _model_gains(self.model)


class ComputedTorque:
    """Computed torque: tau = M(q) a + C(q, dq_ref) dq_ref + g(q) + friction, with a = ddq_ref + K_V e' + K_P e.

    e = q_ref - q is the tracking error. With a perfect model it obeys e'' + K_V e' + K_P e = 0, the same for every
    joint and posture. Velocity terms use the reference velocity, which has no encoder steps, so friction feed-forward
    cannot chatter. If friction depends on the motor torque tau, the equation is solved for tau. If friction depends on
    the load, the load is the torque of gravity and Coriolis forces on the joints at the reference.

    Args:
        settings: settings with the gains K_P and K_V.
        model: the model.
        inverse_dynamics: inverse dynamics of the arm as mounted, see `dynid.control.dynamics_kernel.compile_single`.
    """

    name = "computed_torque"
    follows_reference, uses_model = True, True

    def __init__(self, settings: ControllerSettings, model: ControlModel, inverse_dynamics: InverseDynamics) -> None:
        self.settings, self.model, self._inverse_dynamics = settings, model, inverse_dynamics
        self._stiffness = read_only(settings.proportional_gain_1_s2)
        self._damping = read_only(settings.velocity_gain_1_s)
        self._links = of_kinds(model.phi, KINDS, others=True).values
        self._still = read_only(np.zeros(settings.size))
        self._dry = _dry_friction(inverse_dynamics, model.phi, settings.size)
        self._law = replace(model.friction, transition_rad_s=TRANSITION_RAD_S)
        _warm_up(self, settings.size)

    def torque(
        self, q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Return the torque (n,) [N m] of computed-torque control.

        Args:
            q: measured positions, (n,) [rad].
            dq: pseudo-differentiated velocities, (n,) [rad/s].
            q_ref: reference positions, (n,) [rad].
            dq_ref: reference velocities, (n,) [rad/s].
            ddq_ref: reference accelerations, (n,) [rad/s^2].
        """
        acceleration = self._damping * (dq_ref - dq)
        acceleration += self._stiffness * (q_ref - q)
        acceleration += ddq_ref
        wanted = self._inverse_dynamics(q, dq_ref, acceleration, self.model.phi.values)
        load = -self._inverse_dynamics(q_ref, dq_ref, self._still, self._links) if self._law.depends_on_load else 0.0
        return self._law.motor_torque(dq_ref, wanted, load)

    def gains(self) -> Gains:
        """Return a dictionary of K_P, K_V, filter time Tf, base parameters phi, and friction terms outside phi."""
        own = self.settings.gains()
        return {key: own[key] for key in ("K_P", "K_V", "Tf")} | _model_gains(self.model)


def static_friction(law: GravityCompensation | ComputedTorque, q: FloatArray) -> FloatArray:
    """Return the largest torque (n,) [N m] that static friction may carry in each joint of an arm at rest.

    It is the sum of two parts. The first is the Coulomb and Stribeck friction among the base parameters. The second is
    the friction of all terms outside the base parameters, some of which depend on the load, under the gravity load.

    Args:
        law: control law with the model.
        q: posture of the arm, (n,) [rad].
    """
    gravity = law._inverse_dynamics(q, law._still, law._still, law._links)
    return law.model.friction.budget(law._still, gravity, -gravity) + law._dry


def _dry_friction(inverse_dynamics: InverseDynamics, phi: BaseParameters, size: int) -> FloatArray:
    """Return the breakaway torque (n,) [N m] of each joint due to dry friction among the base parameters.

    The torque of a joint is computed for a motion of this joint alone.

    Args:
        inverse_dynamics: inverse dynamics of the arm.
        phi: base parameters.
        size: number of joints n.
    """
    still, fast = np.zeros(size), 1e3 * TRANSITION_RAD_S * np.eye(size)
    coulomb = of_kinds(phi, ("FC", "FCM")).values
    dry = np.array([inverse_dynamics(still, fast[j], still, coulomb)[j] for j in range(size)])
    for name, value in zip(phi.names, phi.values, strict=True):
        kind, axis = kind_and_number(name)
        if kind == "FS":
            dry[axis - 1] += value
    return read_only(dry)


def _dissipative(law: FrictionLaw) -> FrictionLaw:
    """Return the friction law without its offsets, which do not resist motion."""
    return law.with_values({"of": 0.0})


def _model_gains(model: ControlModel) -> Gains:
    """Return a dictionary of a model's base parameters phi and of its friction terms outside phi."""
    gains: Gains = {"phi": tuple(model.phi.values.tolist())}
    return gains | {f"friction_{symbol}": tuple(model.friction[symbol].tolist()) for symbol in model.friction.terms}


def _warm_up(law: "GravityCompensation | ComputedTorque", size: int) -> None:
    """Compile the functions of a control law, so that no control loop waits for the compiler.

    Args:
        law: the law.
        size: number of joints.
    """
    still = np.zeros(size)
    law.torque(still, still, still, still, still)
    static_friction(law, still)
