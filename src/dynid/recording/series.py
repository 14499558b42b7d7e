"""Bulk decoding of a bag's joint data to numpy arrays.

The first complete message determines the layout, and all messages with this layout are decoded at once. Messages with
another layout (such as additional joints or another order) are decoded one by one and counted. Truncated or malformed
messages are left out and counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.recording.bag_reader import TopicContent
from dynid.recording.cdr import Layout, joint_state_layout, reference_layout, stamps_of
from dynid.recording.messages import DYNAMIC_JOINT_STATE, JOINT_STATE, JOINT_TRAJECTORY, LONGEST_TAIL, STRING, decode
from dynid.recording.raw_messages import RawMessages
from dynid.robot import FloatArray

_FIELDS = {
    JOINT_STATE: ("position", "velocity", "effort"),
    JOINT_TRAJECTORY: ("positions", "velocities", "accelerations"),
    DYNAMIC_JOINT_STATE: ("position", "velocity", "effort"),
}
FOREIGN_LOOKS = 200  # messages searched for publishers at the start, and as many spread over the whole topic
UNUSED = ("velocity", "velocities", "accelerations")  # not read from foreign messages; positions are differentiated


@dataclass(frozen=True)
class JointSeries:
    """Joint data of one topic, with columns in the order of `joint_names`.

    Attributes:
        topic: name of the topic in the bag.
        stamp_ns: header stamps, (N,) [ns].
        joint_names: names of the joints, (n,).
        values: arrays (N, n) by field; fields that the messages do not carry are absent.
        singly_decoded: number of messages whose layout differs from the first one's.
        left_out: number of malformed messages, which are left out.
        reason: fault of the first malformed message.
        log_ns: log times, (N,) [ns].
    """

    topic: str
    stamp_ns: NDArray[np.int64]
    joint_names: tuple[str, ...]
    values: dict[str, FloatArray]
    singly_decoded: int
    left_out: int = 0
    reason: str = ""
    log_ns: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def field(self, name: str) -> FloatArray:
        """Return the values of one field, (N, n), any unit.

        Raises:
            DataError: the messages do not carry the field.
        """
        if name not in self.values:
            present = ", ".join(self.values) or "none"
            raise DataError(f"topic '{self.topic}' carries no {name} for each joint; it carries: {present}")
        return self.values[name]


def joint_series(
    content: TopicContent,
    joint_names: tuple[str, ...] | None = None,
    *,
    foreign: bool = False,
    skipped: NDArray[np.bool_] | None = None,
) -> JointSeries:
    """Decode a topic of JointState messages, of DynamicJointState, or of JointTrajectory with one point.

    Args:
        content: topic with its messages.
        joint_names: names of the wanted joints, in the wanted order; None means the joints of the first message.
        foreign: whether the publisher is software other than dynid. If so, messages without all wanted joints count as
            malformed, and also messages without efforts if other messages have efforts. Velocities are not read.
        skipped: mask (N,) of messages that are known to have other joints; None if there are none.

    Raises:
        DataError: the topic is of another type, has no complete message, or lacks a joint.
    """
    if content.message_type not in _FIELDS:
        raise DataError(f"topic '{content.name}' is of type {content.message_type}, expected {' or '.join(_FIELDS)}")
    raw = content.messages
    if not len(raw):
        raise DataError(f"topic '{content.name}' holds no messages")
    first = _first_whole(raw, content)
    if foreign and joint_names is not None:
        first = _first_of(raw, content, joint_names) or first
    wanted = first.names if joint_names is None else joint_names
    fields = [name for name in _FIELDS[content.message_type] if len(first.values[name]) == len(first.names)]
    if foreign:
        fields = [name for name in fields if name not in UNUSED]
    stamps = np.empty(len(raw), dtype=np.int64)
    values = {name: np.empty((len(raw), len(wanted))) for name in fields}
    done = np.zeros(len(raw), dtype=bool)
    if content.message_type != DYNAMIC_JOINT_STATE:  # its layout may change with every message
        done = _decode_alike(content, first, wanted, stamps, values)
    bad, reason, singly = ~done & (False if skipped is None else skipped), "", 0
    for index in np.flatnonzero(~done & ~bad):
        try:
            message = _decoded(raw, int(index), content, fields)
            order = _columns(message.names, wanted, content.name) if foreign else None
        except DataError as error:
            bad[index], reason = True, reason or str(error)
            continue
        order = _columns(message.names, wanted, content.name) if order is None else order
        stamps[index], singly = message.stamp_ns, singly + 1
        for name in fields:
            values[name][index] = message.values[name][order]
    if foreign and bad.all():
        raise DataError(reason)
    log_ns = np.array(raw.log_ns)
    if bad.any():
        stamps, log_ns, values = stamps[~bad], log_ns[~bad], {name: array[~bad] for name, array in values.items()}
    for array in (stamps, log_ns, *values.values()):
        array.flags.writeable = False
    return JointSeries(content.name, stamps, wanted, values, singly, int(bad.sum()), reason, log_ns)


@dataclass(frozen=True)
class _Message:
    stamp_ns: int
    frame_id: str
    names: tuple[str, ...]
    values: dict[str, FloatArray]


def _first_whole(raw: RawMessages, content: TopicContent) -> _Message:
    """Return the first message of a topic that can be decoded; if there is none, raise the first message's error."""
    first: DataError | None = None
    for index in range(len(raw)):
        try:
            return _decoded(raw, index, content)
        except DataError as error:
            first = first or error
    assert first is not None, "there is a message"
    raise first


