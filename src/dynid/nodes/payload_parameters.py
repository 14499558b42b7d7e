"""Payload of an arm as ROS parameters of the executor, and the model with that payload.

A payload is set in one atomic call: `payload.parameters` (ten standard parameters in the last modified DH frame, zeros
for no payload), `payload.structure_hash` of the model with which the payload was estimated, and `payload.certain` (only
payloads with a certain estimate are accepted). The payload is added to the model of the executor. A new model removes
the payload, because this model describes the arm as it was during the identification, including any load.
"""

from collections.abc import Sequence

import numpy as np
from rclpy.node import Node
from rclpy.parameter import Parameter

from dynid.contact.force import ToolForce
from dynid.contact.payload import with_payload
from dynid.contact.point_masses import STANDARD_GRAVITY
from dynid.control.control_model import ControlModel
from dynid.errors import SafetyError
from dynid.model.dynamics import ArmModel
from dynid.model.standard import pseudo_inertia
from dynid.nodes.common import declare
from dynid.robot import FloatArray, Robot

BODY, STRUCTURE, CERTAIN = "payload.parameters", "payload.structure_hash", "payload.certain"
NAMES = (BODY, STRUCTURE, CERTAIN)
NOTHING = (0.0,) * 10
Kept = tuple[ControlModel | None, FloatArray]  # the accepted model, and the payload (10,) in SI
ROUNDING = 1e-9  # tolerance for rounding of a pseudo-inertia's least eigenvalue [kg m^2]


def payload_values(body: FloatArray, structure_hash: str) -> dict[str, object]:
    """Return the executor's ROS parameters, by name, that set a payload.

    Args:
        body: standard parameters of the payload, (10,) in SI units.
        structure_hash: hash of the structure of the model with which the payload was estimated.
    """
    return {BODY: body.tolist(), STRUCTURE: structure_hash, CERTAIN: True}


class PayloadOnModel:
    """Accepted model of an arm and the payload that is added to it, both set by ROS parameters.

    Args:
        node: node that declares the parameters.
        robot: robot whose drives limit the mass of a payload.
    """

    def __init__(self, node: Node, robot: Robot) -> None:
        declare(node, BODY, list(NOTHING), "ten standard parameters of the payload, zeros without one")
        declare(node, STRUCTURE, "", "structure of the model that it was weighed with")
        declare(node, CERTAIN, False, "whether the estimate explains the residuals, and is significant")
        self._robot = robot
        self._active: Kept = (None, np.zeros(10))
        self._next: Kept = self._active

    @property
    def kept(self) -> Kept:
        """Active model without payload (None if there is none), and standard parameters (10,) [SI] of the payload."""
        return self._active

    @property
    def mass_kg(self) -> float:
        """Mass of the active payload [kg]."""
        return float(self._active[1][9])

    def taken(
        self, parameters: Sequence[Parameter], model: ControlModel | None, arm: ArmModel
    ) -> tuple[ControlModel | None, bool]:
        """Check a change of model or payload by ROS parameters, and return the new model.

        The change takes effect only when `keep` is called.

        Args:
            parameters: ROS parameters that one service call sets.
            model: new model from the same service call, which removes the payload; None keeps the present model.
            arm: geometry and structure of the models.

        Returns:
            The new model, including the payload, or None if neither model nor payload changes; and whether only the
                payload changes.

        Raises:
            SafetyError: the payload is incomplete, was estimated with another structure, is not certain, is physically
                impossible or too heavy. Or it is set without a model, or together with a new model.
        """
        self._next = self._active
        body = self._body({one.name: one.value for one in parameters if one.name in NAMES}, arm)
        if model is not None:
            if body is not None and body.any():
                raise SafetyError("set either a model or a payload, not both in one call")
            self._next = (model, np.zeros(10))
            return model, False
        if body is None:
            return None, False
        without_payload = self._active[0]
        if without_payload is None:
            raise SafetyError("there is no model that a payload could be added to: set model_file or model.* first")
        self._next = (without_payload, body)
        return with_payload(arm, without_payload, body) if body.any() else without_payload, True

    def keep(self) -> None:
        """Activate the model and payload that the last call of `taken` has checked."""
        self._active = self._next

    def _body(self, given: dict[str, object], arm: ArmModel) -> FloatArray | None:
        if not given:
            return None
        if missing := sorted(set(NAMES) - set(given)):
            raise SafetyError(f"set a complete payload in one call: {', '.join(missing)} is missing")
        body = np.array(given[BODY], dtype=float)
        if body.shape != (10,) or not np.isfinite(body).all():
            raise SafetyError(f"{BODY} has shape {body.shape}; expected ten finite numbers")
        if given[CERTAIN] is not True:
            raise SafetyError("the payload is not certain; the controllers keep their model")
        if given[STRUCTURE] != arm.structure_hash:
            raise SafetyError(
                f"the payload was estimated with structure {given[STRUCTURE] or '(none)'}, expected "
                f"{arm.structure_hash}"
            )
        largest_kg = ToolForce(self._robot, arm.mdh).largest_n / STANDARD_GRAVITY
        smallest_eigenvalue = float(np.linalg.eigvalsh(pseudo_inertia(body))[0])
        if not (smallest_eigenvalue >= -ROUNDING and 0.0 <= body[9] <= largest_kg):
            raise SafetyError(
                f"the payload of {body[9]:.3g} kg is not a possible payload: its pseudo-inertia has an eigenvalue "
                f"of {smallest_eigenvalue:.3g}, expected at least 0, and a mass of at most {largest_kg:.3g} kg"
            )
        return body
