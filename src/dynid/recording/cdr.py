"""CDR messages of one constant layout, encoded and decoded with numpy in bulk.

A publisher of joint data sends the same names, frame and lengths every cycle, so all its messages differ only in
stamps and numbers. A `Layout` holds the constant bytes as a template with a mask (padding bytes are not constant:
DDS implementations leave whatever was in the buffer there) and the variable fields as a structured numpy type.
Encoding rules: OMG CDR, little endian, alignment counted from behind the 4-byte encapsulation header.
"""

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
        """Of every float64 vector: where it begins in a message [bytes], and its length."""
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
    return values["sec"].astype(np.int64) * _SECONDS_TO_NANOSECONDS + values["nanosec"]


class LayoutBuilder:
    """Builds a Layout field by field, in the message's order."""

    def __init__(self) -> None:
        self._template = bytearray(ENCAPSULATION)
        self._mask = bytearray(b"\xff\xff\x00\x00")  # the two option bytes are free
        self._names: list[str] = []
        self._formats: list[object] = []
        self._offsets: list[int] = []

    def _align(self, size: int) -> None:
        gap = -(len(self._template) - len(ENCAPSULATION)) % size
        self._template += bytes(gap)
        self._mask += bytes(gap)

    def _constant(self, data: bytes) -> None:
        self._template += data
        self._mask += b"\xff" * len(data)

    def _variable(self, name: str, form: object, size: int) -> None:
        self._names.append(name)
        self._formats.append(form)
        self._offsets.append(len(self._template))
        self._template += bytes(size)
        self._mask += bytes(size)

    def count(self, value: int) -> "LayoutBuilder":
        """A constant uint32, such as a sequence's length."""
        self._align(4)
        self._constant(value.to_bytes(4, "little"))
        return self

    def string(self, text: str) -> "LayoutBuilder":
        """A constant string."""
        data = text.encode() + b"\0"
        self.count(len(data))
        self._constant(data)
        return self

    def strings(self, texts: tuple[str, ...]) -> "LayoutBuilder":
        """A constant sequence of strings."""
        self.count(len(texts))
        for text in texts:
            self.string(text)
        return self

    def header(self, frame_id: str) -> "LayoutBuilder":
        """A std_msgs/Header with variable stamp and constant frame."""
        self._align(4)
        self._variable("sec", "<i4", 4)
        self._variable("nanosec", "<u4", 4)
        return self.string(frame_id)

    def doubles(self, name: str, length: int) -> "LayoutBuilder":
        """A float64 sequence of constant length and variable values."""
        self.count(length)
        if length:  # an empty sequence is not followed by padding
            self._align(8)
            self._variable(name, ("<f8", (length,)), 8 * length)
        return self

    def build(self) -> Layout:
        """The finished layout."""
        template = np.frombuffer(bytes(self._template), dtype=np.uint8)
        mask = np.frombuffer(bytes(self._mask), dtype=np.uint8)
        specification = {
            "names": self._names,
            "formats": self._formats,
            "offsets": self._offsets,
            "itemsize": len(template),
        }
        return Layout(template, mask, np.dtype(specification))  # type: ignore[call-overload]


def joint_state_layout(
    names: tuple[str, ...], frame_id: str = "", lengths: tuple[int, int, int] | None = None
) -> Layout:
    """Layout of sensor_msgs/JointState.

    Args:
        names: joint names.
        frame_id: the header's frame.
        lengths: of position, velocity and effort; None is one value per joint each.
    """
    n = len(names)
    position, velocity, effort = lengths or (n, n, n)
    builder = LayoutBuilder().header(frame_id).strings(names)
    return builder.doubles("position", position).doubles("velocity", velocity).doubles("effort", effort).build()


def reference_layout(names: tuple[str, ...], frame_id: str = "") -> Layout:
    """Layout of a trajectory_msgs/JointTrajectory with one point: positions, velocities, accelerations, time 0."""
    n = len(names)
    builder = LayoutBuilder().header(frame_id).strings(names).count(1)
    builder.doubles("positions", n).doubles("velocities", n).doubles("accelerations", n).doubles("effort", 0)
    return builder.count(0).count(0).build()
