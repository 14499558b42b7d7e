"""Serialized ROS 2 messages without ROS: what nodes publish, what a simulated run writes, and back.

Types are those of ROS 2 Jazzy, from rosbags' type store. Joint data has a fast path (`cdr.Layout`) that gives the very
bytes of the type store.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from dynid.errors import DataError
from dynid.recording.cdr import Layout, joint_state_layout, reference_layout

JOINT_STATE = "sensor_msgs/msg/JointState"
JOINT_TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
STRING = "std_msgs/msg/String"
BOOL = "std_msgs/msg/Bool"
DIAGNOSTIC_ARRAY = "diagnostic_msgs/msg/DiagnosticArray"

# rclpy reserves room for the worst alignment: some of its messages carry up to this many bytes behind their end.
LONGEST_TAIL = 8


@cache
def type_store() -> Typestore:
    """The message types of ROS 2 Jazzy."""
    return get_typestore(Stores.ROS2_JAZZY)


def decode(raw: bytes, message_type: str) -> Any:
    """Decode one serialized message; bytes that rclpy leaves behind its end are tolerated.

    Raises:
        DataError: the bytes are no message of this type.
    """
    first_error: SerdeError | None = None
    for tail in (0, 4, LONGEST_TAIL):
        try:
            return type_store().deserialize_cdr(raw[: len(raw) - tail], message_type)
        except SerdeError as error:
            first_error = first_error or error
    raise DataError(f"a message of {len(raw)} bytes is not a valid {message_type}: {first_error}")


def _types(*names: str) -> list[Any]:
    return [type_store().types[name] for name in names]


def _header(stamp_ns: int, frame_id: str) -> Any:
    header, time = _types("std_msgs/msg/Header", "builtin_interfaces/msg/Time")
    sec, nanosec = divmod(int(stamp_ns), 1_000_000_000)
    return header(time(sec, nanosec), frame_id)


def _serialize(message: Any, message_type: str) -> bytes:
    return bytes(type_store().serialize_cdr(message, message_type))


_STAMP = struct.Struct("<iI")
_STAMP_OFFSET = 4
_COUNT = struct.Struct("<I")


def header_stamp_ns(raw: bytes) -> int:
    """Stamp [ns] of a serialised message that begins with a header, as each of its type does."""
    sec, nanosec = _STAMP.unpack_from(raw, _STAMP_OFFSET)
    return int(sec) * 1_000_000_000 + int(nanosec)


class _SingleEncoder:
    """One message at a time into one buffer: what a 1 kHz publisher can afford; a few microseconds a message."""

    def __init__(self, layout: Layout) -> None:
        self._buffer = bytearray(layout.template.tobytes())
        self._vectors = {
            name: np.frombuffer(self._buffer, dtype="<f8", count=length, offset=offset)
            for name, (offset, length) in layout.vector_offsets().items()
        }

    def encode(self, stamp_ns: int, vectors: dict[str, ArrayLike]) -> bytes:
        if vectors.keys() != self._vectors.keys():
            raise DataError(f"expected the fields {', '.join(self._vectors)}, got {', '.join(vectors) or 'none'}")
        _STAMP.pack_into(self._buffer, _STAMP_OFFSET, *divmod(int(stamp_ns), 1_000_000_000))
        for name, values in vectors.items():
            self._vectors[name][:] = values
        return bytes(self._buffer)


class JointStateDecoder:
    """Decodes sensor_msgs/JointState of one publisher quickly: the layout is learnt from its first message.

    Joints are returned in the order asked for, whatever order they are sent in; NaN where a field is absent.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._constant = b""
        self._counts: list[tuple[int, int]] = []
        self._size = 0
        self._fields: dict[str, tuple[int, int]] = {}
        self._order = np.arange(len(self.names))

    def decode(self, raw: bytes) -> tuple[int, dict[str, NDArray[np.float64]]] | None:
        """Stamp [ns] and position, velocity, effort, each (n,); None where a joint is missing in the message.

        Raises:
            DataError: the bytes are no JointState.
        """
        if not self._is_known(raw) and not self._learn(raw):
            return None
        values = {
            name: np.frombuffer(raw, "<f8", length, offset)[self._order] if length else np.full(len(self.names), np.nan)
            for name, (offset, length) in self._fields.items()
        }
        return header_stamp_ns(raw), values

    def _is_known(self, raw: bytes) -> bool:
        """Whether size, frame, names and all three array lengths are those that were learnt."""
        return (
            len(raw) == self._size
            and raw[12 : 12 + len(self._constant)] == self._constant
            and all(_COUNT.unpack_from(raw, offset)[0] == count for offset, count in self._counts)
        )

    def _remember_constants(
        self, raw: bytes, names: tuple[str, ...], frame_id: str, lengths: tuple[int, int, int], layout: Layout
    ) -> None:
        """Frame and names follow the stamp as constant bytes; then come the lengths of the three arrays."""
        bare = joint_state_layout(names, frame_id, (0, 0, 0))
        offset = bare.size - 3 * _COUNT.size
        # padding before the first length is not constant
        end = int(np.flatnonzero(bare.mask[:offset])[-1]) + 1
        self._constant = raw[12:end]
        self._counts = []
        vectors = layout.vector_offsets()
        for name, length in zip(("position", "velocity", "effort"), lengths, strict=True):
            self._counts.append((offset, length))
            offset = vectors[name][0] + 8 * length if length else offset + _COUNT.size

    def _learn(self, raw: bytes) -> bool:
        message = decode(raw, JOINT_STATE)
        sent = tuple(message.name)
        lengths = (len(message.position), len(message.velocity), len(message.effort))
        if any(name not in sent for name in self.names) or any(k not in (0, len(sent)) for k in lengths):
            return False
        layout = joint_state_layout(sent, message.header.frame_id, lengths)
        self._remember_constants(raw, sent, message.header.frame_id, lengths, layout)
        self._size = len(raw)
        self._fields = {name: (0, 0) for name in ("position", "velocity", "effort")} | layout.vector_offsets()
        self._order = np.array([sent.index(name) for name in self.names])
        return True


