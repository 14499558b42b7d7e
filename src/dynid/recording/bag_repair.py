"""Repair of bags that a killed recorder left unfinished."""

import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dynid.durable import sync_file, sync_folder, take_name
from dynid.errors import BagWriteError, DataError
from dynid.recording.bag_metadata import metadata_text, read_metadata, write_metadata
from dynid.recording.bag_reader import read_bag
from dynid.recording.bag_writer import lock_folder
from dynid.recording.mcap_copy import copy_mcap
from dynid.recording.mcap_reader import read_mcap
from dynid.recording.sqlite_reader import JOURNAL, LOG, pending_files
from dynid.resources import refuse_existing


@dataclass(frozen=True)
class Repair:
    """Result of the repair of a bag.

    Attributes:
        folder: the bag's folder.
        actions: descriptions of the repairs; empty for an intact bag.
        counts: number of messages per topic after the repair.
    """

    folder: Path
    actions: tuple[str, ...]
    counts: dict[str, int]


def repair_bag(folder: Path | str) -> Repair:
    """Complete an unfinished bag in its folder, so that every reader can open it.

    An MCAP file without an index is rewritten; the old file stays in the folder with the suffix `.damaged`. A sqlite3
    file is rolled back to its last commit, or completed from its write-ahead log. A missing or provisional
    metadata.yaml is replaced by a final one.

    Raises:
        InputNotFoundError: the folder does not exist.
        DataError: the path is not a bag folder, is still being recorded, or has other damage.
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
        metadata = read_metadata(folder)
        unfinished = metadata is None or metadata.provisional
        if unfinished and len(files) != 1:  # checked before any change
            raise DataError(
                f"the bag {folder} is split into {len(files)} files and has no final metadata.yaml, which dynid writes "
                f"for one file only; nothing was changed: write it with 'ros2 bag reindex {folder}', and repair again"
            )
        for path in files if finish is _rewrite else ():
            if not read_mcap(path).complete:
                _refuse_taken(path)
        actions = [action for path in files for action in finish(path)]
        if unfinished:
            _write_final_metadata(folder)
            actions.append("metadata.yaml written")
    finally:
        os.close(lock)
    return Repair(folder, tuple(actions), read_bag(folder).counts)


def _settle(path: Path) -> list[str]:
    """Complete an sqlite3 file that has a journal or a write-ahead log; return descriptions of the actions.

    An unfinished transaction is rolled back to the last commit. A write-ahead log is moved into the file.

    Raises:
        DataError: the file is a symbolic link, is used by another program, or cannot be repaired.
    """
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
    """Replace an MCAP file without an index by one with an index; return descriptions of the actions.

    The old file is kept under another name. A complete file is not changed, and the result is [].
    """
    if read_mcap(path).complete:
        return []
    old = _kept(path)
    _refuse_taken(path)
    bag = read_bag(path)
    text = metadata_text(bag.storage, path.name, bag.topics.values(), bag.counts, bag.span_ns, provisional=False)
    del bag
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".repair.") as work:
        made = Path(work) / path.name
        try:
            copy_mcap(path, made, text)
            sync_file(made)
            _exchange(path, made, old)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise BagWriteError(f"the bag {path.parent} cannot be repaired: {path.name}: {reason}") from error
    return [f"{path.name} rewritten with an index; the old file is {old.name}"]


def _kept(path: Path) -> Path:
    """Return the path to which an MCAP file is moved when a repaired file replaces it."""
    return path.with_name(path.name + ".damaged")


def _refuse_taken(path: Path) -> None:
    """Raise OutputExistsError if the path to which a damaged MCAP file would be moved is taken by another file."""
    old = _kept(path)
    if not old.is_symlink() and old.exists() and old.samefile(path):
        old.unlink()  # second name of the same file, from a repair that was interrupted within `_exchange`
    refuse_existing(old)


def _exchange(path: Path, made: Path, old: Path) -> None:
    """Replace a file by a new one, and keep the replaced file under another path.

    A file at `path` exists at every moment, so a bag can be repaired again after an interrupted repair. If OSError is
    raised, nothing has changed.

    Args:
        path: path of the file to replace.
        made: path of the new file.
        old: path under which the replaced file is kept.
    """
    try:
        os.link(path, old)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        path.rename(old)
        try:
            take_name(made, path)
        except OSError:
            old.rename(path)
            raise
        return
    try:
        os.replace(made, path)
    except OSError:
        old.unlink()
        raise
    sync_folder(path.parent)


def _write_final_metadata(folder: Path) -> None:
    bag = read_bag(folder)
    topics = bag.topics.values()
    text = metadata_text(bag.storage, bag.files[0].name, topics, bag.counts, bag.span_ns, provisional=False)
    write_metadata(folder, text, durable=True)
