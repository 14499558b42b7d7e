"""Standard parameters of links: pseudo-inertias, conversion to the URDF's link frames, and the file format.

In the modified DH frame of link j the ten parameters are the inertia about the frame's origin (XX..ZZ), the first
moments (MX, MY, MZ) and the mass M. A URDF has mass, centre of mass and inertia about it, in its own link frame.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from dynid.errors import DataError
from dynid.model.base_parameters import standard_names
from dynid.model.drive import kind_and_number
from dynid.model.mdh import MdhChain
from dynid.model.parameters import StandardParameters
from dynid.model.springs import JointSpring, SpringTerm, is_spring, joint_springs, power_of
from dynid.resources import load_validated, write_whole, yaml_text
from dynid.robot import FloatArray, Robot, Strict, Vector3, read_only

FILE_DECIMALS = 12


@dataclass(frozen=True, eq=False)
class LinkInertia:
    """Mass, centre of mass and inertia of one link in its URDF link frame.

    Attributes:
        mass: mass [kg].
        centre_of_mass: centre of mass, (3,) [m].
        inertia: inertia about the centre of mass, (3, 3) [kg m^2].
    """

    mass: float
    centre_of_mass: FloatArray
    inertia: FloatArray


def tensor(six: FloatArray) -> FloatArray:
    """Return the symmetric inertia matrix (3, 3) that has the six entries (XX XY XZ YY YZ ZZ) [kg m^2]."""
    xx, xy, xz, yy, yz, zz = six
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def six(matrix: FloatArray) -> FloatArray:
    """Return the six entries (XX XY XZ YY YZ ZZ) of a symmetric matrix (3, 3) [kg m^2]."""
    return matrix[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]


def pseudo_inertia(link: FloatArray) -> FloatArray:
    """Return the pseudo-inertia (4, 4) of a link's ten standard parameters (10,).

    The matrix is `[[tr(J)/2 E - J, m c], [m c', m]]`, with J the inertia about the frame's origin [kg m^2], m c the
    first moments [kg m], m the mass [kg] and E the identity. A link is physically possible exactly if this matrix is
    positive definite (Wensing et al. 2018).
    """
    inertia, moment, mass = tensor(link[:6]), link[6:9], link[9]
    J = np.empty((4, 4))
    J[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    J[:3, 3] = J[3, :3] = moment
    J[3, 3] = mass
    return J


def ten_parameters(J: FloatArray) -> FloatArray:
    """Return the ten standard parameters (10,), SI, of a pseudo-inertia (4, 4); inverse to `pseudo_inertia`."""
    return np.concatenate([six(np.trace(J[:3, :3]) * np.eye(3) - J[:3, :3]), J[:3, 3], J[3:, 3]])


def to_link_frame(link: FloatArray, placement: FloatArray) -> LinkInertia:
    """Convert a link's ten standard parameters to mass, centre of mass and inertia in its URDF link frame.

    Args:
        link: standard parameters in the modified DH frame, (10,), SI.
        placement: placement of the modified DH frame in the URDF link frame, (4, 4) [-, m].

    Raises:
        DataError: the mass is not positive.
    """
    mass = float(link[9])
    if mass <= 0:
        raise DataError(f"a link with mass {mass} kg has no centre of mass; project to consistent parameters first")
    rotation, position = placement[:3, :3], placement[:3, 3]
    local = link[6:9] / mass
    about_com = tensor(link[:6]) - mass * (local @ local * np.eye(3) - np.outer(local, local))
    return LinkInertia(mass, read_only(rotation @ local + position), read_only(rotation @ about_com @ rotation.T))


def from_link_frame(link: LinkInertia, placement: FloatArray) -> FloatArray:
    """Convert mass, centre of mass and inertia of a link to its ten standard parameters (10,), SI.

    This function is the inverse of `to_link_frame`.

    Args:
        link: the link in its URDF link frame.
        placement: placement of the modified DH frame in the URDF link frame, (4, 4) [-, m].
    """
    rotation, position = placement[:3, :3], placement[:3, 3]
    local = rotation.T @ (link.centre_of_mass - position)
    about_origin = rotation.T @ link.inertia @ rotation + link.mass * (
        local @ local * np.eye(3) - np.outer(local, local)
    )
    return np.concatenate([six(about_origin), link.mass * local, [link.mass]])


class LinkRow(Strict):
    """One link of a standard-parameter file, in the URDF link frame.

    `inertia_kg_m2` is about the centre of mass: [ixx, ixy, ixz, iyy, iyz, izz].
    """

    mass_kg: float = Field(gt=0)
    centre_of_mass_m: Vector3
    inertia_kg_m2: tuple[float, float, float, float, float, float]


class AxisRow(Strict):
    """One axis of a standard-parameter file; fields that are None belong to terms that the model lacks.

    The fields `motor_...` hold the friction of a motor that moves several joints. They refer to torque and velocity at
    the output of this motor's gear, not at a joint, see `dynid.model.drive`.
    `spring_coefficients` are keyed by the exponent of the position, which is measured from `about_deg` of robot.yaml
    [N m/rad^exponent; N/m^exponent].
    """

    joint: str
    rotor_inertia_kg_m2: float = 0.0
    viscous_friction_nm_s_per_rad: float = 0.0
    coulomb_friction_nm: float = 0.0
    friction_offset_nm: float | None = None
    stribeck_friction_nm: float | None = None
    motor_viscous_friction_nm_s_per_rad: float | None = None
    motor_coulomb_friction_nm: float | None = None
    spring_coefficients: dict[int, float] | None = None


AXIS_FIELDS = {
    "IA": "rotor_inertia_kg_m2",
    "FV": "viscous_friction_nm_s_per_rad",
    "FC": "coulomb_friction_nm",
    "OF": "friction_offset_nm",
    "FS": "stribeck_friction_nm",
    "FVM": "motor_viscous_friction_nm_s_per_rad",
    "FCM": "motor_coulomb_friction_nm",
}


class StandardFile(Strict):
    """Schema of a standard-parameter file: links of the chain in order, then all axes in order."""

    robot: str
    source: str
    links: tuple[LinkRow, ...]
    axes: tuple[AxisRow, ...]


def to_file(
    standard: StandardParameters, mdh: MdhChain, robot: str, joints: tuple[str, ...], source: str
) -> StandardFile:
    """Return the content of a standard-parameter file, in which links are stated in their URDF link frames.

    Args:
        standard: standard parameters in the modified DH frames.
        mdh: geometry of the chain.
        robot: name of the robot.
        joints: names of the axes.
        source: origin of the values, a note in the file.
    """
    links = []
    for j in range(mdh.size):
        body = to_link_frame(standard.link(j), mdh.in_link[j])
        x, y, z = np.round(body.centre_of_mass, FILE_DECIMALS).tolist()
        xx, xy, xz, yy, yz, zz = np.round(six(body.inertia), FILE_DECIMALS).tolist()
        links.append(
            LinkRow(
                mass_kg=round(body.mass, FILE_DECIMALS),
                centre_of_mass_m=(x, y, z),
                inertia_kg_m2=(xx, xy, xz, yy, yz, zz),
            )
        )
    drive = dict(zip(standard.names[10 * mdh.size :], standard.values[10 * mdh.size :].tolist(), strict=True))
    axes = []
    for j, name in enumerate(joints):
        values = {field: drive.get(f"{kind}{j + 1}") for kind, field in AXIS_FIELDS.items()}
        known = {field: round(value, FILE_DECIMALS) for field, value in values.items() if value is not None}
        springs = {"spring_coefficients": _coefficients(standard, j) or None}
        axes.append(AxisRow.model_validate({"joint": name, **known, **springs}))
    return StandardFile(robot=robot, source=source, links=tuple(links), axes=tuple(axes))


def from_file(content: StandardFile, mdh: MdhChain, names: tuple[str, ...] | None = None) -> StandardParameters:
    """Return the standard parameters of a file, in the modified DH frames.

    Args:
        content: content of the file.
        mdh: geometry of the chain.
        names: names of a model's standard parameters; those that the file lacks are zero. None uses the file's names.

    Raises:
        DataError: the file has another number of links than the chain, or drive parameters that the model lacks.
    """
    if len(content.links) != mdh.size:
        raise DataError(
            f"the standard parameters of '{content.robot}' have {len(content.links)} links, the chain has {mdh.size}"
        )
    given = {
        f"{kind}{j + 1}": value
        for kind, field in AXIS_FIELDS.items()
        for j, axis in enumerate(content.axes)
        if (value := getattr(axis, field)) is not None
    }
    given |= {
        SpringTerm(j, power).name: value
        for j, axis in enumerate(content.axes)
        for power, value in sorted((axis.spring_coefficients or {}).items())
    }
    own = standard_names(mdh.size, len(content.axes))
    wanted = (*own, *(name for name in given if name not in own)) if names is None else names
    foreign = [name for name, value in given.items() if name not in wanted and value]
    if foreign:
        raise DataError(
            f"the standard parameters of '{content.robot}' have {', '.join(foreign)}, which the robot's structure and "
            "springs do not include: add these terms to structure or springs in robot.yaml, or remove them from the "
            "file"
        )
    parts = [
        from_link_frame(
            LinkInertia(row.mass_kg, np.array(row.centre_of_mass_m), tensor(np.array(row.inertia_kg_m2))),
            mdh.in_link[j],
        )
        for j, row in enumerate(content.links)
    ]
    drive = np.array([given.get(name, 0.0) for name in wanted[10 * mdh.size :]])
    return StandardParameters(wanted, np.concatenate([*parts, drive]), mdh.size)


def load_standard(path: Path, mdh: MdhChain, names: tuple[str, ...] | None = None) -> StandardParameters:
    """Read the standard parameters of a file, in the modified DH frames.

    Args:
        path: path of the file.
        mdh: geometry of the chain.
        names: names of a model's standard parameters; those that the file lacks are zero. None uses the file's names.
    """
    return from_file(load_validated(path, StandardFile), mdh, names)


def load_nominal(robot: Robot, mdh: MdhChain, names: tuple[str, ...] | None = None) -> StandardParameters:
    """Read the robot's nominal standard parameters (CAD), in the modified DH frames.

    Args:
        robot: the robot, whose robot.yaml names the file.
        mdh: geometry of the chain.
        names: names of a model's standard parameters; those that the file lacks are zero. None uses the file's names.

    Raises:
        ConfigurationError: the file lacks coefficients of springs that robot.yaml declares.
    """
    content = load_validated(robot.folder / robot.file.simulation.standard_parameters, StandardFile)
    springs_of(robot, content)
    return from_file(content, mdh, names)


def springs_among(robot: Robot, standard: StandardParameters) -> tuple[JointSpring, ...]:
    """Return the springs that robot.yaml declares, with their coefficients from standard parameters.

    Raises:
        ConfigurationError: the parameters have coefficients for other exponents than robot.yaml declares.
    """
    return joint_springs(robot, [_coefficients(standard, axis) for axis in range(robot.size)])


def _coefficients(standard: StandardParameters, axis: int) -> dict[int, float]:
    """Return the coefficients of an axis's spring by exponent of the position; {} if the axis has no spring."""
    named = zip(standard.names, standard.values.tolist(), strict=True)
    return {power_of(k): value for k, value in named if is_spring(k) and kind_and_number(k)[1] == axis + 1}


def springs_of(robot: Robot, content: StandardFile) -> tuple[JointSpring, ...]:
    """Return the springs that robot.yaml declares, with their coefficients from a standard-parameter file.

    A spring's torque is a sum of powers of the joint's position, each with a coefficient.

    Raises:
        ConfigurationError: the file has coefficients for other exponents than robot.yaml declares.
    """
    return joint_springs(robot, [axis.spring_coefficients for axis in content.axes])


def save_standard(path: Path, content: StandardFile) -> None:
    """Write a standard-parameter file; an existing one is never overwritten."""
    write_whole(path, yaml_text(content.model_dump(mode="json", exclude_none=True)))
