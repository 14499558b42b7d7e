"""Feedforward torques of the current model, in motion and at rest."""

from dataclasses import dataclass

import numpy as np

from dynid.control.motion_check import Torques, model_torques
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

TRANSITION_RAD_S = 0.1  # transition velocity of friction's sign [rad/s]
SINKING_RAD_S, CARRIED_SHARE = 0.01, 0.5  # slow sinking, whose friction is the most it can carry, and the share used


@dataclass(frozen=True)
class Feedforward:
    """Torques along a reference, and torques at rest."""

    moving: Torques
    holding: Torques


def smooth_friction_torques(
    model: ArmModel, phi: BaseParameters, friction: FrictionLaw, transition_rad_s: float = TRANSITION_RAD_S
) -> Torques:
    """Return a function of a motion's torques whose friction changes its sign within a transition velocity [rad/s]."""
    sharp = model_torques(model, phi, friction)
    plain = model_torques(model, phi, FrictionLaw.of(model.axes, {}))

    def torques(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        wanted = plain(q, dq, ddq)
        return wanted + (sharp(q, dq, ddq) - wanted) * np.abs(np.tanh(dq / transition_rad_s))

    return torques


def feedforward(model: ArmModel, phi: BaseParameters, friction: FrictionLaw) -> Feedforward:
    """Return the feedforward from base parameters and from the friction law in addition to them."""
    sharp = model_torques(model, phi, friction)
    plain = model_torques(model, phi, FrictionLaw.of(model.axes, {}))

    def holding(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Return a torque below that of gravity: friction carries the rest of the load, and the motors stay cooler."""
        still = np.zeros_like(q)
        weight = plain(q, still, still)
        sinking = sharp(q, -SINKING_RAD_S * np.sign(weight), still)
        held = weight + CARRIED_SHARE * (sinking - weight)
        # if friction can carry more than the whole weight, the motor need not push against it
        return np.where(held * weight > 0.0, np.sign(weight) * np.minimum(np.abs(held), np.abs(weight)), 0.0)

    return Feedforward(smooth_friction_torques(model, phi, friction), holding)
