"""Files and names that outlive a loss of power, and names that are taken without overwriting on any file system.

A file is on the disk after its own fsync, its name after that of the folder. What is reported as written has had both.
"""

import ctypes
import errno
import os
import secrets
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
# of file systems and kernels that cannot rename without replacing, or cannot bring a folder to the disk on its own
_UNABLE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM)


def sync_file(path: Path) -> None:
    """Bring a file's content to the disk; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk; raises OSError.

    File systems that refuse it, such as those of Windows shares, write names at once.
    """
    try:
        sync_file(path)
    except OSError as error:
        if error.errno not in (*_UNABLE, errno.EACCES):
            raise


def sync_tree(path: Path) -> None:
    """Bring all files and folders below a folder to the disk, and its own names; raises OSError."""
    for folder, _, files in os.walk(path, topdown=False):
        for name in files:
            sync_file(Path(folder) / name)
        sync_folder(Path(folder))


def make_folders(path: Path) -> None:
    """Make a folder and those above it that are missing, and bring their names to the disk; raises OSError."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in reversed(missing):
        sync_folder(one.parent)


def new_file(folder: Path, name: str) -> tuple[int, Path]:
    """Return a descriptor, open for writing, and the path of a new file that nothing else calls so; raises OSError.

    The file has the mode that the user's umask gives: file systems without modes refuse to change it later.
    """
    path = folder / f".{name}.{secrets.token_hex(4)}"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), path


def take_name(made: Path, path: Path) -> None:
    """Give a file or folder another name, and bring that to the disk.

    Raises:
        FileExistsError: the name is taken.
        OSError: the system refuses.
    """
    if not _renamed_without_replacing(made, path):
        if made.is_dir():
            os.mkdir(path)  # a folder replaces an empty one
        else:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        try:
            os.replace(made, path)
        except OSError:
            (os.rmdir if made.is_dir() else os.unlink)(path)
            raise
    sync_folder(path.parent)


@cache
def _renameat2() -> Any:
    """The system call of Linux; None in a C library without it."""
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def _renamed_without_replacing(made: Path, path: Path) -> bool:
    """Whether the file system renamed it in one step, which a name that is taken prevents; raises OSError."""
    rename = _renameat2()
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(made), _AT_FDCWD, os.fsencode(path), _RENAME_NOREPLACE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNABLE:
        return False
    raise OSError(code, os.strerror(code), str(path))
