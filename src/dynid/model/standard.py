"""Standard parameters: pseudo-inertias, physical form in the URDF's link frames, and their file.

In the modified DH frame of link j the ten parameters are the inertia about the frame's origin (XX..ZZ), the first
moments (MX, MY, MZ) and the mass M. A URDF wants mass, centre of mass and inertia about it, in its own link frame.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from pydantic import Field

from dynid.errors import DataError
from dynid.model.base_parameters import standard_names
from dynid.model.mdh import MdhChain
from dynid.model.parameters import StandardParameters
from dynid.resources import load_validated, write_whole
from dynid.robot import FloatArray, Strict, Vector3, read_only

FILE_DECIMALS = 12


@dataclass(frozen=True, eq=False)
class LinkInertia:
    """One link as a URDF holds it: mass [kg], centre of mass (3,) [m], inertia about it (3, 3), in the link frame."""

    mass: float
    centre_of_mass: FloatArray
    inertia: FloatArray


def tensor(six: FloatArray) -> FloatArray:
    """(3, 3) from [XX XY XZ YY YZ ZZ]."""
    xx, xy, xz, yy, yz, zz = six
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def six(matrix: FloatArray) -> FloatArray:
    """[XX XY XZ YY YZ ZZ] from a symmetric (3, 3)."""
    return matrix[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]


def pseudo_inertia(link: FloatArray) -> FloatArray:
    """The (4, 4) pseudo-inertia [[tr(I)/2 1 - I, MS], [MS', M]] of ten standard parameters (Wensing et al. 2018).

    A link is physical exactly if this matrix is positive definite.
    """
    inertia, moment, mass = tensor(link[:6]), link[6:9], link[9]
    J = np.empty((4, 4))
    J[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    J[:3, 3] = J[3, :3] = moment
    J[3, 3] = mass
    return J


def to_link_frame(link: FloatArray, placement: FloatArray) -> LinkInertia:
    """Standard parameters (10,) in a frame that sits at `placement` (4, 4) in the URDF link frame.

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
    """Inverse of `to_link_frame`: the ten standard parameters (10,) in the frame at `placement`."""
    rotation, position = placement[:3, :3], placement[:3, 3]
    local = rotation.T @ (link.centre_of_mass - position)
    about_origin = rotation.T @ link.inertia @ rotation + link.mass * (
        local @ local * np.eye(3) - np.outer(local, local)
    )
    return np.concatenate([six(about_origin), link.mass * local, [link.mass]])


class LinkRow(Strict):
    """A link in the file, in the URDF link frame; inertia about the centre of mass: [ixx, ixy, ixz, iyy, iyz, izz]."""

    mass_kg: float = Field(gt=0)
    centre_of_mass_m: Vector3
    inertia_kg_m2: tuple[float, float, float, float, float, float]


class AxisRow(Strict):
    """An axis in the file."""

    joint: str
    rotor_inertia_kg_m2: float = 0.0
    viscous_friction_nm_s_per_rad: float = 0.0
    coulomb_friction_nm: float = 0.0


class StandardFile(Strict):
    """Standard parameters as a file: links of the chain in order, then all axes in order."""

    robot: str
    source: str
    links: tuple[LinkRow, ...]
    axes: tuple[AxisRow, ...]


def to_file(
    standard: StandardParameters, mdh: MdhChain, robot: str, joints: tuple[str, ...], source: str
) -> StandardFile:
    """The file's content for standard parameters."""
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
    ia, fv, fc = (standard.axis(kind) for kind in ("IA", "FV", "FC"))
    axes = [
        AxisRow(joint=name, rotor_inertia_kg_m2=a, viscous_friction_nm_s_per_rad=v, coulomb_friction_nm=c)
        for name, a, v, c in zip(joints, *(np.round(x, FILE_DECIMALS).tolist() for x in (ia, fv, fc)), strict=True)
    ]
    return StandardFile(robot=robot, source=source, links=tuple(links), axes=tuple(axes))


def from_file(content: StandardFile, mdh: MdhChain) -> StandardParameters:
    """Standard parameters in the modified DH frames.

    Raises:
        DataError: the number of links is not the chain's.
    """
    if len(content.links) != mdh.size:
        raise DataError(
            f"the standard parameters of '{content.robot}' have {len(content.links)} links, the chain has {mdh.size}"
        )
    parts = [
        from_link_frame(
            LinkInertia(row.mass_kg, np.array(row.centre_of_mass_m), tensor(np.array(row.inertia_kg_m2))),
            mdh.in_link[j],
        )
        for j, row in enumerate(content.links)
    ]
    for key in ("rotor_inertia_kg_m2", "viscous_friction_nm_s_per_rad", "coulomb_friction_nm"):
        parts.append(np.array([getattr(axis, key) for axis in content.axes]))
    return StandardParameters(standard_names(mdh.size, len(content.axes)), np.concatenate(parts), mdh.size)


def load_standard(path: Path, mdh: MdhChain) -> StandardParameters:
    """Read a standard-parameter file."""
    return from_file(load_validated(path, StandardFile), mdh)


def save_standard(path: Path, content: StandardFile) -> None:
    """Write a standard-parameter file; never over an existing one."""
    write_whole(path, yaml.safe_dump(content.model_dump(mode="json"), sort_keys=False, width=140))
