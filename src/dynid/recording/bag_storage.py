"""rosbags' storage writers, made to survive SIGKILL. The only place that depends on how rosbags works inside.

Used of rosbags beyond its documentation: `Writer.STORAGE_PLUGINS`, `.storage`, `.counts`, `.min_timestamp`;
`Sqlite3Writer.conn`, `.cursor`; `McapWriter.bio`, `.chunk`, `.chunks`, `.close_chunk`, `.compression`, `.compressor`,
`.channel_stats`, `PendingChunk`. test_bag_writer.py notices when they change.
"""

import struct
from collections import defaultdict
from collections.abc import Mapping
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.interfaces import Connection
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.rosbag2.enums import CompressionMode
from rosbags.rosbag2.storage_mcap import McapWriter, PendingChunk
from rosbags.rosbag2.storage_sqlite3 import Sqlite3Writer

from dynid.recording.mcap_file import LiveMcapFile

Stamps = NDArray[np.int64]
Rows = NDArray[np.uint8]
_CHUNK_BYTES = 2**20  # as rosbags has it


class CommittingSqlite3Writer(Sqlite3Writer):
    """A sqlite3 storage that keeps what was flushed."""

    def __init__(self, path: Path, compression: CompressionMode) -> None:
        super().__init__(path, compression)
        # Survives the death of the process, not of the machine; waiting for the disk would stall the recorder.
        self.conn.execute("PRAGMA synchronous=OFF")

    def write_rows(self, connection: Connection, stamps_ns: Stamps, rows: Rows) -> None:
        """Write N messages of one size: stamps (N,) [ns], bytes (N, size)."""
        values = ((connection.id, stamp, row.tobytes()) for stamp, row in zip(stamps_ns.tolist(), rows, strict=True))
        self.cursor.executemany("INSERT INTO messages (topic_id, timestamp, data) VALUES(?, ?, ?)", values)

    def flush(self, version: int, metadata: str) -> None:
        """Commit everything written so far."""
        self.conn.commit()


