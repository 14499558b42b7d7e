"""Check of a robot's folder: its possible uses, missing data, and the parameters of its dynamic model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynid.errors import ConfigurationError, DynidError
from dynid.model.chain import SerialChain
from dynid.model.drivable import undrivable
from dynid.model.dynamics import ArmModel
from dynid.model.gear_presets import VISCOUS, known_models
from dynid.model.standard import load_standard
from dynid.model.within_limits import outside
from dynid.robot import Robot
from dynid.robot.link_limits import ArmLimits
from dynid.robot.meshes import tree_with_meshes

DRIVING_FIELDS = ("rest_posture", "servos", "bus")  # fields of robot.yaml that only driving needs
DRAFT_HINT = "'dynid robot motions' drafts it"


@dataclass(frozen=True)
class Use:
    """One use of a robot, such as simulation; `missing` states what prevents the use, '' if it is possible."""

    name: str
    missing: str

    @property
    def ready(self) -> bool:
        """Whether this use of the robot is possible."""
        return not self.missing


@dataclass(frozen=True, eq=False)
class RobotCheck:
    """Outcome of the check of a robot's folder.

    Attributes:
        model: the robot's model, including its parameter groupings.
        undecided: questions that the user must still answer, by field of robot.yaml.
        uses: all checked uses, such as simulation.
        notes: remarks, such as physically impossible inertias in the URDF.
        silent: names of standard parameters that affect no joint torque.
    """

    model: ArmModel
    undecided: dict[str, str]
    uses: tuple[Use, ...]
    notes: tuple[str, ...]
    silent: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether the robot can be identified from torques; questions about driving it may still be open."""
        return self.uses[0].ready and all(field.split(".")[0] in DRIVING_FIELDS for field in self.undecided)

    def tried(self, trials: dict[str, Callable[[], str]]) -> "RobotCheck":
        """Call the trial function of each use that is possible so far; return a copy of this check with the results.

        Args:
            trials: trial function by name of the use. It returns why the use is impossible, or '' if it is possible.
                This text replaces `Use.missing`. Uses without a trial function do not change.
        """
        uses = (
            replace(use, missing=trials[use.name]()) if use.ready and use.name in trials else use for use in self.uses
        )
        return replace(self, uses=tuple(uses))

    def groupings(self) -> dict[str, str]:
        """Return for each base parameter, by its name, the formula that computes it from standard parameters."""
        regrouping = self.model.regrouping
        return {name: regrouping.formula(name).split(" = ", 1)[1] for name in regrouping.names}

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as a dictionary of plain values, for JSON output."""
        return {
            "complete": self.complete,
            "undecided": self.undecided,
            "uses": {use.name: use.missing or "ready" for use in self.uses},
            "notes": list(self.notes),
            "standard_parameters": len(self.model.regrouping.standard),
            "grouping_method": self.model.regrouping.method,
            "base_parameters": self.groupings(),
            "without_effect": list(self.silent),
            "structure_hash": self.model.structure_hash,
        }


def _missing(*attributes: str, robot: Robot) -> str:
    """Read attributes of a robot in order until one fails; return its error message, or '' if none fails.

    `attributes` are their names, such as "torque_limits". Reading fails if robot.yaml lacks the required data.
    """
    for name in attributes:
        try:
            getattr(robot, name)
        except ConfigurationError as error:
            return str(error)
    return ""


def _missing_file(robot: Robot, name: str, purpose: str) -> str:
    return "" if (robot.folder / name).is_file() else f"{robot.folder.name}/{name} is missing: {purpose}"


def _nominal(robot: Robot, model: ArmModel) -> str:
    """Return the reason why the robot's file of CAD standard parameters is unusable; '' if it is usable."""
    name = robot.file.simulation.standard_parameters
    if missing := _missing_file(robot, name, "standard parameters close to the arm (CAD)"):
        return missing
    try:
        load_standard(robot.folder / name, model.mdh, model.regrouping.standard)
    except DynidError as error:
        return str(error)
    return ""


def _missing_meshes(robot: Robot) -> str:
    """Return why contact between links cannot be predicted, for example a missing mesh; '' if it can."""
    try:
        tree_with_meshes(robot.urdf_path)
    except ConfigurationError as error:
        return str(error)
    return ""


