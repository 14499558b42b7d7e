"""Reads rosbag2 bags in bulk: a folder, MCAP or sqlite3, split or not, also of a recorder that was killed."""

import hashlib
import shutil
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import zstandard
from rosbags.rosbag2 import Reader, ReaderError

from dynid.errors import DataError, InputNotFoundError, UnknownNameError
from dynid.recording.bag_metadata import STORAGE_SUFFIXES, BagMetadata, Topic, read_metadata, topic_of
from dynid.recording.mcap_reader import MOST_RATIO, read_mcap
from dynid.recording.raw_messages import RawMessages, from_blocks, from_list, joined
from dynid.resources import guarded


@dataclass(frozen=True)
class TopicContent(Topic):
    """One topic of a bag and its messages."""

    messages: RawMessages = field(kw_only=True)

    @classmethod
    def of(cls, topic: Topic, messages: RawMessages) -> "TopicContent":
        """A topic with messages."""
        return cls(topic.name, topic.message_type, topic.qos, topic.depth, messages=messages)


@dataclass(frozen=True)
class Bag:
    """A bag in memory.

    Attributes:
        path: the folder, or the single file.
        storage: "mcap" or "sqlite3".
        files: the data files.
        topics: by name, sorted.
        findings: what a reader should know: a cut end, a missing metadata.yaml. Empty for a bag in order.
    """

    path: Path
    storage: str
    files: tuple[Path, ...]
    topics: dict[str, TopicContent]
    findings: tuple[str, ...]

    def __getitem__(self, topic: str) -> TopicContent:
        try:
            return self.topics[topic]
        except KeyError:
            raise UnknownNameError("topic", topic, tuple(self.topics)) from None

    @property
    def counts(self) -> dict[str, int]:
        """Messages per topic."""
        return {name: len(topic.messages) for name, topic in self.topics.items()}

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """First and last log time [ns]; None without messages."""
        logs = [topic.messages.log_ns for topic in self.topics.values() if len(topic.messages)]
        return (min(int(log[0]) for log in logs), max(int(log[-1]) for log in logs)) if logs else None

    def sha256(self) -> str:
        """SHA-256 of the data files' concatenated bytes, in hexadecimal."""
        return sha256_of(self.files)


