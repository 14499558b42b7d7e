"""Feedforward torques of the current model, in motion and at rest."""

from dataclasses import dataclass

import numpy as np

from dynid.control.motion_check import Torques, model_torques
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

TRANSITION_RAD_S = 0.1  # transition velocity of friction's sign [rad/s]
# speed of sinking at which friction carries most of the load [rad/s], and share of this friction that is relied on
SINKING_RAD_S, CARRIED_SHARE = 0.01, 0.5


@dataclass(frozen=True)
class Feedforward:
    """Feedforward torques as functions from states q, dq, ddq (N, n) to torques (N, n) [N m].

    Attributes:
        moving: torques along a reference motion.
        holding: torques at rest.
    """

    moving: Torques
    holding: Torques


def smooth_friction_torques(
    model: ArmModel, phi: BaseParameters, friction: FrictionLaw, transition_rad_s: float = TRANSITION_RAD_S
) -> Torques:
    """Return a function from states q, dq, ddq (N, n) to torques (N, n) [N m] with smoothed friction.

    Friction is multiplied by |tanh(dq / transition_rad_s)|, so it vanishes at rest.

    Args:
        model: geometry and structure of the arm.
        phi: base parameters.
        friction: law of the friction terms that are not base parameters.
        transition_rad_s: transition velocity [rad/s].
    """
    sharp = model_torques(model, phi, friction)
    plain = model_torques(model, phi, FrictionLaw.of(model.axes, {}))

    def torques(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        wanted = plain(q, dq, ddq)
        return wanted + (sharp(q, dq, ddq) - wanted) * np.abs(np.tanh(dq / transition_rad_s))

    return torques


def feedforward(model: ArmModel, phi: BaseParameters, friction: FrictionLaw) -> Feedforward:
    """Return the feedforward torques of an arm model, in motion and at rest.

    Args:
        model: geometry and structure of the arm.
        phi: base parameters.
        friction: law of the friction terms that are not base parameters.
    """
    sharp = model_torques(model, phi, friction)
    plain = model_torques(model, phi, FrictionLaw.of(model.axes, {}))

    def holding(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Return torques (N, n) [N m] that hold the arm at rest; velocities and accelerations are ignored.

        They are lower than the gravity torques: friction carries a part of the load, so the motors stay cooler.
        """
        still = np.zeros_like(q)
        weight = plain(q, still, still)
        sinking = sharp(q, -SINKING_RAD_S * np.sign(weight), still)
        held = weight + CARRIED_SHARE * (sinking - weight)
        # friction that carries more than the whole load must not reverse the motor torque
        return np.where(held * weight > 0.0, np.sign(weight) * np.minimum(np.abs(held), np.abs(weight)), 0.0)

    return Feedforward(smooth_friction_torques(model, phi, friction), holding)
