"""rosbags' storage writers, made to survive SIGKILL. The only place that depends on how rosbags works inside.

Used of rosbags beyond its documentation: `Writer.STORAGE_PLUGINS`, `Writer.storage`, `Sqlite3Writer.conn`,
`McapWriter.bio`, `McapWriter.chunk`, `McapWriter.close_chunk`, `PendingChunk`. test_bag_writer.py notices when they
change.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.rosbag2.enums import CompressionMode
from rosbags.rosbag2.storage_mcap import McapWriter, PendingChunk
from rosbags.rosbag2.storage_sqlite3 import Sqlite3Writer


class CommittingSqlite3Writer(Sqlite3Writer):
    """A sqlite3 storage that keeps what was flushed."""

    def __init__(self, path: Path, compression: CompressionMode) -> None:
        super().__init__(path, compression)
        # Survives the death of the process, not of the machine; waiting for the disk would stall the recorder.
        self.conn.execute("PRAGMA synchronous=OFF")

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
    """An MCAP storage whose file is complete, index and footer included, after every flush.

    The next chunk replaces the index of the flush before it. Chunks and indices are composed in memory and written in
    one piece; one that cannot be written (disk full) leaves the file as the last flush left it.
    """

    def __init__(self, path: Path, compression: CompressionMode) -> None:
        super().__init__(path, compression)
        self._file = self.bio.detach()  # unbuffered: nothing may linger that is written later, in the wrong place
        self._file.seek(0, 2)
        self._end = self._file.tell()  # of the last whole chunk
        self._index = b""  # what lies behind it

    def close_chunk(self) -> None:
        """Write the pending chunk in place of the last index."""
        pending, chunks = self.chunk, len(self.chunks)
        content = self._composed(super().close_chunk)
        try:
            self._replace_index(content)
        except OSError:
            self.chunk = pending
            del self.chunks[chunks:]
            raise
        self._end += len(content)
        self._index = b""

    def flush(self, version: int, metadata: str) -> None:
        """Write everything so far to the file, then an index and footer that the next chunk will replace."""
        if self.chunk.msgs:
            self.close_chunk()
        # What remains are topics without a message yet: the index names them, their chunk stays pending.
        pending, self.chunk = self.chunk, PendingChunk(2**63 - 1, 0, BytesIO(), defaultdict(list))
        try:
            self._write_index(version, metadata)
        finally:
            self.chunk = pending

    def close(self, version: int, metadata: str) -> None:
        """Write the final index and footer."""
        try:
            if self.chunk.bio.tell():
                self.close_chunk()
            self._write_index(version, metadata)
        finally:
            self._file.close()

    def abort(self) -> None:
        """Close as the last flush left it."""
        self._file.close()

    def _write_index(self, version: int, metadata: str) -> None:
        index = self._composed(lambda: McapWriter.close(self, version, metadata))
        self._replace_index(index)
        self._index = index

    def _composed(self, write: Callable[[], None]) -> bytes:
        """The bytes that `write` would append behind the last whole chunk."""
        memory = _Memory(self._end)
        self.bio = memory  # type: ignore[assignment]
        write()
        memory.close()
        return memory.content

    def _replace_index(self, content: bytes) -> None:
        try:
            self._put(content)
        except OSError:
            self._put(self._index)  # fitted before
            raise

    def _put(self, content: bytes) -> None:
        self._file.truncate(self._end)
        self._file.seek(self._end)
        rest = memoryview(content)
        while rest:
            rest = rest[self._file.write(rest) :]


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

    def flush(self, metadata: str) -> None:
        """Bring everything written so far into the file."""
        storage: Any = self.storage
        storage.flush(self.version, metadata)