def sha256_of(files: Sequence[Path]) -> str:
    """SHA-256 of the concatenated bytes of files, in hexadecimal."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


STEPS = 100_000  # of SQLite's machine, between two looks at a query; and bytes
_FileContent = tuple[Sequence[TopicContent], str | None]  # topics, and what a reader should know


def read_bag(path: Path | str) -> Bag:
    """Read a whole bag, folder or single .mcap or .db3 file. The bag is not changed.

    Raises:
        InputNotFoundError: no such path.
        DataError: not a bag, a data file is missing, or it is damaged.
    """
    path = Path(path)
    with guarded(path, "bag"):
        return _read_bag(path)


def _read_bag(path: Path) -> Bag:
    files, storage, compressed, findings = _locate(path)
    if compressed:
        for file in files:
            _refuse_packed_bomb(file)
        contents = [_read_with_rosbags(path)]
    elif storage == "mcap":
        contents = [_read_mcap(file) for file in files]
    else:
        contents = [_read_sqlite(file) for file in files]
    groups: dict[str, list[TopicContent]] = defaultdict(list)
    for topics_of_file, finding in contents:
        findings += [finding] if finding else []
        for topic in topics_of_file:
            groups[topic.name].append(topic)
    topics = {name: _merged(groups[name], path) for name in sorted(groups)}
    return Bag(path, storage, files, topics, tuple(findings))


def _locate(path: Path) -> tuple[tuple[Path, ...], str, bool, list[str]]:
    """Data files, storage, whether compressed, findings."""
    if not path.exists():
        raise InputNotFoundError(f"no such bag: {path}")
    if path.is_file():
        storages = [storage for storage, suffix in STORAGE_SUFFIXES.items() if path.suffix == suffix]
        if not storages:
            raise DataError(f"{path} is not a bag: expected a rosbag2 folder, or a .mcap or .db3 file")
        return (path,), storages[0], False, []
    metadata = read_metadata(path)
    findings = []
    if metadata is None:
        metadata = _guessed(path)
        findings.append("metadata.yaml is missing")
    elif metadata.provisional:
        findings.append("metadata.yaml is provisional: the recorder was killed, or is still recording")
    files = tuple(path / name for name in metadata.files)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise DataError(f"the bag {path} lacks the data file {', '.join(missing)} that its metadata.yaml names")
    return files, metadata.storage, metadata.compressed, findings


def _guessed(folder: Path) -> BagMetadata:
    for storage, suffix in STORAGE_SUFFIXES.items():
        names = sorted((file.name for file in folder.glob(f"*{suffix}")), key=lambda name: (len(name), name))
        if names:
            return BagMetadata(storage, tuple(names), False, False)
    raise DataError(f"{folder} is not a rosbag2 bag: it holds neither a metadata.yaml nor a .mcap or .db3 file")


def _merged(pieces: list[TopicContent], path: Path) -> TopicContent:
    first = pieces[0]
    types = sorted({piece.message_type for piece in pieces})
    if len(types) > 1:
        raise DataError(f"topic '{first.name}' has several types in the bag {path}: {', '.join(types)}")
    return TopicContent.of(first, joined([piece.messages for piece in pieces]))


def _read_mcap(path: Path) -> _FileContent:
    found = read_mcap(path)
    topics = [TopicContent.of(topic, from_blocks(found.blocks.get(key, []))) for key, topic in found.topics.items()]
    lost = f"{found.lost_bytes} bytes of an unfinished record were ignored"
    said = [] if found.complete else [f"{path.name} is truncated, the file is cut off: no index at its end, {lost}"]
    if strange := sum(
        len(one.log_ns) for key in found.blocks.keys() - found.topics.keys() for one in found.blocks[key]
    ):
        said.append(f"{path.name} has {strange} messages of channels that it does not describe, which were ignored")
    return topics, "; ".join(said) or None


def _read_sqlite(path: Path) -> _FileContent:
    journal = path.with_name(path.name + "-journal")
    if not journal.is_file() or not journal.stat().st_size:
        return _query(path, immutable=True), None
    # Opening the file for reading would roll it back in place; a reader does not change a bag.
    with tempfile.TemporaryDirectory(prefix="dynid_bag_") as folder:
        for file in (path, journal):
            shutil.copy(file, folder)
        topics = _query(Path(folder) / path.name, immutable=False)
    return topics, f"{path.name} has an unfinished transaction, which was ignored"


def _query(path: Path, *, immutable: bool) -> tuple[TopicContent, ...]:
    mode = "mode=ro&immutable=1" if immutable else "mode=rw"
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)) as database:
            _refuse_programs(database, path)
            rows = database.execute("SELECT id, name, type, serialization_format, offered_qos_profiles FROM topics")
            topics = rows.fetchall()
            log_ns: dict[int, list[int]] = defaultdict(list)
            data: dict[int, list[bytes]] = defaultdict(list)
            size, most = 0, 2 * path.stat().st_size + STEPS
            for identifier, stamp, raw in database.execute("SELECT topic_id, timestamp, data FROM messages"):
                if (size := size + len(raw)) > most:
                    raise DataError(f"{path.name} holds more data than its size allows: its pages form a loop")
                log_ns[identifier].append(stamp)
                data[identifier].append(raw)
    except sqlite3.Error as error:
        raise DataError(f"{path.name} is not a rosbag2 sqlite3 file, or is damaged: {error}") from error
    if others := sorted({f"{name} ({form})" for _, name, _, form, _ in topics if form != "cdr"}):
        raise DataError(f"topics that are not encoded as cdr: {', '.join(others)}")
    return tuple(
        TopicContent.of(topic_of(name, kind, qos), from_list(log_ns[identifier], data[identifier]))
        for identifier, name, kind, _, qos in topics
    )


def _refuse_programs(database: sqlite3.Connection, path: Path) -> None:
    """Raise DataError where topics or messages are no plain tables; a query without end is interrupted."""
    database.execute("PRAGMA trusted_schema = OFF")
    looks = iter(range(100 + path.stat().st_size // 1000))  # in a table, a row of some bytes takes some ten steps
    database.set_progress_handler(lambda: int(next(looks, None) is None), STEPS)
    kinds = dict(database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall())
    for name in ("topics", "messages"):
        if not str(kinds.get(name)).upper().startswith("CREATE TABLE"):
            raise DataError(f"{path.name} has no table '{name}', which a rosbag2 sqlite3 file has")


def _refuse_packed_bomb(file: Path) -> None:
    """Raise DataError where a compressed data file says that it becomes far larger than data do."""
    if file.suffix != ".zstd":
        return  # compressed message by message
    with file.open("rb") as stream:
        size, packed = zstandard.frame_content_size(stream.read(64)), file.stat().st_size
    if size > MOST_RATIO * packed + 2**20:
        raise DataError(
            f"{file.name} of {packed} bytes becomes {size} bytes, expected at most {MOST_RATIO} times as many"
        )


def _read_with_rosbags(path: Path) -> _FileContent:
    """Compressed bags, which this package does not write, are left to rosbags."""
    log_ns: dict[str, list[int]] = defaultdict(list)
    data: dict[str, list[bytes]] = defaultdict(list)
    try:
        with Reader(path) as reader:
            types = {connection.topic: connection.msgtype for connection in reader.connections}
            for connection, stamp, raw in reader.messages():
                log_ns[connection.topic].append(stamp)
                data[connection.topic].append(raw)
    except (ReaderError, OSError) as error:
        raise DataError(f"the compressed bag {path} cannot be read: {error}") from error
    found = (TopicContent(name, kind, messages=from_list(log_ns[name], data[name])) for name, kind in types.items())
    return tuple(found), None
