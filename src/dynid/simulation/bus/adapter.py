"""A USB serial adapter between servos and host: when bytes that came over the wire reach the client.

An FTDI chip, as in ROBOTIS's U2D2, keeps what arrives until the host's next USB frame after its latency timer, or until
a packet is full (FTDI AN232B-04). Frames begin every millisecond. What the host sends is on the wire at once: on the
way out nothing waits for a timer. Time is in whole nanoseconds, so that instants are exact.
"""

from collections import deque
from typing import Literal

FRAME_NS = 1_000_000
PACKET_BYTES = 62  # of 64; two tell the line's state
AdapterName = Literal["u2d2", "uart"]


class UsbAdapter:
    """The receiving side of an adapter; it has no clock of its own.

    Args:
        latency_ms: latency timer, whole milliseconds from 1 to 255.

    Raises:
        ValueError: another latency.
    """

    def __init__(self, latency_ms: int = 1) -> None:
        if not 1 <= latency_ms <= 255:
            raise ValueError(f"latency timer {latency_ms} ms: expected 1 to 255")
        self._latency_ns = latency_ms * FRAME_NS
        self._timer_ns = 0  # when it was started last
        self._kept: deque[tuple[int, int]] = deque()  # bytes and their ends on the wire, in order

    def receive(self, data: bytes, begin_ns: int, byte_ns: float) -> int:
        """Bytes come over the wire from `begin_ns` on, `byte_ns` each; returns when the last has come [ns]."""
        for k, byte in enumerate(data, 1):
            self._kept.append((begin_ns + round(k * byte_ns), byte))
        return begin_ns + round(len(data) * byte_ns)

    @property
    def due_ns(self) -> int | None:
        """When the host gets the next bytes [ns]; None if there are none."""
        if not self._kept:
            return None
        started = (max(0, self._kept[0][0] - self._timer_ns) + self._latency_ns - 1) // self._latency_ns
        due = self._timer_ns + max(1, started) * self._latency_ns
        if len(self._kept) < PACKET_BYTES:
            return due
        full = self._kept[PACKET_BYTES - 1][0]
        return min(due, -(-full // FRAME_NS) * FRAME_NS)

    def hand_over(self, now_ns: int) -> bytes:
        """What the host has got since the last call, up to `now_ns`, in the order of the wire."""
        out = bytearray()
        while (due := self.due_ns) is not None and due <= now_ns:
            arrived = sum(end <= due for end, _ in self._kept)
            expired = (due - self._timer_ns) % self._latency_ns == 0
            count = arrived if expired else arrived // PACKET_BYTES * PACKET_BYTES
            out += bytes(self._kept.popleft()[1] for _ in range(count))
            self._timer_ns = due
        return bytes(out)

    def clear(self) -> None:
        """The cable was pulled: what was kept is lost."""
        self._kept.clear()


def adapter_of(name: AdapterName, latency_ms: int = 1) -> UsbAdapter | None:
    """The adapter of a name; None for a UART of the host, which hands bytes over as they come."""
    return None if name == "uart" else UsbAdapter(latency_ms)