def _first_of(raw: RawMessages, content: TopicContent, wanted: tuple[str, ...]) -> _Message | None:
    """Return the first message that has all joints in `wanted`, preferably one that also has efforts.

    Only the messages that `_looks` selects are examined. The result is None if none of them has all these joints.
    """
    found: _Message | None = None
    for index in _looks(len(raw)):
        try:
            message = _decoded(raw, index, content)
        except DataError:
            continue
        if not set(wanted) <= set(message.names):
            continue
        if len(message.values.get("effort", ())) == len(message.names):
            return message
        found = found or message
    return found


def _looks(count: int) -> list[int]:
    """Return the indices of the messages that are examined to find publishers, out of `count` messages.

    They are the first `FOREIGN_LOOKS` messages, and as many messages at even intervals over the topic.
    """
    spread = np.linspace(0, count - 1, FOREIGN_LOOKS).astype(int).tolist() if count > FOREIGN_LOOKS else []
    return list(dict.fromkeys([*range(min(count, FOREIGN_LOOKS)), *spread]))


def joint_sets(content: TopicContent, wanted: tuple[str, ...]) -> list[frozenset[str]]:
    """Return the different sets of wanted joints that messages of a topic contain.

    Only some messages are examined, see `_looks`. Sets that are part of a larger set are left out.

    Args:
        content: topic with its messages.
        wanted: names of the joints to search for.
    """
    found: dict[frozenset[str], None] = {}
    for index in _looks(len(content.messages)):
        try:
            own = frozenset(_decoded(content.messages, index, content).names) & frozenset(wanted)
        except DataError:
            continue
        if own:
            found[own] = None
    return [one for one in found if not any(one < other for other in found)]


def _decoded(raw: RawMessages, index: int, content: TopicContent, fields: Sequence[str] = ()) -> _Message:
    """Decode one message of a topic.

    Args:
        raw: messages of the topic.
        index: index of the message.
        content: the topic.
        fields: fields that must hold a value for each joint.

    Raises:
        DataError: the message is malformed, or a field lacks a value for a joint.
    """
    try:
        message: Any = decode(raw[index], content.message_type)
    except DataError as error:
        raise DataError(f"message {index} of topic '{content.name}' cannot be decoded: {error}") from error
    stamp = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
    if content.message_type == DYNAMIC_JOINT_STATE:
        return _interfaces(message, stamp)
    if content.message_type == JOINT_STATE:
        names, source = message.name, message
    else:
        if len(message.points) != 1:
            got = len(message.points)
            raise DataError(f"message {index} of topic '{content.name}' has {got} trajectory points, expected 1")
        names, source = message.joint_names, message.points[0]
    values = {name: np.asarray(getattr(source, name)) for name in _FIELDS[content.message_type]}
    for name in fields:
        if len(values[name]) != len(names):
            raise DataError(f"message {index} of '{content.name}' has no {name} for each joint")
    return _Message(stamp, message.header.frame_id, tuple(names), values)


