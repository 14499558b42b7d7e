"""Reader of rosbag2 bags: folder or single file, MCAP or sqlite3, split, compressed, or left by a killed recorder."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dynid.errors import DataError, InputNotFoundError, UnknownNameError, cut
from dynid.recording.bag_budget import BagBudget
from dynid.recording.bag_metadata import STORAGE_SUFFIXES, BagMetadata, Topic, read_metadata
from dynid.recording.mcap_reader import McapContent, mcap_content, read_mcap
from dynid.recording.raw_messages import RawMessages, from_blocks, from_list, joined
from dynid.recording.sqlite_reader import SqliteContent, pending_files, read_packed_sqlite, read_sqlite
from dynid.recording.unpack import unpacked_message, unpacked_pieces
from dynid.resources import guarded


@dataclass(frozen=True)
class TopicContent(Topic):
    """Topic of a bag with its messages."""

    messages: RawMessages = field(kw_only=True)

    @classmethod
    def of(cls, topic: Topic, messages: RawMessages) -> "TopicContent":
        """Combine a topic and its messages in one object."""
        return cls(topic.name, topic.message_type, topic.qos, topic.depth, messages=messages)


@dataclass(frozen=True)
class Bag:
    """Contents of a bag, with all messages in memory.

    Attributes:
        path: path of the bag's folder or single file.
        storage: "mcap" or "sqlite3".
        files: the data files.
        topics: content of each topic by name, in the order of the names.
        findings: descriptions of faults, such as a truncated file; empty for an intact bag.
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
        """Number of messages of each topic, by name."""
        return {name: len(topic.messages) for name, topic in self.topics.items()}

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """First and last log time of the bag's messages [ns]; None without messages."""
        logs = [topic.messages.log_ns for topic in self.topics.values() if len(topic.messages)]
        return (min(int(log[0]) for log in logs), max(int(log[-1]) for log in logs)) if logs else None

    def sha256(self) -> str:
        """Return the SHA-256 of the data files' concatenated bytes, in hexadecimal."""
        return sha256_of(self.files)


