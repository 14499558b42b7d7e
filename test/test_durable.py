"""Written files survive a loss of power once reported, and overwrite nothing, on any file system."""

import errno
import os
import re
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from benchmarks.faults.power_loss import Disk

from dynid import durable, resources
from dynid.durable import take_name
from dynid.errors import OutputExistsError, OutputWriteError
from dynid.recording.bag_metadata import Topic
from dynid.recording.bag_reader import read_bag
from dynid.recording.bag_repair import repair_bag
from dynid.recording.bag_writer import BagWriter
from dynid.recording.messages import encode_string
from dynid.resources import refuse_existing, whole_folder, write_whole

STRINGS = Topic("/a", "std_msgs/msg/String")
Usage = namedtuple("Usage", "total used free")


def write_bag(folder: Path, storage: str, *, close: bool = True) -> BagWriter:
    writer = BagWriter(folder, [STRINGS], storage)  # type: ignore[arg-type]
    writer.open()
    for stamp in range(3000):
        writer.write("/a", stamp, encode_string(f"message {stamp}"))
    if close:
        writer.close()
    else:
        writer.flush()
    return writer


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_closed_bag_outlives_a_loss_of_power(tmp_path: Path, storage: str) -> None:
    (tmp_path / "disk").mkdir()
    with Disk(tmp_path / "disk").watched() as disk:
        write_bag(tmp_path / "disk" / "new" / "folders" / "bag", storage)
    bag = read_bag(disk.after_power_loss(tmp_path / "after") / "new" / "folders" / "bag")
    assert bag.counts == {"/a": 3000} and bag.findings == ()


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_bag_that_was_not_closed_may_be_lost(tmp_path: Path, storage: str) -> None:
    """So the simulated loss of power loses something."""
    (tmp_path / "disk").mkdir()
    with Disk(tmp_path / "disk").watched() as disk:
        writer = write_bag(tmp_path / "disk" / "bag", storage, close=False)
    after = disk.after_power_loss(tmp_path / "after")
    assert not (after / "bag").exists()
    writer.close()


def test_repaired_bag_outlives_a_loss_of_power(tmp_path: Path) -> None:
    write_bag(tmp_path / "disk" / "bag", "mcap")
    file = tmp_path / "disk" / "bag" / "bag.mcap"
    os.truncate(file, file.stat().st_size - 20)
    with Disk(tmp_path / "disk").watched() as disk:
        repair_bag(file.parent)
    bag = read_bag(disk.after_power_loss(tmp_path / "after") / "bag")
    assert bag.counts == {"/a": 3000} and bag.findings == ()


