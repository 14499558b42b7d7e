"""Compilation of the functions that commands and nodes run: once per robot, with a display of the progress.

Two child processes run the work on dummy data (a rehearsal) in parallel, so that numba compiles its functions and
stores them in its cache. A lock file lets only one caller compile at a time, and other callers wait. A stamp file in
dynid's cache folder lists the sources and cache files, so that a deleted or outdated cache is detected.
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
    """Paths of the source files and cache files of compiled functions.

    Attributes:
        sources: files that define or generate the functions.
        cache: index files of these functions in numba's cache.
    """

    sources: set[str]
    cache: set[str]


def ensure_compiled(robot: Robot, mount: str | None = None, report: Callable[[str], None] | None = None) -> bool:
    """Compile the functions that commands and nodes of a robot run, unless they are in the cache.

    If another process compiles at the moment, the call waits for it.

    Args:
        robot: the robot that commands and nodes are about to use.
        mount: mount of the arm; None is robot.yaml's default.
        report: called with one line of text before the functions for all arms are compiled, and before those for this
            arm; None shows a progress bar on standard error.

    Returns:
        Whether this call compiled functions.

    Raises:
        ConfigurationError: a compiling process failed; the message quotes the last line of its output.
    """
    first, mounted = load_robot(FIRST_ROBOT), mount or robot.file.default_mount
    compiled = _ensure(first, first.file.default_mount, JOB_GROUPS, COMMON_MESSAGE, report)
    if robot.name != first.name or mounted != first.file.default_mount:
        compiled |= _ensure(robot, mounted, ARM_JOB_GROUPS, ARM_MESSAGE.format(robot.name, mounted), report)
    return compiled


def _ensure(
    robot: Robot, mount: str, shares: tuple[tuple[str, ...], ...], message: str, report: Callable[[str], None] | None
) -> bool:
    """Run rehearsal jobs for a robot and mount, unless a valid stamp file shows that their functions are compiled.

    If dynid's cache folder is a temporary one of this process, nothing is run, since other processes could not use the
    result.

    Args:
        robot: robot of the jobs.
        mount: name of the arm's mount.
        shares: groups of job names; each group is run in a process of its own.
        message: description of the work for the progress display.
        report: called with the message; None shows a progress bar.

    Returns:
        Whether the jobs were run.
    """
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
    """Return a hash of everything besides dynid's sources that determines the compiled functions of a robot.

    The hash covers the robot's files, the mount, the versions of Python, numba and numpy, the machine type, and the
    folder of numba's cache.
    """
    files = sorted(path for path in [*robot.folder.rglob("*"), robot.urdf_path] if path.is_file())
    versions = [platform.python_version(), platform.machine(), *(version(name) for name in ("numba", "numpy"))]
    given = repr(([(str(path), _state(path)) for path in files], versions, mount, os.environ.get("NUMBA_CACHE_DIR")))
    return hashlib.sha256(given.encode()).hexdigest()[:20]


def _state(path: str | Path) -> list[int]:
    """Return the modification time [ns] and the size [bytes] of a file, which show whether its content has changed."""
    status = os.stat(path)
    return [status.st_mtime_ns, status.st_size]


def _is_valid(stamp: Path) -> bool:
    """Return whether the source files listed in a stamp file are unchanged, and no listed cache file has shrunk.

    A cache file may have grown, because another process compiled the function for other types. A missing file makes the
    stamp file invalid.
    """
    try:
        content = json.loads(stamp.read_text(encoding="utf-8"))
        unchanged = all(_state(file) == state for file, state in content["sources"].items())
        return unchanged and all(os.path.getsize(file) >= size for file, size in content["cache"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # the stamp file is missing or not valid
        return False


def _write_stamp(stamp: Path, files: Files) -> None:
    sizes = {file: os.path.getsize(file) for file in sorted(files.cache)}
    content = {"sources": {file: _state(file) for file in sorted(files.sources)}, "cache": sizes}
    part = stamp.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(content), encoding="utf-8")
    os.replace(part, stamp)


@contextlib.contextmanager
def _shown(message: str, jobs: int, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal, else only the message; yield a function that counts one more finished job.

    Args:
        message: description of the work.
        jobs: total number of jobs.
        quiet: whether nothing is shown.
    """
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
    """Run groups of rehearsal jobs in parallel processes; return the files of the functions that they compiled.

    Args:
        robot: robot of the jobs.
        mount: name of the arm's mount.
        shares: groups of job names, one group per process.
        advance: called after each finished job.
    """
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
    """Read the output of a compiling child process until it ends; return the files of the functions it compiled.

    Args:
        child: process that runs `dynid.rehearsal.job`.
        advance: called after each job that the child has finished.

    Raises:
        ConfigurationError: the child process failed; the message quotes the last line of its output.
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
