"""Tasks on untrusted files that `dynid.limited` runs in a child process: loading meshes, and expanding xacro files.

This module imports little, so that the child process starts quickly.
"""

import contextlib
import json
import math
import os
import resource
import signal
import struct
import time
from pathlib import Path
from typing import IO, Any

MEMORY_BYTES = 2**30  # memory of a child besides interpreter and libraries [bytes]; 335,000 triangles take half
MESH_CPU_S, MESH_WALL_S = 10, 30
MOST_TRIANGLES, MOST_VERTICES = 400_000, 1_200_000  # maximum of a mesh; a file of 16 MiB as STL has 335,000 triangles
UNREADABLE, TOO_LARGE = -1, -2  # codes in place of the number of vertices


def serve(work: str, request: Any) -> None:
    """Run a task in the child process, and write only its result to standard output.

    `work` is the name of the task: "meshes" loads meshes, and "xacro" expands a xacro file. `request` is its argument.
    """
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if work == "meshes":
        _load_meshes(request, out)
    else:
        _expand(request, out)
    out.close()


def limit_memory() -> None:
    """Limit the memory of this process to its present use plus `MEMORY_BYTES`, and disable core dumps."""
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        own = pages * resource.getpagesize() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (own, own))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_time(cpu_s: int, wall_s: int) -> None:
    """Let the system end this process after `cpu_s` [s] more of processor time, or `wall_s` [s] more of wall time."""
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + cpu_s, resource.RLIM_INFINITY))
    signal.alarm(wall_s)  # without a handler it ends the process, whatever library is at work


def _load_meshes(paths: list[str], out: IO[bytes]) -> None:
    """Load mesh files and write them to `out` in binary form.

    First b"R" is written. For each mesh follow the numbers of vertices and triangles, the coordinates of the vertices,
    and the vertex indices of the triangles. A negative number of vertices is an error code.
    """
    import numpy as np

    try:
        import coal
    except ImportError:
        import hppfcl as coal  # name of coal in older versions of pinocchio

    limit_memory()
    out.write(b"R")
    for path in paths:
        out.flush()
        limit_time(MESH_CPU_S, MESH_WALL_S)
        try:
            mesh = coal.MeshLoader().load(path, np.ones(3))
            vertices = np.array(mesh.vertices(), dtype="<f8").reshape(-1, 3)
            count = mesh.num_tris
            if count > MOST_TRIANGLES or len(vertices) > MOST_VERTICES:
                out.write(struct.pack("<qq", TOO_LARGE, count))
                continue
            found = [mesh.tri_indices(k) for k in range(count)]
            triangles = np.array([(one[0], one[1], one[2]) for one in found], dtype="<i8")
        except Exception:  # each format's reader raises its own kind of error
            out.write(struct.pack("<qq", UNREADABLE, 0))
            continue
        out.write(struct.pack("<qq", len(vertices), count) + vertices.tobytes() + triangles.tobytes())


def _expand(request: dict[str, Any], out: IO[bytes]) -> None:
    """Expand a xacro file, and write a JSON object with the "text" of the URDF, or the "error", to `out`.

    `request` has the path, the xacro arguments and the limits of time.
    """
    import xacro

    limit_memory()
    limit_time(request["cpu_s"], request["wall_s"])
    try:
        found = {"text": xacro.process_file(request["path"], mappings=request["arguments"]).toxml()}
    except Exception as error:  # xacro evaluates expressions of the file, so any exception is possible
        of_memory = isinstance(error, MemoryError) or isinstance(error.__context__, MemoryError)
        reason = str(error) or type(error).__name__
        found = {"error": f"it needs more than {MEMORY_BYTES // 2**20} MiB" if of_memory else reason}
    out.write(json.dumps(found).encode())
