"""Mesh files of a URDF: where to find them, and how to copy them into a robot's folder.

A URDF names meshes by their ROS package (`package://NAME/meshes/base.stl`) or relative to itself. Both fail for a copy
of the URDF elsewhere, so a robot's folder keeps copies in `meshes/NAME/meshes/base.stl`; the URDF is not changed.
"""

import os
from pathlib import Path, PurePosixPath

from dynid.errors import ConfigurationError, cut
from dynid.resources import write_whole
from dynid.robot.urdf_text import read_urdf_text
from dynid.robot.urdf_tree import UrdfTree, read_tree

FOLDER = "meshes"  # subfolder of a robot's folder
COLLISION_MESH_PATH = "link/collision/geometry/mesh"
MESH_SUFFIXES = (".stl", ".dae", ".obj", ".ply", ".glb")
MOST_BYTES = 16 * 2**20  # maximum size of a mesh [bytes]: 335,000 triangles as STL take 3 s and 500 MiB


def find_mesh(name: str, folder: Path) -> Path:
    """Return the path of a URDF's mesh in the robot's folder, beside the URDF, or in a package.

    The package is a parent folder of the URDF or one that ROS finds.

    Args:
        name: name in the URDF, with or without `package://` or `file://`.
        folder: folder of the URDF.

    Raises:
        ConfigurationError: there is no such file.
    """
    scheme, _, rest = name.rpartition("://")
    places = [folder / rest, folder / FOLDER / _inside(rest)]
    if scheme == "package":
        package, _, inside = rest.partition("/")
        roots = [Path(p) for p in os.environ.get("ROS_PACKAGE_PATH", "").split(":") if p]
        roots += [Path(p) / "share" for p in os.environ.get("AMENT_PREFIX_PATH", "").split(":") if p]
        places += [root / rest for root in (*folder.resolve().parents, *roots)]
        places += [up / inside for up in (folder.resolve(), *folder.resolve().parents) if up.name == package]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ConfigurationError(f"the mesh {cut(name)} is not there")
    return found


def refuse_unfit(mesh: Path) -> None:
    """Raise ConfigurationError for a mesh of another format, or larger than `MOST_BYTES`, which would take minutes."""
    if mesh.suffix.lower() not in MESH_SUFFIXES:
        raise ConfigurationError(
            f"the mesh {mesh} is of a format that is not read, expected {', '.join(MESH_SUFFIXES)}: convert it"
        )
    if (size := mesh.stat().st_size) > MOST_BYTES:
        raise ConfigurationError(
            f"the mesh {mesh} has {size / 2**20:.1f} MiB, expected at most {MOST_BYTES / 2**20:.0f}: simplify it"
        )


def tree_with_meshes(urdf: Path) -> UrdfTree:
    """Return a URDF's tree with the resolved mesh paths of its collision shapes.

    Raises:
        ConfigurationError: the URDF cannot be used, or a mesh is missing, too large or of another format; names where
            to put it.
    """
    tree, folder = read_tree(read_urdf_text(urdf), str(urdf)), urdf.parent
    for mesh in tree.element.findall(COLLISION_MESH_PATH):
        name = mesh.get("filename", "")
        try:
            found = find_mesh(name, folder)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{error}, so contact of links cannot be checked: put it at {folder / FOLDER / _inside(name)}, "
                "name the folder that holds its package in ROS_PACKAGE_PATH, or give the URDF a box in its place"
            ) from error
        refuse_unfit(found)
        mesh.set("filename", str(found))
    return tree


def copy_meshes(tree: UrdfTree, source: Path, folder: Path) -> None:
    """Copy the meshes of a URDF in the folder `source` into a robot's folder.

    Missing meshes are omitted, because only contact checks need them, and those report it. Files without a mesh suffix
    are omitted, too: a URDF may come from strangers, and a robot's folder may be passed on.

    Raises:
        ConfigurationError: two names of different files lead to the same place.
        OutputWriteError: the disk is full, or the system refuses.
    """
    places: dict[Path, Path] = {}
    for name in sorted({mesh.get("filename", "") for mesh in tree.element.iter("mesh")}):
        try:
            found = find_mesh(name, source)
        except ConfigurationError:
            continue
        place = folder / FOLDER / _inside(name)
        if found.suffix.lower() not in MESH_SUFFIXES or found.stat().st_size > MOST_BYTES:
            continue
        if not places.setdefault(place, found).samefile(found):
            raise ConfigurationError(
                f"the URDF has two meshes for {FOLDER}/{_inside(name)}, {places[place]} and {found}: rename one of them"
            )
    for place, found in places.items():
        write_whole(place, found.read_bytes())


def _inside(name: str) -> Path:
    """Return a relative path for a mesh's name that stays inside its folder: without scheme, root, `.` and `..`."""
    parts = PurePosixPath(name.rpartition("://")[2]).parts
    return Path(*(part for part in parts if part not in ("/", ".", "..")))
