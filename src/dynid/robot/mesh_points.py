"""Vertices and triangles of mesh files; a child process reads them, since mesh readers crash on some damaged files."""

import struct
import xml.etree.ElementTree as ElementTree  # DOCTYPEs, the way to external entities, are refused before parsing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynid.errors import ConfigurationError
from dynid.foreign_files import MESH_CPU_S, MESH_WALL_S, MOST_TRIANGLES, TOO_LARGE
from dynid.limited import in_child
from dynid.robot.values import FloatArray

START_S = 60.0  # maximum time until the child process is ready
MOST_DEATHS = 3  # number of meshes that crash their reader, after which the rest of a robot's meshes is not read
MOST_KEPT_BYTES = 256 * 2**20
Key = tuple[str, int, int]  # path, time of the last change, size


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangle mesh: positions of N vertices, (N, 3) [m], and indices of the vertices of M triangles, (M, 3)."""

    vertices: FloatArray
    triangles: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Memory that the arrays occupy [bytes]."""
        return self.vertices.nbytes + self.triangles.nbytes


_KEPT: dict[Key, Mesh | str] = {}  # a mesh, or why it cannot be used


def load_meshes(paths: Iterable[Path]) -> None:
    """Read mesh files that are not cached yet in a child process, and store them in the cache for `mesh_of`.

    If a mesh crashes the process, another process reads the remaining meshes.

    Raises:
        ConfigurationError: a file does not exist, or no process can be started.
    """
    wanted = {_key(path): path for path in paths}
    wanted = {key: path for key, path in wanted.items() if key not in _KEPT}
    if wanted and sum(one.size for one in _KEPT.values() if isinstance(one, Mesh)) > MOST_KEPT_BYTES:
        _KEPT.clear()
    deaths = 0
    while wanted:
        names = [str(path.absolute()) for path in wanted.values()]
        output, _ = in_child("meshes", names, START_S + MESH_WALL_S * len(names))
        if not output:
            raise ConfigurationError("meshes cannot be read: the process that reads them does not start")
        for found in _meshes_in(output[1:], list(wanted.values())):
            _KEPT[next(iter(wanted))] = found
            wanted.pop(next(iter(wanted)))
        if not wanted:
            return
        key, path = next(iter(wanted.items()))
        _KEPT[key] = f"the mesh {path} cannot be read: its reader crashes, or takes more than {MESH_CPU_S} s or 1 GiB"
        wanted.pop(key)
        deaths += 1
        if deaths == MOST_DEATHS:
            _KEPT.update(
                {key: f"the mesh {path} was not read, as {deaths} others crashed" for key, path in wanted.items()}
            )
            return


def mesh_of(element: ElementTree.Element, path: Path) -> Mesh:
    """Return the mesh in the file `path`, scaled as its `<mesh>` element in the URDF states.

    Raises:
        ConfigurationError: the file cannot be read, or the scale is invalid.
    """
    scale = numbers(element.get("scale", "1 1 1"))
    load_meshes([path])
    found = _KEPT[_key(path)]
    if isinstance(found, str):
        raise ConfigurationError(found)
    return Mesh(found.vertices * scale, found.triangles)


def numbers(text: str, count: int = 3) -> FloatArray:
    """Parse exactly `count` finite numbers in the text of a URDF attribute; return them as (count,).

    Raises:
        ConfigurationError: the text has other content.
    """
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        values = np.zeros(0)
    if len(values) != count or not np.isfinite(values).all():
        raise ConfigurationError(f"a shape of the URDF has '{text}', expected {count} numbers")
    return values


def _key(path: Path) -> Key:
    try:
        state = path.stat()
    except OSError as error:
        raise ConfigurationError(f"the mesh {path} cannot be read: {error.strerror}") from error
    return str(path.absolute()), state.st_mtime_ns, state.st_size


def _meshes_in(output: bytes, paths: Sequence[Path]) -> list[Mesh | str]:
    """Decode a child process's output: return for each path the mesh, or a sentence why it is unusable.

    The list is shorter than `paths` if the process ended early.
    """
    at, found = 0, list[Mesh | str]()
    for path in paths:
        if at + 16 > len(output):
            break
        count, faces = struct.unpack_from("<qq", output, at)
        end = at + 16 + 24 * max(count, 0) + (24 * faces if count >= 0 else 0)
        if end > len(output):
            break
        numbers_end = at + 16 + 24 * max(count, 0)
        vertices = np.frombuffer(output[at + 16 : numbers_end], "<f8").reshape(-1, 3)
        triangles = np.frombuffer(output[numbers_end:end], "<i8").reshape(-1, 3).astype(np.int64)
        found.append(_usable(path, count, faces, vertices, triangles))
        at = end
    return found


def _usable(path: Path, count: int, faces: int, vertices: FloatArray, triangles: NDArray[np.int64]) -> Mesh | str:
    if count == TOO_LARGE:
        return f"the mesh {path} has {faces} triangles, expected at most {MOST_TRIANGLES}: simplify it"
    if count <= 0 or faces <= 0 or triangles.min() < 0 or triangles.max() >= count:
        return f"the mesh {path} cannot be read"
    if not np.isfinite(vertices).all():
        return f"the mesh {path} has vertices that are not finite numbers: export it again"
    return Mesh(vertices, triangles)
