"""Reader of a bag's sqlite3 files that changes neither these files nor their journals.

When SQLite opens a database, it rolls back a journal and moves a write-ahead log into the database. So a database with
such a file is copied together with it to the temporary folder, and the copy is opened.
"""

import os
import shutil
import sqlite3
import tempfile
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from dynid.errors import DataError
from dynid.recording.bag_budget import BagBudget
from dynid.recording.bag_metadata import Topic, topic_of
from dynid.recording.unpack import unpacked_pieces

STEPS = 100_000  # SQLite instructions between two checks of a query's length; also allowed excess of data [bytes]
MOST_TOPICS = 10_000
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")  # SQLite: starts a journal, and follows the name of a super-journal
ROW_OVERHEAD = 150  # memory of one row's Python objects, besides its data [bytes]
JOURNAL, LOG, INDEX = "-journal", "-wal", "-shm"  # ends of the names of the files that SQLite keeps beside a database


@dataclass
class SqliteContent:
    """Contents of an sqlite3 file of a bag.

    Attributes:
        topics: topics by topic ID.
        log_ns: log times by topic ID [ns].
        data: serialized messages by topic ID.
        said: finding for the user, such as an unfinished transaction; "" if there is none.
    """

    topics: dict[int, Topic] = field(default_factory=dict)
    log_ns: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    data: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    said: str = ""


def read_sqlite(path: Path, budget: BagBudget) -> SqliteContent:
    """Read an sqlite3 file of a bag, together with a journal or write-ahead log that the recorder left.

    Raises:
        DataError: not a rosbag2 file, damaged, or beyond the limit `budget`; or its journal files are suspicious, see
            `pending_files`.
    """
    path = path.resolve()  # SQLite looks for the other files beside the resolved path
    beside = pending_files(path)
    if not beside:
        return _query(path, budget, immutable=True)
    with tempfile.TemporaryDirectory(prefix="dynid_bag_") as folder:
        for file in (path, *beside.values()):
            budget.take_disk(file.stat().st_size)
            shutil.copy(file, folder, follow_symlinks=False)
        content = _query(Path(folder) / path.name, budget, immutable=False)
    said = [f"{path.name} has an unfinished transaction, which was ignored"] if JOURNAL in beside else []
    if LOG in beside:
        said.append(f"{path.name} was not closed: the messages in {beside[LOG].name} were read as well")
    content.said = "; ".join(said)
    return content


def read_packed_sqlite(path: Path, budget: BagBudget) -> SqliteContent:
    """Read a bag's sqlite3 file that is compressed by zstd; errors are those of `read_sqlite`."""
    with tempfile.TemporaryDirectory(prefix="dynid_bag_") as folder:
        unpacked = Path(folder) / "unpacked.db3"
        with unpacked.open("wb") as stream:
            for piece in unpacked_pieces(path):
                budget.take_disk(len(piece))
                stream.write(piece)
        return _query(unpacked, budget, immutable=True)


def pending_files(path: Path) -> dict[str, Path]:
    """Return the paths of a database's rollback journal and write-ahead log in the same folder.

    The keys are `JOURNAL` and `LOG`. Empty and missing files are left out.

    Raises:
        DataError: the journal, the log or the log's index is a link or a folder, or the journal names another file.
    """
    beside = {end: path.with_name(path.name + end) for end in (JOURNAL, LOG, INDEX)}
    for file in beside.values():
        if file.is_symlink() or (file.exists() and not file.is_file()):
            raise DataError(
                f"{file} is a link or a folder, expected a file: SQLite would write to it, and no recorder leaves one "
                "there; remove it to read what was committed before"
            )
    found = {end: file for end, file in beside.items() if end != INDEX and file.is_file() and file.stat().st_size}
    if JOURNAL in found:
        refuse_other_files(found[JOURNAL])
    return found


