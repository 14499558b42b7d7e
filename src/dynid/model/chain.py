"""The serial chain of a URDF: joint origins and axes from the base link to the last chain joint.

pinocchio reads the URDF; this file only refuses what must not be read (DOCTYPEs) and orders what pinocchio gives.
"""

import contextlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from xml.parsers import expat

import numpy as np

from dynid.errors import ConfigurationError, InputNotFoundError
from dynid.model.pinocchio_library import pinocchio
from dynid.model.urdf_tree import read_tree, rename_links_of_joints, with_limited_turns
from dynid.resources import guarded
from dynid.robot import FloatArray, Robot, read_only

MOST_URDF_BYTES = 4 * 2**20
DEEPEST_XML, MOST_ELEMENTS = 100, 100_000  # libraries follow elements into the stack; the largest robots have some 5000
ANGLES = re.compile(r"""(<origin\b[^<>]*?\brpy\s*=\s*["'])([^"'<>]*)""")
DECIMALS = re.compile(r"[+-]?\d+\.(\d{2,})")
NOISE_RAD = 1e-6  # of an exporter
LONGEST_M = 20.0  # between neighbouring joints: of a large crane, or 2 cm in millimetres


def read_urdf_text(path: Path) -> str:
    """The URDF's text; a file with a DOCTYPE (the way to external entities) is refused.

    Angles such as 1.5708, which are exact but for their last digit, become exact: axes that are parallel but for 4e-6
    rad have their common normal kilometres away.

    Raises:
        InputNotFoundError: no such file.
        ConfigurationError: not a regular file of UTF-8 text, longer than `MOST_URDF_BYTES`, with a DOCTYPE, or with
            more or deeper elements than a robot has.
    """
    try:
        if not path.exists():
            raise InputNotFoundError(f"no such URDF file: {path}")
        if not path.is_file() or path.stat().st_size > MOST_URDF_BYTES:
            raise ConfigurationError(
                f"{path} is not a URDF: expected a regular file of at most {MOST_URDF_BYTES} bytes"
            )
        text = path.read_text(encoding="utf-8")
    except InputNotFoundError:
        raise
    except (UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(f"{path} is not a valid URDF: {error}") from error
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ConfigurationError(f"{path} holds a DOCTYPE or ENTITY declaration; remove it, a URDF needs neither")
    _refuse_deep(text, path)
    return ANGLES.sub(lambda found: found[1] + " ".join(map(_exact, found[2].split())), text)


def _refuse_deep(text: str, path: Path) -> None:
    """Count elements and their depth before anything is built; what is not well-formed is left to the parser."""
    depth = count = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, count
        depth, count = depth + 1, count + 1
        if depth > DEEPEST_XML or count > MOST_ELEMENTS:
            raise ConfigurationError(
                f"{path} is not a URDF of a robot: expected at most {MOST_ELEMENTS} elements, {DEEPEST_XML} levels deep"
            )

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    with contextlib.suppress(expat.ExpatError):
        parser.Parse(text, True)


def _exact(figure: str) -> str:
    """An angle that stands for a multiple of a quarter turn, or with four decimals or more of 15 deg, in full."""
    digits = DECIMALS.fullmatch(figure)
    decimals = len(digits[1]) if digits else 0
    try:
        value, step = float(figure), np.pi / (12.0 if decimals >= 4 else 2.0)
        exact = step * round(value / step)
    except (ValueError, OverflowError):
        return figure  # the parser says what is wrong with it
    meant = abs(value - exact) < max(10.0**-decimals if decimals else 0.0, NOISE_RAD)
    return repr(exact) if meant and value != exact else figure


def pinocchio_chain_model(urdf_text: str, joint_names: tuple[str, ...], file: str = "the text") -> pinocchio.Model:
    """The URDF as a pinocchio model with only the chain joints movable; all other joints are fixed at zero.

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
    if far > LONGEST_M:
        raise ConfigurationError(
            f"{file} places two neighbouring joints {far:.4g} m apart, expected at most {LONGEST_M:g} m: a URDF is in "
            "metres; if this one is in millimetres, scale its lengths by 0.001"
        )
    return model


@dataclass(frozen=True, eq=False)
class SerialChain:
    """A robot's chain joints as pinocchio sees them."""

    model: pinocchio.Model

    @classmethod
    def from_robot(cls, robot: Robot) -> "SerialChain":
        """Read the chain joints of a robot's URDF."""
        return cls.of_file(robot.urdf_path, robot.joint_names[: robot.chain_size])

    @classmethod
    def of_file(cls, urdf: Path, joint_names: tuple[str, ...]) -> "SerialChain":
        """Read some joints of a URDF; errors as in `pinocchio_chain_model`."""
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
        """Which joints are prismatic, (n,).

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
        """Velocity of joint `joint` per unit rate, in its own frame: (6,) linear then angular."""
        data = self.model.createData()
        rate = np.zeros(self.size)
        rate[joint - 1] = 1.0
        pinocchio.forwardKinematics(self.model, data, np.zeros(self.size), rate)
        return np.asarray(data.v[joint].vector)

    def placements(self, q: FloatArray) -> FloatArray:
        """Placements of the URDF joint frames in the base, (n, 4, 4), at joint positions q (n,) [rad]."""
        data = self.model.createData()
        pinocchio.forwardKinematics(self.model, data, np.asarray(q, dtype=float))
        return np.array([data.oMi[j + 1].homogeneous for j in range(self.size)])
