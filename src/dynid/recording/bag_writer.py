"""Writer of rosbag2 bags (version 9, ROS 2 Jazzy) from serialized messages, without ROS.

If the process is killed, at most the data since the last regular flush to the files are lost. The bag is then
unfinished, until `repair_bag` makes it readable for all programs. Finished bags can be opened by `ros2 bag`, Foxglove,
PlotJuggler and rosbags.
"""

import fcntl
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dynid.durable import make_folders, sync_folder
from dynid.errors import BagWriteError, ConfigurationError, UnknownNameError
from dynid.recording.bag_metadata import STORAGE_SUFFIXES, Topic, metadata_text, write_metadata
from dynid.recording.bag_storage import DataFile, McapFile, SqliteFile, yield_processor
from dynid.recording.messages import type_store
from dynid.resources import refuse_existing

Storage = Literal["mcap", "sqlite3"]
Stamps = NDArray[np.int64]
Rows = NDArray[np.uint8]
Batch = tuple[Stamps, Rows | Callable[[slice], Rows]]
_FILES: dict[str, Callable[[Path], DataFile]] = {"mcap": McapFile, "sqlite3": SqliteFile}
_SLICE_NS = 200_000_000  # length of a time slice of one topic in a bulk write [ns]


def lock_folder(folder: Path) -> int | None:
    """Lock a bag's folder until the returned file descriptor is closed or the process ends.

    Returns:
        The file descriptor of the lock, or None if the folder is locked already.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


class BagWriter:
    """Writer of one bag, for use from one thread: call `open` first, and `close` in a `finally` block.

    Args:
        folder: the bag's folder; it must not exist yet.
        topics: topics to write; `add_topic` adds more.
        storage: "mcap" (Jazzy's default) or "sqlite3".
        flush_interval_s: interval at which pending data are written to the files [s].

    Attributes:
        counts: number of messages written per topic, also after closing.

    Raises:
        OutputExistsError: the folder exists.
        ConfigurationError: the storage is unknown, or a topic is listed twice.
        UnknownNameError: a message type is not part of ROS 2 Jazzy.
    """

    def __init__(
        self, folder: Path | str, topics: Iterable[Topic] = (), storage: Storage = "mcap", flush_interval_s: float = 0.5
    ) -> None:
        if storage not in _FILES:
            raise ConfigurationError(f"unknown bag storage '{storage}'; expected one of {', '.join(_FILES)}")
        self.folder, self.storage = Path(folder), storage
        refuse_existing(self.folder)
        self._planned = tuple(topics)
        for index, topic in enumerate(self._planned):
            self._check(topic, {earlier.name for earlier in self._planned[:index]})
        self.counts: dict[str, int] = {}
        self._topics: list[Topic] = []
        self._ids: dict[str, int] = {}
        self._first_ns, self._last_ns = 2**63 - 1, 0
        self._file: DataFile | None = None
        self._lock: int | None = None
        self._flush_interval_s, self._next_flush = flush_interval_s, 0.0

    @property
    def is_open(self) -> bool:
        """Whether messages can be written."""
        return self._file is not None

    def open(self) -> None:
        """Create the folder, register the topics and write a provisional metadata.yaml.

        Raises:
            OutputExistsError: the folder was created in the meantime.
            BagWriteError: the folder cannot be written.
        """
        if self._file is not None:
            raise BagWriteError(f"the bag {self.folder} is open already")
        refuse_existing(self.folder)
        with self._failures("write a bag to"):
            make_folders(self.folder.parent)
            self.folder.mkdir()
            self._file = _FILES[self.storage](self.folder / self._file_name)
        self._lock = lock_folder(self.folder)
        for topic in self._planned:
            self.add_topic(topic)
        self.flush()

    def add_topic(self, topic: Topic) -> None:
        """Register a topic in an open bag.

        Raises:
            UnknownNameError: the message type is not part of ROS 2 Jazzy.
            ConfigurationError: the topic is registered already.
        """
        file = self._opened()
        self._check(topic, self._ids)
        self._ids[topic.name], self.counts[topic.name] = file.add_topic(topic), 0
        self._topics.append(topic)

    def write(self, topic: str, stamp_ns: int, raw: bytes | memoryview) -> None:
        """Write one serialized message without changing it.

        Args:
            topic: name of a registered topic.
            stamp_ns: log time [ns since the epoch], normally the time of reception.
            raw: CDR bytes including their 4-byte header.

        Raises:
            UnknownNameError: the topic is not registered.
            BagWriteError: the bag is not open, or the disk does not accept the data.
        """
        file = self._opened()
        if topic not in self._ids:
            raise UnknownNameError("topic", topic, tuple(self._ids))
        try:
            file.write(self._ids[topic], stamp_ns, raw)
        except Exception as error:  # same as _failures, whose context manager would cost a microsecond per message
            raise BagWriteError(f"cannot write '{topic}' to the bag {self.folder}: {error}") from error
        self.counts[topic] += 1
        self._first_ns, self._last_ns = min(self._first_ns, stamp_ns), max(self._last_ns, stamp_ns)
        if time.monotonic() >= self._next_flush:
            self.flush()

    def write_many(self, batches: Mapping[str, Batch]) -> None:
        """Write many messages at once.

        Time is divided into short intervals, and the messages of each interval are written one topic after another. So
        the topics are interleaved in the file.

        Args:
            batches: for each topic, ascending log times (N,) [ns] and serialized messages of one size (N, size), as
                returned by `JointStateEncoder.encode_many`. Instead of the messages, a function may be given that takes
                a slice of the N indices and returns the encoded messages. This is faster, because the messages of one
                interval stay in the processor's cache.

        Raises:
            UnknownNameError: a topic is not registered.
            BagWriteError: the bag is not open, or the disk does not accept the data.
        """
        file = self._opened()
        if unknown := [topic for topic in batches if topic not in self._ids]:
            raise UnknownNameError("topic", unknown[0], tuple(self._ids))
        filled = {topic: batch for topic, batch in batches.items() if len(batch[0])}
        if not filled:
            return
        first, last = min(log[0] for log, _ in filled.values()), max(log[-1] for log, _ in filled.values())
        edges = np.arange(first, last + _SLICE_NS, _SLICE_NS)
        cuts = {topic: [*np.searchsorted(log, edges), len(log)] for topic, (log, _) in filled.items()}
        with self._failures("write to"):
            for index in range(len(edges)):
                for topic, (log, rows) in filled.items():
                    part = slice(cuts[topic][index], cuts[topic][index + 1])
                    content, identifier = rows(part) if callable(rows) else rows[part], self._ids[topic]
                    for stamp_ns, row in zip(log[part].tolist(), content, strict=True):
                        file.write(identifier, stamp_ns, row.data)
                    self.counts[topic] += len(content)
                file.flush()
        self._first_ns, self._last_ns = min(self._first_ns, int(first)), max(self._last_ns, int(last))
        self.flush()

    def flush(self) -> None:
        """Write all pending data to the files, so that they survive if the process is killed.

        Raises:
            BagWriteError: the bag is not open, or the disk does not accept the data.
        """
        file = self._opened()
        with self._failures("flush"):
            yield_processor()
            file.flush()
            yield_processor()
            write_metadata(self.folder, self._metadata(provisional=True))
        self._next_flush = time.monotonic() + self._flush_interval_s

    def close(self) -> None:
        """Write the index and the final metadata.yaml, and close the bag; a second call does nothing.

        A closed bag survives a loss of power: its data, metadata.yaml and file names are on the disk.

        Raises:
            BagWriteError: the disk does not accept the data.
        """
        file, self._file = self._file, None
        if file is None:
            return
        try:
            with self._failures("finish"):
                metadata = self._metadata(provisional=False)
                file.close(metadata)
                write_metadata(self.folder, metadata, durable=True)
                sync_folder(self.folder.parent)
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    @property
    def _file_name(self) -> str:
        return f"{self.folder.name}{STORAGE_SUFFIXES[self.storage]}"

    @contextmanager
    def _failures(self, doing: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # sqlite3.Error, OSError or any other error of the storage
            raise BagWriteError(f"cannot {doing} the bag {self.folder}: {error}") from error

    def _check(self, topic: Topic, present: Container[str]) -> None:
        if topic.name in present:
            raise ConfigurationError(f"topic '{topic.name}' is in the bag {self.folder} already")
        if topic.message_type not in type_store().types:
            package = topic.message_type.split("/")[0] + "/"
            known = tuple(sorted(name for name in type_store().types if name.startswith(package)))
            raise UnknownNameError("message type", topic.message_type, known)

    def _opened(self) -> DataFile:
        if self._file is None:
            raise BagWriteError(f"the bag {self.folder} is not open; call open() first")
        return self._file

    def _metadata(self, *, provisional: bool) -> str:
        span_ns = (self._first_ns, self._last_ns) if any(self.counts.values()) else None
        return metadata_text(self.storage, self._file_name, self._topics, self.counts, span_ns, provisional=provisional)
