"""Encoding and decoding of serialized ROS 2 messages without ROS.

The message types are those of ROS 2 Jazzy. The library rosbags encodes and decodes them. `cdr.Layout` encodes joint
data faster to the same bytes.
"""

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from dynid.errors import DataError
from dynid.recording.cdr import Layout, joint_state_layout, reference_layout

JOINT_STATE = "sensor_msgs/msg/JointState"
JOINT_TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
DYNAMIC_JOINT_STATE = "control_msgs/msg/DynamicJointState"  # sent by ros2_control's joint state broadcaster
STRING = "std_msgs/msg/String"
DIAGNOSTIC_ARRAY = "diagnostic_msgs/msg/DiagnosticArray"

# ROS 2 definitions of the messages that this package uses; loading the library's full store takes seven times as long.
_DEFINITIONS = {
    "builtin_interfaces/msg/Time": "int32 sec\nuint32 nanosec\n",
    "builtin_interfaces/msg/Duration": "int32 sec\nuint32 nanosec\n",
    "std_msgs/msg/Header": "builtin_interfaces/Time stamp\nstring frame_id\n",
    STRING: "string data\n",
    JOINT_STATE: "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n",
    "trajectory_msgs/msg/JointTrajectoryPoint": (
        "float64[] positions\nfloat64[] velocities\nfloat64[] accelerations\nfloat64[] effort\n"
        "builtin_interfaces/Duration time_from_start\n"
    ),
    JOINT_TRAJECTORY: ("std_msgs/Header header\nstring[] joint_names\ntrajectory_msgs/JointTrajectoryPoint[] points\n"),
    "diagnostic_msgs/msg/KeyValue": "string key\nstring value\n",
    "diagnostic_msgs/msg/DiagnosticStatus": (
        "byte OK=0\nbyte WARN=1\nbyte ERROR=2\nbyte STALE=3\nbyte level\nstring name\nstring message\n"
        "string hardware_id\ndiagnostic_msgs/KeyValue[] values\n"
    ),
    DIAGNOSTIC_ARRAY: "std_msgs/Header header\ndiagnostic_msgs/DiagnosticStatus[] status\n",
}
_CONTROL_MESSAGES = {  # definitions that the library's store lacks
    "control_msgs/msg/InterfaceValue": "string[] interface_names\nfloat64[] values\n",
    DYNAMIC_JOINT_STATE: (
        "std_msgs/Header header\nstring[] joint_names\ncontrol_msgs/InterfaceValue[] interface_values\n"
    ),
}

JOINT_FIELDS = ("position", "velocity", "effort")
# Maximum number of unused bytes after a message [bytes]: rclpy reserves space for the worst alignment.
LONGEST_TAIL = 8


@cache
def type_store() -> Typestore:
    """Return a type store with the message types of ROS 2 Jazzy and types of control_msgs used in recordings."""
    return _with(_CONTROL_MESSAGES, get_typestore(Stores.ROS2_JAZZY))


@cache
def own_types() -> Typestore:
    """Return a small type store with only the message types that dynid itself sends and reads."""
    return _with(_DEFINITIONS | _CONTROL_MESSAGES, get_typestore(Stores.EMPTY))


def _with(definitions: Mapping[str, str], store: Typestore) -> Typestore:
    for name, text in definitions.items():
        store.register(get_types_from_msg(text, name))
    return store


def decode(raw: bytes, message_type: str, longest_tail: int = LONGEST_TAIL) -> Any:
    """Decode one serialized message, and ignore a few unused bytes after its end.

    rclpy leaves 4 or 8 such bytes, because it reserves space for the worst alignment.

    Args:
        raw: CDR bytes including their 4-byte header.
        message_type: type of the message, such as "std_msgs/msg/String".
        longest_tail: maximum number of unused bytes after the message.

    Raises:
        DataError: the bytes are not a message of this type.
    """
    first_error: Exception | None = None
    for tail in (0, 4, longest_tail):
        try:
            return _deserialize(raw, message_type, tail)
        except (SerdeError, ValueError, IndexError, OverflowError, MemoryError, struct.error) as error:
            first_error = first_error or error
    raise DataError(f"a message of {len(raw)} bytes is not a valid {message_type}: {first_error}")


def _deserialize(raw: bytes, message_type: str, tail: int) -> Any:
    own = own_types()
    store = own if message_type in own.types else type_store()
    if tail <= LONGEST_TAIL:
        return store.deserialize_cdr(raw[: len(raw) - tail], message_type)
    definition = store.get_msgdef(message_type)
    read = definition.deserialize_cdr_le if raw[1:2] == b"\1" else definition.deserialize_cdr_be
    message, end = read(raw[4:], 0, definition.cls, store)
    if len(raw) - 4 - end > tail:
        raise SerdeError(f"it ends {len(raw) - 4 - end} bytes before its bytes do")
    return message