def sha256_of(files: Sequence[Path]) -> str:
    """Return the SHA-256 of the concatenated bytes of files, in hexadecimal."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


_FileContent = tuple[Sequence[TopicContent], str | None]  # topics, and a finding for the reader


def read_bag(path: Path | str) -> Bag:
    """Read a whole bag, either a folder or a single .mcap or .db3 file, without changing it.

    Faults such as a truncated end of a data file or a missing metadata.yaml are not errors, but findings of the bag.

    Raises:
        InputNotFoundError: the path does not exist.
        DataError: the path is not a bag, a data file is missing or has other damage, a topic has several message
            types, or the bag takes more memory or disk than permitted.
        ConfigurationError: the environment variable DYNID_BAG_GIB is not a positive number, or the cache of compiled
            code is damaged.
    """
    path = Path(path)
    with guarded(path, "bag"):
        return _read_bag(path)


def _read_bag(path: Path) -> Bag:
    files, metadata, findings = _locate(path)
    storage, packed = metadata.storage, metadata.packed
    beside = [one for file in files if storage == "sqlite3" for one in pending_files(file.resolve()).values()]
    budget = BagBudget(path, [*files, *beside])
    read = _read_mcap if storage == "mcap" else _read_sqlite
    if packed == "file":
        read = _read_packed_mcap if storage == "mcap" else _read_packed_sqlite
    groups: dict[str, list[TopicContent]] = defaultdict(list)
    for topics_of_file, finding in (read(file, budget) for file in files):
        findings += [finding] if finding else []
        for topic in topics_of_file:
            groups[topic.name].append(_unpacked(topic, budget) if packed == "message" else topic)
    topics = {name: _merged(groups[name], budget) for name in sorted(groups)}
    count = sum(len(topic.messages) for topic in topics.values())
    if not metadata.provisional and metadata.messages not in (None, count):
        findings.append(
            f"metadata.yaml states {metadata.messages} messages, but {count} were read: messages or whole files are "
            "missing, or the file is of another bag"
        )
    return Bag(path, storage, files, topics, tuple(findings))


def _locate(path: Path) -> tuple[tuple[Path, ...], BagMetadata, list[str]]:
    """Return the paths of a bag's data files, the bag's metadata, and findings about a missing or provisional one.

    Raises:
        InputNotFoundError: the path does not exist.
        DataError: the path is not a bag, or a data file is missing.
    """
    if not path.exists():
        raise InputNotFoundError(f"no such bag: {path}")
    if path.is_file():
        storages = [storage for storage, suffix in STORAGE_SUFFIXES.items() if path.suffix == suffix]
        if not storages:
            raise DataError(f"{path} is not a bag: expected a rosbag2 folder, or a .mcap or .db3 file")
        return (path,), BagMetadata(storages[0], (path.name,), "none", False), []
    metadata = read_metadata(path)
    findings = []
    if metadata is None:
        metadata = _guessed(path)
        others = [one.name for suffix in STORAGE_SUFFIXES.values() for one in path.glob(f"*{suffix}")]
        ignored = sorted(set(others) - set(metadata.files))
        findings.append("metadata.yaml is missing")
        if ignored:
            findings.append(f"{cut(', '.join(ignored))} ignored: without metadata.yaml, a bag has files of one storage")
    elif metadata.provisional:
        findings.append("metadata.yaml is provisional: the recorder was killed, or is still recording")
    files = tuple(path / name for name in metadata.files)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise DataError(f"the bag {path} lacks the data file {', '.join(missing)} that its metadata.yaml names")
    return files, metadata, findings


def _guessed(folder: Path) -> BagMetadata:
    for storage, suffix in STORAGE_SUFFIXES.items():
        names = sorted((file.name for file in folder.glob(f"*{suffix}")), key=lambda name: (len(name), name))
        if names:
            return BagMetadata(storage, tuple(names), "none", False)
    raise DataError(f"{folder} is not a rosbag2 bag: it holds neither a metadata.yaml nor a .mcap or .db3 file")


def _merged(pieces: list[TopicContent], budget: BagBudget) -> TopicContent:
    first = pieces[0]
    types = sorted({piece.message_type for piece in pieces})
    if len(types) > 1:
        raise DataError(f"topic '{first.name}' has several types in the bag {budget.path}: {', '.join(types)}")
    if len(pieces) > 1:
        budget.take(sum(piece.messages.data.nbytes for piece in pieces))
    return TopicContent.of(first, joined([piece.messages for piece in pieces]))


def _unpacked(topic: TopicContent, budget: BagBudget) -> TopicContent:
    """Decompress the messages of a topic, each of which was compressed separately."""
    messages = [unpacked_message(raw, budget) for raw in topic.messages]
    return TopicContent.of(topic, from_list(topic.messages.log_ns.tolist(), messages))


def _read_mcap(path: Path, budget: BagBudget) -> _FileContent:
    return _mcap_topics(path, read_mcap(path, budget))


def _read_packed_mcap(path: Path, budget: BagBudget) -> _FileContent:
    data = bytearray()
    for piece in unpacked_pieces(path):
        budget.take(len(piece))
        data += piece
    return _mcap_topics(path, mcap_content(path, bytes(data), budget))


def _mcap_topics(path: Path, found: McapContent) -> _FileContent:
    topics = [TopicContent.of(topic, from_blocks(found.blocks.get(key, []))) for key, topic in found.topics.items()]
    lost = f"{found.lost_bytes} bytes of an unfinished record were ignored"
    said = [] if found.complete else [f"{path.name} is truncated, the file is cut off: no index at its end, {lost}"]
    unknown = found.blocks.keys() - found.topics.keys()
    said += _strange(path, sum(len(one.log_ns) for key in unknown for one in found.blocks[key]))
    return topics, "; ".join(said) or None


def _read_sqlite(path: Path, budget: BagBudget) -> _FileContent:
    return _sqlite_topics(path, read_sqlite(path, budget))


def _read_packed_sqlite(path: Path, budget: BagBudget) -> _FileContent:
    return _sqlite_topics(path, read_packed_sqlite(path, budget))


def _sqlite_topics(path: Path, found: SqliteContent) -> _FileContent:
    topics = [
        TopicContent.of(topic, from_list(found.log_ns[key], found.data[key])) for key, topic in found.topics.items()
    ]
    said = [found.said] if found.said else []
    said += _strange(path, sum(len(found.log_ns[key]) for key in found.log_ns.keys() - found.topics.keys()))
    return topics, "; ".join(said) or None


def _strange(path: Path, count: int) -> list[str]:
    """Return a finding about messages without a topic description, as a list; [] if `count` is 0.

    Args:
        path: path of the data file that contains the messages.
        count: number of messages whose topic the file does not describe.
    """
    return [f"{path.name} has {count} messages of channels that it does not describe, which were ignored"] * bool(count)
