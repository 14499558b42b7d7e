"""Physical limits of a link: its mass, a box for its centre of mass, and a box for its whole mass.

If robot.yaml does not state the box of the whole mass, it is derived from the URDF. It encloses the link's joint, the
next joint, and the shapes of the link and of everything fixed to the link, with a margin of `SHAPE_MARGIN_M`. If there
are no shapes, or none that can be read, it encloses the link's joint, the next joint and the box of the centre of mass,
with a margin of `REACH_SHARE` of the arm's length, at least of `LEAST_MARGIN_M`.
"""

import contextlib
import xml.etree.ElementTree as ElementTree  # DOCTYPEs, the way to external entities, are refused before parsing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from dynid.errors import ConfigurationError
from dynid.model.chain import SerialChain
from dynid.model.mdh import MdhChain
from dynid.model.pinocchio_library import pinocchio
from dynid.robot import FloatArray, PhysicalBounds, Robot, read_only
from dynid.robot.file import LinkBounds
from dynid.robot.mesh_points import load_meshes, mesh_of, numbers
from dynid.robot.meshes import find_mesh, refuse_unfit
from dynid.robot.urdf_text import read_urdf_text
from dynid.robot.urdf_tree import read_tree

SHAPE_MARGIN_M = 0.02  # margin for cables, covers and screws that the shapes omit
REACH_SHARE = 0.15  # thickness of links [share of the sum of joint distances]
LEAST_MARGIN_M = 0.05
LEAST_MASS_SHARE = 1e-3  # minimum mass of a link without its own bounds [share of the arm's mass]
Box = tuple[FloatArray, FloatArray]  # lower and upper corner (3,) [m]


@dataclass(frozen=True, eq=False)
class LinkLimits:
    """Physical limits of one link, in its URDF frame; a box is a lower and an upper corner, (3,) each [m].

    Attributes:
        mass: smallest and largest mass [kg].
        centre: box that contains the centre of mass.
        box: box that contains all mass of the link.
        source: description of where `box` comes from.
    """

    mass: tuple[float, float]
    centre: Box
    box: Box
    source: str

    def faces(self, reserve: float = 0.0) -> FloatArray:
        """Return the matrix (6, 4) that maps [x, y, z, 1] to distances from the faces of `box` [m], positive inside.

        Args:
            reserve: fraction of the box's size by which each face is moved inwards.
        """
        lower, upper = self.box
        inward = reserve * (upper - lower)
        eye = np.eye(3)
        return np.vstack([np.c_[eye, -lower - inward], np.c_[-eye, upper - inward]])


@dataclass(frozen=True, eq=False)
class ArmLimits:
    """Physical limits of all links of an arm.

    Attributes:
        total_mass: largest mass of all links together [kg].
        margin: smallest allowed eigenvalue of a link's pseudo-inertia matrix.
        spread: minimum standard deviation of a link's mass distribution along any direction [m].
        links: limits of each link, in the order of the joints.
    """

    total_mass: float
    margin: float
    spread: float
    links: tuple[LinkLimits, ...]

    @cached_property
    def sources(self) -> dict[str, list[int]]:
        """Links by the source of their box, such as robot.yaml or the URDF's shapes; links are counted from 1."""
        found: dict[str, list[int]] = {}
        for j, link in enumerate(self.links):
            found.setdefault(link.source, []).append(j + 1)
        return found


def arm_limits(mdh: MdhChain, bounds: PhysicalBounds, shapes: Sequence[Box | str]) -> ArmLimits:
    """Derive the physical limits of all links from `physical_bounds` in robot.yaml.

    Args:
        mdh: kinematic chain.
        bounds: the field `physical_bounds`.
        shapes: for each link, the box around its URDF shapes, or a sentence why there is no box; () if these boxes were
            not computed.

    Raises:
        ConfigurationError: the arm's mass is not given, or a box is too small for its link.
    """
    total = bounds.total_mass_kg
    if total is None:
        raise ConfigurationError(
            "robot.yaml has no physical_bounds.total_mass_kg, without which no link's mass is bounded: weigh the "
            "moving part of the arm, or look into its data sheet"
        )
    around = joint_boxes(mdh, bounds)
    links = []
    for j, link in enumerate(bounds.links):
        drawn = shapes[j] if shapes else "no URDF"
        box, source = around[j], f"joint distances, {drawn}"
        if link.box_lower_m is not None and link.box_upper_m is not None:
            box, source = (read_only(link.box_lower_m), read_only(link.box_upper_m)), "robot.yaml"
        elif not isinstance(drawn, str):
            box, source = drawn, "the URDF's shapes"
        centre = read_only(link.centre_of_mass_lower_m), read_only(link.centre_of_mass_upper_m)
        mass = link.mass_kg or (LEAST_MASS_SHARE * total, total)
        links.append(LinkLimits(mass, centre, box, source))
        _refuse_no_room(j, links[-1], bounds.minimal_spread_m)
    return ArmLimits(total, bounds.pseudo_inertia_margin, bounds.minimal_spread_m, tuple(links))


