"""Writers of a rosbag2 bag's data file: an MCAP file (by the mcap library) or an sqlite3 database.

Flushed data survive a crash of the process, but not a loss of power, because waiting for the disk would stall the
recorder. A closed file survives both.
"""

import os
import sqlite3
from pathlib import Path
from typing import IO, Any, cast

from mcap.writer import CompressionType, Writer

from dynid.durable import sync_file
from dynid.recording.bag_metadata import BAG_VERSION, Topic, definition
from dynid.resources import yaml_text

_PIECE_BYTES = 2**16  # size of a write [bytes]: a non-preemptible kernel runs no other thread during a write


def yield_processor() -> None:
    """Yield the processor to a waiting thread, because control is more urgent than recording."""
    os.sched_yield()


class _Appended:
    """Output stream for an MCAP writer that appends all pending bytes to a file at every flush.

    If a write fails, the file is cut to its previous length, and the bytes stay pending for the next flush.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._size, self._pending = 0, bytearray()

    def write(self, data: bytes) -> int:
        self._pending += data
        return len(data)

    def tell(self) -> int:
        return self._size + len(self._pending)

    def flush(self) -> None:
        rest, position = memoryview(bytes(self._pending)), self._size
        try:
            while rest:
                written = os.pwrite(self._descriptor, rest[:_PIECE_BYTES], position)
                position, rest = position + written, rest[written:]
                yield_processor()
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size = position
        self._pending.clear()

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class McapFile:
    """Writer of an MCAP data file, which grows by whole chunks; closing writes the index and the footer."""

    def __init__(self, path: Path) -> None:
        self._stream = _Appended(path)
        self._writer = Writer(cast(IO[Any], self._stream), compression=CompressionType.NONE, enable_crcs=False)
        self._writer.start("ros2")
        self._schemas: dict[str, int] = {}
        self.flush()

    def add_topic(self, topic: Topic) -> int:
        """Register a topic and return its ID."""
        kind = topic.message_type
        if kind not in self._schemas:
            self._schemas[kind] = self._writer.register_schema(kind, "ros2msg", definition(kind)[0].encode())
        qos = {"offered_qos_profiles": yaml_text(topic.offered_qos())}
        return self._writer.register_channel(topic.name, "cdr", self._schemas[kind], qos)

    def write(self, topic: int, stamp_ns: int, raw: bytes | memoryview) -> None:
        """Add a serialized message of a registered topic, with its log time [ns]."""
        self._writer.add_message(topic, stamp_ns, cast(bytes, raw), stamp_ns)

    def flush(self) -> None:
        """Write all pending messages to the file."""
        self._writer.flush()

    def close(self, metadata: str) -> None:
        """Write the remaining messages, the bag's metadata, the index and the footer, and close the file.

        `metadata` is the text of the bag's metadata.yaml, which is stored in the file, too. The call returns when the
        file is on the disk.
        """
        try:
            self.flush()
            self._writer.add_metadata("rosbag2", {"serialized_metadata": metadata})
            self._writer.finish()
            self._stream.flush()
            self._stream.sync()
        finally:
            self._stream.close()


class SqliteFile:
    """Writer of an SQLite data file, with the tables that rosbag2 has used since ROS 2 Iron."""

    TABLES = """
        CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);
        CREATE TABLE metadata(id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL, metadata TEXT NOT NULL);
        CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
            serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL,
            type_description_hash TEXT NOT NULL);
        CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL, encoding TEXT NOT NULL,
            encoded_message_definition TEXT NOT NULL, type_description_hash TEXT NOT NULL);
        CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL,
            data BLOB NOT NULL);
        CREATE INDEX timestamp_idx ON messages (timestamp ASC);
        INSERT INTO schema VALUES (4, 'rosbags');
    """

    def __init__(self, path: Path) -> None:
        self._path, self._database = path, sqlite3.connect(path)
        self._database.execute("PRAGMA synchronous=OFF")
        self._database.executescript(self.TABLES)
        self._insert = self._database.cursor().execute

    def add_topic(self, topic: Topic) -> int:
        """Register a topic and return its ID."""
        text, digest = definition(topic.message_type)
        types = self._insert("SELECT 1 FROM message_definitions WHERE topic_type = ?", (topic.message_type,))
        if not types.fetchone():
            defined = (topic.message_type, "ros2msg", text, digest)
            self._insert("INSERT INTO message_definitions VALUES (NULL, ?, ?, ?, ?)", defined)
        row = (topic.name, topic.message_type, "cdr", yaml_text(topic.offered_qos()), digest)
        return int(self._insert("INSERT INTO topics VALUES (NULL, ?, ?, ?, ?, ?)", row).lastrowid or 0)

    def write(self, topic: int, stamp_ns: int, raw: bytes | memoryview) -> None:
        """Add a serialized message of a registered topic, with its log time [ns]."""
        self._insert("INSERT INTO messages (topic_id, timestamp, data) VALUES (?, ?, ?)", (topic, stamp_ns, raw))

    def flush(self) -> None:
        """Commit all messages written so far."""
        self._database.commit()

    def close(self, metadata: str) -> None:
        """Store the metadata, close the database, and wait until it is on the disk."""
        self._insert("INSERT INTO metadata VALUES (NULL, ?, ?)", (BAG_VERSION, metadata))
        self._database.commit()
        self._database.close()
        sync_file(self._path)  # the journal's removal is durable once the folder is synchronised


DataFile = McapFile | SqliteFile
"""Data file of either storage; its methods raise the errors of the underlying library."""
