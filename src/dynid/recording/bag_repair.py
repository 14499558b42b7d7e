"""Repair of bags that a killed recorder left unfinished."""

import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dynid.durable import sync_file, sync_folder, take_name
from dynid.errors import DataError
from dynid.recording.bag_metadata import metadata_text, read_metadata, write_metadata
from dynid.recording.bag_reader import Bag, read_bag
from dynid.recording.bag_writer import BagWriter, lock_folder
from dynid.recording.mcap_reader import read_mcap
from dynid.recording.sqlite_reader import JOURNAL, LOG, pending_files
from dynid.resources import refuse_existing


@dataclass(frozen=True)
class Repair:
    """Result of a repair: actions taken (empty for an intact bag), and number of messages per topic afterwards."""

    folder: Path
    actions: tuple[str, ...]
    counts: dict[str, int]


def repair_bag(folder: Path | str) -> Repair:
    """Finish an unfinished bag in its folder, so that every reader opens it.

    An MCAP file without an index is rewritten; the old file stays in the folder with the suffix `.damaged`. A sqlite3
    file is rolled back to its last commit, or completed from its write-ahead log. A missing or provisional
    metadata.yaml is replaced by a final one.

    Raises:
        InputNotFoundError: the folder does not exist.
        DataError: the path is not a bag folder, is still being recorded, or is damaged beyond this repair.
        OutputExistsError: a file with the suffix `.damaged` exists already.
    """
    folder = Path(folder)
    if folder.is_file():
        raise DataError(f"{folder} is a single file; repair needs the bag's folder")
    bag = read_bag(folder)
    if not bag.findings:
        return Repair(folder, (), bag.counts)
    lock = lock_folder(folder)
    if lock is None:
        raise DataError(f"the bag {folder} is still being recorded; stop the recorder first")
    try:
        finish = _settle if bag.storage == "sqlite3" else _rewrite
        files = bag.files
        del bag  # so that only one copy is in memory at a time
        actions = [action for path in files for action in finish(path)]
        metadata = read_metadata(folder)
        if metadata is None or metadata.provisional:
            _write_final_metadata(folder)
            actions.append("metadata.yaml written")
    finally:
        os.close(lock)
    return Repair(folder, tuple(actions), read_bag(folder).counts)


def _settle(path: Path) -> list[str]:
    """Roll an sqlite3 file back to its last commit, and move its write-ahead log into it; return what was done."""
    if path.is_symlink():
        raise DataError(f"{path} is a link to {path.resolve()}, which a repair would change: repair the bag it is in")
    beside = pending_files(path)
    if not beside:
        return []
    try:
        with closing(sqlite3.connect(path, timeout=1.0)) as database:
            database.execute("SELECT COUNT(*) FROM topics").fetchone()  # opening alone does not read the journal
            ((busy, _, _),) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        raise DataError(f"{path} could not be repaired, and its messages are still there: {error}") from error
    if busy:
        raise DataError(f"{path} is still opened by another program, such as its recorder: stop that program first")
    if left := [file.name for file in pending_files(path).values()]:
        raise DataError(f"{path}: SQLite could not take in {', '.join(left)}: is another program using the bag?")
    sync_file(path)
    sync_folder(path.parent)
    done = {JOURNAL: "rolled back to its last commit", LOG: "completed from its write-ahead log"}
    return [f"{path.name} {done[end]}" for end in beside]


def _rewrite(path: Path) -> list[str]:
    if read_mcap(path).complete:
        return []
    old = path.with_name(path.name + ".damaged")
    refuse_existing(old)
    source = read_bag(path)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".repair.") as work:
        writer = BagWriter(Path(work) / path.stem, source.topics.values())
        writer.open()
        try:
            for stamp_ns, name, raw in _in_order(source):
                writer.write(name, stamp_ns, raw)
        finally:
            writer.close()
        path.rename(old)
        take_name(Path(work) / path.stem / f"{path.stem}.mcap", path)
    return [f"{path.name} rewritten with an index; the old file is {old.name}"]


def _in_order(bag: Bag) -> list[tuple[int, str, bytes]]:
    topics = ((name, topic.messages) for name, topic in bag.topics.items())
    entries = [(log, name, raw) for name, all_ in topics for log, raw in zip(all_.log_ns.tolist(), all_, strict=True)]
    return sorted(entries, key=lambda entry: entry[0])


def _write_final_metadata(folder: Path) -> None:
    bag = read_bag(folder)
    if len(bag.files) != 1:
        raise DataError(f"the bag {folder} is split into {len(bag.files)} files; its metadata.yaml cannot be rebuilt")
    topics = bag.topics.values()
    text = metadata_text(bag.storage, bag.files[0].name, topics, bag.counts, bag.span_ns, provisional=False)
    write_metadata(folder, text, durable=True)
