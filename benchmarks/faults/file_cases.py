"""Faults of disks and files: loss of power, no hard links, unwritable places, missing consent."""

import contextlib
import errno
import io
import os
import pty
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.faults.driver_cases import DriverCase
from benchmarks.faults.power_loss import Disk
from dynid import durable
from dynid.commands.consent import ask_before_moving
from dynid.errors import DynidError, OutputExistsError, OutputWriteError, SafetyError
from dynid.recording.bag_metadata import Topic
from dynid.recording.bag_reader import read_bag
from dynid.recording.bag_writer import BagWriter, Storage
from dynid.recording.messages import encode_string
from dynid.resources import refuse_existing, whole_folder, write_whole
from dynid.robot import Robot

MOST_MESSAGES = 3000
STRINGS = Topic("/a", "std_msgs/msg/String")


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dynid-disk-") as name:
        yield Path(name)


def closed_bag(robot: Robot, seed: int) -> list[str]:
    """Close a bag, then drop everything not written by fsync: every message must still be present."""
    storage: Storage = "mcap" if seed % 2 else "sqlite3"
    count = int(np.random.default_rng(seed).integers(1, MOST_MESSAGES))
    with _folder() as folder:
        (folder / "disk").mkdir()
        with Disk(folder / "disk").watched() as disk:
            writer = BagWriter(folder / "disk" / "new" / "bag", [STRINGS], storage)
            writer.open()
            for stamp in range(count):
                writer.write("/a", stamp, encode_string(f"message {stamp}"))
            writer.close()
        try:
            bag = read_bag(disk.after_power_loss(folder / "after") / "new" / "bag")
        except DynidError as error:
            return [f"{storage}: {error}"]
    lost = count - bag.counts.get("/a", 0)
    return ([f"{storage}: {lost} of {count} messages are lost"] if lost else []) + list(bag.findings)


def written_results(robot: Robot, seed: int) -> list[str]:
    """Write a file and a folder of results, then lose the power: both must be present and complete."""
    text = f"result {seed}" * (1 + seed)
    with _folder() as folder:
        (folder / "disk").mkdir()
        with Disk(folder / "disk").watched() as disk:
            write_whole(folder / "disk" / "a" / "one.txt", text)
            with whole_folder(folder / "disk" / "b") as work:
                (work / "two.txt").write_text(text, encoding="utf-8")
        after = disk.after_power_loss(folder / "after")
        return _unlike(after, {"a/one.txt": text, "b/two.txt": text})


def _unlike(folder: Path, wanted: dict[str, str]) -> list[str]:
    """Return sentences about files that are missing or differ from the wanted contents by name."""
    found = {name: (folder / name).read_text(encoding="utf-8") for name in wanted if (folder / name).is_file()}
    return [f"{name} is {'damaged' if name in found else 'lost'}" for name in wanted if found.get(name) != wanted[name]]


@contextlib.contextmanager
def _plain_disk() -> Iterator[None]:
    """Simulate a disk with the limits of FAT: no hard links, no modes, and renaming overwrites an existing file."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    with (
        mock.patch.object(os, "link", refuse),
        mock.patch.object(os, "chmod", refuse),
        mock.patch.object(durable, "_renameat2", lambda: None),
    ):
        yield


def without_links(robot: Robot, seed: int) -> list[str]:
    """Write results on a disk without hard links: they must be stored, and existing files must stay."""
    with _folder() as folder, _plain_disk():
        found = []
        try:
            write_whole(folder / "one.txt", "one")
            with whole_folder(folder / "b") as work:
                (work / "two.txt").write_text("two", encoding="utf-8")
        except DynidError as error:
            found.append(str(error))
        over: list[Callable[[], object]] = [
            lambda: write_whole(folder / "one.txt", "other"),
            lambda: _fill(folder / "b"),
        ]
        for again in over:
            try:
                again()
                found.append("what was there was written over")
            except OutputExistsError:
                pass
        return found + _unlike(folder, {"one.txt": "one", "b/two.txt": "two"})


def _fill(folder: Path) -> None:
    with whole_folder(folder) as work:
        (work / "two.txt").write_text("other", encoding="utf-8")


def unwritable_place(robot: Robot, seed: int) -> list[str]:
    """Check an unwritable place before the work begins: it must be refused and left unchanged."""
    with _folder() as folder:
        (folder / "file").touch()
        places = {
            "a file": folder / "file" / "out",
            "a name that is too long": folder / ("x" * 300),
            "a system's folder": Path("/proc/dynid-out"),
        }
        found = []
        for what, place in places.items():
            try:
                refuse_existing(place)
                found.append(f"{what} was taken for a place to write to")
            except OutputWriteError:
                pass
        return found + ([] if [one.name for one in folder.iterdir()] == ["file"] else ["something was left behind"])


def asked_before_moving(robot: Robot, seed: int) -> list[str]:
    """Run a command that moves a real arm without `--yes`: nothing may move, and one line must describe the motion."""
    master, slave = pty.openpty()
    said, port = io.StringIO(), os.ttyname(slave)
    what = f"joint {1 + seed % robot.size} at up to 0.5 rad/s"
    try:
        with contextlib.redirect_stderr(said):
            ask_before_moving(robot, port, what, yes=False)
        found = ["it was not asked"]
    except SafetyError as error:
        found = [] if port in str(error) else [f"the port is not named: {error}"]
    finally:
        os.close(master)
        os.close(slave)
    missing = [one for one in (port, robot.file.title, what) if one not in said.getvalue()]
    return found + [f"'{one}' was not said" for one in missing]


DISK_CASES = (
    DriverCase("power lost after a bag was closed", "nothing is lost", closed_bag),
    DriverCase("power lost after results were written", "nothing is lost", written_results),
    DriverCase("disk without hard links", "results kept, none overwritten", without_links),
    DriverCase("place that cannot be written", "refused before the work", unwritable_place),
    DriverCase("real arm, no consent", "nothing moves, one line describes the motion", asked_before_moving),
)
