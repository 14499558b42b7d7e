"""Fast encoders against rosbags' type store, and decoding of padding of several DDS implementations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynid.errors import DataError
from dynid.recording.bag_reader import TopicContent
from dynid.recording.cdr import joint_state_layout, reference_layout
from dynid.recording.messages import (
    JOINT_STATE,
    JOINT_TRAJECTORY,
    STRING,
    DiagnosticStatus,
    JointStateEncoder,
    ReferenceEncoder,
    decode,
    decode_diagnostics,
    encode_diagnostics,
    encode_string,
    own_types,
    type_store,
)
from dynid.recording.raw_messages import from_list
from dynid.recording.series import joint_series

STAMP = 1_700_000_000_123_456_789


def header(stamp: int, frame: str) -> object:
    types = type_store().types
    time = types["builtin_interfaces/msg/Time"](stamp // 10**9, stamp % 10**9)
    return types["std_msgs/msg/Header"](time, frame)


def store_joint_state(stamp: int, frame: str, names: list[str], *vectors: np.ndarray) -> bytes:
    arrays = map(np.ascontiguousarray, vectors)
    message = type_store().types[JOINT_STATE](header(stamp, frame), names, *arrays)
    return bytes(type_store().serialize_cdr(message, JOINT_STATE))


def store_reference(stamp: int, frame: str, names: list[str], q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> bytes:
    types = type_store().types
    duration = types["builtin_interfaces/msg/Duration"](0, 0)
    point = types["trajectory_msgs/msg/JointTrajectoryPoint"](q, dq, ddq, np.empty(0), duration)
    message = types[JOINT_TRAJECTORY](header(stamp, frame), names, [point])
    return bytes(type_store().serialize_cdr(message, JOINT_TRAJECTORY))


@settings(max_examples=60, deadline=None)
@given(
    names=st.lists(st.text(max_size=9), min_size=1, max_size=9, unique=True),
    frame=st.text(max_size=9),
    stamp=st.integers(0, 2**31 * 10**9 - 1),
    fields=st.sets(st.sampled_from(["position", "velocity", "effort"]), min_size=1),
)
def test_joint_state_bytes_equal_the_type_stores(names: list[str], frame: str, stamp: int, fields: set[str]) -> None:
    random = np.random.default_rng(len(names))
    vectors = {name: random.standard_normal(len(names)) for name in sorted(fields)}
    ours = JointStateEncoder(names, frame, sorted(fields)).encode(stamp, **vectors)
    every = (vectors.get(name, np.empty(0)) for name in ("position", "velocity", "effort"))
    assert ours == store_joint_state(stamp, frame, names, *every)


@settings(max_examples=30, deadline=None)
@given(names=st.lists(st.text(max_size=9), min_size=1, max_size=9, unique=True), frame=st.text(max_size=9))
def test_reference_bytes_equal_the_type_stores(names: list[str], frame: str) -> None:
    q, dq, ddq = np.random.default_rng(1).standard_normal((3, len(names)))
    assert ReferenceEncoder(names, frame).encode(STAMP, q, dq, ddq) == store_reference(STAMP, frame, names, q, dq, ddq)


def test_encode_many_equals_single_encodings() -> None:
    encoder = JointStateEncoder(["a", "b"], fields=["effort"])
    efforts = np.arange(6.0).reshape(3, 2)
    stamps = STAMP + np.arange(3)
    rows = encoder.encode_many(stamps, effort=efforts)
    for stamp, effort, row in zip(stamps, efforts, rows, strict=True):
        assert row.tobytes() == encoder.encode(int(stamp), effort=effort)


def test_encoder_refuses_other_fields() -> None:
    with pytest.raises(DataError, match="expected the fields effort, got position"):
        JointStateEncoder(["a"], fields=["effort"]).encode(STAMP, position=[1.0])


def test_small_messages_are_decoded_as_they_were_encoded() -> None:
    assert decode(encode_string("größe"), STRING).data == "größe"
    status = DiagnosticStatus("bus", 2, "servo 3 is silent", "arm", {"missed": "4", "rate": "999.8"})
    assert decode_diagnostics(encode_diagnostics(STAMP, [status])) == (STAMP, (status,))


def test_decoder_names_the_error() -> None:
    with pytest.raises(DataError, match="a message of 3 bytes is not a valid std_msgs/msg/String"):
        decode(b"\x00\x01\x00", STRING)
    with pytest.raises(DataError, match="not a valid std_msgs/msg/String"):
        decode(encode_string("x") + bytes(40), STRING)


def content(message_type: str, messages: list[bytes]) -> TopicContent:
    return TopicContent("/topic", message_type, messages=from_list(range(len(messages)), messages))


NAMES = ["a", "shoulder_joint", "bb"]


def test_bulk_decoding_equals_the_type_store() -> None:
    random = np.random.default_rng(2)
    messages, expected = [], []
    for k in range(50):
        q, dq, tau = random.standard_normal((3, 3))
        messages.append(store_joint_state(STAMP + k * 999_983_777, "base", NAMES, q, dq, tau))
        expected.append(decode(messages[-1], JOINT_STATE))
    series = joint_series(content(JOINT_STATE, messages))
    assert series.singly_decoded == 0 and series.joint_names == tuple(NAMES)
    np.testing.assert_array_equal(series.field("position"), [m.position for m in expected])
    np.testing.assert_array_equal(series.field("velocity"), [m.velocity for m in expected])
    np.testing.assert_array_equal(series.field("effort"), [m.effort for m in expected])
    stamps = [m.header.stamp.sec * 10**9 + m.header.stamp.nanosec for m in expected]
    np.testing.assert_array_equal(series.stamp_ns, stamps)


@pytest.mark.parametrize("tail", [0, 4])
@pytest.mark.parametrize("message_type", [JOINT_STATE, JOINT_TRAJECTORY])
def test_padding_and_tail_may_hold_anything(message_type: str, tail: int) -> None:
    """rclpy leaves old memory in padding bytes, and up to four bytes behind the end."""
    random = np.random.default_rng(4)
    values = random.standard_normal((20, 3, 3))
    make = store_joint_state if message_type == JOINT_STATE else store_reference
    layout = (joint_state_layout if message_type == JOINT_STATE else reference_layout)(tuple(NAMES), "base")
    free = layout.mask == 0
    for name in layout.fields.names or ():
        form, offset = layout.fields.fields[name][:2]  # type: ignore[index]
        free[offset : offset + form.itemsize] = False
    assert free.sum() > 2
    messages = []
    for k, vectors in enumerate(values):
        raw = np.frombuffer(make(STAMP + k, "base", NAMES, *vectors), dtype=np.uint8).copy()
        raw[free] = random.integers(0, 256, free.sum())
        messages.append(raw.tobytes() + random.bytes(tail))
    series = joint_series(content(message_type, messages))
    assert series.singly_decoded == 0
    np.testing.assert_array_equal(np.stack(list(series.values.values()), axis=1), values)


def test_varying_layouts_are_decoded_singly() -> None:
    values = np.random.default_rng(5).standard_normal((9, 3, 3))
    messages = [store_joint_state(STAMP + k, "base", NAMES, *v) for k, v in enumerate(values)]
    order = [2, 0, 1]
    messages[3] = store_joint_state(STAMP + 3, "other frame", [NAMES[k] for k in order], *values[3][:, order])
    message = decode(messages[6], JOINT_STATE)
    messages[6] = bytes(type_store().serialize_cdr(message, JOINT_STATE, little_endian=False))
    series = joint_series(content(JOINT_STATE, messages))
    assert series.singly_decoded == 2
    np.testing.assert_array_equal(np.stack(list(series.values.values()), axis=1), values)
    np.testing.assert_array_equal(series.stamp_ns, STAMP + np.arange(9))


def test_malformed_messages_are_left_out_and_counted() -> None:
    """Whatever a peer has published on a topic, the arm's own states are kept."""
    values = np.random.default_rng(5).standard_normal((9, 3, 3))
    messages = [store_joint_state(STAMP + k, "base", NAMES, *v) for k, v in enumerate(values)]
    messages[0] = messages[0][:-9]
    messages[4] = store_joint_state(STAMP + 4, "", NAMES, *np.ones((2, 3)), np.ones(1))
    messages[6] = b"\0\1"
    series = joint_series(content(JOINT_STATE, messages))
    kept = [1, 2, 3, 5, 7, 8]
    assert (series.left_out, series.singly_decoded) == (3, 0)
    assert series.reason.startswith("message 0 of topic '/topic' cannot be decoded")
    np.testing.assert_array_equal(series.stamp_ns, STAMP + np.array(kept))
    np.testing.assert_array_equal(np.stack(list(series.values.values()), axis=1), values[kept])