class _Memory(BytesIO):
    """Takes what is meant for a file from `start` on; keeps its content when closed."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self._start = start
        self.content = b""

    def tell(self) -> int:
        return self._start + super().tell()

    def close(self) -> None:
        if not self.closed:
            self.content = self.getvalue()
        super().close()


class FlushingMcapWriter(McapWriter):
    """An MCAP storage whose file has a valid index and footer at every moment, of what the last flush brought there.

    Chunks and indices are composed in memory; what cannot be written (disk full) changes nothing in the file.
    """

    def __init__(self, path: Path, compression: CompressionMode) -> None:
        super().__init__(path, compression)
        self._stream = self.bio.detach()  # unbuffered: nothing may linger that is written later, in the wrong place
        self._file = LiveMcapFile(self._stream.fileno(), self._index)
        self._version, self._metadata = 0, ""

    def close_chunk(self) -> None:
        """Write the pending chunk.

        The same bytes as rosbags writes, of which the message index alone would take it as long as all the rest.
        """
        content, summary = self._chunk_records()
        self._file.append(content)
        self.chunks.append(BytesIO())
        self.chunks[-1].write(summary)  # its position tells rosbags its length
        self.chunk = _no_chunk()

    def _chunk_records(self) -> tuple[bytes, bytes]:
        """The pending chunk with its message indices, and the content of its record in the summary (MCAP format)."""
        chunk, compression = self.chunk, self.compression.encode()
        compressed = self.compressor(chunk.bio.getvalue())
        span = struct.pack("<QQ", chunk.message_start_time, chunk.message_end_time)
        kind = struct.pack("<I", len(compression)) + compression
        head = span + struct.pack("<QI", chunk.bio.tell(), 0) + kind + struct.pack("<Q", len(compressed))
        parts = [struct.pack("<BQ", 0x06, len(head) + len(compressed)), head, compressed]
        start = self._file.end
        end = indices = start + sum(map(len, parts))
        offsets = b""
        for channel, messages in chunk.msgs.items():
            pairs = struct.pack(f"<{2 * len(messages)}Q", *chain.from_iterable(messages))
            offsets += struct.pack("<HQ", channel, end)
            parts += [struct.pack("<BQHI", 0x07, 6 + len(pairs), channel, len(pairs)), pairs]
            end += 15 + len(pairs)
        place = struct.pack("<QQI", start, indices - start, len(offsets))
        sizes = struct.pack("<QQ", len(compressed), chunk.bio.tell())
        return b"".join(parts), span + place + offsets + struct.pack("<Q", end - indices) + kind + sizes

    def write_rows(self, connection: Connection, stamps_ns: Stamps, rows: Rows) -> None:
        """Write N messages of one size into the pending chunk: stamps (N,) [ns], bytes (N, size)."""
        head = [("kind", "u1"), ("length", "<u8"), ("channel", "<u2"), ("sequence", "<u4")]
        times = [("log", "<u8"), ("publish", "<u8")]
        records = np.empty(len(rows), dtype=[*head, *times, ("data", "u1", rows.shape[1])])
        records["kind"], records["length"], records["sequence"] = 0x05, 22 + rows.shape[1], 0
        records["channel"], records["data"] = connection.id, rows
        records["log"] = records["publish"] = stamps_ns
        start, size = self.chunk.bio.tell(), records.itemsize
        stamps = stamps_ns.tolist()
        self.chunk.msgs[connection.id].extend(zip(stamps, range(start, start + size * len(rows), size), strict=True))
        self.chunk.bio.write(records.data.cast("B"))
        self.channel_stats[connection.id] += len(rows)
        first, last = min(stamps), max(stamps)
        for span in (self, self.chunk):
            span.message_start_time = min(first, span.message_start_time)
            span.message_end_time = max(last, span.message_end_time)
        if self.chunk.bio.tell() > _CHUNK_BYTES:
            self.close_chunk()

    def flush(self, version: int, metadata: str) -> None:
        """Write everything so far to the file, then an index of it."""
        if self.chunk.msgs:
            self.close_chunk()
        # What remains are topics without a message yet: the index names them, their chunk stays pending.
        self._version, self._metadata = version, metadata
        self._file.publish()

    def close(self, version: int, metadata: str) -> None:
        """Write the final index and footer."""
        try:
            if self.chunk.bio.tell():
                self.close_chunk()
            self._version, self._metadata = version, metadata
            self._file.finish()
        finally:
            self._stream.close()

    def abort(self) -> None:
        """Close as the last flush left it."""
        self._stream.close()

    def _index(self, start: int) -> bytes:
        """Everything behind the chunks of a finished file, if it begins at `start`; without the pending chunk."""
        memory, pending, counts = _Memory(start), self.chunk, self.channel_stats.copy()
        self.bio = memory  # type: ignore[assignment]
        self.chunk = _no_chunk()
        for channel, messages in pending.msgs.items():
            self.channel_stats[channel] -= len(messages)
        try:
            McapWriter.close(self, self._version, self._metadata)
        finally:
            self.chunk, self.channel_stats = pending, counts
        return memory.content


def _no_chunk() -> PendingChunk:
    return PendingChunk(2**63 - 1, 0, BytesIO(), defaultdict(list))


class SurvivingWriter(Writer):
    """rosbags' Writer on storages that can be flushed."""

    STORAGE_PLUGINS: Mapping[StoragePlugin, Any] = {
        StoragePlugin.SQLITE3: CommittingSqlite3Writer,
        StoragePlugin.MCAP: FlushingMcapWriter,
    }

    @property
    def data_file(self) -> Path:
        """The file that holds the messages; the bag must be open."""
        assert self.storage is not None
        return self.storage.path

    def write_rows(self, connection: Connection, stamps_ns: Stamps, rows: Rows) -> None:
        """Write N messages of one size: stamps (N,) [ns], bytes (N, size)."""
        storage: Any = self.storage
        storage.write_rows(connection, stamps_ns, rows)
        self.counts[connection.id] += len(rows)
        self.min_timestamp = min(self.min_timestamp, int(stamps_ns.min()))
        self.max_timestamp = max(self.max_timestamp, int(stamps_ns.max()))

    def flush(self, metadata: str) -> None:
        """Bring everything written so far into the file."""
        storage: Any = self.storage
        storage.flush(self.version, metadata)
