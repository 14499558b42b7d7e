"""Reader of the dynamic parameters in an MJCF or URDF file, as a model that can be compared with identified models.

The model has the file's inertias, armature, linear springs, damping and friction loss, and the robot's geometry. A file
with another geometry is refused. MuJoCo reads both formats.
"""

from pathlib import Path

import mujoco
import numpy as np

from dynid.errors import ConfigurationError, DataError
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import StandardParameters
from dynid.model.springs import SpringTerm
from dynid.model.standard import LinkInertia, from_link_frame
from dynid.robot import FloatArray, Robot
from dynid.robot.urdf_text import read_urdf_text
from dynid.runtime.model import Model

SUFFIXES = (".xml", ".urdf")
TOLERANCE = 1e-5  # tolerance of lengths [m] and directions [1], since MuJoCo writes six digits
IGNORED = ("geoms", "meshes", "textures", "materials", "hfields", "skins", "equalities", "actuators", "sensors", "keys")


def is_simulator_file(path: Path | str) -> bool:
    """Return whether a path has the suffix of an MJCF (.xml) or a URDF (.urdf)."""
    return Path(path).suffix.lower() in SUFFIXES


def read_simulator_file(path: Path, robot: Robot) -> Model:
    """Read an MJCF or a URDF file of a robot as a model with the dynamic parameters of the file.

    Raises:
        InputNotFoundError: the file does not exist.
        ConfigurationError: the file cannot be read or loaded by MuJoCo, or lacks a joint of the robot.
        DataError: its geometry differs from the robot's, or it has drive parameters or springs that `structure` and
            `springs` in robot.yaml do not contain.
    """
    return model_of_text(read_urdf_text(path), robot, str(path))


def model_of_text(text: str, robot: Robot, name: str) -> Model:
    """Return the dynamic parameters in the text of an MJCF or a URDF as a model of a robot.

    Args:
        text: text of the file.
        robot: robot that the file describes.
        name: name of the file, for error messages.

    Raises:
        ConfigurationError: MuJoCo cannot load the text, or it lacks a joint of the robot.
        DataError: the geometry differs from the robot's, or the text has drive parameters or springs that `structure`
            and `springs` in robot.yaml do not contain.
    """
    content = _SimulatorFile(text, robot, name)
    if content.has_armature() and not robot.file.structure.rotor_inertia:  # predict with it, as a simulator does
        structure = robot.file.structure.model_copy(update={"rotor_inertia": True})
        robot = Robot(robot.file.model_copy(update={"structure": structure}), robot.folder)
    arm = ArmModel.of(robot)
    content.refuse_other_geometry(arm)
    links, drives = content.links(arm), content.drives(arm)
    names = arm.regrouping.standard
    values = np.concatenate([*links, [drives.pop(one, 0.0) for one in names[10 * arm.chain_size :]]])
    if foreign := [one for one, value in drives.items() if value]:
        raise DataError(
            f"{name} holds {', '.join(foreign)}, which structure and springs in robot.yaml of '{robot.name}' do not "
            "have: add these terms there, or remove them from the file"
        )
    standard = StandardParameters(names, values, arm.chain_size)
    law, structure = {}, robot.file.structure
    if not structure.viscous_friction:
        law["fv"] = standard.axis("FV")
    if not structure.coulomb_friction:
        law["fb"] = standard.axis("FC")
    separate = FrictionLaw.of(robot.size, law) if law else None
    return Model(robot, arm.base_parameters(standard), separate, standard=standard)


