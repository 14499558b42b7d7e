"""Writes rosbag2 bags (version 9, as of ROS 2 Jazzy) from serialized messages, without ROS.

A process that is killed loses at most the last `flush_interval_s`: until then data, index and metadata.yaml are in the
files. Bags open in `ros2 bag`, Foxglove, PlotJuggler and rosbags.
"""

import fcntl
import os
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from rosbags.interfaces import (
    Connection,
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import StoragePlugin

from dynid.errors import BagWriteError, ConfigurationError, UnknownNameError
from dynid.recording.bag_metadata import BAG_VERSION, bag_information, dump_information, write_metadata
from dynid.recording.bag_storage import Rows, Stamps, SurvivingWriter
from dynid.recording.mcap_file import give_way
from dynid.recording.messages import type_store
from dynid.resources import refuse_existing

Storage = Literal["mcap", "sqlite3"]
Reliability = Literal["reliable", "best_effort", "latched"]
Batch = tuple[Stamps, Rows | Callable[[slice], Rows]]
_STORAGES = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}
_SLICE_NS = 200_000_000  # of topics written in bulk
_FOREVER = QosTime(9223372036, 854775807)  # rmw's infinite duration


@dataclass(frozen=True)
class Topic:
    """A topic to record: name, message type ("sensor_msgs/msg/JointState"), quality of service.

    "latched" is reliable and transient local: late subscribers get the last message, also when a bag is played.
    """

    name: str
    message_type: str
    qos: Reliability = "reliable"
    depth: int = 10

    def offered_qos(self) -> Qos:
        """The quality of service as rosbag2 stores it."""
        best_effort = self.qos == "best_effort"
        return Qos(
            history=QosHistory.KEEP_LAST,
            depth=self.depth,
            reliability=QosReliability.BEST_EFFORT if best_effort else QosReliability.RELIABLE,
            durability=QosDurability.TRANSIENT_LOCAL if self.qos == "latched" else QosDurability.VOLATILE,
            deadline=_FOREVER,
            lifespan=_FOREVER,
            liveliness=QosLiveliness.AUTOMATIC,
            liveliness_lease_duration=_FOREVER,
            avoid_ros_namespace_conventions=False,
        )


