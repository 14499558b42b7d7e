"""The model that feeds a controller, and the gate that it must pass: a wrong model moves metal."""

from dataclasses import dataclass

import numpy as np

from dynid.codegen.compile import compile_pivots
from dynid.errors import SafetyError
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import ModelFile
from dynid.model.parameters import BaseParameters
from dynid.robot import Robot, read_only

GATE_POSES = 1 << 17  # three milliseconds: the gate is passed between two control cycles
GATE_SEED = 20260515


@dataclass(frozen=True, eq=False)
class ControlModel:
    """A model as it is handed to controllers; arrays are read-only.

    Attributes:
        structure_hash: of the structure that the parameters belong to, see `ArmModel.structure_hash`.
        phi: base parameters.
        friction: what stands beside the base parameters; all zero where nothing does. Friction terms among the base
            parameters (FV, and FC, OF, FS, FCM where the structure has them) are not repeated here.
        accepted: whether its verdict is positive.
    """

    robot: str
    structure_hash: str
    phi: BaseParameters
    friction: FrictionLaw
    accepted: bool


def from_model_file(content: ModelFile, model: ArmModel) -> ControlModel:
    """The model of a model.yaml.

    Raises:
        DataError: the file is of another structure.
    """
    phi = content.base_parameters(model)
    friction = friction_beside(content.friction(), model.axes)
    return ControlModel(content.robot, content.structure_hash, phi, friction, content.accepted)


def friction_beside(friction: FrictionLaw | None, axes: int) -> FrictionLaw:
    """Friction as controllers take it: a law of all axes, of zeros where there is none."""
    return FrictionLaw.of(axes, {}) if friction is None else friction


class ModelGate:
    """Refuses models that must not move a certain arm.

    Positive definiteness is tested at `GATE_POSES` poses of the robot's audit domain: the verdict of an accepted model
    rests on a far longer search; this is the last look, at the values that actually arrived.
    """

    def __init__(self, robot: Robot, model: ArmModel) -> None:
        self._robot, self._model = robot, model
        points = np.random.default_rng(GATE_SEED).random((GATE_POSES, model.chain_size))
        poses = np.zeros((GATE_POSES, model.axes))
        poses[:, : model.chain_size] = robot.audit_lower + points * (robot.audit_upper - robot.audit_lower)
        self._poses = read_only(poses)
        self._pivots = compile_pivots(model)
        ones = BaseParameters(model.names, np.ones(len(model.names)))
        self._pivots(self._poses[:1], ones, 0.0)  # compiles now, not when the arm moves

    def check(self, candidate: ControlModel) -> None:
        """Let a model pass.

        Raises:
            SafetyError: of another robot or structure, not accepted, not positive definite, or friction that is not of
                every axis; one sentence.
        """
        hint = "; the controllers keep their model"
        if candidate.robot != self._robot.name:
            raise SafetyError(
                f"the model is for robot '{candidate.robot}', but this robot is '{self._robot.name}'{hint}"
            )
        if candidate.structure_hash != self._model.structure_hash or candidate.phi.names != self._model.names:
            raise SafetyError(
                f"the model has structure {candidate.structure_hash or '(none)'}, expected "
                f"{self._model.structure_hash}{hint}"
            )
        if not candidate.accepted:
            raise SafetyError(f"the model did not pass its verdict{hint}")
        if candidate.friction.axes != self._model.axes:
            raise SafetyError(
                f"the model's friction is of {candidate.friction.axes} axes; expected {self._model.axes}{hint}"
            )
        pivots = self._pivots(self._poses, candidate.phi, 0.0)
        worst = int(np.argmin(pivots))
        if not pivots[worst] > 0.0:
            degrees = ", ".join(f"{x:.0f}" for x in np.rad2deg(self._poses[worst]))
            raise SafetyError(f"the model's inertia matrix is not positive definite at ({degrees}) deg{hint}")