def refuse_other_files(journal: Path) -> None:
    """Raise DataError if an SQLite journal names another file, a super-journal.

    Only transactions over several databases have a super-journal, and a recorder writes to one database only. SQLite
    deletes the named file after a rollback, so a manipulated journal could delete any file.
    """
    with journal.open("rb") as stream:
        stream.seek(-min(len(JOURNAL_MAGIC), journal.stat().st_size), os.SEEK_END)
        if stream.read() == JOURNAL_MAGIC:
            raise DataError(
                f"{journal.name} names another file, which SQLite would delete: no recorder writes such a journal; "
                "remove it to read what was committed before"
            )


def _query(path: Path, budget: BagBudget, *, immutable: bool) -> SqliteContent:
    mode = "mode=ro&immutable=1" if immutable else "mode=rw"
    held = sum(file.stat().st_size for file in (path, path.with_name(path.name + LOG)) if file.is_file())
    content = SqliteContent()
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)) as database:
            _refuse_programs(database, path, held)
            most, size, topics = 2 * held + STEPS, 0, []
            for row in database.execute(
                "SELECT id, name, type, serialization_format, offered_qos_profiles FROM topics"
            ):
                own = sum(len(one) for one in row if isinstance(one, str | bytes))
                size = _within(size + own, most, path)
                budget.take(2 * own + ROW_OVERHEAD)
                topics.append(row)
                if len(topics) > MOST_TOPICS:
                    raise DataError(f"{path.name} has more than {MOST_TOPICS} topics")
            for identifier, stamp, raw in database.execute("SELECT topic_id, timestamp, data FROM messages"):
                size = _within(size + len(raw), most, path)
                budget.take(2 * len(raw) + ROW_OVERHEAD)
                content.log_ns[identifier].append(stamp)
                content.data[identifier].append(raw)
    except sqlite3.Error as error:
        raise DataError(f"{path.name} is not a rosbag2 sqlite3 file, or is damaged: {error}") from error
    if others := sorted({f"{name} ({form})" for _, name, _, form, _ in topics if form != "cdr"}):
        raise DataError(f"topics that are not encoded as cdr: {', '.join(others)}")
    content.topics = {identifier: topic_of(name, kind, qos) for identifier, name, kind, _, qos in topics}
    return content


def _within(size: int, most: int, path: Path) -> int:
    """Return the number of bytes read from a file so far, `size`, if an intact file can contain this number.

    A manipulated file can yield more data than it contains, for example if its pages form a loop.

    Args:
        size: number of bytes read so far.
        most: maximum for an intact file, derived from the sizes of the file and its write-ahead log [bytes].
        path: path of the file, for messages.

    Raises:
        DataError: `size` exceeds `most`.
    """
    if size > most:
        raise DataError(
            f"{path.name} holds more data than its size allows: {size} bytes, expected at most {most}; its pages form "
            "a loop, or its columns have defaults: no recorder writes such a file"
        )
    return size


def _refuse_programs(database: sqlite3.Connection, path: Path, held: int) -> None:
    """Raise DataError if the tables `topics` or `messages` of an SQLite file are not plain tables.

    The function also limits all later queries: SQLite interrupts a query that takes far more instructions than reading
    a file of this size requires.

    Args:
        database: the opened file.
        path: path of the file, for messages.
        held: size of the file and its write-ahead log [bytes].
    """
    database.execute("PRAGMA trusted_schema = OFF")
    looks = iter(range(100 + held // 1000))  # reading a row of a few bytes takes about ten instructions
    database.set_progress_handler(lambda: int(next(looks, None) is None), STEPS)
    kinds = dict(database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall())
    for name in ("topics", "messages"):
        if not str(kinds.get(name)).upper().startswith("CREATE TABLE"):
            raise DataError(f"{path.name} has no table '{name}', which a rosbag2 sqlite3 file has")
        columns = database.execute("SELECT hidden FROM pragma_table_xinfo(?)", (name,))
        if any(hidden for (hidden,) in columns):
            raise DataError(f"{path.name} computes columns of its table '{name}'; a rosbag2 file does not")
