"""The latest model of an adaptive run, which predicts torques for feedforward and for the planning of segments."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.adaptive.feedforward import Feedforward, feedforward, smooth_friction_torques
from dynid.adaptive.information import Information
from dynid.adaptive.segment_constraints import TorqueUncertainty
from dynid.control.motion_check import Torques, model_torques
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

TRANSITION_RAD_S = 0.03  # transition velocity of friction's sign in the optimisation [rad/s]


@dataclass(frozen=True, eq=False)
class CurrentModel:
    """Latest model of the arm in an adaptive run, which predicts torques for feedforward and for planning segments.

    Attributes:
        model: geometry and structure of the arm.
        phi: base parameters, (p,).
        friction: law of the friction terms that are not base parameters.
        sigma: standard deviation of each axis's torque residuals, (n,) [N m].
        identified: whether the model results from an identification of this run's recording; False for nominal
            parameters, a previous model or the online estimate.
        ratio: standard deviations of the base parameters in the identification, divided by the values that planning
            expects from the completed segments, (p,) [-]; None without an identified model.
    """

    model: ArmModel
    phi: BaseParameters
    friction: FrictionLaw
    sigma: FloatArray
    identified: bool = False
    ratio: FloatArray | None = None

    @cached_property
    def feedforward(self) -> Feedforward:
        """Feedforward torques in motion and at rest that this model predicts."""
        return feedforward(self.model, self.phi, self.friction)

    @cached_property
    def expected(self) -> Torques:
        """Function from states q, dq, ddq (N, n) to expected torques (N, n) [N m].

        Friction is a smooth function of velocity, because the optimiser needs derivatives.
        """
        return smooth_friction_torques(self.model, self.phi, self.friction, TRANSITION_RAD_S)

    def uncertainty(self, information: Information, unknown: FloatArray) -> TorqueUncertainty:
        """Return the uncertainty of the torques that this model predicts.

        Args:
            information: information that the executed segments give about the parameters.
            unknown: bound of the unknown friction, (n,) [N m]. It replaces the uncertainty of the friction parameters
                until a model is identified.
        """
        covariance, size = np.array(information.covariance), len(self.phi.values)
        if not self.identified:  # `unknown` bounds friction instead of its covariance
            covariance[:-size] = covariance[:, :-size] = 0.0
        values, vectors = np.linalg.eigh(covariance)
        unknown_friction = np.zeros_like(unknown) if self.identified else unknown
        return TorqueUncertainty(unknown_friction, vectors * np.sqrt(np.maximum(values, 0.0)), information.columns)

    def most(self, uncertainty: TorqueUncertainty) -> Torques:
        """Return a function from states q, dq, ddq (N, n) to the largest torques (N, n) [N m] that the model expects.

        These are the predicted torques, increased in magnitude by their uncertainty.
        """
        torques = model_torques(self.model, self.phi, self.friction)

        def most(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
            return uncertainty.added(torques(q, dq, ddq), dq, self.model.regressor(q, dq, ddq))

        return most
