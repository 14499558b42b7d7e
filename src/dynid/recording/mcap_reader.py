"""Reader of MCAP files from front to back, so that files without an index or with a truncated end are readable.

A killed recorder leaves such files. The mcap library decodes the contents of records, but this module iterates over
them. The library's iteration takes ten times as long, because it creates an object for each message and index entry.
Record format: https://mcap.dev/spec
"""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from struct import Struct

import numpy as np
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Schema
from mcap.writer import MCAP0_MAGIC
from numpy.typing import NDArray

from dynid.errors import ConfigurationError, DataError, cut, one_line
from dynid.recording.bag_budget import BagBudget, BagBudgetError
from dynid.recording.bag_metadata import Topic, topic_of
from dynid.recording.mcap_kernels import copy_slices, message_run
from dynid.recording.raw_messages import Block, from_blocks
from dynid.recording.unpack import unpacked_chunk

MOST_RECORDS, CHANNEL_RECORDS = 500_000, 50  # maximum number of records of some 10 us each; a channel counts as 50
_MESSAGE_OVERHEAD = 80  # memory for position, time and size of a message while topics are assembled [bytes]
RECORD = Struct("<BQ")  # start of a record: opcode and length of its content


@dataclass
class McapContent:
    """Contents of all complete records of an MCAP file.

    Attributes:
        budget: memory limit of the bag, which also counts the memory of these contents.
        topics: topics by channel ID.
        blocks: messages by channel ID, in file order.
        complete: whether the file ends with a footer.
        lost_bytes: length of the truncated record at the end [bytes].
        described: bytes of the last channel record of each channel, by channel ID.
        types: message types by schema ID.
        records: number of records decoded in Python. A channel with a new description counts as fifty, because it takes
            longer to decode.
    """

    budget: BagBudget
    topics: dict[int, Topic] = field(default_factory=dict)
    blocks: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))
    complete: bool = False
    lost_bytes: int = 0
    described: dict[int, bytes] = field(default_factory=dict)
    types: dict[int, str] = field(default_factory=dict)
    records: int = 0

    def count(self, records: int) -> None:
        """Add `records` to the number of decoded records, which is limited because decoding takes time.

        Raises:
            DataError: there are more than `MOST_RECORDS`.
        """
        self.records += records
        if self.records > MOST_RECORDS:
            raise DataError(
                f"it holds more than {MOST_RECORDS} chunks and schemas, or more than {MOST_RECORDS // CHANNEL_RECORDS} "
                "channels"
            )


def read_mcap(path: Path, budget: BagBudget | None = None) -> McapContent:
    """Read an MCAP file up to its first truncated record.

    Args:
        path: the file.
        budget: memory limit of the bag that the file belongs to; None if the file is the whole bag.

    Raises:
        DataError: not an MCAP file, beyond the memory limit, or damaged; a truncated end is permitted.
    """
    budget = budget or BagBudget(path, [path])
    budget.take(path.stat().st_size)
    # Not memory-mapped: if another process truncates a mapped file, its reader dies by SIGBUS.
    return mcap_content(path, path.read_bytes(), budget)


def mcap_content(path: Path, data: bytes, budget: BagBudget) -> McapContent:
    """Decode the bytes of an MCAP file; `budget` limits the memory that its decompressed chunks and messages take.

    Raises:
        DataError: the content is invalid, see `read_mcap`.
        ConfigurationError: the compiled functions cannot be loaded.
    """
    _load_compiled()
    if not data.startswith(MCAP0_MAGIC):
        raise DataError(f"{path} is not an MCAP file: it does not start with MCAP's magic bytes")
    content = McapContent(budget)
    try:
        end = _walk(data, len(MCAP0_MAGIC), content, top=True)
    except BagBudgetError:
        raise
    except Exception as error:  # any error of the library and its decompressors
        raise DataError(f"{path} is damaged: {error}; none of its records was used") from error
    content.lost_bytes = len(data) - end
    return content


