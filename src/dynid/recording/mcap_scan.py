"""Reads MCAP files front to back, whole or cut off: a killed recorder leaves no index, and a cut last record.

rosbags' reader needs the index at the end of the file. This one takes every whole record and says whether the end was
there. It also leaves the messages where they are in the file, which is what makes bulk decoding fast.
Record format: https://mcap.dev/spec
"""

import mmap
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from struct import error as StructError

import numpy as np
from numpy.typing import NDArray
from rosbags.interfaces import Qos
from rosbags.rosbag2 import ReaderError
from rosbags.rosbag2.storage_mcap import decompress, get_qos

from dynid.errors import DataError

MAGIC = b"\x89MCAP0\r\n"
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _STATISTICS, _DATA_END = 0x02, 0x03, 0x04, 0x05, 0x06, 0x0B, 0x0F
_RECORD = Struct("<BQ")
_MESSAGE_HEAD = Struct("<HIQQ")  # channel, sequence, log time, publish time
_CHUNK_HEAD = Struct("<QQQII")  # first, last, size, crc, length of the compression's name
_U16, _U32, _U64 = Struct("<H"), Struct("<I"), Struct("<Q")


@dataclass(frozen=True)
class Channel:
    """A topic of an MCAP file."""

    topic: str
    message_type: str
    qos: tuple[Qos, ...]


@dataclass
class Block:
    """Messages of one channel inside one buffer: where each lies and when it was logged."""

    buffer: NDArray[np.uint8]
    log_ns: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


@dataclass
class McapScan:
    """All whole records of an MCAP file.

    Attributes:
        channels: by channel id.
        blocks: per channel id, in file order.
        complete: the file ends with its first footer, which names the index before it, which tells of all messages.
        lost_bytes: length of the cut record at the end; 0 where there is a footer.
        indexed: how many messages the index tells of; None where it does not say.
    """

    channels: dict[int, Channel] = field(default_factory=dict)
    blocks: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))
    complete: bool = False
    lost_bytes: int = 0
    indexed: int | None = None

    @property
    def messages(self) -> int:
        """How many there are."""
        return sum(len(block.starts) for blocks in self.blocks.values() for block in blocks)


def scan_mcap(path: Path, *, growing: bool = False) -> McapScan:
    """Scan a file; everything up to the first record that is cut off.

    Args:
        path: the file.
        growing: a recorder may be writing it. Then it is copied, since of a mapped file that is cut shorter, as the
            recorder does when it finishes, a reader dies by SIGBUS.

    Raises:
        DataError: not an MCAP file, or damaged in a way that a kill does not explain.
    """
    with path.open("rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise DataError(f"{path} is not an MCAP file: it does not start with MCAP's magic bytes")
        if growing:
            content: bytes | mmap.mmap = MAGIC + stream.read()
        else:
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    data = np.frombuffer(content, dtype=np.uint8)
    scan = McapScan()
    schemas: dict[int, str] = {}
    try:
        end = _scan_records(data, len(MAGIC), scan, schemas, top=True)
    except (StructError, ReaderError, UnicodeDecodeError, IndexError) as error:
        raise DataError(f"{path} is damaged: {error}; no record of it was used") from error
    scan.lost_bytes = len(data) - end
    if scan.indexed not in (None, scan.messages):
        scan.complete = False  # killed between a chunk and the index of it
    return scan


def _scan_records(data: NDArray[np.uint8], position: int, scan: McapScan, schemas: dict[int, str], *, top: bool) -> int:
    """Take the records of a file or chunk; returns where the last whole one ends."""
    view = memoryview(data)  # type: ignore[arg-type]
    size = len(view)
    summary = -1
    current: dict[int, Block] = {}
    record, head = _RECORD.unpack_from, _MESSAGE_HEAD.unpack_from
    while position + _RECORD.size <= size:
        kind, length = record(view, position)
        start = position + _RECORD.size
        end = start + length
        if end > size:
            break
        if kind == _MESSAGE:
            channel, _, log_ns, _ = head(view, start)
            block = current.get(channel)
            if block is None:
                block = current[channel] = Block(data)
                scan.blocks[channel].append(block)
            block.log_ns.append(log_ns)
            block.starts.append(start + _MESSAGE_HEAD.size)
            block.ends.append(end)
        elif kind == _CHUNK and top:
            _scan_records(_chunk(view[start:end]), 0, scan, schemas, top=False)
        elif kind == _SCHEMA:
            schemas[_U16.unpack_from(view, start)[0]] = _string(view, start + 2)[0]
        elif kind == _CHANNEL:
            _add_channel(view[start:end], scan, schemas)
        elif kind == _DATA_END:
            summary = end
        elif kind == _STATISTICS:
            (scan.indexed,) = _U64.unpack_from(view, start)
        elif kind == _FOOTER and top:
            (named,) = _U64.unpack_from(view, start)
            scan.complete = bytes(view[end:]) == MAGIC and named in (0, summary)
            return size if bytes(view[-len(MAGIC) :]) == MAGIC else end
        position = end
    if not top and position != size:
        raise ReaderError("a chunk ends within a record")
    return position


def _chunk(record: memoryview) -> NDArray[np.uint8]:
    """The uncompressed content of a chunk."""
    _, _, size, crc, name_length = _CHUNK_HEAD.unpack_from(record, 0)
    position = _CHUNK_HEAD.size + name_length
    compression = bytes(record[_CHUNK_HEAD.size : position]).decode()
    (length,) = _U64.unpack_from(record, position)
    content = record[position + 8 : position + 8 + length]
    if compression or crc:
        return np.frombuffer(decompress(bytes(content), compression, size, crc), dtype=np.uint8)
    if len(content) != size:
        raise ReaderError(f"a chunk holds {len(content)} bytes, expected {size}")
    return np.frombuffer(content, dtype=np.uint8)


def _string(view: memoryview, position: int) -> tuple[str, int]:
    (length,) = _U32.unpack_from(view, position)
    end = position + 4 + length
    return bytes(view[position + 4 : end]).decode(), end


def _add_channel(record: memoryview, scan: McapScan, schemas: dict[int, str]) -> None:
    identifier, schema = Struct("<HH").unpack_from(record, 0)
    topic, position = _string(record, 4)
    encoding, position = _string(record, position)
    if encoding != "cdr":
        raise ReaderError(f"topic '{topic}' is encoded as '{encoding}', expected 'cdr'")
    qos = get_qos(bytes(record[position + 4 :]))
    scan.channels[identifier] = Channel(topic, schemas.get(schema, ""), tuple(qos))
