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


def feed(model: ArmModel, phi: BaseParameters, friction: FrictionLaw) -> Feed:
    """The torques of base parameters and of the friction beside them."""
    sharp = model_torques(model, phi, friction)
    plain = model_torques(model, phi, FrictionLaw.of(model.axes, {}))

    def moving(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Friction with a soft sign."""
        wanted = plain(q, dq, ddq)
        return wanted + (sharp(q, dq, ddq) - wanted) * np.abs(np.tanh(dq / TRANSITION_RAD_S))

    def holding(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Less than the weight: friction carries a part of it, and the motors stay cooler."""
        still = np.zeros_like(q)
        weight = plain(q, still, still)
        sinking = sharp(q, -SINKING_RAD_S * np.sign(weight), still)
        held = weight + CARRIED_SHARE * (sinking - weight)
        # where friction carries the whole weight and more, the motor need not push against it
        return np.where(held * weight > 0.0, np.sign(weight) * np.minimum(np.abs(held), np.abs(weight)), 0.0)

    return Feed(moving, holding)
