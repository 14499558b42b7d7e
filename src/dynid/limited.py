"""Work on foreign files in a child process with limits of memory and time.

Libraries in C++ crash on some damaged files, and others let a file of some bytes run for hours. So a child process
reads these files, and the system ends it at its limits. `foreign_files` contains the work of the child.
"""

import json
import subprocess
import sys
from typing import Any

_START = (
    "import sys; sys.path[:] = [one for one in sys.path if one]; import json; given = json.load(sys.stdin.buffer); "
    "sys.path[:] = given['path']; from dynid.foreign_files import serve; serve(given['work'], given['request'])"
)


def in_child(work: str, request: Any, wall_s: float) -> tuple[bytes, int]:
    """Do work of `foreign_files` in a child process; return its output and its exit code.

    Args:
        work: name of the work, see `foreign_files.serve`.
        request: argument of the work, made of JSON values.
        wall_s: time after which the child is killed [s], beside the limits that the work sets itself.
    """
    given = json.dumps({"path": sys.path, "work": work, "request": request}).encode()
    try:
        done = subprocess.run(  # noqa: S603 - no word of the command comes from a file
            [sys.executable, "-c", _START],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=wall_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return error.stdout or b"", -9
    return done.stdout, done.returncode