def lock_folder(folder: Path) -> int | None:
    """Mark a bag's folder as in use until the descriptor is closed or the process ends; None if it already is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


class BagWriter:
    """Writes one bag. Open and close it explicitly, from one thread; `close` in a `finally` keeps all data.

    Args:
        folder: the bag's folder; it must not exist yet.
        topics: what will be written; more can be added with `add_topic`.
        storage: "mcap" (Jazzy's default) or "sqlite3".
        flush_interval_s: how often everything is brought to the files [s].

    Raises:
        OutputExistsError: the folder exists.
        ConfigurationError: unknown storage, or a topic twice.
        UnknownNameError: a message type that is not one of ROS 2 Jazzy.
    """

    def __init__(
        self,
        folder: Path | str,
        topics: Iterable[Topic] = (),
        storage: Storage = "mcap",
        flush_interval_s: float = 0.5,
    ) -> None:
        if storage not in _STORAGES:
            raise ConfigurationError(f"unknown bag storage '{storage}'; expected one of {', '.join(_STORAGES)}")
        self.folder = Path(folder)
        refuse_existing(self.folder)
        self.storage = storage
        self._planned = tuple(topics)
        for index, topic in enumerate(self._planned):
            self._check(topic, {earlier.name for earlier in self._planned[:index]})
        self._flush_interval_s = flush_interval_s
        self._writer: SurvivingWriter | None = None
        self._connections: dict[str, Connection] = {}
        self._counts: dict[str, int] = {}
        self._next_flush = 0.0
        self._lock: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether messages can be written."""
        return self._writer is not None

    @property
    def counts(self) -> dict[str, int]:
        """Messages written per topic, also after closing."""
        return dict(self._counts)

    def open(self) -> None:
        """Create the folder, register the topics, write the provisional metadata.yaml.

        Raises:
            OutputExistsError: the folder came into existence meanwhile.
            BagWriteError: the folder cannot be written.
        """
        if self._writer is not None:
            raise BagWriteError(f"the bag {self.folder} is open already")
        refuse_existing(self.folder)
        writer = SurvivingWriter(self.folder, version=BAG_VERSION, storage_plugin=_STORAGES[self.storage])
        try:
            writer.open()
        except OSError as error:
            raise BagWriteError(f"cannot write a bag to {self.folder}: {error}") from error
        self._writer, self._lock = writer, lock_folder(self.folder)
        for topic in self._planned:
            self.add_topic(topic)
        self.flush()

    def add_topic(self, topic: Topic) -> None:
        """Register a topic; the bag must be open.

        Raises:
            UnknownNameError: the message type is not one of ROS 2 Jazzy.
            ConfigurationError: the topic is registered already.
        """
        writer = self._opened()
        self._check(topic, self._connections)
        connection = writer.add_connection(
            topic.name, topic.message_type, typestore=type_store(), offered_qos_profiles=[topic.offered_qos()]
        )
        self._connections[topic.name] = connection
        self._counts[topic.name] = 0

    def write(self, topic: str, stamp_ns: int, raw: bytes | memoryview) -> None:
        """Write one serialized message as it is.

        Args:
            topic: a registered topic.
            stamp_ns: log time [ns since the epoch], normally the time of reception.
            raw: the CDR bytes with their 4-byte header.

        Raises:
            UnknownNameError: the topic is not registered.
            BagWriteError: the bag is not open, or the disk refuses.
        """
        writer = self._opened()
        try:
            connection = self._connections[topic]
        except KeyError:
            raise UnknownNameError("topic", topic, tuple(self._connections)) from None
        try:
            writer.write(connection, stamp_ns, raw)
        except Exception as error:  # sqlite3.Error and OSError alike, whatever a storage raises
            raise BagWriteError(f"cannot write '{topic}' to the bag {self.folder}: {error}") from error
        self._counts[topic] += 1
        if time.monotonic() >= self._next_flush:
            self.flush()

    def write_many(self, batches: Mapping[str, Batch]) -> None:
        """Write many messages at once, several times faster than one by one.

        Args:
            batches: by topic, ascending log times (N,) [ns] and serialized messages of one size (N, size), such as
                `JointStateEncoder.encode_many` gives them, or a function that gives those of a slice: a few at a time
                they never leave the processor's cache. Topics are interleaved in slices of time.

        Raises:
            UnknownNameError: a topic is not registered.
            BagWriteError: the bag is not open, or the disk refuses.
        """
        writer = self._opened()
        for topic in batches:
            if topic not in self._connections:
                raise UnknownNameError("topic", topic, tuple(self._connections))
        filled = {topic: batch for topic, batch in batches.items() if len(batch[0])}
        if not filled:
            return
        edges = np.arange(
            min(stamps[0] for stamps, _ in filled.values()),
            max(stamps[-1] for stamps, _ in filled.values()) + _SLICE_NS,
            _SLICE_NS,
        )
        cuts = {topic: [*np.searchsorted(batch[0], edges), len(batch[0])] for topic, batch in filled.items()}
        try:
            for index in range(len(edges)):
                for topic, (stamps, rows) in filled.items():
                    part = slice(cuts[topic][index], cuts[topic][index + 1])
                    if part.start < part.stop:
                        content = rows(part) if callable(rows) else rows[part]
                        writer.write_rows(self._connections[topic], stamps[part], content)
                        self._counts[topic] += part.stop - part.start
        except Exception as error:  # as in write
            raise BagWriteError(f"cannot write to the bag {self.folder}: {error}") from error
        self.flush()

    def flush(self) -> None:
        """Bring everything written so far to the files, so that it survives a kill; raises BagWriteError."""
        writer = self._opened()
        try:
            information = dump_information(self._information(writer, provisional=True))
            give_way()
            writer.flush(information)
            give_way()
            write_metadata(self.folder, information)
        except Exception as error:  # as in write
            raise BagWriteError(f"cannot flush the bag {self.folder}: {error}") from error
        self._next_flush = time.monotonic() + self._flush_interval_s

    def close(self) -> None:
        """Finish the bag: final index and metadata.yaml; raises BagWriteError. A second call does nothing."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            writer.close()
        except Exception as error:  # as in write
            raise BagWriteError(f"cannot finish the bag {self.folder}: {error}") from error
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _check(self, topic: Topic, present: Container[str]) -> None:
        if topic.name in present:
            raise ConfigurationError(f"topic '{topic.name}' is in the bag {self.folder} already")
        if topic.message_type not in type_store().types:
            package = topic.message_type.split("/")[0] + "/"
            known = tuple(sorted(name for name in type_store().types if name.startswith(package)))
            raise UnknownNameError("message type", topic.message_type, known)

    def _opened(self) -> SurvivingWriter:
        if self._writer is None:
            raise BagWriteError(f"the bag {self.folder} is not open; call open() first")
        return self._writer

    def _information(self, writer: SurvivingWriter, *, provisional: bool) -> dict[str, Any]:
        span = (writer.min_timestamp, writer.max_timestamp) if sum(writer.counts.values()) else None
        return bag_information(
            cast(str, self.storage),
            writer.data_file.name,
            writer.connections,
            writer.counts,
            span,
            provisional=provisional,
        )
