"""Containers of the serialized messages of one topic, ordered by log time, for bulk decoding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.recording.mcap_kernels import copy_slices


@dataclass(frozen=True)
class RawMessages:
    """Serialized messages of one topic, N in number.

    Attributes:
        log_ns: log times, ascending, (N,) [ns].
        data: all messages concatenated, uint8.
        offsets: start of each message in `data`, and the end of the last one, (N + 1,).
    """

    log_ns: NDArray[np.int64]
    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.log_ns)

    def __getitem__(self, index: int) -> bytes:
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return (self[k] for k in range(len(self)))

    def rows(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return the indices (K,) of the messages of exactly `size` bytes, and their bytes (K, size)."""
        chosen = np.flatnonzero(np.diff(self.offsets) == size)
        if len(chosen) == len(self):
            return chosen, self.data.reshape(-1, size)
        return chosen, _slices(self.data, self.offsets[chosen], size)


@dataclass(frozen=True)
class Block:
    """Messages of one topic inside one buffer.

    Attributes:
        buffer: bytes that contain the messages.
        log_ns: log times, (N,) [ns].
        starts: start of each message in the buffer, (N,).
        ends: end of each message in the buffer, (N,).
    """

    buffer: NDArray[np.uint8]
    log_ns: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def _slices(data: NDArray[np.uint8], starts: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """Copy the slices of `size` bytes of `data` that start at `starts` (K,) into an array (K, size)."""
    if not len(starts):
        return np.empty((0, size), dtype=np.uint8)
    return np.lib.stride_tricks.sliding_window_view(data, size)[starts]


def from_list(log_ns: Sequence[int], messages: Sequence[bytes]) -> RawMessages:
    """Build `RawMessages` from log times [ns] and serialized messages, in any order."""
    sizes = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
    return _ordered(np.array(log_ns, dtype=np.int64), np.frombuffer(b"".join(messages), dtype=np.uint8), sizes)


def from_blocks(blocks: Sequence[Block]) -> RawMessages:
    """Build `RawMessages` from all blocks of one topic; each block has its own buffer."""
    if not blocks:
        return from_list((), ())
    log_ns = np.concatenate([block.log_ns for block in blocks])
    sizes = np.concatenate([block.ends - block.starts for block in blocks])
    data, at = np.empty(sizes.sum(), dtype=np.uint8), 0
    for block in blocks:
        end = at + int((block.ends - block.starts).sum())
        copy_slices(block.buffer, block.starts, block.ends, data[at:end])
        at = end
    return _ordered(log_ns, data, sizes)


def joined(pieces: Sequence[RawMessages]) -> RawMessages:
    """Join the messages of one topic from several files of a split bag, ordered by log time."""
    if len(pieces) == 1:
        return pieces[0]
    log_ns, data = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("log_ns", "data"))
    return _ordered(log_ns, data, np.concatenate([np.diff(piece.offsets) for piece in pieces]))


def _ordered(log_ns: NDArray[np.int64], data: NDArray[np.uint8], sizes: NDArray[np.int64]) -> RawMessages:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if not (np.diff(log_ns) < 0).any():
        return RawMessages(log_ns, data, offsets)
    order = np.argsort(log_ns, kind="stable")
    parts = [data[offsets[k] : offsets[k + 1]] for k in order]
    return _ordered(log_ns[order], np.concatenate(parts), sizes[order])
