"""Bulk encoding and decoding of CDR messages that share one layout, with numpy.

A publisher of joint data sends the same names, frame and lengths every cycle, so its messages differ only in stamps and
numbers. A `Layout` holds the constant bytes as a template with a mask, and the variable fields as a structured numpy
type. Padding bytes are masked out, because DDS implementations leave arbitrary content there. Encoding rules: OMG CDR,
little endian, alignment counted from the end of the 4-byte encapsulation header.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
ENCAPSULATION = b"\x00\x01\x00\x00"
_ROWS_AT_ONCE = 2048  # rows per comparison, so that they fit into the processor's cache
_SECONDS_TO_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Layout:
    """Constant layout of serialized messages of `size` bytes (a multiple of 4).

    Attributes:
        template: constant bytes, zero elsewhere, (size,).
        mask: 255 for constant bytes, 0 for padding and variable bytes, (size,).
        fields: structured numpy type of the variable fields: sec, nanosec, and float64 vectors.
    """

    template: Bytes
    mask: Bytes
    fields: np.dtype[np.void]

    @property
    def size(self) -> int:
        """Size of one message [bytes], encapsulation header included."""
        return len(self.template)

    def vector_names(self) -> tuple[str, ...]:
        """Return the names of the message's float64 vectors, such as "position"."""
        return tuple(name for name in self.fields.names or () if self.fields[name].shape)

    def matches(self, rows: Bytes) -> NDArray[np.bool_]:
        """Return a mask (N,) of the serialized messages that have this layout.

        Args:
            rows: bytes of N messages, (N, size or more).
        """
        mask, template = self.mask.view(np.uint32), self.template.view(np.uint32)
        constant = np.flatnonzero(mask)
        found = np.empty(len(rows), dtype=bool)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            words = np.ascontiguousarray(rows[block, : self.size]).view(np.uint32)
            found[block] = ((words[:, constant] & mask[constant]) == template[constant]).all(axis=1)
        return found

    def view(self, rows: Bytes) -> np.ndarray:
        """Return the variable fields of N serialized messages with this layout, as a structured array (N,).

        Args:
            rows: bytes of the messages, (N, size or more).
        """
        return np.ascontiguousarray(rows[:, : self.size]).view(self.fields)[:, 0]

    def vector_offsets(self) -> dict[str, tuple[int, int]]:
        """Return the offset in a message [bytes] and the length of every float64 vector, by the vector's name."""
        table: Any = self.fields.fields
        return {name: (table[name][1], table[name][0].shape[0]) for name in self.vector_names()}

    def encode(self, stamp_ns: NDArray[np.int64], **vectors: NDArray[np.float64]) -> Bytes:
        """Encode N messages of this layout as bytes (N, size).

        Args:
            stamp_ns: header stamps, (N,) [ns].
            vectors: one array (N, length) for each float64 vector of the layout, by name, any unit.
        """
        stamps = np.asarray(stamp_ns, dtype=np.int64)
        rows = np.tile(self.template, (len(stamps), 1))
        values = rows.view(self.fields)[:, 0]
        values["sec"], values["nanosec"] = np.divmod(stamps, _SECONDS_TO_NANOSECONDS)
        for name in self.vector_names():
            values[name] = vectors[name]
        return rows


def stamps_of(values: np.ndarray) -> NDArray[np.int64]:
    """Return the header stamps (N,) [ns] of messages, given as a structured array from `Layout.view`."""
    return np.asarray(values["sec"].astype(np.int64) * _SECONDS_TO_NANOSECONDS + values["nanosec"])


Part = int | str | tuple[str, int]
"""Part of a layout: a constant uint32, a constant string, or a float64 sequence given by name and constant length."""


def _layout(frame_id: str, parts: Iterable[Part]) -> Layout:
    """Return the layout of a message that starts with a std_msgs/Header of variable stamp and constant frame.

    Args:
        frame_id: the constant frame.
        parts: the message's fields after the header, in order, see `Part`.
    """
    template, mask = bytearray(ENCAPSULATION), bytearray(b"\xff\xff\x00\x00")  # the two option bytes may have any value
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
    """Return the layout of sensor_msgs/JointState messages.

    Args:
        names: joint names.
        frame_id: frame in the header.
        lengths: lengths of position, velocity and effort; None means one value per joint in each.
    """
    vectors = zip(("position", "velocity", "effort"), lengths or (len(names),) * 3, strict=True)
    return _layout(frame_id, (len(names), *names, *vectors))


def reference_layout(names: tuple[str, ...], frame_id: str = "") -> Layout:
    """Return the layout of a trajectory_msgs/JointTrajectory with one point at time 0.

    The point holds positions, velocities and accelerations.
    """
    n = len(names)
    vectors = (("positions", n), ("velocities", n), ("accelerations", n), ("effort", 0))
    return _layout(frame_id, (n, *names, 1, *vectors, 0, 0))
