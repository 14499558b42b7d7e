"""Simulated loss of power: only data that fsync wrote to the disk are kept."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

Listing = dict[str, int]  # inode numbers by file name


class Disk:
    """Contents and listings below a folder as of their last fsync."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._contents: dict[int, bytes] = {}
        self._listings: dict[int, Listing] = {}
        self._kept: list[int] = []  # open descriptors, so that no inode number is reused
        self.synced: list[str] = []
        for path in (root, *root.rglob("*")):  # earlier files are already on the disk
            descriptor = os.open(path, os.O_RDONLY)
            self._note(descriptor)
            os.close(descriptor)

    def _note(self, descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self.synced.append(path.name)
        if path.is_dir():
            self._listings[inode] = {one.name: one.lstat().st_ino for one in path.iterdir()}
        else:
            self._contents[inode] = path.read_bytes()
        self._kept.append(os.open(path, os.O_RDONLY))

    @contextmanager
    def watched(self) -> Iterator["Disk"]:
        """Record every fsync in the block."""
        real = os.fsync

        def fsync(descriptor: int) -> None:
            real(descriptor)
            self._note(descriptor)

        with mock.patch.object(os, "fsync", fsync):
            yield self

    def after_power_loss(self, to: Path) -> Path:
        """Write the contents of the disk to a new folder and return it."""
        self._restore(self.root.stat().st_ino, to)
        for descriptor in self._kept:
            os.close(descriptor)
        return to

    def _restore(self, folder: int, to: Path) -> None:
        to.mkdir()
        for name, inode in self._listings.get(folder, {}).items():
            if inode in self._listings:
                self._restore(inode, to / name)
            elif inode in self._contents:
                (to / name).write_bytes(self._contents[inode])
            else:
                (to / name).touch()  # a file name without its content