class _SimulatorFile:
    """MJCF or URDF of a robot, loaded by MuJoCo, with all joints at zero.

    `name` is the name of the file, for error messages.
    """

    def __init__(self, text: str, robot: Robot, name: str) -> None:
        self.robot, self.name = robot, name
        try:
            spec = mujoco.MjSpec.from_string(text)
            others = [joint for joint in spec.joints if joint.name not in robot.joint_names]
            for element in [*(one for kind in IGNORED for one in getattr(spec, kind, ())), *others]:
                spec.delete(element)
            self.model = spec.compile()
        except ValueError as error:
            raise ConfigurationError(
                f"{name} is not valid for MuJoCo: {error}; every moving link needs an inertial of its own"
            ) from error
        known = {self.model.joint(k).name: k for k in range(self.model.njnt)}
        if missing := [one for one in robot.joint_names if one not in known]:
            raise ConfigurationError(f"{name} has no movable joint {', '.join(missing)}: it is not of '{robot.name}'")
        self.joints = [known[one] for one in robot.joint_names]
        self.data = mujoco.MjData(self.model)
        self.data.qpos[:] = 0.0
        mujoco.mj_kinematics(self.model, self.data)
        self.bodies = [int(self.model.jnt_bodyid[k]) for k in self.joints[: robot.chain_size]]

    def _placement(self, body: int) -> FloatArray:
        """Return the placement of the body with this index in the world frame, a homogeneous matrix (4, 4)."""
        found = np.eye(4)
        found[:3, :3], found[:3, 3] = self.data.xmat[body].reshape(3, 3), self.data.xpos[body]
        return found

    def refuse_other_geometry(self, arm: ArmModel) -> None:
        """Raise DataError if the file's geometry differs from that of the robot's model `arm`.

        The function compares the joint axes, and the placement of each link relative to the previous link.
        """
        own = [
            frame @ np.linalg.inv(at)
            for frame, at in zip(arm.mdh.placements(np.zeros(arm.chain_size)), arm.mdh.in_link, strict=True)
        ]
        here = [self._placement(body) for body in self.bodies]
        for j in range(len(self.bodies)):
            k, axis = self.joints[j], arm.mdh.in_link[j]
            error = float(np.abs(self.model.jnt_axis[k] - axis[:3, 2]).max())
            if not arm.mdh.prismatic[j]:
                error = max(error, float(np.abs(np.cross(axis[:3, 2], self.model.jnt_pos[k] - axis[:3, 3])).max()))
            if j:
                step, expected = np.linalg.inv(here[j - 1]) @ here[j], np.linalg.inv(own[j - 1]) @ own[j]
                error = max(error, float(np.abs(step - expected).max()))
            if not error < TOLERANCE:
                raise DataError(
                    f"{self.name} places joint {self.robot.joint_names[j]} differently from the URDF of "
                    f"'{self.robot.name}' (largest difference {error:.3g}, in m or of a unit vector); expected a file "
                    "of the same geometry"
                )

    def links(self, arm: ArmModel) -> list[FloatArray]:
        """Return the ten standard parameters of each chain link, (10,) each in SI units.

        The inertia of any other body is added to the chain link that carries the body.
        """
        found = [np.zeros(10) for _ in self.bodies]
        for body in range(1, self.model.nbody):
            carrier = body
            while carrier and carrier not in self.bodies:
                carrier = int(self.model.body_parentid[carrier])
            if carrier and self.model.body_mass[body] > 0.0:
                j = self.bodies.index(carrier)
                found[j] += from_link_frame(self._inertia(body, self._placement(carrier)), arm.mdh.in_link[j])
        return found

    def _inertia(self, body: int, frame: FloatArray) -> LinkInertia:
        """Return mass, centre of mass and inertia of the body with this index, expressed in a given frame.

        `frame` (4, 4) is the placement of that frame in the world.
        """
        axes = frame[:3, :3].T @ self.data.ximat[body].reshape(3, 3)
        centre = frame[:3, :3].T @ (self.data.xipos[body] - frame[:3, 3])
        inertia = axes @ np.diag(self.model.body_inertia[body]) @ axes.T
        return LinkInertia(float(self.model.body_mass[body]), centre, inertia)

    def has_armature(self) -> bool:
        """Return whether a joint of the robot has armature (rotor inertia) in the file."""
        return any(float(self.model.dof_armature[int(self.model.jnt_dofadr[k])].max()) > 0.0 for k in self.joints)

    def drives(self, arm: ArmModel) -> dict[str, float]:
        """Return the file's armature, damping, friction loss and linear springs as standard parameters of the drives.

        The result maps parameter names to values in SI units.
        """
        model, found = self.model, dict[str, float]()
        first = {
            field: np.asarray(getattr(model, field)).reshape(len(model.dof_armature), -1)[:, 0]
            for field in ("dof_armature", "dof_damping", "dof_frictionloss")
        }
        for axis, k in enumerate(self.joints):
            dof = int(model.jnt_dofadr[k])
            for kind, field in (("IA", "dof_armature"), ("FV", "dof_damping"), ("FC", "dof_frictionloss")):
                found[f"{kind}{axis + 1}"] = float(first[field][dof])
            stiffness = float(np.atleast_1d(model.jnt_stiffness[k])[0])
            about = next((term.about for term in arm.drive.springs if term.joint == axis), 0.0)
            rest = float(model.qpos_spring[model.jnt_qposadr[k]])
            found[SpringTerm(axis, 1).name] = stiffness
            found[SpringTerm(axis, 0).name] = stiffness * (about - rest) if abs(about - rest) > TOLERANCE else 0.0
        for motor in arm.drive.coupled:
            number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_TENDON, f"motor_{self.robot.joint_names[motor]}")
            if number < 0:
                continue  # a URDF holds no tendons
            for kind, field in (("IA", "armature"), ("FVM", "damping"), ("FCM", "frictionloss")):
                found[f"{kind}{motor + 1}"] = float(np.atleast_1d(getattr(model, f"tendon_{field}")[number])[0])
        return found
