"""What an arm holds, as an estimate, and the model of an arm that holds it; `dynid.contact.scale` weighs."""

from dataclasses import dataclass, replace

import numpy as np

from dynid.contact.point_masses import PointMasses
from dynid.control.control_model import ControlModel
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only


@dataclass(frozen=True, eq=False)
class HeldMass:
    """An estimate of what the arm holds.

    Attributes:
        mass_kg: its mass.
        mass_deviation_kg: its deviation, as if nothing but the prior constrained it.
        centre_m: centre of mass in the last URDF link frame, (3,); the tool where nothing is held.
        centre_deviation_m: per direction of the last modified DH frame, (3,).
        parameters: consistent standard parameters in the last modified DH frame, (10,), SI.
    """

    mass_kg: float
    mass_deviation_kg: float
    centre_m: FloatArray
    centre_deviation_m: FloatArray
    parameters: FloatArray

    @classmethod
    def of(cls, bodies: PointMasses, found: FloatArray, covariance: FloatArray) -> "HeldMass":
        """What `PointMasses.solve` found, (10 or more,), and its covariance."""
        deviations, mass = np.sqrt(np.diag(covariance)), float(found[9])
        centre = bodies.rotation @ (found[6:9] / mass) + bodies.origin if mass > 0.0 else bodies.tool
        open_m = deviations[6:9] / mass if mass > 0.0 else np.full(3, np.inf)
        body = read_only(np.array(found[:10]))
        return cls(mass, float(deviations[9]), read_only(centre), read_only(open_m), body)


def with_payload(arm: ArmModel, model: ControlModel, parameters: FloatArray) -> ControlModel:
    """The model of an arm that holds a body with these parameters (10,) in the last modified DH frame.

    Give it to a controller by `ArmController.switch_to`, which lets the difference in torque in over time.
    """
    last = 10 * (arm.chain_size - 1)
    added = arm.regrouping.K[:, last : last + 10] @ parameters
    phi = BaseParameters(model.phi.names, model.phi.values + added, model.phi.covariance)
    return replace(model, phi=phi)
