"""What an arm holds as ROS parameters of the executor, and the model that follows from it.

A body travels whole, in one atomic call: `payload.parameters` (ten standard parameters in the last modified DH frame,
zeros for none), `payload.structure_hash` of the model that it was weighed with, and `payload.certain`. It is added to
the model that the executor has. A new model forgets it: that is of the arm as it was when it was identified.
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
Kept = tuple[ControlModel | None, FloatArray]  # the accepted model, and the body (10,) beside it
ROUNDING = 1e-9  # of a pseudo-inertia's eigenvalue [kg m^2]


def payload_values(body: FloatArray, structure_hash: str) -> dict[str, object]:
    """All parameters of a body (10,) that is certain, with their values."""
    return {BODY: body.tolist(), STRUCTURE: structure_hash, CERTAIN: True}


class PayloadOnModel:
    """The accepted model of an arm, and beside it what the arm holds.

    Args:
        node: declares the parameters.
        robot: what its drives lift.
    """

    def __init__(self, node: Node, robot: Robot) -> None:
        declare(node, BODY, list(NOTHING), "ten standard parameters of what the arm holds, zeros for nothing")
        declare(node, STRUCTURE, "", "structure of the model that it was weighed with")
        declare(node, CERTAIN, False, "whether the estimate explains what was felt, and is significant")
        self._robot = robot
        self._kept: Kept = (None, np.zeros(10))
        self._next: Kept = self._kept

    @property
    def kept(self) -> Kept:
        """The model without the body, None without one, and the body (10,) that are in force."""
        return self._kept

    @property
    def mass_kg(self) -> float:
        """Of the body that is in force [kg]."""
        return float(self._kept[1][9])

    def taken(
        self, parameters: Sequence[Parameter], model: ControlModel | None, arm: ArmModel
    ) -> tuple[ControlModel | None, bool]:
        """What a call of parameters makes of the model: the whole one, and whether only the body is new.

        Args:
            parameters: of the call.
            model: that the call brings; None keeps the present one.
            arm: geometry and structure of the models.

        Raises:
            SafetyError: a part of a body, of another structure, one that is not certain, no body or one too heavy, a
                body without a model, or a body beside a new model.
        """
        self._next = self._kept
        body = self._body({one.name: one.value for one in parameters if one.name in NAMES}, arm)
        if model is not None:
            if body is not None and body.any():
                raise SafetyError("set either a model or a payload, not both in one call")
            self._next = (model, np.zeros(10))
            return model, False
        if body is None:
            return None, False
        bare = self._kept[0]
        if bare is None:
            raise SafetyError("there is no model that a payload could be added to: set model_file or model.* first")
        self._next = (bare, body)
        return with_payload(arm, bare, body) if body.any() else bare, True

    def keep(self) -> None:
        """What was taken last is in force."""
        self._kept = self._next

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
                f"the payload was weighed with structure {given[STRUCTURE] or '(none)'}, expected {arm.structure_hash}"
            )
        most = ToolForce(self._robot, arm.mdh).largest_n / STANDARD_GRAVITY
        least = float(np.linalg.eigvalsh(pseudo_inertia(body))[0])
        if not (least >= -ROUNDING and 0.0 <= body[9] <= most):
            raise SafetyError(
                f"the payload of {body[9]:.3g} kg is no body that the arm lifts: its pseudo-inertia has an eigenvalue "
                f"of {least:.3g}, expected at least 0, and a mass of at most {most:.3g} kg"
            )
        return body