def test_results_outlive_a_loss_of_power(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    with Disk(tmp_path / "disk").watched() as disk:
        write_whole(tmp_path / "disk" / "a" / "one.yaml", "one")
        with whole_folder(tmp_path / "disk" / "b" / "result") as work:
            (work / "inner").mkdir()
            (work / "inner" / "two.txt").write_text("two")
            write_whole(work / "three.yaml", "three")
    after = disk.after_power_loss(tmp_path / "after")
    found = {
        str(one.relative_to(after)): one.read_text() for one in after.rglob("[!.]*") if one.is_file()
    }  # no work folder
    assert found == {"a/one.yaml": "one", "b/result/inner/two.txt": "two", "b/result/three.yaml": "three"}


@pytest.mark.slow
def test_data_and_names_are_synced_before_a_bag_counts_as_closed(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    program = (
        "import sys\n"
        "from dynid.recording.bag_writer import BagWriter, Topic\n"
        "for folder, storage in zip(sys.argv[1:], ('sqlite3', 'mcap')):\n"
        "    writer = BagWriter(folder, [Topic('/a', 'std_msgs/msg/String')], storage)\n"
        "    writer.open()\n"
        "    writer.write('/a', 1, b'x' * 100)\n"
        "    writer.close()\n"
        "print('closed', flush=True)"
    )
    out, folder = tmp_path / "trace", tmp_path / "bags"
    command = [sys.executable, "-c", program, str(folder / "one"), str(folder / "two")]
    if strace is None or subprocess.run([strace, "true"], capture_output=True, timeout=60).returncode:
        pytest.skip("strace is not installed, or may not trace")
    calls = "trace=fsync,fdatasync,write,rename,renameat,renameat2"
    subprocess.run(
        [strace, "-f", "-y", "-o", str(out), "-e", calls, *command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        timeout=300,
        capture_output=True,
    )
    lines = out.read_text(errors="replace").splitlines()
    closed = next(k for k, line in enumerate(lines) if '"closed' in line)
    synced = [line.partition("<")[2].partition(">")[0] for line in lines[:closed] if "fsync(" in line]
    synced = [re.sub(r"/\.metadata\.yaml\.[0-9a-f]+$", "/.metadata.yaml.new", path) for path in synced]
    for bag, suffix in (("one", "db3"), ("two", "mcap")):
        wanted = [
            f"{folder}/{bag}/{bag}.{suffix}",
            f"{folder}/{bag}/.metadata.yaml.new",
            f"{folder}/{bag}",
            str(folder),
        ]
        places = [len(synced) - 1 - synced[::-1].index(path) for path in wanted if path in synced]
        assert len(places) == 4 and places[:3] == sorted(places[:3])


@pytest.fixture(params=[errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, None], ids=["FAT", "old", "share", "no call"])
def plain(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system with neither hard links nor renaming without replacing."""

    def refuse(*arguments: Any) -> int:
        durable.ctypes.set_errno(request.param)
        return -1

    def no_link(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(durable, "_renameat2", lambda: refuse if request.param else None)
    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(os, "chmod", no_link)


@pytest.mark.usefixtures("plain")
def test_results_are_written_without_hard_links(tmp_path: Path) -> None:
    write_whole(tmp_path / "one.yaml", "one")
    with whole_folder(tmp_path / "result") as work:
        write_whole(work / "two.yaml", "two")
    assert (tmp_path / "one.yaml").read_text() == "one" and (tmp_path / "result" / "two.yaml").read_text() == "two"
    with pytest.raises(OutputExistsError, match=r"one\.yaml exists"):
        write_whole(tmp_path / "one.yaml", "other")
    with pytest.raises(OutputExistsError), whole_folder(tmp_path / "late") as work:
        (tmp_path / "late").mkdir()
        (tmp_path / "late" / "theirs").touch()
    assert (tmp_path / "one.yaml").read_text() == "one" and (tmp_path / "late" / "theirs").exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["late", "one.yaml", "result"]


@pytest.mark.usefixtures("plain")
def test_a_failed_rename_creates_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "replace", refuse)
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for made in ("file", "folder"):
        with pytest.raises(OSError, match="no"):
            take_name(tmp_path / made, tmp_path / "new")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "folder"]


def test_name_that_is_taken_is_kept(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    with pytest.raises(FileExistsError):
        take_name(tmp_path / "a", tmp_path / "b")
    take_name(tmp_path / "a", tmp_path / "c")
    assert (tmp_path / "b").read_text() == "b" and (tmp_path / "c").read_text() == "a"


def test_the_output_place_is_checked_before_the_work_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_existing(tmp_path / "new" / "folder" / "out.yaml")
    refuse_existing(tmp_path / "out.yaml")
    assert not list(tmp_path.iterdir())
    with pytest.raises(OutputWriteError, match="cannot be written"):
        refuse_existing(Path("/proc/dynid/out.yaml"))
    with pytest.raises(OutputWriteError, match="name too long"):
        refuse_existing(tmp_path / ("x" * 300))
    with monkeypatch.context() as patched:
        patched.setattr(resources.shutil, "disk_usage", lambda path: Usage(10**9, 10**9 - 10**6, 10**6))
        with pytest.raises(OutputWriteError, match=r"1\.0 MiB are free in .* expected at least 16; free some space"):
            refuse_existing(tmp_path / "out.yaml")
        write_whole(tmp_path / "small.yaml", "fits")  # what has been worked for is written, if it can be


def test_folder_that_cannot_be_synced_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, code: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(durable, "sync_file", lambda path: refuse(path, errno.EINVAL))
    durable.sync_folder(tmp_path)
    monkeypatch.setattr(durable, "sync_file", lambda path: refuse(path, errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        durable.sync_folder(tmp_path)