def _interfaces(message: Any, stamp_ns: int) -> _Message:
    """Convert a decoded DynamicJointState, using only joints with the interface "position".

    The values of another interface are NaN for joints that lack it, and an empty array if all joints lack it.
    """
    sent = [
        dict(zip(one.interface_names, one.values, strict=False))
        for one in message.interface_values[: len(message.joint_names)]
    ]
    pairs = [(name, own) for name, own in zip(message.joint_names, sent, strict=False) if "position" in own]
    values: dict[str, FloatArray] = {}
    for key in _FIELDS[DYNAMIC_JOINT_STATE]:
        there = any(key in own for _, own in pairs)
        values[key] = np.array([own.get(key, np.nan) for _, own in pairs] if there else [], dtype=np.float64)
    return _Message(stamp_ns, message.header.frame_id, tuple(name for name, _ in pairs), values)


def messages_alike(content: TopicContent, joints: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return a mask (N,) of the topic's messages that have the layout of the first message with all of `joints`."""
    raw, found = content.messages, np.zeros(len(content.messages), dtype=bool)
    first = _first_of(raw, content, joints)
    if first is None or content.message_type == DYNAMIC_JOINT_STATE:  # its layout may change with every message
        return found
    layout = _layout(content.message_type, first)
    for size in range(layout.size, layout.size + LONGEST_TAIL + 1, 4):
        indices, rows = raw.rows(size)
        found[indices[layout.matches(rows)]] = True
    return found


def _decode_alike(
    content: TopicContent,
    first: _Message,
    wanted: tuple[str, ...],
    stamps: NDArray[np.int64],
    values: dict[str, FloatArray],
) -> NDArray[np.bool_]:
    """Decode all messages of a topic that have the layout of `first`; return a mask (N,) of these messages.

    Args:
        content: topic with its N messages.
        first: decoded message that determines the layout.
        wanted: names of the wanted joints, (n,), in the wanted order.
        stamps: array that receives the header stamps, (N,) [ns].
        values: arrays (N, n) that receive the values, by field.
    """
    raw = content.messages
    layout = _layout(content.message_type, first)
    columns = _columns(first.names, wanted, content.name)
    done = np.zeros(len(raw), dtype=bool)
    for size in range(layout.size, layout.size + LONGEST_TAIL + 1, 4):
        indices, rows = raw.rows(size)
        matching = layout.matches(rows)
        if matching.any():
            indices, rows = (indices, rows) if matching.all() else (indices[matching], rows[matching])
            found = layout.view(rows)
            stamps[indices] = stamps_of(found)
            for name, target in values.items():
                target[indices] = found[name][:, columns]
            done[indices] = True
    return done


def _layout(message_type: str, first: _Message) -> Layout:
    if message_type == JOINT_TRAJECTORY:
        return reference_layout(first.names, first.frame_id)
    position, velocity, effort = (len(first.values[name]) for name in _FIELDS[JOINT_STATE])
    return joint_state_layout(first.names, first.frame_id, (position, velocity, effort))


def _columns(names: tuple[str, ...], wanted: tuple[str, ...], topic: str) -> Any:
    """Return the index (a list or slice) that brings columns of the joints `names` into the order of `wanted`.

    Raises:
        DataError: a wanted joint is missing, or a joint is named twice.
    """
    if names == wanted:
        return slice(None)
    missing = [name for name in wanted if name not in names]
    if missing or len(set(names)) != len(names):
        what = f"lacks the joint {', '.join(missing)}" if missing else "names a joint twice"
        raise DataError(f"topic '{topic}' {what}; its joints are: {', '.join(names)}")
    return [names.index(name) for name in wanted]


def strings(content: TopicContent) -> list[str]:
    """Return the texts of a std_msgs/String topic, in order.

    Raises:
        DataError: the topic is of another type.
    """
    if content.message_type != STRING:
        raise DataError(f"topic '{content.name}' is of type {content.message_type}, expected {STRING}")
    return [decode(raw, STRING).data for raw in content.messages]
