"""rosbags' storage writers, made to survive SIGKILL. The only place that depends on how rosbags works inside.

Used of rosbags beyond its documentation: `Writer.STORAGE_PLUGINS`, `Writer.storage`, `Sqlite3Writer.conn`,
`McapWriter.bio`, `McapWriter.chunk.msgs`, `McapWriter.close_chunk`. test_bag_storage.py notices when they change.
"""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.rosbag2.enums import CompressionMode
from rosbags.rosbag2.storage_mcap import McapWriter
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


class _Tail(BytesIO):
    """Takes the end of an MCAP file, as if it were written at `start`; keeps its content when closed."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self._start = start
        self.content = b""

    def tell(self) -> int:
        return self._start + super().tell()

    def close(self) -> None:
        self.content = self.getvalue()
        super().close()


class FlushingMcapWriter(McapWriter):
    """An MCAP storage whose file is complete, index and footer included, after every flush.

    The index written by a flush is cut off again right before the next chunk is written.
    """

    def close_chunk(self) -> None:
        """Write the pending chunk in place of the index of the last flush."""
        self.bio.truncate(self.bio.tell())
        super().close_chunk()

    def flush(self, version: int, metadata: str) -> None:
        """Write everything so far to the file, then an index and footer that the next chunk will replace."""
        if self.chunk.msgs:
            self.close_chunk()
        if self.chunk.bio.tell():
            return  # topics without any message yet: they are in metadata.yaml
        file, tail = self.bio, _Tail(self.bio.tell())
        self.bio = tail  # type: ignore[assignment]
        try:
            super().close(version, metadata)
        finally:
            self.bio = file
        end = file.tell()
        file.truncate(end)
        file.write(tail.content)
        file.flush()
        file.seek(end)

    def close(self, version: int, metadata: str) -> None:
        """Write the final index and footer."""
        self.bio.truncate(self.bio.tell())
        super().close(version, metadata)


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
