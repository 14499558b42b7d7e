"""What the model in hand feeds forward, while the arm moves and while it stands."""

from dataclasses import dataclass

import numpy as np

from dynid.control.motion_check import Torques, model_torques
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

TRANSITION_RAD_S = 0.1  # of the sign of friction
SINKING_RAD_S, CARRIED_SHARE = 0.01, 0.5  # what friction carries at most is what it takes off as the arm sinks


@dataclass(frozen=True)
class Feed:
    """Torques along a reference, and those with which the arm stands."""

    moving: Torques
    holding: Torques


def soft_torques(
    model: ArmModel, phi: BaseParameters, friction: FrictionLaw, transition_rad_s: float = TRANSITION_RAD_S
) -> Torques:
    """Torques of a motion whose friction changes its sign within a transition of speed [rad/s]."""
    sharp = model_torques(model, phi, friction)
    plain = model_torques(model, phi, FrictionLaw.of(model.axes, {}))

    def torques(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        wanted = plain(q, dq, ddq)
        return wanted + (sharp(q, dq, ddq) - wanted) * np.abs(np.tanh(dq / transition_rad_s))

    return torques


def feed(model: ArmModel, phi: BaseParameters, friction: FrictionLaw) -> Feed:
    """The torques of base parameters and of the friction beside them."""
    sharp = model_torques(model, phi, friction)
    plain = model_torques(model, phi, FrictionLaw.of(model.axes, {}))

    def holding(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Less than the weight: friction carries a part of it, and the motors stay cooler."""
        still = np.zeros_like(q)
        weight = plain(q, still, still)
        sinking = sharp(q, -SINKING_RAD_S * np.sign(weight), still)
        held = weight + CARRIED_SHARE * (sinking - weight)
        # where friction carries the whole weight and more, the motor need not push against it
        return np.where(held * weight > 0.0, np.sign(weight) * np.minimum(np.abs(held), np.abs(weight)), 0.0)

    return Feed(soft_torques(model, phi, friction), holding)
