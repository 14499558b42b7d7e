"""Models whose values are known: nominal arms with friction that depends on load, or with Coulomb friction alone."""

import numpy as np

from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.standard import load_nominal
from dynid.robot import FloatArray, Robot, load_robot
from dynid.runtime.model import Model

ROBOTS = ("crane_x7", "puma560", "serial_9dof")
LAWS = ("loaded", "plain")


def friction(law: str, axes: int) -> FrictionLaw:
    """Return friction of servo gears ("loaded", all terms), or Coulomb and viscous friction ("plain")."""
    spread = np.linspace(1.0, 0.4, axes)
    figures = {"fv": 0.3 * spread, "fb": 0.2 * spread}
    if law == "plain":
        return FrictionLaw.of(axes, figures, 0.02)
    figures |= {"fa": 0.05 * spread, "of": -0.03 * spread, "fs": 0.1 * spread, "km": 0.15 * spread, "ke": 0.1 * spread}
    figures |= {"kms": 0.1 * spread, "kes": 0.02 * spread, "kmq": 0.003 * spread, "keq": 0.002 * spread}
    return FrictionLaw.of(axes, figures | {"ws": np.full(axes, 1.3), "a": np.full(axes, 0.9)}, 0.01)


def known_model(robot: str | Robot, law: str = "loaded") -> Model:
    """Return the nominal model of a robot, as if it were accepted, with friction beside its base parameters."""
    loaded = load_robot(robot) if isinstance(robot, str) else robot
    arm = ArmModel.of(loaded)
    standard = load_nominal(loaded, arm.mdh, arm.regrouping.standard)
    beside = friction(law, loaded.size)
    return Model(loaded, arm.base_parameters(standard), beside, accepted=True, standard=standard)


def reference_torques(model: Model, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
    """Return motor torques (N, n) [N m] by `ArmModel` and `FrictionLaw`, which share no code with the kernels."""
    arm, law = model.arm(), model.friction_law
    tau = arm.inverse_dynamics(q, dq, ddq, model.base)
    if law is None:
        return tau
    return law.motor_torque(dq, tau, reference_load(model, q, dq))


def reference_load(model: Model, q: FloatArray, dq: FloatArray) -> FloatArray:
    """Return the load te (N, n) [N m] that gravity, springs and Coriolis forces put on the joints."""
    links = of_kinds(model.base, KINDS, others=True)
    return -model.arm().inverse_dynamics(q, dq, 0.0 * dq, links)


def random_states(axes: int, count: int, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return random q, dq, ddq, (count, axes) each, within half a turn, 2 rad/s and 5 rad/s^2."""
    q, dq, ddq = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, count, axes))
    return np.pi * q, 2.0 * dq, 5.0 * ddq
