"""Messages of the contact process as JSON: its estimates, and the model that it shares with the executor."""

import hashlib
from typing import Annotated

import numpy as np
from pydantic import Field

from dynid.control.control_model import ControlModel
from dynid.errors import SafetyError
from dynid.model.dynamics import ArmModel
from dynid.model.friction import TERMS, FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, NonNegative, Strict

Body = Annotated[tuple[float, ...], Field(min_length=10, max_length=10)]


class ContactReport(Strict):
    """Message of topic `contact`: contact estimate for the newest state of the arm at which contact could be judged.

    Attributes:
        stamp_ns: timestamp of the judged state [ns].
        contact: whether the arm is in contact.
        joint: name of the joint with the largest ratio of external torque to threshold.
        torque_nm: external torque of that joint [N m].
        threshold_nm: contact threshold of that joint: the largest torque that model errors can explain [N m].
        force_n: magnitude of the estimated external force at the tool [N].
        model: `digest` of the last received `SharedModel` message; "" before the first.
    """

    stamp_ns: Annotated[int, Field(ge=0)]
    contact: bool
    joint: str
    torque_nm: float
    threshold_nm: NonNegative
    force_n: NonNegative
    model: str = ""

    @property
    def text(self) -> str:
        """Description of the contact in words: the joint, its external torque, and the force at the tool."""
        return (
            f"contact at {self.joint}, {self.torque_nm:.1f} N m from outside (the model's errors explain "
            f"{self.threshold_nm:.1f} N m), {self.force_n:.0f} N at the tool"
        )


class SharedModel(Strict):
    """Message of topic `control_model` (latched): the executor's model and the arm's payload.

    Attributes:
        structure_hash: hash of the arm's geometry, parameter names and other model structure. `phi` and `friction` are
            valid only for an arm with the same hash.
        phi: base parameters of the arm without payload; None while the executor has no model.
        friction: parameters of the friction terms that are not base parameters, a row for each of
            `dynid.model.friction.TERMS`; None while the executor has no model.
        payload: ten standard parameters of the payload, in the last modified DH frame; zeros without payload.
    """

    structure_hash: str
    phi: tuple[float, ...] | None
    friction: tuple[tuple[float, ...], ...] | None
    payload: Body

    @classmethod
    def of(cls, arm: ArmModel, model: ControlModel | None, payload: FloatArray) -> "SharedModel":
        """Build the message from the executor's model and the payload of the arm.

        Args:
            arm: geometry and structure of the arm.
            model: model of the arm without payload; None while the executor has no model.
            payload: standard parameters of the payload in the last modified DH frame, (10,), SI; zeros without payload.
        """
        body = tuple(payload.tolist())
        if model is None:
            return cls(structure_hash=arm.structure_hash, phi=None, friction=None, payload=body)
        rows = tuple(tuple(row) for row in model.friction.values.tolist())
        return cls(
            structure_hash=model.structure_hash, phi=tuple(model.phi.values.tolist()), friction=rows, payload=body
        )

    def control_model(self, robot: str, arm: ArmModel) -> ControlModel | None:
        """Build the control model of the arm without payload from this message; None if the message has no model.

        Args:
            robot: name of the robot.
            arm: geometry and structure of the arm.

        Raises:
            SafetyError: the structure hash of the message differs from that of the arm.
        """
        if self.phi is None or self.friction is None:
            return None
        terms = np.array(self.friction)
        fits = len(self.phi) == len(arm.names) and terms.shape == (len(TERMS), arm.axes)
        if self.structure_hash != arm.structure_hash or not fits:
            raise SafetyError(
                f"the executor's model has structure {self.structure_hash}, expected {arm.structure_hash} of the "
                "contact detection: give both the same model_file"
            )
        phi = BaseParameters(arm.names, np.array(self.phi))
        return ControlModel(robot, self.structure_hash, phi, FrictionLaw(terms), True)


def digest(text: str) -> str:
    """Return a short hash of a message's text, with which a receiver confirms the message."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
