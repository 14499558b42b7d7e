"""Compile what commands and nodes run: once for each robot, by one process at a time, over two processors, visibly.

Rehearsing a process compiles what it runs. The compiled functions stay in numba's cache; a stamp beside the generated
modules lists its files, so a cache that was deleted or grew stale is noticed.
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

from dynid.codegen.kernels import cache_folder, is_private
from dynid.errors import ConfigurationError
from dynid.robot import Robot, load_robot
from dynid.threads import THREAD_VARIABLES

FIRST_ROBOT = "crane_x7"  # whose rehearsals compile what is not of one arm alone
# What each of two processes rehearses, in an order in which they compile different functions; see `rehearsal.job`.
SHARES = (("motions", "arm", "recording"), ("identification",))
OF_ONE_ARM = (("model",),)  # what depends on robot and mount alone
DONE = "done: "
COMMON = "compiling what commands and nodes run, once: about 20 s"
OWN = "compiling the equations of motion of {}, mounted {}, once: about 5 s"


class Files(NamedTuple):
    """Files of compiled functions.

    Attributes:
        sources: files that the functions are written in, or that generate them.
        cache: files that numba keeps them in.
    """

    sources: set[str]
    cache: set[str]


def ensure_compiled(robot: Robot, mount: str | None = None, said: Callable[[str], None] | None = None) -> bool:
    """Compile everything for a robot unless that was done before; other processes that ask meanwhile wait.

    Args:
        robot: the robot that commands and nodes are about to work with.
        mount: how the arm is mounted; None is robot.yaml's default.
        said: gets one line before each part of the work; None shows a progress bar on standard error.

    Returns:
        Whether something was compiled.

    Raises:
        ConfigurationError: a process that compiles failed; its last line says why.
    """
    first, mounted = load_robot(FIRST_ROBOT), mount or robot.file.default_mount
    compiled = _ensure(first, first.file.default_mount, SHARES, COMMON, said)
    if robot.name != first.name or mounted != first.file.default_mount:
        compiled |= _ensure(robot, mounted, OF_ONE_ARM, OWN.format(robot.name, mounted), said)
    return compiled


def _ensure(
    robot: Robot, mount: str, shares: tuple[tuple[str, ...], ...], message: str, said: Callable[[str], None] | None
) -> bool:
    """Run the jobs of each share in a process of its own unless their stamp is valid; whether they were run."""
    folder = cache_folder()
    if is_private(folder):
        return False  # each process compiles what it needs: no other would find it
    stamp = folder / f"compiled-{_key(robot, mount)}.json"
    if _is_valid(stamp):
        return False
    with (folder / "compiling.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits for another process that compiles
        if _is_valid(stamp):
            return False
        if said is not None:
            said(message)
        with _shown(message, sum(map(len, shares)), quiet=said is not None) as advance:
            files = _compile(robot, mount, shares, advance)
        _write_stamp(stamp, files)
    return True


def _key(robot: Robot, mount: str) -> str:
    """Return a key of what compiled functions depend on beside dynid's sources: robot, mount, versions, cache."""
    files = sorted(path for path in [*robot.folder.rglob("*"), robot.urdf_path] if path.is_file())
    versions = [platform.python_version(), platform.machine(), *(version(name) for name in ("numba", "numpy"))]
    given = repr(([(str(path), _state(path)) for path in files], versions, mount, os.environ.get("NUMBA_CACHE_DIR")))
    return hashlib.sha256(given.encode()).hexdigest()[:20]


def _state(path: str | Path) -> list[int]:
    """Return what changes with a file's content: its time of change [ns] and its size."""
    status = os.stat(path)
    return [status.st_mtime_ns, status.st_size]


def _is_valid(stamp: Path) -> bool:
    """Return whether all sources in the stamp are as they were, and all cache files in it exist."""
    try:
        content = json.loads(stamp.read_text(encoding="utf-8"))
        unchanged = all(_state(file) == state for file, state in content["sources"].items())
        return unchanged and all(os.path.exists(file) for file in content["cache"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # no stamp, or not one of ours
        return False


def _write_stamp(stamp: Path, files: Files) -> None:
    content = {"sources": {file: _state(file) for file in sorted(files.sources)}, "cache": sorted(files.cache)}
    part = stamp.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(content), encoding="utf-8")
    os.replace(part, stamp)


@contextlib.contextmanager
def _shown(message: str, jobs: int, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal, else the message alone; yields what moves the bar on by one job."""
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
    """Run the shares side by side; returns the files of the compiled functions."""
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
    """Read what a child prints until it ends; returns the files that it names.

    Raises:
        ConfigurationError: it failed.
    """
    files = Files(set(), set())
    last = "it printed nothing"
    stream: IO[str] | None = child.stdout
    assert stream is not None
    for line in stream:
        if line.startswith(DONE):
            files = Files(*map(set, json.loads(line.removeprefix(DONE))))
            advance()
        else:
            last = line.strip() or last
    if child.wait():
        raise ConfigurationError(f"compiling failed: {last}; delete the folder {cache_folder()} and try again")
    return files
