"""Monitor of late work: functions compiled or loaded, and modules imported, after a process has finished its start.

Late work would delay a control cycle. A test checks that there is none.
"""

import json
import os
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

VARIABLE = "DYNID_LATE_WORK"  # environment variable with the output file; unset disables the monitor


class _Imports:
    """Import hook that writes each requested module to a file, and leaves loading to the other finders."""

    def __init__(self, path: Path, process: str) -> None:
        self._path, self._process = path, process

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Write the name of a requested module to the file; return None, so that the other finders load the module."""
        report(self._path, self._process, "import", name)
        return None


def report(path: Path, process: str, kind: str, name: str) -> None:
    """Append one event of a process to the file `path` as a line of JSON; lines of several processes do not mix.

    Args:
        path: output file.
        process: name of the process.
        kind: "ready" for a process that has finished its start, "compile" or "import".
        name: full name of the compiled function or imported module; for "ready" the name of the process.
    """
    line = json.dumps({"process": process, "pid": os.getpid(), "time": time.time(), "kind": kind, "name": name}) + "\n"
    with path.open("a", encoding="utf-8") as stream:
        stream.write(line)


def watch_late_work(process: str) -> None:
    """Write all later imports and compilations of this process to the file that $DYNID_LATE_WORK names, if it is set.

    A function is reported when numba compiles it for new types or loads a compiled variant from the cache: either would
    delay a control cycle. `process` is the name of this process in the report.
    """
    if not (text := os.environ.get(VARIABLE)):
        return
    import numba.core.dispatcher

    dispatchers: Any = numba.core.dispatcher.Dispatcher
    path = Path(text)
    report(path, process, "ready", process)
    sys.meta_path.insert(0, _Imports(path, process))
    before = dispatchers.add_overload

    def add_overload(dispatcher: Any, result: Any) -> Any:
        function = dispatcher.py_func
        report(path, process, "compile", f"{function.__module__}.{function.__qualname__}")
        return before(dispatcher, result)

    dispatchers.add_overload = add_overload
