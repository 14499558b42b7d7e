"""Collision shapes of an arm's links, and a test that finds touching links at a posture (pinocchio and coal)."""

import itertools
import xml.etree.ElementTree as ElementTree  # DOCTYPEs, the way to external entities, are refused before parsing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

from dynid.errors import ConfigurationError
from dynid.model.pinocchio_library import pinocchio
from dynid.robot import FloatArray
from dynid.robot.mesh_points import Mesh, load_meshes, mesh_of
from dynid.robot.meshes import tree_with_meshes
from dynid.robot.urdf_tree import UrdfTree, with_limited_turns

try:
    import coal
except ImportError:
    import hppfcl as coal  # name of coal in older versions of pinocchio

OVERSIZED = 20.0  # size of a moving link's mesh, in lengths of the whole arm, from which its unit is wrong
POINTS = getattr(coal, "StdVec_Vec3s", None) or coal.StdVec_Vec3f  # list of points in newer and older versions


def _without_meshes(tree: UrdfTree) -> dict[str, Mesh]:
    """Replace the meshes of a URDF's collision shapes by spheres, in place; return the meshes by names of their shapes.

    The names are those that pinocchio gives. A damaged mesh file can crash its reader. So meshes are read in a child
    process, and pinocchio gets spheres instead of mesh files.

    Raises:
        ConfigurationError: a mesh cannot be read.
    """
    shapes = {
        f"{link.get('name')}_{k}": collision.find("geometry")
        for link in tree.element.findall("link")
        for k, collision in enumerate(link.findall("collision"))
    }
    drawn = {name: one for name, one in shapes.items() if one is not None and one.find("mesh") is not None}
    load_meshes(Path(mesh.get("filename", "")) for one in drawn.values() for mesh in one.findall("mesh"))
    found = {}
    for name, geometry in drawn.items():
        (mesh, *_) = geometry.findall("mesh")
        found[name] = mesh_of(mesh, Path(mesh.get("filename", "")))
        geometry.clear()
        ElementTree.SubElement(geometry, "sphere", radius="1")
    return found


def _bounding_tree(urdf: Path, mesh: Mesh) -> Any:
    """Return coal's bounding-volume tree of a mesh, which contact queries need; `urdf` names the file in errors.

    Raises:
        ConfigurationError: the mesh has no triangles that can be used.
    """
    made = coal.BVHModelOBBRSS()
    made.beginModel(len(mesh.triangles), len(mesh.vertices))
    made.addVertices(mesh.vertices)
    made.addTriangles(mesh.triangles)
    if made.endModel() != 0:
        raise ConfigurationError(f"{urdf}: a mesh of its collision shapes has no triangles that can be used")
    return made


def _convex_hull(vertices: FloatArray) -> Any:
    """Return coal's convex shape around points (k, 3) [m], or None if they lie in a plane.

    The hull is computed by scipy, since coal's own function ends the process if the points lie in a plane. In coal a
    corner has at most 255 neighbours. If the hull has more, as for a finely meshed cylinder, the box around the points
    is returned.
    """
    try:
        hull = ConvexHull(vertices)
    except QhullError:
        return None
    corners, faces = POINTS(), coal.StdVec_Triangle()
    corners.extend(list(vertices[hull.vertices]))
    for face in np.searchsorted(hull.vertices, hull.simplices).tolist():
        faces.append(coal.Triangle(*face))
    try:
        return coal.Convex(corners, faces)
    except RuntimeError:
        lower, upper = vertices.min(axis=0), vertices.max(axis=0)
        return _convex_hull(np.array(list(itertools.product(*zip(lower, upper, strict=True)))))