def _types(*names: str) -> list[Any]:
    return [own_types().types[name] for name in names]


def _serialize(message: Any, message_type: str) -> bytes:
    return bytes(own_types().serialize_cdr(message, message_type))


_STAMP = struct.Struct("<iI")
_STAMP_OFFSET = 4


def header_stamp_ns(raw: bytes) -> int:
    """Return the stamp [ns] of a serialized message whose type starts with a header."""
    sec, nanosec = _STAMP.unpack_from(raw, _STAMP_OFFSET)
    return int(sec) * 1_000_000_000 + int(nanosec)


_DOUBLE = np.dtype("<f8")


class JointStateDecoder:
    """Fast decoder of one publisher's sensor_msgs/JointState messages, which all have the first message's layout.

    The decoder returns the joints in the order of `names`, independent of their order in the messages. The values of a
    field that the messages do not carry are NaN.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._known = re.compile(b"(?!)")  # matches nothing
        self._present: tuple[str, ...] = ()  # fields that the messages carry
        self._lacking: tuple[str, ...] = ()
        self._first, self._count = 0, 0  # offset and number of the words from the first vector to the last
        self._places = np.zeros((0, len(self.names)), dtype=np.intp)  # index of each field and joint among these words
        self._absent = np.full(len(self.names), np.nan)

    def decode(self, raw: bytes) -> tuple[int, dict[str, NDArray[np.float64]]] | None:
        """Decode one serialized message; return None if it lacks one of the joints.

        Returns:
            The header stamp [ns], and the arrays (n,) "position", "velocity" and "effort" in SI units.

        Raises:
            DataError: the bytes are not a JointState.
        """
        if not self._known.fullmatch(raw) and not self._learn(raw):
            return None
        words = np.frombuffer(raw, _DOUBLE, self._count, self._first)
        values: dict[str, NDArray[np.float64]] = dict(zip(self._present, words[self._places], strict=True))
        for name in self._lacking:
            values[name] = self._absent.copy()
        return header_stamp_ns(raw), values

    def _learn(self, raw: bytes) -> bool:
        """Store the layout of a message: frame, joint names and array lengths. All are constant for one publisher.

        Padding bytes may have any value.

        Returns:
            Whether the message has all joints and can be decoded by this layout.
        """
        message = decode(raw, JOINT_STATE)
        sent = tuple(message.name)
        lengths = (len(message.position), len(message.velocity), len(message.effort))
        if any(name not in sent for name in self.names) or any(k not in (0, len(sent)) for k in lengths):
            return False
        layout = joint_state_layout(sent, message.header.frame_id, lengths)
        text, mask = layout.template.tobytes().ljust(len(raw), b"\0"), layout.mask.tobytes().ljust(len(raw), b"\0")
        runs = re.finditer(rb"\xff+|\0+", mask)
        constant = [re.escape(text[run.start() : run.end()]) if run[0][0] else b".{%d}" % len(run[0]) for run in runs]
        self._known = re.compile(b"".join(constant), re.DOTALL)
        self._find_places(layout.vector_offsets(), np.array([sent.index(name) for name in self.names]))
        return self._known.fullmatch(raw) is not None

    def _find_places(self, vectors: Mapping[str, tuple[int, int]], order: NDArray[np.intp]) -> None:
        """Store the places of all values in a message, as indices of 8-byte words.

        CDR aligns float64 vectors at multiples of 8 bytes.

        Args:
            vectors: offset [bytes] and length of each vector that the messages carry, by its name.
            order: index of each of this decoder's joints in the messages, (n,).
        """
        self._present = tuple(vectors)
        self._lacking = tuple(name for name in JOINT_FIELDS if name not in vectors)
        offsets = [offset for offset, _ in vectors.values()]
        self._first = min(offsets, default=0)
        self._count = max((offset // 8 + length for offset, length in vectors.values()), default=0) - self._first // 8
        self._places = np.array([(offset - self._first) // 8 + order for offset in offsets], dtype=np.intp)
        self._places = self._places.reshape(len(vectors), len(order))


class _Encoder:
    """Base class of encoders of messages with a constant layout.

    Subclasses encode one message at a time (fast enough for 1 kHz) or many at once.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._buffer = bytearray(layout.template.tobytes())
        self._vectors = {
            name: np.frombuffer(self._buffer, dtype="<f8", count=length, offset=offset)
            for name, (offset, length) in layout.vector_offsets().items()
        }
        self._slots = tuple(self._vectors.items())

    def _one(self, stamp_ns: int, vectors: Mapping[str, ArrayLike]) -> bytes:
        _STAMP.pack_into(self._buffer, _STAMP_OFFSET, *divmod(int(stamp_ns), 1_000_000_000))
        try:
            for name, slot in self._slots:
                slot[:] = vectors[name]
        except KeyError:
            self._check(vectors)
        if len(vectors) != len(self._slots):
            self._check(vectors)
        return bytes(self._buffer)

    def _many(self, stamps_ns: ArrayLike, vectors: Mapping[str, ArrayLike]) -> NDArray[np.uint8]:
        self._check(vectors)
        arrays = {name: np.asarray(values, dtype=np.float64) for name, values in vectors.items()}
        return self._layout.encode(np.asarray(stamps_ns, np.int64), **arrays)

    def _check(self, vectors: Mapping[str, ArrayLike]) -> None:
        if vectors.keys() != self._vectors.keys():
            raise DataError(f"expected the fields {', '.join(self._vectors)}, got {', '.join(vectors) or 'none'}")


