"""Recovery of MCAP files whose end is missing: copy the complete records into a new file with an index."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcap.opcode import Opcode
from mcap.records import Attachment, Channel, Chunk, Header, Metadata, Schema
from mcap.writer import MCAP0_MAGIC, CompressionType, Writer

from dynid.recording.bag_budget import BagBudget
from dynid.recording.mcap_reader import RECORD, record_stream
from dynid.recording.unpack import unpacked_chunk

_MESSAGE = struct.Struct("<HIQQ")  # channel, sequence, log time and publish time
BAG_METADATA = "rosbag2"  # name of the record in which recorders repeat metadata.yaml
_COMPRESSIONS = {one.name.lower(): one for one in CompressionType}


def copy_mcap(source: Path, target: Path, information: str) -> None:
    """Copy schemas, channels, messages, attachments and metadata to a new file, in their order and with all fields.

    The new file has the compression of the old file's first chunk. Messages of channels that the old file does not
    describe are left out.

    Args:
        source: MCAP file that `read_mcap` can read; it needs no index.
        target: path of the new file.
        information: content of metadata.yaml, which is added unless the old file contains it.

    Raises:
        DataError: the old file and its decompressed chunks exceed the memory limit for one bag, see `BagBudget`.
        OSError: the new file cannot be written.
    """
    budget = BagBudget(source, [source])
    budget.take(source.stat().st_size)
    data = source.read_bytes()
    header, packing = _form(data)
    with target.open("xb") as stream:
        writer = Writer(stream, compression=packing, enable_crcs=packing is not CompressionType.NONE)
        writer.start(header.profile, header.library)
        if not _copy(data, writer, budget):
            writer.add_metadata(BAG_METADATA, {"serialized_metadata": information})
        writer.finish()


def _form(data: bytes) -> tuple[Header, CompressionType]:
    """Return the header record of an MCAP file, and the compression of its first chunk."""
    header = Header("ros2", "")
    for kind, record in _records(data, len(MCAP0_MAGIC)):
        if kind == Opcode.HEADER:
            header = Header.read(record_stream(record))
        if kind == Opcode.CHUNK:
            compression = Chunk.read(record_stream(record)).compression or "none"
            return header, _COMPRESSIONS.get(compression, CompressionType.NONE)
    return header, CompressionType.NONE


def _copy(data: bytes, writer: "Writer", budget: BagBudget) -> bool:
    """Copy the complete records of an MCAP file; return whether one of them contains the bag's metadata.yaml.

    Args:
        data: bytes of the file.
        writer: writer of the new file.
        budget: memory limit of the bag, which also counts the decompressed chunks.
    """
    schemas, channels, described = {0: 0}, dict[int, int](), set[bytes]()
    found = False
    for kind, record in _all_records(data, budget):
        if kind == Opcode.MESSAGE:
            channel, sequence, log_ns, publish_ns = _MESSAGE.unpack_from(record)
            if channel in channels:
                raw: Any = record[_MESSAGE.size :]
                writer.add_message(channels[channel], log_ns, raw, publish_ns, sequence)
        elif kind in (Opcode.SCHEMA, Opcode.CHANNEL):
            own = bytes(record)
            if (key := bytes([kind]) + own) in described:  # repeated in each chunk by some recorders
                continue
            described.add(key)
            if kind == Opcode.SCHEMA:
                schema = Schema.read(record_stream(own))
                schemas[schema.id] = writer.register_schema(schema.name, schema.encoding, schema.data)
            else:
                one = Channel.read(record_stream(own))
                known = schemas.get(one.schema_id, 0)
                channels[one.id] = writer.register_channel(one.topic, one.message_encoding, known, one.metadata)
        elif kind == Opcode.ATTACHMENT:
            kept = Attachment.read(record_stream(bytes(record)))
            writer.add_attachment(kept.create_time, kept.log_time, kept.name, kept.media_type, kept.data)
        elif kind == Opcode.METADATA:
            text = Metadata.read(record_stream(bytes(record)))
            writer.add_metadata(text.name, text.metadata)
            found |= text.name == BAG_METADATA
    return found


def _all_records(data: bytes, budget: BagBudget) -> Iterator[tuple[int, memoryview]]:
    """Yield opcode and content of the complete records of an MCAP file.

    A chunk is replaced by the records that it contains.

    Args:
        data: bytes of the file.
        budget: memory limit of the bag, which also counts the decompressed chunks.
    """
    for kind, record in _records(data, len(MCAP0_MAGIC)):
        if kind == Opcode.CHUNK:
            yield from _records(unpacked_chunk(Chunk.read(record_stream(record)), budget), 0)
        elif kind in (Opcode.DATA_END, Opcode.FOOTER):
            return
        else:
            yield kind, record


def _records(data: bytes | memoryview, position: int) -> Iterator[tuple[int, memoryview]]:
    """Yield opcode and content of the complete records of a file or chunk, starting at `position`."""
    view = memoryview(data)
    while position + RECORD.size <= len(view):
        kind, length = RECORD.unpack_from(view, position)
        start = position + RECORD.size
        if start + length > len(view):
            return
        yield kind, view[start : start + length]
        position = start + length
