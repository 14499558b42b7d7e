"""Estimate of a payload, which `dynid.contact.scale` computes, and control model of an arm with a payload."""

from dataclasses import dataclass, replace

import numpy as np

from dynid.contact.point_masses import PointMasses
from dynid.control.control_model import ControlModel
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only


@dataclass(frozen=True, eq=False)
class HeldMass:
    """Estimate of the payload.

    Attributes:
        mass_kg: mass of the payload.
        mass_deviation_kg: standard deviation of the mass from data and prior, computed without the physical
            constraints.
        centre_m: centre of mass in the last URDF link frame, (3,); without payload the position of the tool.
        centre_deviation_m: standard deviations of the centre along the axes of the last modified DH frame, (3,).
        parameters: physically consistent standard parameters in the last modified DH frame, (10,), SI.
    """

    mass_kg: float
    mass_deviation_kg: float
    centre_m: FloatArray
    centre_deviation_m: FloatArray
    parameters: FloatArray

    @classmethod
    def of(cls, bodies: PointMasses, found: FloatArray, covariance: FloatArray) -> "HeldMass":
        """Build the payload estimate from a solution of `PointMasses.solve`.

        Args:
            bodies: estimator that returned the solution.
            found: solution, which begins with ten standard parameters, (10 or more,), SI.
            covariance: covariance of the solution, square, with a row per element of `found`.
        """
        deviations, mass = np.sqrt(np.diag(covariance)), float(found[9])
        centre = bodies.rotation @ (found[6:9] / mass) + bodies.origin if mass > 0.0 else bodies.tool
        open_m = deviations[6:9] / mass if mass > 0.0 else np.full(3, np.inf)
        body = read_only(np.array(found[:10]))
        return cls(mass, float(deviations[9]), read_only(centre), read_only(open_m), body)


def with_payload(arm: ArmModel, model: ControlModel, parameters: FloatArray) -> ControlModel:
    """Return the control model of an arm with a payload.

    A running `ArmController` can change to a control law with this model without a jump of torque, by `switch_to`.

    Args:
        arm: geometry of the arm.
        model: control model of the arm without payload.
        parameters: standard parameters of the payload in the last modified DH frame, (10,), SI.
    """
    last = 10 * (arm.chain_size - 1)
    added = arm.regrouping.K[:, last : last + 10] @ parameters
    phi = BaseParameters(model.phi.names, model.phi.values + added, model.phi.covariance)
    return replace(model, phi=phi)