class JointStateEncoder(_Encoder):
    """Encoder of sensor_msgs/JointState messages for a fixed list of joints.

    Args:
        names: joint names, (n,).
        frame_id: frame in the header.
        fields: fields that the messages carry, a subset of position, velocity and effort.
    """

    def __init__(
        self, names: Sequence[str], frame_id: str = "", fields: Sequence[str] = ("position", "velocity", "effort")
    ) -> None:
        position, velocity, effort = (len(names) * (name in fields) for name in ("position", "velocity", "effort"))
        super().__init__(joint_state_layout(tuple(names), frame_id, (position, velocity, effort)))

    def encode(self, stamp_ns: int, **vectors: ArrayLike) -> bytes:
        """Encode one message from its stamp [ns] and one array for each field of this encoder.

        The fields are position (n,) [rad], velocity (n,) [rad/s] and effort (n,) [N m].
        """
        return self._one(stamp_ns, vectors)

    def encode_many(self, stamps_ns: ArrayLike, **vectors: ArrayLike) -> NDArray[np.uint8]:
        """Encode N messages as bytes (N, message size).

        Args:
            stamps_ns: header stamps, (N,) [ns].
            vectors: one array (N, n) for each field of this encoder, by name, in SI units.
        """
        return self._many(stamps_ns, vectors)


class ReferenceEncoder(_Encoder):
    """Encoder of the reference motion on topic `reference`: trajectory_msgs/JointTrajectory messages with one point."""

    def __init__(self, names: Sequence[str], frame_id: str = "") -> None:
        super().__init__(reference_layout(tuple(names), frame_id))

    def encode(self, stamp_ns: int, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike) -> bytes:
        """Encode one message from its stamp [ns] and the reference motion at this time.

        Args:
            stamp_ns: header stamp [ns].
            q: positions, (n,) [rad].
            dq: velocities, (n,) [rad/s].
            ddq: accelerations, (n,) [rad/s^2].
        """
        return self._one(stamp_ns, {"positions": q, "velocities": dq, "accelerations": ddq})

    def encode_many(self, stamps_ns: ArrayLike, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike) -> NDArray[np.uint8]:
        """Encode N messages as bytes (N, message size).

        Args:
            stamps_ns: header stamps, (N,) [ns].
            q: positions, (N, n) [rad].
            dq: velocities, (N, n) [rad/s].
            ddq: accelerations, (N, n) [rad/s^2].
        """
        return self._many(stamps_ns, {"positions": q, "velocities": dq, "accelerations": ddq})


def encode_string(text: str) -> bytes:
    """Encode a std_msgs/String."""
    (string,) = _types(STRING)
    return _serialize(string(text), STRING)


@dataclass(frozen=True)
class DiagnosticStatus:
    """One status of a diagnostic_msgs/DiagnosticArray; its level is 0 (OK), 1 (warning), 2 (error) or 3 (stale)."""

    name: str
    level: int
    message: str
    hardware_id: str
    values: dict[str, str]


def encode_diagnostics(stamp_ns: int, statuses: Sequence[DiagnosticStatus]) -> bytes:
    """Encode a diagnostic_msgs/DiagnosticArray with a stamp [ns]."""
    array, status, pair, header, time = _types(
        DIAGNOSTIC_ARRAY,
        "diagnostic_msgs/msg/DiagnosticStatus",
        "diagnostic_msgs/msg/KeyValue",
        "std_msgs/msg/Header",
        "builtin_interfaces/msg/Time",
    )
    entries = [
        status(s.level, s.name, s.message, s.hardware_id, [pair(key, value) for key, value in s.values.items()])
        for s in statuses
    ]
    stamp = time(*divmod(int(stamp_ns), 1_000_000_000))
    return _serialize(array(header(stamp, ""), entries), DIAGNOSTIC_ARRAY)


def decode_diagnostics(raw: bytes) -> tuple[int, tuple[DiagnosticStatus, ...]]:
    """Decode a diagnostic_msgs/DiagnosticArray; return its stamp [ns] and statuses."""
    message = decode(raw, DIAGNOSTIC_ARRAY)
    return message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec, tuple(
        DiagnosticStatus(s.name, int(s.level), s.message, s.hardware_id, {v.key: v.value for v in s.values})
        for s in message.status
    )