class LinkShapes:
    """Collision shapes of a URDF's links, which are tested for contact with each other.

    Pairs of shapes of the same link, of neighbouring links, and of links on the same parent (such as two fingers) are
    not checked.

    Args:
        urdf: path of the URDF.
        joint_names: names of the robot's axes, (n,); all other joints stay at zero.

    Raises:
        ConfigurationError: the URDF is not valid, lacks a joint, or names a shape that cannot be loaded; or a mesh is
            so large that its unit must be wrong.
    """

    def __init__(self, urdf: Path, joint_names: tuple[str, ...]) -> None:
        tree = tree_with_meshes(urdf)
        self._meshes = _without_meshes(tree)
        text = with_limited_turns(tree)
        try:
            self._model = pinocchio.buildModelFromXML(text)
            self._shapes = pinocchio.buildGeomFromUrdfString(self._model, text, pinocchio.GeometryType.COLLISION)
        except (ValueError, RuntimeError, MemoryError) as error:
            raise ConfigurationError(f"{urdf}: its collision shapes cannot be loaded: {error}") from error
        missing = [name for name in joint_names if not self._model.existJointName(name)]
        if missing:
            raise ConfigurationError(f"{urdf} has no joint {', '.join(missing)}")
        self._places = [self._model.joints[self._model.getJointId(name)].idx_q for name in joint_names]
        self._refuse_oversized(urdf)
        for name, mesh in self._meshes.items():
            self._shapes.geometryObjects[self._shapes.getGeometryId(name)].geometry = _bounding_tree(urdf, mesh)
        self._data = self._model.createData()
        self._neutral = pinocchio.neutral(self._model)
        self._add_pairs()

    def _refuse_oversized(self, urdf: Path) -> None:
        """Raise ConfigurationError if a mesh of a moving link is far larger than the whole arm.

        Otherwise nearly all links would touch at all postures, which counts as their design, and nothing is checked.
        """
        length = sum(float(np.linalg.norm(one.translation)) for one in self._model.jointPlacements)
        for name, mesh in self._meshes.items():
            moves = self._shapes.geometryObjects[self._shapes.getGeometryId(name)].parentJoint > 0
            size = float(np.ptp(mesh.vertices, axis=0).max())
            if moves and size > OVERSIZED * length > 0.0:
                raise ConfigurationError(
                    f"{urdf}: the collision mesh of link {name.rpartition('_')[0]} is {size:.3g} m long, and all "
                    f"joints together {length:.3g} m apart: give the mesh its scale, such as 0.001 if it is in mm"
                )

    @property
    def pairs(self) -> int:
        """Number of checked pairs of shapes; 0 if the URDF has no collision shapes."""
        return len(self._shapes.collisionPairs)

    def convex_hulls(self) -> pinocchio.GeometryModel:
        """Return a copy of the shapes in which convex hulls replace meshes, for quick bounds of distances.

        A flat mesh is not replaced.
        """
        hulls = self._shapes.copy()
        for name, mesh in self._meshes.items():
            hull = _convex_hull(mesh.vertices)
            if hull is not None:
                hulls.geometryObjects[hulls.getGeometryId(name)].geometry = hull
        return hulls

    def meshed_pairs(self) -> NDArray[np.bool_]:
        """Return whether each checked pair of shapes includes a mesh, (pairs,)."""
        meshed = [shape.name in self._meshes for shape in self._shapes.geometryObjects]
        found = [meshed[pair.first] or meshed[pair.second] for pair in self._shapes.collisionPairs]
        return np.array(found, dtype=np.bool_)

    def _add_pairs(self) -> None:
        shapes, parents = self._shapes.geometryObjects, self._model.parents
        for second in range(len(shapes)):
            for first in range(second):
                low, high = sorted((shapes[first].parentJoint, shapes[second].parentJoint))
                siblings = low > 0 and parents[low] == parents[high]  # such as the two fingers of a hand
                if low != high and parents[high] != low and not siblings:
                    self._shapes.addCollisionPair(pinocchio.CollisionPair(first, second))
        self._results = self._shapes.createData()

    def _links(self, pair: pinocchio.CollisionPair) -> tuple[str, str]:
        shapes, frames = self._shapes.geometryObjects, self._model.frames
        first, second = (frames[shapes[k].parentFrame].name for k in (pair.first, pair.second))
        return first, second

    def _collides(self, q: FloatArray, stop_at_first: bool) -> bool:
        full = self._neutral.copy()
        full[self._places] = q
        return bool(
            pinocchio.computeCollisions(self._model, self._data, self._shapes, self._results, full, stop_at_first)
        )

    def touching(self, q: FloatArray) -> list[tuple[str, str]]:
        """Return all pairs of links that touch at q (n,) [rad]."""
        self._collides(q, stop_at_first=False)
        results = zip(self._shapes.collisionPairs, self._results.collisionResults, strict=True)
        return [self._links(pair) for pair, result in results if result.isCollision()]
