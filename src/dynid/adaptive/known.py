"""Current model of an adaptive run."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.adaptive.feed import Feed, feed, soft_torques
from dynid.adaptive.frame import Doubt
from dynid.adaptive.information import Information
from dynid.control.motion_check import Torques, model_torques
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

TRANSITION_RAD_S = 0.03  # transition velocity of friction's sign in the optimisation [rad/s]


@dataclass(frozen=True, eq=False)
class Known:
    """Current model: source of the feedforward and of the torques in planning.

    Attributes:
        model: geometry and structure.
        phi: base parameters, (p,).
        friction: friction besides them.
        sigma: residual size of each axis, (n,) [N m].
        identified: whether it comes from data alone.
        ratio: identified deviations of base parameters over the planned ones, (p,); None if not known yet.
    """

    model: ArmModel
    phi: BaseParameters
    friction: FrictionLaw
    sigma: FloatArray
    identified: bool = False
    ratio: FloatArray | None = None

    @cached_property
    def feed(self) -> Feed:
        """Feedforward of the model."""
        return feed(self.model, self.phi, self.friction)

    @cached_property
    def expected(self) -> Torques:
        """Function of a motion's expected torques, with friction as steep as an optimisation can handle."""
        return soft_torques(self.model, self.phi, self.friction, TRANSITION_RAD_S)

    def doubt(self, information: Information, unknown: FloatArray) -> Doubt:
        """Return the uncertainty of torques after the segments so far.

        Args:
            information: information of the segments.
            unknown: bound of friction before a model is identified, (n,) [N m].
        """
        covariance, size = np.array(information.covariance), len(self.phi.values)
        if not self.identified:  # `unknown` covers friction
            covariance[:-size] = covariance[:, :-size] = 0.0
        values, vectors = np.linalg.eigh(covariance)
        spare = np.zeros_like(unknown) if self.identified else unknown
        return Doubt(spare, vectors * np.sqrt(np.maximum(values, 0.0)), information.columns)

    def most(self, doubt: Doubt) -> Torques:
        """Return a function of a motion's largest possible torques: the model's, increased by their uncertainty."""
        torques = model_torques(self.model, self.phi, self.friction)

        def most(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
            return doubt.added(torques(q, dq, ddq), dq, self.model.regressor(q, dq, ddq))

        return most
