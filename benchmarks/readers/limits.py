"""Limits of a process that reads hostile files: its memory, and the folder where it may write."""

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LIMIT_BYTES = 2**30
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CACHES = tuple(os.path.realpath(one) for one in (os.environ.get("NUMBA_CACHE_DIR"),) if one)  # of compiled code
_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.move")


@contextmanager
def limited_memory() -> Iterator[None]:
    """Allow 1 GiB more address space than the process has now while one file is read.

    Building files and recording results are not limited.
    """
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + LIMIT_BYTES, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))


class Writes:
    """Monitor of files that this process writes outside a folder while `watching`, by Python's audit events.

    Caches of compiled code are left out.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.outside, self.watching = os.path.realpath(folder), list[str](), False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event == "open":
            path, mode, flags = arguments
            written = bool(flags & _WRITING) if isinstance(flags, int) else any(one in str(mode) for one in "wax+")
            paths = [path] if written else []
        else:
            paths = list(arguments[:2]) if event in _CHANGES else []
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike):
                self._check(os.path.realpath(os.fsdecode(path)))

    def _check(self, path: str) -> None:
        allowed = path.startswith((self._folder + os.sep, "/dev/", "/proc/", *_CACHES)) or "__pycache__" in path
        if not allowed and path != self._folder:
            self.outside.append(path)
