"""Monitor of functions compiled or loaded and modules imported after a process is ready; a test expects none."""

import json
import os
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

VARIABLE = "DYNID_LATE_WORK"  # environment variable with the output file; unset disables the monitor


class _Imports:
    """Import hook that finds nothing and reports each requested module."""

    def __init__(self, path: Path, process: str) -> None:
        self._path, self._process = path, process

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Report the module; return None, so that the other finders load it."""
        report(self._path, self._process, "import", name)
        return None


def report(path: Path, process: str, kind: str, name: str) -> None:
    """Append one late compilation, load or import to the file; lines of several processes do not mix."""
    line = json.dumps({"process": process, "pid": os.getpid(), "time": time.time(), "kind": kind, "name": name}) + "\n"
    with path.open("a", encoding="utf-8") as stream:
        stream.write(line)


def watch_late_work(process: str) -> None:
    """Watch imports and compiled functions of this process from now on, if the environment names a file for them.

    A function counts when numba adds a compiled variant of it, whether compiled or loaded from the cache: both
    stop a control cycle.
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
