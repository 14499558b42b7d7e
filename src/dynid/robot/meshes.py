"""Mesh files of a URDF: search for them, and copy them into a robot's folder.

A URDF names meshes by their ROS package (`package://NAME/meshes/base.stl`) or by a relative path. Neither works after
the URDF was copied to another folder. So a robot's folder contains copies such as `meshes/NAME/meshes/base.stl`; the
URDF is not changed.
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
    """Search the URDF's folder and ROS packages for a mesh that the URDF names; return the path.

    A ROS package is a parent folder of the URDF, or a folder in ROS_PACKAGE_PATH or AMENT_PREFIX_PATH.

    Args:
        name: name of the mesh in the URDF, with or without `package://` or `file://`.
        folder: folder of the URDF.

    Raises:
        ConfigurationError: the file is not found.
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
    """Raise ConfigurationError if a mesh file has no suffix in `MESH_SUFFIXES`, or is larger than `MOST_BYTES`."""
    if mesh.suffix.lower() not in MESH_SUFFIXES:
        raise ConfigurationError(
            f"the mesh {mesh} is of a format that is not read, expected {', '.join(MESH_SUFFIXES)}: convert it"
        )
    if (size := mesh.stat().st_size) > MOST_BYTES:
        raise ConfigurationError(
            f"the mesh {mesh} has {size / 2**20:.1f} MiB, expected at most {MOST_BYTES / 2**20:.0f}: simplify it"
        )


def tree_with_meshes(urdf: Path) -> UrdfTree:
    """Return a URDF's tree in which the meshes of collision shapes have absolute paths.

    Raises:
        ConfigurationError: the URDF cannot be used, or a mesh is missing, too large or of another format. The message
            states where to put a missing mesh.
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
    """Copy the meshes of a URDF into another folder, where `find_mesh` finds them.

    Missing and too large meshes are omitted, because only checks of contact between links need them, and these checks
    report missing meshes. Files without a mesh suffix are also omitted, because a URDF of unknown origin could name
    private files.

    Args:
        tree: tree of the URDF.
        source: folder of the URDF.
        folder: the robot's folder, or that of an expanded xacro file.

    Raises:
        ConfigurationError: two different files would be copied to the same path.
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
    """Convert a mesh's name in a URDF to a relative path without scheme, root, `.` and `..`.

    So the path cannot leave the folder to which it is appended.
    """
    parts = PurePosixPath(name.rpartition("://")[2]).parts
    return Path(*(part for part in parts if part not in ("/", ".", "..")))
