"""Decompression of lz4 and zstd data in bags; the decompressed bytes count towards the bag's memory limit."""

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import lz4.frame  # type: ignore[import-untyped]
import zstandard
from mcap.records import Chunk

from dynid.errors import DataError
from dynid.recording.bag_budget import BagBudget

MOST_CHUNK_BYTES = 64 * 2**20
_PIECE = 2**20
_UNKNOWN = 2**16  # size of the first piece of a message that does not state its size [bytes]


def unpacked_chunk(chunk: Chunk, budget: BagBudget) -> bytes | memoryview:
    """Return the decompressed records of an MCAP chunk.

    Raises:
        DataError: the compression is unknown, or the chunk is damaged, larger than `MOST_CHUNK_BYTES`, of another size
            than it states, or beyond the bag's memory limit `budget`.
    """
    size = chunk.uncompressed_size
    if size > MOST_CHUNK_BYTES:
        raise DataError(f"a chunk of {len(chunk.data)} bytes becomes {size} bytes, expected at most {MOST_CHUNK_BYTES}")
    if chunk.compression:
        budget.take(size)
    unpack = {"": _plain, "zstd": _zstd, "lz4": _lz4}.get(chunk.compression)
    if unpack is None:
        raise DataError(f"a chunk is compressed by '{chunk.compression[:40]}', expected zstd or lz4")
    data = unpack(chunk.data, size)
    if len(data) != size:
        raise DataError(f"a chunk of {len(chunk.data)} bytes becomes another size than the {size} bytes that it states")
    if chunk.uncompressed_crc and crc32(data) != chunk.uncompressed_crc:
        raise DataError("a chunk does not fit its checksum")
    return data


def _plain(data: bytes, size: int) -> bytes:
    return data


def _zstd(data: bytes, size: int) -> bytes:
    """Decompress zstd data to at most `size` + 1 bytes; the last byte reveals data larger than the stated size."""
    with zstandard.ZstdDecompressor().stream_reader(data) as stream:
        return stream.read(size + 1)


def _lz4(data: bytes, size: int) -> bytes:
    return bytes(lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=size + 1))


def unpacked_pieces(file: Path) -> Iterator[bytes]:
    """Yield the decompressed content of a zstd file in pieces; the caller must limit their total size.

    Raises:
        DataError: the file is damaged.
    """
    try:
        with file.open("rb") as packed:
            stream = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
            while piece := stream.read(_PIECE):
                yield piece
    except zstandard.ZstdError as error:
        raise DataError(f"{file.name} is not a zstd file, or is damaged: {error}") from error


def unpacked_message(raw: bytes, budget: BagBudget) -> bytes:
    """Return the decompressed bytes of one message that was compressed separately by zstd.

    Raises:
        DataError: the message is damaged, or beyond the bag's memory limit `budget`.
    """
    try:
        stated = zstandard.frame_content_size(raw)
        with zstandard.ZstdDecompressor().stream_reader(raw) as stream:
            pieces = [stream.read(min(stated, _PIECE) if stated > 0 else _UNKNOWN)]
            budget.take(len(pieces[0]))
            while piece := stream.read(_PIECE):
                budget.take(len(piece))
                pieces.append(piece)
    except zstandard.ZstdError as error:
        raise DataError(f"a message is not compressed by zstd, or is damaged: {error}") from error
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