class JointStateEncoder:
    """Encodes sensor_msgs/JointState of fixed joints; position, velocity or effort may be absent altogether.

    Args:
        names: joint names, (n,).
        frame_id: the header's frame.
        fields: which of position, velocity and effort the messages carry.
    """

    def __init__(
        self,
        names: Sequence[str],
        frame_id: str = "",
        fields: Sequence[str] = ("position", "velocity", "effort"),
    ) -> None:
        n = len(names)
        position, velocity, effort = (n if field in fields else 0 for field in ("position", "velocity", "effort"))
        self._layout: Layout = joint_state_layout(tuple(names), frame_id, (position, velocity, effort))
        self._single = _SingleEncoder(self._layout)

    def encode(self, stamp_ns: int, **vectors: ArrayLike) -> bytes:
        """One message of the fields given: position (n,) [rad], velocity (n,) [rad/s], effort (n,) [N m]."""
        return self._single.encode(stamp_ns, vectors)

    def encode_many(self, stamps_ns: ArrayLike, **vectors: ArrayLike) -> NDArray[np.uint8]:
        """N messages from stamps (N,) [ns] and vectors (N, n), as bytes (N, message size)."""
        return self._layout.encode(np.asarray(stamps_ns, np.int64), **_as_floats(vectors, self._layout))


class ReferenceEncoder:
    """Encodes the one-point trajectory_msgs/JointTrajectory of topic `reference`."""

    def __init__(self, names: Sequence[str], frame_id: str = "") -> None:
        self._layout = reference_layout(tuple(names), frame_id)
        self._single = _SingleEncoder(self._layout)

    def encode(self, stamp_ns: int, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike) -> bytes:
        """One message from q (n,) [rad], dq (n,) [rad/s] and ddq (n,) [rad/s^2]."""
        return self._single.encode(stamp_ns, {"positions": q, "velocities": dq, "accelerations": ddq})

    def encode_many(self, stamps_ns: ArrayLike, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike) -> NDArray[np.uint8]:
        """N messages from stamps (N,) [ns] and q, dq, ddq (N, n), as bytes (N, message size)."""
        vectors = _as_floats({"positions": q, "velocities": dq, "accelerations": ddq}, self._layout)
        return self._layout.encode(np.asarray(stamps_ns, np.int64), **vectors)


def _as_floats(vectors: dict[str, ArrayLike], layout: Layout) -> dict[str, NDArray[np.float64]]:
    if set(vectors) != set(layout.vector_names()):
        raise DataError(f"expected the fields {', '.join(layout.vector_names())}, got {', '.join(vectors) or 'none'}")
    return {name: np.asarray(values, dtype=np.float64) for name, values in vectors.items()}


def encode_string(text: str) -> bytes:
    """A std_msgs/String."""
    (string,) = _types(STRING)
    return _serialize(string(text), STRING)


def encode_bool(value: bool) -> bytes:
    """A std_msgs/Bool."""
    (boolean,) = _types(BOOL)
    return _serialize(boolean(value), BOOL)


@dataclass(frozen=True)
class DiagnosticStatus:
    """One status of a diagnostic_msgs/DiagnosticArray; levels: 0 OK, 1 warning, 2 error, 3 stale."""

    name: str
    level: int
    message: str
    hardware_id: str
    values: dict[str, str]


def encode_diagnostics(stamp_ns: int, statuses: Sequence[DiagnosticStatus]) -> bytes:
    """A diagnostic_msgs/DiagnosticArray."""
    array, status, pair = _types(
        DIAGNOSTIC_ARRAY, "diagnostic_msgs/msg/DiagnosticStatus", "diagnostic_msgs/msg/KeyValue"
    )
    entries = [
        status(s.level, s.name, s.message, s.hardware_id, [pair(key, value) for key, value in s.values.items()])
        for s in statuses
    ]
    return _serialize(array(_header(stamp_ns, ""), entries), DIAGNOSTIC_ARRAY)


def decode_diagnostics(raw: bytes) -> tuple[int, tuple[DiagnosticStatus, ...]]:
    """Stamp [ns] and statuses of a diagnostic_msgs/DiagnosticArray."""
    message = decode(raw, DIAGNOSTIC_ARRAY)
    stamp = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
    return stamp, tuple(
        DiagnosticStatus(s.name, int(s.level), s.message, s.hardware_id, {v.key: v.value for v in s.values})
        for s in message.status
    )
