"""Latency model of a USB serial adapter: the times at which bytes from the servo line reach the host's program.

An FTDI chip, as in ROBOTIS's U2D2, buffers received bytes until its latency timer expires or a packet is full. Then
the host receives them in the next USB frame (FTDI AN232B-04). Frames begin every millisecond. Bytes from the host are
on the wire at once: sending does not wait for a timer. Times are whole nanoseconds, so that they are exact.
"""

from collections import deque
from typing import Literal

FRAME_NS = 1_000_000
PACKET_BYTES = 62  # payload of a 64-byte packet, of which two hold the line's status
AdapterName = Literal["u2d2", "uart"]


class UsbAdapter:
    """Receiving side of a USB serial adapter: it buffers bytes from the servo line and hands them to the host.

    The class has no clock; all times are arguments, in nanoseconds on one common clock.

    Args:
        latency_ms: latency timer, whole milliseconds from 1 to 255.

    Raises:
        ValueError: the latency timer is not within 1 to 255 ms.
    """

    def __init__(self, latency_ms: int = 1) -> None:
        if not 1 <= latency_ms <= 255:
            raise ValueError(f"latency timer {latency_ms} ms: expected 1 to 255")
        self._latency_ns = latency_ms * FRAME_NS
        self._timer_ns = 0  # last start of the latency timer
        self._kept: deque[tuple[int, int]] = deque()  # pairs of end time on the wire [ns] and byte, in order

    def receive(self, data: bytes, begin_ns: int, byte_ns: float) -> int:
        """Receive bytes from the wire; return the time at which the last byte has arrived [ns].

        Args:
            data: the bytes.
            begin_ns: time at which the first byte begins on the wire [ns].
            byte_ns: duration of one byte on the wire [ns].
        """
        for k, byte in enumerate(data, 1):
            self._kept.append((begin_ns + round(k * byte_ns), byte))
        return begin_ns + round(len(data) * byte_ns)

    @property
    def due_ns(self) -> int | None:
        """Time at which the host receives the next bytes [ns]; None if none are buffered."""
        if not self._kept:
            return None
        started = (max(0, self._kept[0][0] - self._timer_ns) + self._latency_ns - 1) // self._latency_ns
        due = self._timer_ns + max(1, started) * self._latency_ns
        if len(self._kept) < PACKET_BYTES:
            return due
        full = self._kept[PACKET_BYTES - 1][0]
        return min(due, -(-full // FRAME_NS) * FRAME_NS)

    def hand_over(self, now_ns: int) -> bytes:
        """Return the bytes that reach the host between the last call and `now_ns` [ns], in the order of the wire."""
        out = bytearray()
        while (due := self.due_ns) is not None and due <= now_ns:
            arrived = sum(end <= due for end, _ in self._kept)
            expired = (due - self._timer_ns) % self._latency_ns == 0
            count = arrived if expired else arrived // PACKET_BYTES * PACKET_BYTES
            out += bytes(self._kept.popleft()[1] for _ in range(count))
            self._timer_ns = due
        return bytes(out)

    def clear(self) -> None:
        """Discard buffered bytes, as when the cable is pulled."""
        self._kept.clear()


def adapter_of(name: AdapterName, latency_ms: int = 1) -> UsbAdapter | None:
    """Return the latency model of an adapter by its name; None for "uart", a port that delivers bytes immediately.

    `latency_ms` is the latency timer of a "u2d2" [ms].
    """
    return None if name == "uart" else UsbAdapter(latency_ms)
