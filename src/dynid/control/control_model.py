"""Model that a control law uses, and the safety gate that refuses models which must not move an arm."""

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

GATE_POSES = 1 << 17  # number of poses; takes three milliseconds, so a gate check fits between control cycles
GATE_SEED = 20260515
RELATIVE_DIFFERENCE = 1e-6  # largest relative difference: rounding in the file
CONSTANTS_TOLERANCE = 0.01  # largest relative difference of torque constants
SPEED_POSES, LIMIT_FACTOR = 256, 10.0  # poses for the torque check at full speed; factor over the torque limits


@dataclass(frozen=True, eq=False)
class ControlModel:
    """Identified model of an arm as control laws use it: base parameters and friction; arrays are read-only.

    Attributes:
        robot: name of the robot.
        structure_hash: hash of the model structure that the parameters belong to, see `ArmModel.structure_hash`.
        phi: base parameters.
        friction: friction terms in addition to the base parameters; all zero if there are no such terms. Friction terms
            among the base parameters, such as viscous friction FV, are not repeated here.
        accepted: whether the model passed the acceptance checks of its identification.
        torque_constants: torque constants at the joints that the identification used, (n,) [N m/A]; () if unknown.
    """

    robot: str
    structure_hash: str
    phi: BaseParameters
    friction: FrictionLaw
    accepted: bool
    torque_constants: tuple[float, ...] = ()


def from_model_file(content: ModelFile, model: ArmModel) -> ControlModel:
    """Return the control model of a model.yaml.

    Args:
        content: content of the file.
        model: model structure of the arm.

    Raises:
        DataError: the file belongs to another model structure, or a link is not physically consistent.
    """
    with guarded(f"the model of {content.robot}", "set of parameters"):
        _refuse_no_bodies(content, model)
    phi = content.base_parameters(model)
    friction = friction_or_zero(content.friction(), model.axes)
    constants = content.torque_constants_nm_per_a
    return ControlModel(content.robot, content.structure_hash, phi, friction, content.accepted, constants)


def _refuse_no_bodies(content: ModelFile, model: ArmModel) -> None:
    """Raise DataError if a link is not physically consistent, or if base and standard parameters contradict each other.

    Nothing is checked if the file has no standard parameters.
    """
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
    apart = np.abs(stated - own) > RELATIVE_DIFFERENCE * (np.abs(own) + np.abs(own).max())
    if (apart & grouped).any():
        name = model.names[int(np.argmax(apart & grouped))]
        raise DataError(
            f"{name} of the model of {content.robot} is not consistent with its standard parameters: identify again"
        )


def friction_or_zero(friction: FrictionLaw | None, axes: int) -> FrictionLaw:
    """Return the given friction law; if it is None, return a law of zero friction on all axes."""
    return FrictionLaw.of(axes, {}) if friction is None else friction


class ModelGate:
    """Safety gate that refuses models which must not move a given arm.

    Among other checks, it tests the inertia matrix for positive definiteness at `GATE_POSES` random poses, between the
    joint positions `audit_lower` and `audit_upper` of the robot. The identification has tested far more poses. The gate
    repeats the test because the received parameters may differ from the identified ones.

    Args:
        robot: robot that the models would move.
        model: model structure of its arm.
    """

    def __init__(self, robot: Robot, model: ArmModel) -> None:
        self._robot, self._model = robot, model
        points = np.random.default_rng(GATE_SEED).random((GATE_POSES, model.chain_size))
        poses = np.zeros((GATE_POSES, model.axes))
        poses[:, : model.chain_size] = robot.audit_lower + points * (robot.audit_upper - robot.audit_lower)
        self._poses = read_only(poses)
        self._pivots = compile_pivots(model)
        ones = BaseParameters(model.names, np.ones(len(model.names)))
        self._pivots(self._poses[:1], ones, 0.0)  # compile now, not while the arm moves
        few = self._poses[:SPEED_POSES]
        self._rates = np.where(np.arange(SPEED_POSES)[:, None] % 2, 1.0, -1.0) * robot.velocity_limits
        self._held = model.regressor(few, np.zeros_like(few), np.zeros_like(few))
        self._moved = model.regressor(few, self._rates, np.ones_like(few))
        try:
            self._most = LIMIT_FACTOR * robot.torque_limits
        except ConfigurationError:  # without torque limits, torques must only be finite
            self._most = np.full(robot.size, np.finfo(np.float64).max)

    def check(self, candidate: ControlModel) -> None:
        """Raise SafetyError with a one-sentence reason if the model must not move the arm.

        Raises:
            SafetyError: the model belongs to another robot or structure, is not accepted, is based on torque constants
                other than those of robot.yaml, has an inertia matrix that is not positive definite, has friction for
                more or fewer axes than the arm has, or predicts torques far beyond the drives' limits.
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
        refuse_other_constants(self._robot, candidate.torque_constants, hint)
        if candidate.friction.axes != self._model.axes:
            raise SafetyError(
                f"the model's friction has {candidate.friction.axes} axes; expected {self._model.axes}{hint}"
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


def refuse_other_constants(robot: Robot, constants: tuple[float, ...], hint: str = "") -> None:
    """Raise SafetyError if a model's torque constants (n,) [N m/A] differ from those of robot.yaml.

    A model is valid only with the torque constants with which it was identified. Nothing is refused if the model or
    the robot has no torque constants, because torques are then commanded and measured directly.

    Args:
        robot: the robot that the model is to move.
        constants: torque constants of the model, at the joints, (n,) [N m/A]; () if it has none.
        hint: end of the error message.
    """
    if not constants or not robot.has_torque_constants:
        return
    own = robot.joint_constants
    if len(constants) != len(own):
        raise SafetyError(f"the model has {len(constants)} torque constants; expected {len(own)}{hint}")
    wrong = np.flatnonzero(~(np.abs(np.array(constants) - own) <= CONSTANTS_TOLERANCE * own))
    if len(wrong):
        joint = int(wrong[0])
        given, stated = robot.motor_constants(constants)[joint], robot.torque_constants[joint]  # as in robot.yaml
        raise SafetyError(
            f"the model is based on a torque constant of {given:.4g} N m/A at "
            f"{robot.joint_names[joint]}, but robot.yaml says {stated:.4g} N m/A: restore the constant, "
            f"or identify again from a recording with the new one{hint}"
        )
