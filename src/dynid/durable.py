"""File operations that survive a loss of power, and renaming that never overwrites, on any file system.

A file's content is on the disk after an fsync of the file, and its name after an fsync of the folder. dynid does both
before it reports an output as written.
"""

import ctypes
import errno
import os
import secrets
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
# Error codes of file systems and kernels that cannot rename without replacing, or cannot synchronise a folder.
_UNABLE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM)


def sync_file(path: Path) -> None:
    """Write a file's content from the system's cache to the disk, and wait until it is there; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Write the names of a folder's files to the disk, and wait until they are there; raises OSError.

    On file systems that do not support this, such as those of Windows shares, nothing is done, because they write names
    at once.
    """
    try:
        sync_file(path)
    except OSError as error:
        if error.errno not in (*_UNABLE, errno.EACCES):
            raise


def sync_tree(path: Path) -> None:
    """Write all files and folders below a folder to the disk, and wait until they are there; raises OSError."""
    for folder, _, files in os.walk(path, topdown=False):
        for name in files:
            sync_file(Path(folder) / name)
        sync_folder(Path(folder))


def make_folders(path: Path) -> None:
    """Create a folder and its missing parents, and wait until their names are on the disk; raises OSError."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in reversed(missing):
        sync_folder(one.parent)


def new_file(folder: Path, name: str) -> tuple[int, Path]:
    """Create a hidden file with a random name that contains `name`; return a descriptor for writing and its path.

    The file is created with the permissions that the user's umask allows for new files, because some file systems
    cannot change permissions later.

    Raises:
        OSError: the system refuses.
    """
    path = folder / f".{name}.{secrets.token_hex(4)}"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), path


def take_name(made: Path, path: Path) -> None:
    """Rename the file or folder `made` to `path` without overwriting, and wait until the new name is on the disk.

    Raises:
        FileExistsError: a file or folder with the new name exists.
        OSError: the system refuses.
    """
    if not _renamed_without_replacing(made, path):
        if made.is_dir():
            os.mkdir(path)  # reserves the name; a folder may replace an empty one
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
    """Return Linux' C function `renameat2`, which can rename without overwriting; None if the C library lacks it."""
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def _renamed_without_replacing(made: Path, path: Path) -> bool:
    """Rename `made` to `path` in one step without overwriting; return False if the file system cannot do this.

    Raises:
        FileExistsError: a file or folder with the new name exists.
        OSError: the system refuses for another reason.
    """
    rename = _renameat2()
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(made), _AT_FDCWD, os.fsencode(path), _RENAME_NOREPLACE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNABLE:
        return False
    raise OSError(code, os.strerror(code), str(path))