def test_series_that_cannot_be_decoded_are_refused() -> None:
    good = store_joint_state(STAMP, "", NAMES, *np.ones((3, 3)))
    with pytest.raises(DataError, match="holds no messages"):
        joint_series(content(JOINT_STATE, []))
    with pytest.raises(DataError, match=r"is of type std_msgs/msg/String, expected sensor_msgs"):
        joint_series(content(STRING, [encode_string("x")]))
    with pytest.raises(DataError, match="message 0 of topic '/topic' cannot be decoded"):
        joint_series(content(JOINT_STATE, [good[:-9], good[:40]]))
    with pytest.raises(DataError, match="lacks the joint c; its joints are: a, shoulder_joint, bb"):
        joint_series(content(JOINT_STATE, [good]), ("a", "c"))
    message = decode(store_reference(STAMP, "", NAMES, *np.ones((3, 3))), JOINT_TRAJECTORY)
    message.points = message.points * 2
    raw = bytes(type_store().serialize_cdr(message, JOINT_TRAJECTORY))
    with pytest.raises(DataError, match="has 2 trajectory points, expected 1"):
        joint_series(content(JOINT_TRAJECTORY, [raw]))


def test_the_types_of_this_package_are_those_of_ros() -> None:
    own, all_of_ros = own_types(), type_store()
    assert {JOINT_STATE, JOINT_TRAJECTORY} < own.types.keys() < all_of_ros.types.keys()
    for name in own.types:
        assert own.fielddefs[name] == all_of_ros.fielddefs[name]
        assert own.hash_rihs01(name) == all_of_ros.hash_rihs01(name)
