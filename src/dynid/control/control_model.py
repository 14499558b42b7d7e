"""The model that feeds a controller, and the gate that it must pass: a wrong model moves metal."""

from dataclasses import dataclass

import numpy as np

from dynid.codegen.compile import compile_pivots
from dynid.errors import ConfigurationError, DataError, SafetyError
from dynid.model.drive import KINDS, kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import ModelFile
from dynid.model.parameters import BaseParameters
from dynid.model.standard import from_file, pseudo_inertia
from dynid.resources import guarded
from dynid.robot import Robot, read_only

GATE_POSES = 1 << 17  # three milliseconds: the gate is passed between two control cycles
GATE_SEED = 20260515
STATED_APART = 1e-6  # relative: rounding of the file
FEW, TIMES_THE_LIMIT = 256, 10.0  # poses for torques, at the speed limits; and how far a prediction may exceed drives


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
        DataError: the file is of another structure, or has links that no body can be.
    """
    with guarded(f"the model of {content.robot}", "set of parameters"):
        _refuse_no_bodies(content, model)
    phi = content.base_parameters(model)
    friction = friction_beside(content.friction(), model.axes)
    return ControlModel(content.robot, content.structure_hash, phi, friction, content.accepted)


def _refuse_no_bodies(content: ModelFile, model: ArmModel) -> None:
    """Raise DataError where links are no bodies, or the base parameters are not those of the links."""
    if content.standard is None:
        return
    standard = from_file(content.standard, model.mdh)
    for j in range(model.mdh.size):
        link = standard.link(j)
        least = float(np.linalg.eigvalsh(pseudo_inertia(link))[0]) if np.isfinite(link).all() else float("nan")
        if not least > 0.0:
            raise DataError(
                f"link {j + 1} of the model of {content.robot} has a pseudo-inertia that is not positive definite "
                f"(smallest eigenvalue {least:.3g}): no body has it, so identify again"
            )
    stated = content.base_parameters(model).values
    own = model.regrouping.K[:, : 10 * model.mdh.size] @ standard.values[: 10 * model.mdh.size]
    links = np.array([kind_and_number(name)[0] not in KINDS for name in model.names])
    grouped = links & (np.abs(model.regrouping.K[:, 10 * model.mdh.size :]).max(axis=1, initial=0.0) == 0.0)
    apart = np.abs(stated - own) > STATED_APART * (np.abs(own) + np.abs(own).max())
    if (apart & grouped).any():
        name = model.names[int(np.argmax(apart & grouped))]
        raise DataError(
            f"{name} of the model of {content.robot} is not what its standard parameters make: identify again"
        )


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
        few = self._poses[:FEW]
        self._rates = np.where(np.arange(FEW)[:, None] % 2, 1.0, -1.0) * robot.velocity_limits
        self._held = model.regressor(few, np.zeros_like(few), np.zeros_like(few))
        self._moved = model.regressor(few, self._rates, np.ones_like(few))
        try:
            self._most = TIMES_THE_LIMIT * robot.torque_limits
        except ConfigurationError:  # of an arm without limits, torques must be finite
            self._most = np.full(robot.size, np.finfo(np.float64).max)

    def check(self, candidate: ControlModel) -> None:
        """Let a model pass.

        Raises:
            SafetyError: of another robot or structure, not accepted, not positive definite, friction that is not of
                every axis, or torques that no drive of the arm gives; one sentence.
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
        with np.errstate(all="ignore"):
            load, tau = (rows @ candidate.phi.values for rows in (self._held, self._moved))
            needed = np.abs(candidate.friction.motor_torque(self._rates, tau, -load)).max(axis=0)
        wrong = np.flatnonzero(~(needed <= self._most))
        if len(wrong):
            joint = int(wrong[0])
            raise SafetyError(
                f"the model's torque of {self._robot.joint_names[joint]} reaches {needed[joint]:.3g} N m within the "
                f"joint limits, expected at most {self._most[joint]:.3g} N m{hint}"
            )
        pivots = self._pivots(self._poses, candidate.phi, 0.0)
        worst = int(np.argmin(pivots))
        if not pivots[worst] > 0.0:
            degrees = ", ".join(f"{x:.0f}" for x in np.rad2deg(self._poses[worst]))
            raise SafetyError(f"the model's inertia matrix is not positive definite at ({degrees}) deg{hint}")