@cache
def _load_compiled() -> None:
    """Run the compiled kernels once without messages, so that errors of loading them are not attributed to a bag.

    Raises:
        ConfigurationError: numba's cache of compiled code is damaged; the message says which folder to delete.
    """
    try:
        raw, none = np.frombuffer(MCAP0_MAGIC, dtype=np.uint8), np.zeros((0, 4), dtype=np.int64)
        message_run(raw, len(raw))
        from_blocks([Block(raw, none[:, 1], none[:, 2], none[:, 3])])
    except Exception as error:  # any error of numba, pickle or the operating system
        folders = dict.fromkeys(str(one.stats.cache_path) for one in (message_run, copy_slices))
        raise ConfigurationError(
            f"the cache of compiled code in {', '.join(folders)} is damaged or cannot be read "
            f"({type(error).__name__}: {cut(one_line(str(error)), 200)}): delete that folder and try again"
        ) from error


def _walk(data: bytes | memoryview, position: int, content: McapContent, *, top: bool) -> int:
    """Read the records of a file or chunk into `content`; return the end of the last complete record.

    Args:
        data: bytes of the file or chunk.
        position: position of the first record.
        content: receives the contents of the records.
        top: whether `data` is the whole file. A chunk contains neither chunks nor a footer.
    """
    raw, view = np.frombuffer(data, dtype=np.uint8), memoryview(data)
    while True:
        position = _take_messages(raw, position, content)
        content.count(1)
        if position + RECORD.size > len(data):
            break
        kind, length = RECORD.unpack_from(data, position)
        start = position + RECORD.size
        end = start + length
        if end > len(data):
            break
        if kind == Opcode.MESSAGE:
            raise DataError(f"a message record of {length} bytes is shorter than its header")
        if kind == Opcode.CHUNK and top:
            chunk = Chunk.read(record_stream(view[start:end]))
            _walk(unpacked_chunk(chunk, content.budget), 0, content, top=False)
        elif kind == Opcode.SCHEMA:
            schema = Schema.read(record_stream(view[start:end]))
            content.types[schema.id] = schema.name
        elif kind == Opcode.CHANNEL:
            _add_topic(view[start:end], content)
        elif kind == Opcode.FOOTER and top:
            content.complete = data[end:] == MCAP0_MAGIC
            return len(data) if content.complete else end
        position = end
    if not top and position != len(data):
        raise DataError("a chunk ends within a record")
    return position


def _take_messages(raw: NDArray[np.uint8], position: int, content: McapContent) -> int:
    """Store the successive message records that start at a position; return the position after the last one.

    Args:
        raw: bytes of the file or chunk.
        position: position of the first record.
        content: receives the messages.
    """
    found, position = message_run(raw, position)
    if not len(found):
        return position
    content.budget.take(int((found[:, 3] - found[:, 2]).sum()) + _MESSAGE_OVERHEAD * len(found))
    if found[:, 1].min() < 0:
        raise DataError("the log time of a message is beyond 63 bits")
    channels = found[:, 0].astype(np.uint16)  # for this type numpy uses the faster radix sort
    order = np.argsort(channels, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(channels[order])) + 1):
        own = found[rows]
        content.blocks[int(own[0, 0])].append(Block(raw, own[:, 1], own[:, 2], own[:, 3]))
    return position


class _Record:
    """Minimal input stream over the bytes of a record; it returns views, so that no chunk is copied."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    def read(self, size: int) -> memoryview:
        """Return the next `size` bytes, fewer at the end."""
        found, self._view = self._view[:size], self._view[size:]
        return found


def record_stream(record: bytes | memoryview) -> ReadDataStream:
    """Wrap the bytes of a record in a stream from which the mcap library can decode it."""
    return ReadDataStream(_Record(memoryview(record)))  # type: ignore[arg-type]  # of a stream, only `read` is used


def _add_topic(record: memoryview, content: McapContent) -> None:
    """Store the topic that a channel record describes; skip identical repetitions of the record."""
    identifier = int.from_bytes(record[:2], "little")
    described = bytes(record)
    if content.described.get(identifier) == described:
        return
    content.described[identifier] = described
    content.count(CHANNEL_RECORDS)
    channel = Channel.read(record_stream(record))
    if channel.message_encoding != "cdr":
        raise DataError(f"topic '{channel.topic}' is encoded as '{channel.message_encoding}', expected 'cdr'")
    qos = channel.metadata.get("offered_qos_profiles", "")
    content.topics[channel.id] = topic_of(channel.topic, content.types.get(channel.schema_id, ""), qos)
