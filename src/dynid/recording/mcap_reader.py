"""Reads MCAP files front to back, whole or cut off: a killed recorder leaves no index, and maybe a cut last record.

What records hold, and how chunks are compressed, is read by the mcap library. The walk from record to record is our
own: the library's makes an object of each message and of each entry of every index, and takes ten times as long.
Record format: https://mcap.dev/spec
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

import lz4.frame  # type: ignore[import-untyped]
import numpy as np
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Schema
from mcap.stream_reader import get_chunk_data_stream
from mcap.writer import MCAP0_MAGIC
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.recording.bag_metadata import Topic, topic_of
from dynid.recording.mcap_kernels import message_run
from dynid.recording.raw_messages import Block

MOST_CHUNK_BYTES, MOST_RATIO = 64 * 2**20, 1000
_RECORD = Struct("<BQ")


@dataclass
class McapContent:
    """All whole records of an MCAP file.

    Attributes:
        topics: by channel id.
        blocks: messages per channel id, in file order.
        complete: the file ends with a footer.
        lost_bytes: length of the cut record at the end.
    """

    topics: dict[int, Topic] = field(default_factory=dict)
    blocks: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))
    complete: bool = False
    lost_bytes: int = 0


def read_mcap(path: Path) -> McapContent:
    """Read a file; everything up to the first record that is cut off.

    Raises:
        DataError: not an MCAP file, or damaged in a way that a kill does not explain.
    """
    data = path.read_bytes()  # not mapped: of a mapped file that somebody cuts shorter, a reader dies by SIGBUS
    if not data.startswith(MCAP0_MAGIC):
        raise DataError(f"{path} is not an MCAP file: it does not start with MCAP's magic bytes")
    content = McapContent()
    try:
        end = _walk(data, len(MCAP0_MAGIC), content, {}, top=True)
    except Exception as error:  # whatever the library and its decompressors raise
        raise DataError(f"{path} is damaged: {error}; none of its records was used") from error
    content.lost_bytes = len(data) - end
    return content


def _walk(data: bytes, position: int, content: McapContent, types: dict[int, str], *, top: bool) -> int:
    """Take the records of a file or chunk; returns where the last whole one ends."""
    raw, view = np.frombuffer(data, dtype=np.uint8), memoryview(data)
    while True:
        position = _take_messages(raw, position, content)
        if position + _RECORD.size > len(data):
            break
        kind, length = _RECORD.unpack_from(data, position)
        start = position + _RECORD.size
        end = start + length
        if end > len(data):
            break
        if kind == Opcode.MESSAGE:
            raise DataError(f"a message record of {length} bytes is shorter than its header")
        if kind == Opcode.CHUNK and top:
            chunk = Chunk.read(_stream(view[start:end]))
            _refuse_bomb(chunk)
            stream, size = get_chunk_data_stream(chunk, validate_crc=True)
            _walk(stream.read(size), 0, content, types, top=False)
        elif kind == Opcode.SCHEMA:
            schema = Schema.read(_stream(view[start:end]))
            types[schema.id] = schema.name
        elif kind == Opcode.CHANNEL:
            _add_topic(Channel.read(_stream(view[start:end])), content, types)
        elif kind == Opcode.FOOTER and top:
            content.complete = data[end:] == MCAP0_MAGIC
            return len(data) if content.complete else end
        position = end
    if not top and position != len(data):
        raise DataError("a chunk ends within a record")
    return position


def _take_messages(raw: NDArray[np.uint8], position: int, content: McapContent) -> int:
    """Take the messages from a position on; returns where the last of them ends."""
    found = message_run(raw, position)
    if not len(found):
        return position
    if found[:, 1].min() < 0:
        raise DataError("the log time of a message is beyond 63 bits")
    for channel in np.unique(found[:, 0]).tolist():
        own = found[found[:, 0] == channel]
        content.blocks[channel].append(Block(raw, own[:, 1], own[:, 2], own[:, 3]))
    return int(found[-1, 3])


def _refuse_bomb(chunk: Chunk) -> None:
    """Raise DataError where a chunk says, or its frame does, that it becomes larger than chunks are."""
    size = chunk.uncompressed_size
    if chunk.compression == "zstd":
        size = max(size, zstandard.frame_content_size(chunk.data))
    elif chunk.compression == "lz4":
        size = max(size, int(lz4.frame.get_frame_info(chunk.data)["content_size"]))
    if size > min(MOST_CHUNK_BYTES, MOST_RATIO * len(chunk.data) + 2**20):
        raise DataError(f"a chunk of {len(chunk.data)} bytes becomes {size} bytes, expected at most {MOST_CHUNK_BYTES}")


class _Record:
    """A record's bytes as a stream that hands out views: a copy of every chunk is a copy of the bag."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    def read(self, size: int) -> memoryview:
        """The next `size` bytes, fewer at the end."""
        found, self._view = self._view[:size], self._view[size:]
        return found


def _stream(record: memoryview) -> ReadDataStream:
    return ReadDataStream(_Record(record))  # type: ignore[arg-type]  # of a stream, only `read` is used


def _add_topic(channel: Channel, content: McapContent, types: dict[int, str]) -> None:
    if channel.message_encoding != "cdr":
        raise DataError(f"topic '{channel.topic}' is encoded as '{channel.message_encoding}', expected 'cdr'")
    qos = channel.metadata.get("offered_qos_profiles", "")
    content.topics[channel.id] = topic_of(channel.topic, types.get(channel.schema_id, ""), qos)
