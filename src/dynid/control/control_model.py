"""The model that feeds a controller, and the gate that it must pass: a wrong model moves metal."""

from dataclasses import dataclass

import numpy as np

from dynid.errors import SafetyError
from dynid.identification.coulomb import CoulombFriction
from dynid.identification.model_file import ModelFile
from dynid.model.compile import compile_pivots
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Robot, read_only

GATE_POSES = 1 << 17  # three milliseconds: the gate is passed between two control cycles
GATE_SEED = 20260515


@dataclass(frozen=True, eq=False)
class ControlModel:
    """A model as it is handed to controllers; arrays are read-only.

    Attributes:
        robot: name of the robot.
        structure_hash: of the structure that the parameters belong to, see `ArmModel.structure_hash`.
        phi: base parameters.
        coulomb: Coulomb friction, (n,) [N m]; zeros where the model has none.
        accepted: whether its verdict is positive.
    """

    robot: str
    structure_hash: str
    phi: BaseParameters
    coulomb: FloatArray
    accepted: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "coulomb", read_only(self.coulomb))


def from_model_file(content: ModelFile, model: ArmModel) -> ControlModel:
    """The model of a model.yaml.

    Raises:
        DataError: the file is of another structure.
    """
    phi = content.base_parameters(model)
    coulomb = whole_coulomb(phi, content.friction(), model.axes)
    return ControlModel(content.robot, content.structure_hash, phi, coulomb, content.accepted)


def whole_coulomb(phi: BaseParameters, beside: CoulombFriction | None, axes: int) -> FloatArray:
    """Coulomb friction of every axis, (n,) [N m]: what stands beside the base parameters, and what is among them."""
    among = [phi[f"FC{axis + 1}"] if f"FC{axis + 1}" in phi.names else 0.0 for axis in range(axes)]
    return np.array(among) + (0.0 if beside is None else beside.values)


class ModelGate:
    """Refuses models that must not move a certain arm.

    Positive definiteness is tested at `GATE_POSES` poses of the robot's audit domain: the verdict of an accepted model
    rests on a far longer search; this is the last look, at the values that actually arrived.

    Args:
        robot: the robot.
        model: its structure and geometry.
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
            SafetyError: of another robot or structure, not accepted, not positive definite, or friction that is
                negative or not of every axis; one sentence.
        """
        hint = "; the controllers keep the model they have"
        if candidate.robot != self._robot.name:
            raise SafetyError(f"the model is of robot '{candidate.robot}', this one is '{self._robot.name}'{hint}")
        if candidate.structure_hash != self._model.structure_hash or candidate.phi.names != self._model.names:
            raise SafetyError(
                f"the model is of structure {candidate.structure_hash or '(none)'}, expected "
                f"{self._model.structure_hash}{hint}"
            )
        if not candidate.accepted:
            raise SafetyError(f"the model was not accepted by its verdict{hint}")
        coulomb = candidate.coulomb
        if coulomb.shape != (self._model.axes,) or not (np.isfinite(coulomb) & (coulomb >= 0.0)).all():
            raise SafetyError(
                f"the model's Coulomb friction is {coulomb.tolist()} N m; expected {self._model.axes} values, none "
                f"negative{hint}"
            )
        pivots = self._pivots(self._poses, candidate.phi, 0.0)
        worst = int(np.argmin(pivots))
        if not pivots[worst] > 0.0:
            degrees = ", ".join(f"{x:.0f}" for x in np.rad2deg(self._poses[worst]))
            raise SafetyError(f"the model's inertia matrix is not positive definite at ({degrees}) deg{hint}")