def _gear_friction(robot: Robot) -> str:
    """Return why the friction model in `simulation.friction` of robot.yaml cannot be simulated; '' if it can."""
    name = robot.file.simulation.friction
    if name in (known := (VISCOUS, *known_models(robot))):
        return ""
    return (
        f"simulation.friction is {name}; the known models of this arm's gears are {', '.join(known)}: write "
        f"{robot.folder.name}/friction.yaml, or choose another"
    )


def _uses(robot: Robot, model: ArmModel, unbounded: str) -> tuple[Use, ...]:
    settings = unbounded or _missing_file(robot, "identification.yaml", "filter, sampling interval and acceptance")
    nominal = _nominal(robot, model)
    driving = _missing("servo_ids", "servo_models", "current_limits", "rest_posture", robot=robot)
    driving = driving or "; ".join(undrivable(robot))
    driving = "; ".join(filter(None, (driving, _missing_meshes(robot))))
    motions = _missing_file(robot, "excitation.yaml", DRAFT_HINT) or _missing_file(robot, "controller.yaml", DRAFT_HINT)
    needed = ("nuisances", "rest_posture", "torque_limits")
    simulated = "coupled motors are not simulated" if model.drive.coupled else _missing(*needed, robot=robot)
    simulated = simulated or _gear_friction(robot)
    return (
        Use("identify from torques", _missing("torque_limits", robot=robot) or settings),
        Use("identify from currents", _missing("torque_constants", robot=robot) or settings),
        Use("standard parameters close to CAD values", nominal),
        Use("simulate", simulated or nominal or motions),
        Use("drive the arm", driving or motions),
    )


def _inertia_notes(robot: Robot) -> list[str]:
    """Return a note for each link with a physically impossible inertia in the URDF.

    Identification does not use these inertias.
    """
    notes = []
    serial = SerialChain.from_robot(robot)
    for j, name in enumerate(robot.joint_names[: robot.chain_size]):
        inertia = serial.model.inertias[j + 1]
        moments = np.linalg.eigvalsh(np.array(inertia.inertia))
        if inertia.mass <= 0.0:
            notes.append(f"the URDF gives the link after {name} no mass")
        elif moments[0] <= 0.0 or moments[0] + moments[1] < moments[2]:
            listed = ", ".join(f"{value:.3g}" for value in moments)
            notes.append(
                f"the URDF's inertia of the link after {name} is physically impossible: principal moments {listed}"
            )
    return notes


def _limits(robot: Robot, model: ArmModel) -> tuple[str, list[str]]:
    """Return the reason why the physical bounds are unusable ('' if they are usable), and notes about them.

    The notes state the source of each link's box, which is the region that must contain the link's mass. A further note
    reports CAD standard parameters that violate the bounds.
    """
    try:
        limits = model.limits(robot.file.physical_bounds)
    except ConfigurationError as error:
        return str(error), []
    boxes = [
        f"the box that holds all mass of link {', '.join(map(str, j))} is from {one}"
        for one, j in limits.sources.items()
    ]
    return "", [*boxes, *_nominal_outside(robot, model, limits)]


def _nominal_outside(robot: Robot, model: ArmModel, limits: ArmLimits) -> list[str]:
    """Return a list with a note if the CAD standard parameters violate the bounds `limits`, else an empty list."""
    if _nominal(robot, model):
        return []
    name = robot.file.simulation.standard_parameters
    violations = outside(load_standard(robot.folder / name, model.mdh, model.regrouping.standard), model, limits)
    if not violations:
        return []
    return [
        f"{name} contradicts physical_bounds: {violations}; correct the inertials, or widen the bounds in robot.yaml"
    ]


def check_robot(robot: Robot) -> RobotCheck:
    """Check for which uses a robot's folder is complete, and derive the parameters of its dynamic model.

    Raises:
        InputNotFoundError: the URDF does not exist.
        ConfigurationError: the URDF cannot be used for the robot's joints; the message states the reason.
    """
    model = ArmModel.of(robot)
    regrouping = model.regrouping
    notes = (
        []
        if regrouping.method == "closed form"
        else ["the groups come from the regressor, because the closed form does not cover this geometry"]
    )
    unbounded, boxes = _limits(robot, model)
    reached = np.abs(regrouping.K).max(axis=0) > 0.0
    silent = tuple(regrouping.standard[k] for k in np.flatnonzero(model.modelled & ~reached))
    return RobotCheck(
        model,
        dict(robot.file.undecided),
        _uses(robot, model, unbounded),
        (*notes, *boxes, *_inertia_notes(robot)),
        silent,
    )