def _refuse_no_room(j: int, link: LinkLimits, spread: float) -> None:
    lower, upper = link.box
    if (upper - lower <= 2.0 * spread).any() or (link.centre[0] >= upper).any() or (link.centre[1] <= lower).any():
        raise ConfigurationError(
            f"link {j + 1}: the box {lower.tolist()} to {upper.tolist()} m ({link.source}) has no room for a spread of "
            f"{spread} m with a centre of mass between {link.centre[0].tolist()} and {link.centre[1].tolist()} m: give "
            "box_lower_m and box_upper_m in robot.yaml's physical_bounds"
        )


def joint_boxes(mdh: MdhChain, bounds: PhysicalBounds) -> list[Box]:
    """Return for each link a box in its URDF frame that contains its joint, the next joint and its centre of mass.

    `bounds` states the ranges of the centres of mass. A margin is added on all sides.
    """
    frames = mdh.placements(np.zeros(mdh.size)) @ np.linalg.inv(mdh.in_link)
    steps = [(np.linalg.inv(a) @ b)[:3, 3] for a, b in pairwise(frames)]
    margin = max(LEAST_MARGIN_M, REACH_SHARE * float(sum(np.linalg.norm(step) for step in steps)))
    return [_joint_box(link, step, margin) for link, step in zip(bounds.links, [*steps, np.zeros(3)], strict=True)]


def _joint_box(link: LinkBounds, step: FloatArray, margin: float) -> Box:
    points = np.array([np.zeros(3), step, link.centre_of_mass_lower_m, link.centre_of_mass_upper_m])
    return read_only(points.min(axis=0) - margin), read_only(points.max(axis=0) + margin)


def shape_boxes(urdf: Path, joints: tuple[str, ...], chain: SerialChain | None = None) -> list[Box | str]:
    """Return for each chain link the box around its shapes and joints, or the reason why there is no box.

    The box is parallel to the axes of the link's URDF frame, in which its corners are given. It encloses the collision
    and visual shapes of the link and of everything fixed to it, the link's joint and the next joint, with a margin of
    `SHAPE_MARGIN_M`. If one collision shape cannot be read, all collision shapes of the link are ignored; likewise for
    visual shapes.

    Args:
        urdf: path of the URDF; meshes are searched in its folder and in ROS packages.
        joints: names of the chain joints, in order.
        chain: chain of these joints, if the caller has it already.

    Raises:
        InputNotFoundError: the URDF does not exist.
        ConfigurationError: the URDF is not valid, or its joints do not form this chain.
    """
    serial = chain or SerialChain.of_file(urdf, joints)
    links = {link.get("name"): link for link in read_tree(read_urdf_text(urdf), str(urdf)).element.findall("link")}
    riding: list[list[tuple[ElementTree.Element, FloatArray]]] = [[] for _ in joints]
    for frame in serial.model.frames:
        if frame.type == pinocchio.FrameType.BODY and frame.parentJoint > 0 and frame.name in links:
            riding[frame.parentJoint - 1].append((links[frame.name], frame.placement.homogeneous))
    _load_together(riding, urdf.parent)
    found: list[Box | str] = []
    for j, bodies in enumerate(riding):
        origins = [np.zeros(3)]
        if j + 1 < serial.size:
            origins.append((np.linalg.inv(serial.joint_placements[j]) @ serial.joint_placements[j + 1])[:3, 3])
        found.append(_box_of(bodies, origins, urdf.parent))
    return found


