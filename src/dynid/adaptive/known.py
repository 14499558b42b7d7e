"""The model in hand of an adaptive run."""

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

PLANNED_RAD_S = 0.03  # transition of friction's sign in what is optimised


@dataclass(frozen=True, eq=False)
class Known:
    """The model in hand: what feeds forward, and what torques segments are planned with.

    Attributes:
        model, phi, friction: what the arm is taken for.
        sigma: size of each axis's residual, (n,) [N m].
        identified: whether it is of data alone.
        ratio: deviations of base parameters as found, over those that were planned with, (p,); None: not known yet.
    """

    model: ArmModel
    phi: BaseParameters
    friction: FrictionLaw
    sigma: FloatArray
    identified: bool = False
    ratio: FloatArray | None = None

    @cached_property
    def feed(self) -> Feed:
        """What it feeds forward."""
        return feed(self.model, self.phi, self.friction)

    @cached_property
    def expected(self) -> Torques:
        """Torques that a motion takes, as sharp as an optimisation can follow."""
        return soft_torques(self.model, self.phi, self.friction, PLANNED_RAD_S)

    def doubt(self, information: Information, unknown: FloatArray) -> Doubt:
        """What is not known of torques, by what segments so far show.

        Args:
            information: of the segments.
            unknown: friction that nobody knows before a model is identified, (n,) [N m].
        """
        covariance, size = np.array(information.covariance), len(self.phi.values)
        if not self.identified:  # `unknown` stands for friction
            covariance[:-size] = covariance[:, :-size] = 0.0
        values, vectors = np.linalg.eigh(covariance)
        spare = np.zeros_like(unknown) if self.identified else unknown
        return Doubt(spare, vectors * np.sqrt(np.maximum(values, 0.0)), information.columns)

    def most(self, doubt: Doubt) -> Torques:
        """What a motion may take: the model's torques and their doubt, away from zero."""
        torques = model_torques(self.model, self.phi, self.friction)

        def most(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
            return doubt.added(torques(q, dq, ddq), dq, self.model.regressor(q, dq, ddq))

        return most
