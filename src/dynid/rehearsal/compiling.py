"""Compilation for commands and nodes: once per robot, by one process at a time, on two processors, with progress.

The rehearsal of a process compiles what it runs. The compiled functions stay in numba's cache; a stamp beside the
generated modules lists its files, so a deleted or outdated cache is detected.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import subprocess  # nosec - argument lists only, no shell
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import IO, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dynid.codegen.cache import cache_folder, is_private
from dynid.errors import ConfigurationError
from dynid.robot import Robot, load_robot
from dynid.threads import THREAD_VARIABLES

FIRST_ROBOT = "crane_x7"  # robot whose rehearsals compile the functions common to all arms
# Jobs of two processes, ordered so that they compile different functions; see `rehearsal.job`.
JOB_GROUPS = (("motions", "arm", "recording"), ("identification",))
ARM_JOB_GROUPS = (("model",),)  # jobs that depend on robot and mount
DONE_PREFIX = "done: "
COMMON_MESSAGE = "compiling what commands and nodes run, once: about 20 s"
ARM_MESSAGE = "compiling the equations of motion of {}, mounted {}, once: about 5 s"


class Files(NamedTuple):
    """Files of compiled functions.

    Attributes:
        sources: files that define or generate the functions.
        cache: files of numba's cache that hold them.
    """

    sources: set[str]
    cache: set[str]


def ensure_compiled(robot: Robot, mount: str | None = None, report: Callable[[str], None] | None = None) -> bool:
    """Compile everything for a robot unless that was done before; concurrent processes wait.

    Args:
        robot: the robot that commands and nodes are about to use.
        mount: mount of the arm; None is robot.yaml's default.
        report: gets one line before each part of the work; None shows a progress bar on standard error.

    Returns:
        Whether something was compiled.

    Raises:
        ConfigurationError: a compiling process failed; quotes its last line.
    """
    first, mounted = load_robot(FIRST_ROBOT), mount or robot.file.default_mount
    compiled = _ensure(first, first.file.default_mount, JOB_GROUPS, COMMON_MESSAGE, report)
    if robot.name != first.name or mounted != first.file.default_mount:
        compiled |= _ensure(robot, mounted, ARM_JOB_GROUPS, ARM_MESSAGE.format(robot.name, mounted), report)
    return compiled


def _ensure(
    robot: Robot, mount: str, shares: tuple[tuple[str, ...], ...], message: str, report: Callable[[str], None] | None
) -> bool:
    """Run each group of jobs in its own process unless the stamp is valid; return whether they were run."""
    folder = cache_folder()
    if is_private(folder):
        return False  # without a shared cache each process compiles for itself
    stamp = folder / f"compiled-{_key(robot, mount)}.json"
    if _is_valid(stamp):
        return False
    with (folder / "compiling.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # wait for another compiling process
        if _is_valid(stamp):
            return False
        if report is not None:
            report(message)
        with _shown(message, sum(map(len, shares)), quiet=report is not None) as advance:
            files = _compile(robot, mount, shares, advance)
        _write_stamp(stamp, files)
    return True


def _key(robot: Robot, mount: str) -> str:
    """Return a hash of all that compiled functions depend on besides dynid's sources: robot, mount, versions, cache."""
    files = sorted(path for path in [*robot.folder.rglob("*"), robot.urdf_path] if path.is_file())
    versions = [platform.python_version(), platform.machine(), *(version(name) for name in ("numba", "numpy"))]
    given = repr(([(str(path), _state(path)) for path in files], versions, mount, os.environ.get("NUMBA_CACHE_DIR")))
    return hashlib.sha256(given.encode()).hexdigest()[:20]


def _state(path: str | Path) -> list[int]:
    """Return the modification time [ns] and the size of a file, which change with its content."""
    status = os.stat(path)
    return [status.st_mtime_ns, status.st_size]


def _is_valid(stamp: Path) -> bool:
    """Return whether all sources in the stamp are unchanged, and no cache file in it is missing or shorter.

    A cache file grows when another process compiles the function for other types.
    """
    try:
        content = json.loads(stamp.read_text(encoding="utf-8"))
        unchanged = all(_state(file) == state for file, state in content["sources"].items())
        return unchanged and all(os.path.getsize(file) >= size for file, size in content["cache"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # no stamp, or a foreign one
        return False


def _write_stamp(stamp: Path, files: Files) -> None:
    sizes = {file: os.path.getsize(file) for file in sorted(files.cache)}
    content = {"sources": {file: _state(file) for file in sorted(files.sources)}, "cache": sizes}
    part = stamp.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(content), encoding="utf-8")
    os.replace(part, stamp)


@contextlib.contextmanager
def _shown(message: str, jobs: int, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal, else the message alone; yield a function that advances it by one job."""
    console = Console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        console.print(f"{message} ...", soft_wrap=True, highlight=False)
        yield lambda: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(message, total=jobs)
        yield lambda: progress.advance(task)


def _compile(robot: Robot, mount: str, shares: tuple[tuple[str, ...], ...], advance: Callable[[], None]) -> Files:
    """Run each group of jobs in its own process, in parallel; return the files of the compiled functions."""
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"), "MUJOCO_GL": "disable"}
    environment.pop("DYNID_LATE_WORK", None)
    command = [sys.executable, "-m", "dynid.rehearsal.job", str(robot.folder), mount]
    children = [
        subprocess.Popen(  # noqa: S603 - a fixed argument list, no shell
            [*command, *share], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for share in shares
    ]
    try:
        found = [_follow(child, advance) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    return Files(set().union(*(one.sources for one in found)), set().union(*(one.cache for one in found)))


def _follow(child: "subprocess.Popen[str]", advance: Callable[[], None]) -> Files:
    """Read a child's output until it ends; return the files that it names.

    Raises:
        ConfigurationError: the child failed.
    """
    files = Files(set(), set())
    last = "it printed nothing"
    stream: IO[str] | None = child.stdout
    assert stream is not None
    for line in stream:
        if line.startswith(DONE_PREFIX):
            files = Files(*map(set, json.loads(line.removeprefix(DONE_PREFIX))))
            advance()
        else:
            last = line.strip() or last
    if child.wait():
        raise ConfigurationError(f"compiling failed: {last}; delete the folder {cache_folder()} and try again")
    return files
