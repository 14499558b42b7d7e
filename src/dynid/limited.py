"""Reading of untrusted files in a child process with limits of memory and time.

C++ libraries crash on some damaged files, and the expansion of a short xacro file can take hours. So a child process
reads these files, and the system ends this process at its limits. The module `foreign_files` contains the tasks of the
child process.
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
    """Run a task of `foreign_files` in a child process; return its output and its exit code, -9 after a timeout.

    Args:
        work: name of the task, "meshes" or "xacro".
        request: argument of the task, made of JSON values.
        wall_s: time after which the child process is killed [s]; the task sets further limits itself.
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
