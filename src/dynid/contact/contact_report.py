"""What the process that feels contact says of the arm, and the model that it shares with the executor, as JSON."""

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
    """Topic `contact`: whether something touches the arm, by the newest state that could be judged.

    Attributes:
        stamp_ns: of that state [ns].
        contact: whether something touches the arm.
        joint: the joint whose external torque is largest beside its threshold.
        torque_nm: external torque of that joint [N m].
        threshold_nm: what the model's errors explain of it [N m].
        force_n: size of the force at the tool [N].
        model: `digest` of the shared model that was received last; "" before there was one.
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
        """The contact in words."""
        return (
            f"contact at {self.joint}, {self.torque_nm:.1f} N m from outside (the model's errors explain "
            f"{self.threshold_nm:.1f} N m), {self.force_n:.0f} N at the tool"
        )


class SharedModel(Strict):
    """Topic `control_model` (latched): the model that the executor has, and what the arm holds beside it.

    Attributes:
        structure_hash: of the structure that the parameters belong to.
        phi: base parameters; None while the executor has no model.
        friction: what stands beside them, a row for each of `dynid.model.friction.TERMS`; None like `phi`.
        payload: ten standard parameters of the body that the arm holds, in the last modified DH frame.
    """

    structure_hash: str
    phi: tuple[float, ...] | None
    friction: tuple[tuple[float, ...], ...] | None
    payload: Body

    @classmethod
    def of(cls, arm: ArmModel, model: ControlModel | None, payload: FloatArray) -> "SharedModel":
        """Return what a model, without the body, and a body (10,) beside it are shared as."""
        body = tuple(payload.tolist())
        if model is None:
            return cls(structure_hash=arm.structure_hash, phi=None, friction=None, payload=body)
        rows = tuple(tuple(row) for row in model.friction.values.tolist())
        return cls(
            structure_hash=model.structure_hash, phi=tuple(model.phi.values.tolist()), friction=rows, payload=body
        )

    def control_model(self, robot: str, arm: ArmModel) -> ControlModel | None:
        """Return the model without the body; None if there is none.

        Raises:
            SafetyError: it is of another structure than the arm.
        """
        if self.phi is None or self.friction is None:
            return None
        terms = np.array(self.friction)
        fits = len(self.phi) == len(arm.names) and terms.shape == (len(TERMS), arm.axes)
        if self.structure_hash != arm.structure_hash or not fits:
            raise SafetyError(
                f"the executor's model has structure {self.structure_hash}, expected {arm.structure_hash} of the model "
                "that feels contact: give both the same model_file"
            )
        phi = BaseParameters(arm.names, np.array(self.phi))
        return ControlModel(robot, self.structure_hash, phi, FrictionLaw(terms), True)


def digest(text: str) -> str:
    """Return a short name of a message's text, by which one that has it says so."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
