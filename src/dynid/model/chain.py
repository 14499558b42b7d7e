"""Serial chain of a URDF: joint origins and axes from the base link to the last chain joint.

pinocchio reads the URDF; this module arranges its results.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dynid.errors import ConfigurationError
from dynid.model.pinocchio_library import pinocchio
from dynid.resources import guarded
from dynid.robot import FloatArray, Robot, read_only
from dynid.robot.urdf_text import read_urdf_text
from dynid.robot.urdf_tree import read_tree, rename_links_of_joints, with_limited_turns

LONGEST_LINK_M = 20.0  # maximum distance of neighbouring joints: a large crane, or 2 cm stated in millimetres


def pinocchio_chain_model(urdf_text: str, joint_names: tuple[str, ...], file: str = "the text") -> pinocchio.Model:
    """Return the URDF as a pinocchio model with only the chain joints movable; all other joints are fixed at zero.

    `file` names the URDF in errors.

    Raises:
        ConfigurationError: not a valid URDF, a joint is missing, or the joints are not one serial chain in order.
    """
    with guarded(file, "URDF", ConfigurationError):
        return _chain_model(urdf_text, joint_names, file)


def _chain_model(urdf_text: str, joint_names: tuple[str, ...], file: str) -> pinocchio.Model:
    tree = read_tree(urdf_text, file)
    tree.refuse_no_chain(joint_names)
    rename_links_of_joints(tree)
    try:
        full = pinocchio.buildModelFromXML(with_limited_turns(tree))
    except (ValueError, RuntimeError) as error:
        raise ConfigurationError(f"{file} is not a valid URDF: {error}") from error
    locked = [full.getJointId(name) for name in full.names if name not in joint_names and name != "universe"]
    model = pinocchio.buildReducedModel(full, locked, pinocchio.neutral(full))
    far = max(float(np.linalg.norm(placement.translation)) for placement in model.jointPlacements)
    if far > LONGEST_LINK_M:
        raise ConfigurationError(
            f"{file} places two neighbouring joints {far:.4g} m apart, expected at most {LONGEST_LINK_M:g} m: URDFs "
            "are in metres; if this one is in millimetres, scale its lengths by 0.001"
        )
    return model


@dataclass(frozen=True, eq=False)
class SerialChain:
    """Serial chain of a robot's joints as a pinocchio model."""

    model: pinocchio.Model

    @classmethod
    def from_robot(cls, robot: Robot) -> "SerialChain":
        """Return the serial chain of a robot, read from its URDF."""
        return cls.of_file(robot.urdf_path, robot.joint_names[: robot.chain_size])

    @classmethod
    def of_file(cls, urdf: Path, joint_names: tuple[str, ...]) -> "SerialChain":
        """Return the serial chain of the named joints of a URDF, in this order.

        Raises:
            ConfigurationError: not a valid URDF, a joint is missing, or the joints are not one serial chain in order.
        """
        return cls(pinocchio_chain_model(read_urdf_text(urdf), joint_names, str(urdf)))

    @property
    def size(self) -> int:
        """Number of chain joints."""
        return int(self.model.nq)

    @cached_property
    def _zero(self) -> pinocchio.Data:
        data = self.model.createData()
        pinocchio.forwardKinematics(self.model, data, np.zeros(self.size), np.ones(self.size))
        return data

    @cached_property
    def joint_placements(self) -> FloatArray:
        """Placements of the URDF joint frames in the base at q = 0, (n, 4, 4): rotation [-] and position [m]."""
        return read_only([self._zero.oMi[j + 1].homogeneous for j in range(self.size)])

    @cached_property
    def prismatic(self) -> tuple[bool, ...]:
        """Whether each joint is prismatic, (n,).

        Raises:
            ConfigurationError: a joint that is neither revolute nor prismatic.
        """
        found = []
        for j in range(self.size):
            linear, angular = np.linalg.norm(self._motion_subspace(j + 1).reshape(2, 3), axis=1)
            if min(linear, angular) > 1e-12:
                raise ConfigurationError(
                    f"joint {self.model.names[j + 1]} both turns and slides; expected a revolute or prismatic joint"
                )
            found.append(bool(linear > angular))
        return tuple(found)

    @cached_property
    def axes(self) -> FloatArray:
        """Joint axes in the base frame at q = 0, (n, 3), unit vectors [-]."""
        axes = []
        for j, prismatic in enumerate(self.prismatic):
            subspace = self._motion_subspace(j + 1)
            axes.append(self._zero.oMi[j + 1].rotation @ (subspace[:3] if prismatic else subspace[3:]))
        return read_only(axes)

    def _motion_subspace(self, joint: int) -> np.ndarray:
        """Return the velocity of a joint's frame per unit joint rate, in this frame: (6,), linear then angular part.

        `joint` is the joint's index in the pinocchio model, from 1.
        """
        data = self.model.createData()
        rate = np.zeros(self.size)
        rate[joint - 1] = 1.0
        pinocchio.forwardKinematics(self.model, data, np.zeros(self.size), rate)
        return np.asarray(data.v[joint].vector)

    def placements(self, q: FloatArray) -> FloatArray:
        """Return the placements of the URDF joint frames in the base, (n, 4, 4), at joint positions q (n,) [rad]."""
        data = self.model.createData()
        pinocchio.forwardKinematics(self.model, data, np.asarray(q, dtype=float))
        return np.array([data.oMi[j + 1].homogeneous for j in range(self.size)])
