"""CDR messages of one constant layout, encoded and decoded with numpy in bulk.

A publisher of joint data sends the same names, frame and lengths every cycle, so all its messages differ only in
stamps and numbers. A `Layout` holds the constant bytes as a template with a mask (padding bytes are not constant:
DDS implementations leave whatever was in the buffer there) and the variable fields as a structured numpy type.
Encoding rules: OMG CDR, little endian, alignment counted from the end of the 4-byte encapsulation header.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
ENCAPSULATION = b"\x00\x01\x00\x00"
_ROWS_AT_ONCE = 2048  # keeps a comparison within the cache
_SECONDS_TO_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Layout:
    """One constant message layout of `size` bytes (a multiple of 4).

    Attributes:
        template: (size,) constant bytes, zero elsewhere.
        mask: (size,) 255 where a byte is constant, 0 where it is padding or variable.
        fields: structured type of the variable fields: sec, nanosec, and float64 vectors.
    """

    template: Bytes
    mask: Bytes
    fields: np.dtype[np.void]

    @property
    def size(self) -> int:
        """Bytes of one message, encapsulation header included."""
        return len(self.template)

    def vector_names(self) -> tuple[str, ...]:
        """Names of the float64 vectors."""
        return tuple(name for name in self.fields.names or () if self.fields[name].shape)

    def matches(self, rows: Bytes) -> NDArray[np.bool_]:
        """Which of the messages `rows` (N, at least size) have this layout, (N,)."""
        mask, template = self.mask.view(np.uint32), self.template.view(np.uint32)
        constant = np.flatnonzero(mask)
        found = np.empty(len(rows), dtype=bool)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            words = np.ascontiguousarray(rows[block, : self.size]).view(np.uint32)
            found[block] = ((words[:, constant] & mask[constant]) == template[constant]).all(axis=1)
        return found

    def view(self, rows: Bytes) -> np.ndarray:
        """The variable fields of messages `rows` (N, at least size) that match, as a structured array (N,)."""
        return np.ascontiguousarray(rows[:, : self.size]).view(self.fields)[:, 0]

    def vector_offsets(self) -> dict[str, tuple[int, int]]:
        """Of every float64 vector: where it starts in a message [bytes], and its length."""
        table: Any = self.fields.fields
        return {name: (table[name][1], table[name][0].shape[0]) for name in self.vector_names()}

    def encode(self, stamp_ns: NDArray[np.int64], **vectors: NDArray[np.float64]) -> Bytes:
        """Messages for N stamps [ns] and (N, length) vectors of every field, (N, size) bytes."""
        stamps = np.asarray(stamp_ns, dtype=np.int64)
        rows = np.tile(self.template, (len(stamps), 1))
        values = rows.view(self.fields)[:, 0]
        values["sec"], values["nanosec"] = np.divmod(stamps, _SECONDS_TO_NANOSECONDS)
        for name in self.vector_names():
            values[name] = vectors[name]
        return rows


def stamps_of(values: np.ndarray) -> NDArray[np.int64]:
    """Header stamps of a structured array from `Layout.view`, (N,) [ns]."""
    return np.asarray(values["sec"].astype(np.int64) * _SECONDS_TO_NANOSECONDS + values["nanosec"])


Part = int | str | tuple[str, int]
"""A constant uint32, a constant string, or a float64 sequence: its name, and its constant length."""


def _layout(frame_id: str, parts: Iterable[Part]) -> Layout:
    """A layout of a std_msgs/Header with variable stamp and constant frame, and what follows it."""
    template, mask = bytearray(ENCAPSULATION), bytearray(b"\xff\xff\x00\x00")  # the two option bytes are free
    names, formats, offsets = ["sec", "nanosec"], ["<i4", "<u4"], [len(template), len(template) + 4]

    def put(content: bytes, alignment: int, *, constant: bool = True) -> None:
        gap = bytes(-(len(template) - len(ENCAPSULATION)) % alignment)
        template.extend(gap + content)
        mask.extend(gap + (b"\xff" if constant else b"\x00") * len(content))

    put(bytes(8), 4, constant=False)
    for part in (frame_id, *parts):
        text = part.encode() + b"\0" if isinstance(part, str) else b""
        length = part[1] if isinstance(part, tuple) else part if isinstance(part, int) else len(text)
        put(length.to_bytes(4, "little") + text, 4)
        if isinstance(part, tuple) and length:  # an empty sequence is not followed by padding
            put(bytes(8 * length), 8, constant=False)
            names.append(part[0])
            formats.append(f"({length},)<f8")
            offsets.append(len(template) - 8 * length)
    fields = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": len(template)})
    return Layout(np.frombuffer(bytes(template), dtype=np.uint8), np.frombuffer(bytes(mask), dtype=np.uint8), fields)


def joint_state_layout(
    names: tuple[str, ...], frame_id: str = "", lengths: tuple[int, int, int] | None = None
) -> Layout:
    """Layout of sensor_msgs/JointState.

    Args:
        frame_id: the header's frame.
        lengths: of position, velocity and effort; None is one value per joint each.
    """
    vectors = zip(("position", "velocity", "effort"), lengths or (len(names),) * 3, strict=True)
    return _layout(frame_id, (len(names), *names, *vectors))


def reference_layout(names: tuple[str, ...], frame_id: str = "") -> Layout:
    """Layout of a trajectory_msgs/JointTrajectory with one point: positions, velocities, accelerations, time 0."""
    n = len(names)
    vectors = (("positions", n), ("velocities", n), ("accelerations", n), ("effort", 0))
    return _layout(frame_id, (n, *names, 1, *vectors, 0, 0))
