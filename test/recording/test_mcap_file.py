"""What a kill leaves of an MCAP file, at every moment: each write of a recording is replayed, and cut at every page.

A write may end at the border of two pages when the process is killed, and only there (the kernel looks for signals
between pages).
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcap.exceptions import McapError
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader, AnyReaderError

from dynid.errors import BagWriteError
from dynid.recording import mcap_file
from dynid.recording.bag_writer import BagWriter, Topic
from dynid.recording.mcap_file import LiveMcapFile
from dynid.recording.mcap_scan import scan_mcap
from dynid.recording.messages import JOINT_STATE, JointStateEncoder

PAGE = 4096
FIRST_WRITES = 3  # of the first index
STATES, OTHERS = Topic("/joint_states", JOINT_STATE), Topic("/others", JOINT_STATE)
FIELDS = ("position", "velocity", "effort")
RAW = JointStateEncoder([f"joint_{k}" for k in range(8)]).encode(5, **dict.fromkeys(FIELDS, [0.0] * 8))


class Recording:
    """Every change of a file, and how many messages had been flushed before it, and written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.changes: list[tuple[int, bytes | None, int, int]] = []
        self.flushed = self.written = 0
        pwrite, truncate = os.pwrite, os.ftruncate

        def put(descriptor: int, content: memoryview, position: int) -> int:
            self.changes.append((position, bytes(content), self.flushed, self.written))
            return pwrite(descriptor, content, position)

        def cut(descriptor: int, size: int) -> None:
            self.changes.append((size, None, self.flushed, self.written))
            truncate(descriptor, size)

        monkeypatch.setattr(os, "pwrite", put)
        monkeypatch.setattr(os, "ftruncate", cut)

    def make(self, bag: Path) -> bytes:
        """Flushes of all sizes, also without news; chunks closed without a flush; two topics, one of them late."""
        writer = BagWriter(bag, [STATES], flush_interval_s=3600)
        writer.open()
        start = next(bag.glob("*.mcap")).read_bytes()
        self.changes.clear()  # before the first index there is nothing to lose
        for index, count in enumerate([0, 1, 5, 900, 3, *[200] * 6, 4500, 0, 20]):
            if index == 3:
                writer.add_topic(OTHERS)
            for _ in range(count):
                self.written += 1
                writer.write("/others" if index > 3 and self.written % 3 == 0 else "/joint_states", self.written, RAW)
            writer.flush()
            self.flushed = self.written
        writer.write("/joint_states", self.written + 1, RAW)
        self.written += 1
        writer.close()
        return start

    def states(self, content: bytes) -> Iterator[tuple[bytes, int, int]]:
        """Every content that a kill can leave, with the messages flushed and written until then.

        Of a write of many pages the first and last ones and a few between them are taken.
        """
        for position, change, flushed, written in self.changes:
            if change is None:
                content = content[:position]
                yield content, flushed, written
                continue
            edges = [*range(-position % PAGE, len(change), PAGE)]
            for edge in sorted({*edges[:2], *edges[2:-2:61], *edges[-2:], len(change)} - {0}):
                end = position + edge
                yield content[:position].ljust(position, b"\0") + change[:edge] + content[end:], flushed, written
            content = content[:position].ljust(position, b"\0") + change + content[position + len(change) :]


def counts(bag: Path) -> list[int]:
    """Messages in a bag for rosbags, for the mcap project's reader, and read from front to back."""
    with AnyReader([bag]) as reader:
        stamps = [stamp for _, stamp, _ in reader.messages()]
    assert stamps == list(range(1, len(stamps) + 1))
    file = next(bag.glob("*.mcap"))
    found = [len(stamps)]
    with file.open("rb") as stream:
        found.append(sum(1 for _ in make_reader(stream).iter_messages()))
    scan = scan_mcap(file)
    assert not scan.lost_bytes and (not scan.complete or scan.messages == found[0])
    return [*found, scan.messages]


def check_every_moment(recording: Recording, bag: Path) -> None:
    start = recording.make(bag)
    final = (bag / "bag.mcap").read_bytes()
    moments, lengths = 0, set()
    for content, flushed, written in recording.states(start):
        (bag / "bag.mcap").write_bytes(content)
        found = counts(bag)
        assert all(flushed <= count <= written for count in found), f"moment {moments}: {found}, flushed {flushed}"
        moments += 1
        lengths.add(len(content))
    assert content == final and found[0] == recording.written, "the replay is not what was written"
    assert moments > 150 and len(lengths) > 4  # the file was extended, and more than once


def test_at_every_moment_a_kill_leaves_a_file_that_opens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check_every_moment(Recording(monkeypatch), tmp_path / "bag")


@pytest.mark.parametrize("wrong", ["footer first", "footer across pages", "one slot"])
def test_another_order_of_writing_is_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: str) -> None:
    put, switch = LiveMcapFile._put, LiveMcapFile._switch

    def footer_first(self: LiveMcapFile, slot: int, index: bytes) -> None:
        put(self, self._footer_start, index[-37:])
        switch(self, slot, index)

    if wrong == "footer first":
        monkeypatch.setattr(LiveMcapFile, "_switch", footer_first)
    elif wrong == "one slot":
        monkeypatch.setattr(LiveMcapFile, "_switch", lambda self, _, index: switch(self, 0, index))
    else:
        monkeypatch.setattr(mcap_file, "_PAGE_BYTES", 2**20 + 20)
    with pytest.raises((AssertionError, AnyReaderError, McapError)):
        check_every_moment(Recording(monkeypatch), tmp_path / "bag")


@pytest.mark.parametrize("partly", [False, True], ids=["nothing written", "half written"])
def test_a_write_that_fails_loses_nothing_flushed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, partly: bool
) -> None:
    """Each write of a short recording fails once, the disk being full, and the recording goes on."""
    pwrite, number, failing = os.pwrite, 0, 0

    def put(descriptor: int, content: memoryview, position: int) -> int:
        nonlocal number
        number += 1
        if number != failing:
            return pwrite(descriptor, content, position)
        if partly:
            pwrite(descriptor, content[: len(content) // 2], position)
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "pwrite", put)
    while number >= failing:  # until there is no such write any more
        failing, number = failing + 1, 0
        bag = tmp_path / f"bag{failing}"
        flushed = written = failures = 0
        writer = BagWriter(bag, [STATES], flush_interval_s=3600)
        try:
            writer.open()
            for count in (0, 1, 300, 0, 400):
                for _ in range(count):
                    written += 1
                    writer.write("/joint_states", written, RAW)
                try:
                    writer.flush()
                    flushed = written
                except BagWriteError:
                    failures += 1
                assert min(counts(bag)) >= flushed, f"write {failing}"
        except BagWriteError:  # already the opening
            assert failing <= FIRST_WRITES and not flushed
            continue
        with contextlib.suppress(BagWriteError):
            writer.close()
            flushed = written
        assert min(counts(bag)) >= flushed and failures <= 1, f"write {failing}"
    assert failing > 20
