"""Shapes of links as one mesh each, for programs that know one shape per link and boxes or meshes alone."""

import itertools
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]
SIDES = 16  # corners of the polygon around a circle


def with_meshes(urdf: Path, folder: Path) -> str:
    """Return the text of a URDF in which every link has one shape, a mesh of its simple collision shapes.

    Links that have a mesh among their shapes keep the first mesh.

    Args:
        urdf: file of the arm.
        folder: existing folder for the meshes.
    """
    root = ElementTree.parse(urdf).getroot()
    for link in root.findall("link"):
        shapes = link.findall("collision")
        if not shapes or link.find("collision/geometry/mesh") is not None:
            continue
        file = folder / f"{link.get('name')}.stl"
        write_stl(file, [corners(one) for one in shapes])
        for shape in shapes:
            link.remove(shape)
        for kind in ("visual", "collision"):
            geometry = ElementTree.SubElement(ElementTree.SubElement(link, kind), "geometry")
            ElementTree.SubElement(geometry, "mesh", filename=str(file))
    return ElementTree.tostring(root, encoding="unicode")


def corners(collision: ElementTree.Element) -> Array:
    """Return the corners of a box, or of a polyhedron around a cylinder or sphere, in the link's frame (m, 3) [m].

    Raises:
        ValueError: the shape is of another kind.
    """
    shape = next(iter(collision.findall("geometry/*")))
    if shape.tag == "box":
        half = 0.5 * _numbers(shape.get("size", ""))
    elif shape.tag == "sphere":
        half = np.full(3, float(shape.get("radius", "")))
    elif shape.tag != "cylinder":
        raise ValueError(f"a shape is a {shape.tag}, expected box, cylinder or sphere")
    if shape.tag == "cylinder":
        radius = float(shape.get("radius", "")) / math.cos(math.pi / SIDES)
        angles = 2.0 * math.pi / SIDES * np.arange(SIDES)
        ring = radius * np.column_stack([np.cos(angles), np.sin(angles), np.zeros(SIDES)])
        up = np.array([0.0, 0.0, 0.5 * float(shape.get("length", ""))])
        points = np.vstack([ring - up, ring + up])
    else:
        points = half * np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    origin = collision.find("origin")
    if origin is None:
        return points
    turned = Rotation.from_euler("xyz", _numbers(origin.get("rpy", "0 0 0"))).apply(points)
    return np.asarray(turned + _numbers(origin.get("xyz", "0 0 0")))


def write_stl(path: Path, solids: Sequence[Array]) -> None:
    """Write the convex hulls of sets of points, (m, 3) each [m], as one STL text file."""
    lines = ["solid link"]
    for points in solids:
        middle = points.mean(axis=0)
        for face in ConvexHull(points).simplices:
            a, b, c = points[face]
            normal = np.cross(b - a, c - a)
            if normal @ (a - middle) < 0.0:
                b, c, normal = c, b, -normal
            lines.append("facet normal {:g} {:g} {:g}\nouter loop".format(*normal / np.linalg.norm(normal)))
            lines += ["vertex {!r} {!r} {!r}".format(*map(float, one)) for one in (a, b, c)]
            lines.append("endloop\nendfacet")
    path.write_text("\n".join([*lines, "endsolid link"]) + "\n", encoding="ascii")


def _numbers(text: str) -> Array:
    return np.array([float(one) for one in text.split()])
