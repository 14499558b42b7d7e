"""The serialized messages of one topic, in the order of their log times, ready for bulk decoding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.recording.mcap_scan import Block


@dataclass(frozen=True)
class RawMessages:
    """N serialized messages of one topic.

    Attributes:
        log_ns: (N,) log times [ns], ascending.
        data: all messages one behind the other, uint8.
        offsets: (N + 1,) where each message begins in data.
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

    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each message, (N,)."""
        return np.diff(self.offsets)

    def rows(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """The messages of exactly `size` bytes: their indices (K,) and bytes (K, size)."""
        sizes = self.sizes()
        chosen = np.flatnonzero(sizes == size)
        if len(chosen) == len(self):
            return chosen, self.data.reshape(-1, size)
        return chosen, gather(self.data, self.offsets[chosen], size)


def gather(data: NDArray[np.uint8], starts: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """Copy slices of `size` bytes that begin at `starts` (K,), as (K, size)."""
    if not len(starts):
        return np.empty((0, size), dtype=np.uint8)
    return np.lib.stride_tricks.sliding_window_view(data, size)[starts]


def from_list(log_ns: Sequence[int], messages: Sequence[bytes]) -> RawMessages:
    """Messages from a list of byte strings."""
    sizes = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
    return _ordered(np.array(log_ns, dtype=np.int64), np.frombuffer(b"".join(messages), dtype=np.uint8), sizes)


def from_blocks(blocks: Sequence[Block]) -> RawMessages:
    """Messages from the blocks of an MCAP scan."""
    log_ns = np.concatenate([np.array(block.log_ns, dtype=np.int64) for block in blocks] or [np.empty(0, np.int64)])
    sizes = np.empty(len(log_ns), dtype=np.int64)
    data = np.empty(sum(sum(block.ends) - sum(block.starts) for block in blocks), dtype=np.uint8)
    first = position = 0
    for block in blocks:
        starts = np.array(block.starts, dtype=np.int64)
        lengths = np.array(block.ends, dtype=np.int64) - starts
        sizes[first : first + len(starts)] = lengths
        first += len(starts)
        end = position + int(lengths.sum())
        if (lengths == lengths[0]).all():
            data[position:end].reshape(len(starts), -1)[:] = gather(block.buffer, starts, int(lengths[0]))
        else:
            pieces = [block.buffer[a:b] for a, b in zip(block.starts, block.ends, strict=True)]
            np.concatenate(pieces, out=data[position:end])
        position = end
    return _ordered(log_ns, data, sizes)


def joined(pieces: Sequence[RawMessages]) -> RawMessages:
    """Messages of a bag that is split into several files."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return from_list([], [])
    log_ns = np.concatenate([piece.log_ns for piece in pieces])
    data = np.concatenate([piece.data for piece in pieces])
    return _ordered(log_ns, data, np.concatenate([piece.sizes() for piece in pieces]))


def _ordered(log_ns: NDArray[np.int64], data: NDArray[np.uint8], sizes: NDArray[np.int64]) -> RawMessages:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if not (np.diff(log_ns) < 0).any():
        return RawMessages(log_ns, data, offsets)
    order = np.argsort(log_ns, kind="stable")
    parts = [data[offsets[k] : offsets[k + 1]] for k in order]
    return _ordered(log_ns[order], np.concatenate(parts), sizes[order])