def _box_of(bodies: list[tuple[ElementTree.Element, FloatArray]], origins: list[FloatArray], folder: Path) -> Box | str:
    points, reason = [], "no shapes in the URDF"
    for kind in ("collision", "visual"):
        try:
            points += [corner for body, placement in bodies for corner in _corners(body, kind, placement, folder)]
        except ConfigurationError as error:
            reason = str(error)
    if not points:
        return reason
    corners = np.array(points + origins)
    return read_only(corners.min(axis=0) - SHAPE_MARGIN_M), read_only(corners.max(axis=0) + SHAPE_MARGIN_M)


def _corners(link: ElementTree.Element, kind: str, placement: FloatArray, folder: Path) -> Iterator[FloatArray]:
    """Yield lower and upper corners, (3,) [m], of the bounding boxes of a link's shapes of one kind.

    `kind` is "collision" or "visual". `placement` (4, 4) is the pose of the link in some frame. The boxes are parallel
    to the axes of this frame, and the corners are positions in this frame.
    """
    for element in link.findall(kind):
        origin, geometry = element.find("origin"), element.find("geometry")
        shape = None if geometry is None else next(iter(geometry), None)
        if shape is None:
            continue
        given = {} if origin is None else origin.attrib
        R = placement[:3, :3] @ pinocchio.rpy.rpyToMatrix(numbers(given.get("rpy", "0 0 0")))
        at = placement[:3, :3] @ numbers(given.get("xyz", "0 0 0")) + placement[:3, 3]
        centre, half = _half_size(shape, R, folder)
        yield from (at + R @ centre - half, at + R @ centre + half)


def _half_size(shape: ElementTree.Element, R: FloatArray, folder: Path) -> Box:
    """Return a shape's centre in its own frame, (3,) [m], and half its extents along the axes of another frame, (3,).

    The rotation matrix R (3, 3) maps vectors from the shape's frame to the other frame. Extents are in m.
    """
    if shape.tag == "box":
        return np.zeros(3), np.abs(R) @ numbers(shape.get("size", "")) / 2
    if shape.tag == "mesh":
        lower, upper = _mesh_box(shape, folder)
        return (lower + upper) / 2, np.abs(R) @ (upper - lower) / 2
    (radius,) = numbers(shape.get("radius", ""), 1)
    if shape.tag == "sphere":
        return np.zeros(3), np.full(3, radius)
    (length,) = numbers(shape.get("length", ""), 1)
    along = np.abs(R[:, 2])
    ends = radius if shape.tag == "capsule" else radius * np.sqrt(np.maximum(1.0 - along**2, 0.0))
    return np.zeros(3), along * length / 2 + ends


def _mesh_box(shape: ElementTree.Element, folder: Path) -> Box:
    """Return the bounding box of a mesh, in the shape's frame.

    Raises:
        ConfigurationError: the file is missing or cannot be read.
    """
    path = find_mesh(shape.get("filename", ""), folder)
    refuse_unfit(path)
    points = mesh_of(shape, path).vertices
    return points.min(axis=0), points.max(axis=0)


def _load_together(riding: Sequence[Sequence[tuple[ElementTree.Element, FloatArray]]], folder: Path) -> None:
    """Read all meshes of the links at once into the cache; errors are raised later, when a mesh is used.

    Args:
        riding: for each link, the URDF elements of the link and of everything fixed to it, with their poses (4, 4).
        folder: folder of the URDF.
    """
    paths = []
    for name in {mesh.get("filename", "") for bodies in riding for body, _ in bodies for mesh in body.iter("mesh")}:
        with contextlib.suppress(ConfigurationError):
            path = find_mesh(name, folder)
            refuse_unfit(path)
            paths.append(path)
    load_meshes(sorted(paths))


def robot_shapes(robot: Robot) -> list[Box | str]:
    """Return for each chain link of a robot the box around its URDF shapes, or the reason why there is no box.

    If robot.yaml states the box of every link, the URDF is not read, and this is the reason for every link.
    """
    if all(link.box_lower_m is not None for link in robot.file.physical_bounds.links):
        return ["robot.yaml has all boxes"] * robot.chain_size
    return shape_boxes(robot.urdf_path, robot.joint_names[: robot.chain_size])
