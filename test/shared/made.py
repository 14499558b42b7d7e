"""Things that several tests need and none changes, made once: for all processes of a run, and for the next run.

They lie in pytest's cache (`.pytest_cache/d/made`), by a key of the sources that make them: whoever changes a source
gets new ones, and the old ones go. `pytest --cache-clear` removes all.
"""

import fcntl
import hashlib
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("src", "config", "urdf", "launch", "setup.py", "setup.cfg", "test/shared/*.py")
MESHES = {".stl", ".dae", ".obj"}  # whose size tells enough
LIBRARIES = ("numpy", "scipy", "mujoco", "numba", "pin", "cvxpy")
OLD_S = 3600.0  # what another key made may still be in use by a run that began before a source changed


def key_of(root: Path = ROOT) -> str:
    """Return a digest of all sources that may have a part in what is made, and of what they are run by."""
    found = hashlib.sha256(repr((sys.version_info, [(name, version(name)) for name in LIBRARIES])).encode())
    files = [path for name in SOURCES for path in (root.glob(name) if "." in name else (root / name).rglob("*"))]
    for path in sorted(one for one in files if one.is_file() and "__pycache__" not in one.parts):
        content = str(path.stat().st_size).encode() if path.suffix.lower() in MESHES else path.read_bytes()
        found.update(f"{path.relative_to(root)}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:16]


class Made:
    """The folder of made things."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder / key
        self.folder.mkdir(parents=True, exist_ok=True)
        os.utime(self.folder)
        for other in folder.iterdir():
            if other != self.folder and other.stat().st_mtime < time.time() - OLD_S:
                shutil.rmtree(other, ignore_errors=True)

    def __call__(self, name: str, make: Callable[[Path], object]) -> Path:
        """Return a folder of this name, which `make` fills if it is not there; others wait meanwhile.

        Args:
            name: of the thing, without a dot; two things have two names.
            make: a function that is given the new, empty folder; what it raises leaves nothing behind.
        """
        maker = Path(make.__code__.co_filename).read_bytes()  # type: ignore[attr-defined]
        folder = self.folder / f"{name}-{hashlib.sha256(maker).hexdigest()[:8]}"
        done = folder.with_suffix(".done")
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
                folder.mkdir()
                try:
                    make(folder)
                except BaseException:
                    shutil.rmtree(folder)
                    raise
                protect(folder)
                done.touch()
        return folder


def protect(folder: Path) -> None:
    """Make the files of a folder read-only; its owner can still delete them."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
