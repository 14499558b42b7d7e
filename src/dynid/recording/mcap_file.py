"""An MCAP file that ends with a valid index and footer at every moment of its growth, so that a kill never cuts it.

Readers begin at the footer, the last 37 bytes, which says where the index lies. While the file grows it looks so:

    records | filler | slot | slot | footer

The footer names the index in one of the two slots; what comes new goes where no reader looks, and one write of a few
bytes within a page, which a kill cannot divide, then makes it valid. The filler is one private record (opcodes from
0x80 on, which readers skip), also for readers that go from front to back. Tested with rosbags and the mcap package.
`finish` leaves nothing of all this but, in one of 500 cases, 17 bytes of padding behind a chunk.
Record format: https://mcap.dev/spec
"""

import os
import struct
from collections.abc import Callable

_FOOTER_BYTES = 37  # the footer record and the magic bytes
_HEAD_BYTES = 9  # opcode and length
_FILLER = 0x80
_PAGE_BYTES = 4096
_PADDING_BYTES = 17
_PIECE_BYTES = 2**16  # within a write nobody else runs where the kernel is not preemptible
_RESERVE_BYTES = (2**16, 2**22)  # least and most that the file is extended by; between them it doubles


class LiveMcapFile:
    """Takes records and keeps an index behind them.

    Args:
        descriptor: of the file, open for writing, at present whole records only; it stays the caller's.
        compose: gives, from the position at which they are to lie, all bytes from there to the end of the file for an
            index of the records appended so far: metadata, data end, summary, footer and magic. Their number must not
            depend on the position.

    A method that raises OSError (disk full) leaves a file that opens, with what the last `publish` told of.
    """

    def __init__(self, descriptor: int, compose: Callable[[int], bytes]) -> None:
        self._descriptor = descriptor
        self._compose = compose
        self.end = os.fstat(descriptor).st_size  # of the records
        self._slot_bytes = 0
        self._footer_start = self.end
        self._footer = b""  # the valid one; none before the first index
        self._slot = 0  # which of the two is valid

    def append(self, records: bytes) -> None:
        """Add whole records behind the last ones; readers with an index see them after the next `publish`."""
        if (self.end + len(records)) % _PAGE_BYTES > _PAGE_BYTES - _HEAD_BYTES:
            records += _filler(_PADDING_BYTES) + bytes(_PADDING_BYTES - _HEAD_BYTES)  # the next head: in one page, too
        if self.end + len(records) + _HEAD_BYTES > self._slot_start(0) or not self._footer:
            self._extend(len(records) + _HEAD_BYTES)
        end = self.end + len(records)
        self._put(self.end + _HEAD_BYTES, records[_HEAD_BYTES:] + _filler(self._slot_start(self._slot) - end))
        self._put(self.end, records[:_HEAD_BYTES])  # replaces the filler's head
        self.end = end

    def publish(self) -> None:
        """Make an index of everything appended so far the valid one."""
        slot = 1 - self._slot
        index = self._compose(self._slot_start(slot))
        if len(index) - _FOOTER_BYTES + _HEAD_BYTES > self._slot_bytes or not self._footer:
            self._extend(_HEAD_BYTES)
        else:
            self._switch(slot, index)

    def finish(self) -> None:
        """Put the index directly behind the records, where the file then ends."""
        index = self._compose(self.end)
        if self.end + len(index) > self._slot_start(self._slot) or not self._footer:
            self._extend(len(index))
        self._put(self.end + _HEAD_BYTES, index[_HEAD_BYTES:])
        self._put(self.end, index[:_HEAD_BYTES])
        os.ftruncate(self._descriptor, self.end + len(index))

    def _extend(self, room: int) -> None:
        """Move the end of the file and the index ahead; at least `room` bytes are free for records then."""
        least, most = _RESERVE_BYTES
        slot_bytes = 2 * len(self._compose(0)) + _PAGE_BYTES
        size = self._footer_start + _FOOTER_BYTES if self._footer else self.end
        start = max(self.end + room + min(max(self.end, least), most), size)
        # The footer is the end of a page: within one page a write is whole or not at all.
        footer_start = -(-(start + 2 * slot_bytes + _FOOTER_BYTES) // _PAGE_BYTES) * _PAGE_BYTES - _FOOTER_BYTES
        index = self._compose(footer_start - 2 * slot_bytes)
        before = self._footer_start, self._slot_bytes, self._slot
        try:
            if self._footer:
                self._put(footer_start, self._footer)  # a longer file with the same index
            self._footer_start, self._slot_bytes = footer_start, slot_bytes
            self._switch(0, index)
        except OSError:
            self._footer_start, self._slot_bytes, self._slot = before
            try:
                if self._footer:
                    self._put(self.end, _filler(self._slot_start(self._slot) - self.end))
            finally:
                os.ftruncate(self._descriptor, size)
            raise

    def _switch(self, slot: int, index: bytes) -> None:
        start = self._slot_start(slot)
        content, footer = index[:-_FOOTER_BYTES], index[-_FOOTER_BYTES:]
        self._put(start, content + _filler(self._footer_start - start - len(content)))
        self._put(self.end, _filler(start - self.end))
        self._put(self._footer_start, footer)
        self._slot, self._footer = slot, footer

    def _slot_start(self, slot: int) -> int:
        return self._footer_start - (2 - slot) * self._slot_bytes

    def _put(self, position: int, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            written = os.pwrite(self._descriptor, rest[:_PIECE_BYTES], position)
            position, rest = position + written, rest[written:]
            if rest:
                give_way()


def give_way() -> None:
    """Let who waits for this processor have it: what records is never as urgent as what controls."""
    os.sched_yield()


def _filler(length: int) -> bytes:
    """The head of a private record of so many bytes altogether, at least 9; what its content is does not matter."""
    return struct.pack("<BQ", _FILLER, length - _HEAD_BYTES)
