"""Bytes of real rclpy messages decoded by dynid, and dynid's bytes decoded by rclpy."""

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from builtin_interfaces.msg import Duration, Time
from diagnostic_msgs.msg import DiagnosticArray, KeyValue
from diagnostic_msgs.msg import DiagnosticStatus as RosStatus
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Header, String
from trajectory_msgs.msg import JointTrajectory

from dynid.recording.cdr import joint_state_layout
from dynid.recording.messages import (
    DiagnosticStatus,
    JointStateDecoder,
    JointStateEncoder,
    ReferenceEncoder,
    decode_diagnostics,
    encode_diagnostics,
    encode_string,
)

# Lengths of all remainders by 8: every amount of padding before the arrays.
NAME_SETS = [tuple("j" * length + str(k) for k in range(3)) for length in range(1, 9)]
STAMP = 1_700_000_000_123_456_789


def joint_state(names: Sequence[str], frame: str = "", seed: int = 0, fields: str = "pve") -> JointState:
    rng = np.random.default_rng(seed)
    numbers = [rng.standard_normal(len(names)).tolist() if field in fields else [] for field in "pve"]
    header = Header(stamp=Time(sec=STAMP // 10**9, nanosec=STAMP % 10**9), frame_id=frame)
    return JointState(header=header, name=list(names), position=numbers[0], velocity=numbers[1], effort=numbers[2])


@pytest.mark.parametrize("names", NAME_SETS, ids=len)
@pytest.mark.parametrize("frame", ["", "b", "base_link", "a_frame"])
@pytest.mark.parametrize("fields", ["pve", "e", "p", "pe"])
def test_joint_states_of_rclpy_are_decoded(names: tuple[str, ...], frame: str, fields: str) -> None:
    decoder = JointStateDecoder(names)
    for seed in (1, 2):  # the first is learnt from, the second takes the fast path
        sent = joint_state(names, frame, seed, fields)
        found = decoder.decode(serialize_message(sent))
        assert found is not None and found[0] == STAMP
        for name, letter in (("position", "p"), ("velocity", "v"), ("effort", "e")):
            if letter in fields:
                np.testing.assert_array_equal(found[1][name], getattr(sent, name))
            else:
                assert np.isnan(found[1][name]).all()


@pytest.mark.parametrize("names", NAME_SETS, ids=len)
def test_layout_mask_covers_the_constant_bytes_of_rclpy(names: tuple[str, ...]) -> None:
    layout = joint_state_layout(names, "base", (3, 3, 3))
    raw = np.frombuffer(serialize_message(joint_state(names, "base")), np.uint8)
    other = np.frombuffer(serialize_message(joint_state((*names[:2], names[2][:-1] + "x"), "base")), np.uint8)
    assert layout.matches(raw[None, :]).all()
    assert not layout.matches(other[None, :]).any()
    padded = raw.copy()
    padded[: layout.size][layout.mask == 0] ^= 0xA5  # padding and variable bytes may be anything
    assert layout.matches(padded[None, :]).all()


def test_joints_are_found_in_any_order_and_others_are_ignored() -> None:
    names = NAME_SETS[4]
    sent = joint_state(("gripper", *reversed(names)))
    found = JointStateDecoder(names).decode(serialize_message(sent))
    assert found is not None
    np.testing.assert_array_equal(found[1]["position"], list(sent.position)[:0:-1])
    assert JointStateDecoder((*names, "absent")).decode(serialize_message(sent)) is None


def test_a_publisher_may_change_its_layout() -> None:
    names = NAME_SETS[2]
    decoder = JointStateDecoder(names)
    for sent in (joint_state(names), joint_state(names, fields="e"), joint_state(names[::-1]), joint_state(names, "f")):
        found = decoder.decode(serialize_message(sent))
        assert found is not None
        np.testing.assert_array_equal(found[1]["effort"], [sent.effort[sent.name.index(name)] for name in names])


@pytest.mark.parametrize("names", NAME_SETS, ids=len)
def test_rclpy_decodes_our_messages(names: tuple[str, ...]) -> None:
    q, dq, ddq = np.random.default_rng(3).standard_normal((3, 3))
    raw = JointStateEncoder(names, "base").encode(STAMP, position=q, velocity=dq, effort=ddq)
    state = deserialize_message(raw, JointState)
    assert list(state.name) == list(names) and state.header.frame_id == "base"
    assert state.header.stamp == Time(sec=STAMP // 10**9, nanosec=STAMP % 10**9)
    np.testing.assert_array_equal([state.position, state.velocity, state.effort], [q, dq, ddq])
    trajectory = deserialize_message(ReferenceEncoder(names).encode(STAMP, q, dq, ddq), JointTrajectory)
    (point,) = trajectory.points
    assert list(trajectory.joint_names) == list(names) and point.time_from_start == Duration()
    np.testing.assert_array_equal([point.positions, point.velocities, point.accelerations], [q, dq, ddq])


def test_texts_and_diagnostics_are_exchanged_with_rclpy() -> None:
    text = "a robot: \u00e4\u00f6\u00fc, {json: 1}"
    assert deserialize_message(encode_string(text), String).data == text
    ours = DiagnosticStatus("hardware", 2, "fault", "arm", {"missed": "3", "x": ""})
    found = deserialize_message(encode_diagnostics(STAMP, [ours]), DiagnosticArray)
    assert [(pair.key, pair.value) for pair in found.status[0].values] == [("missed", "3"), ("x", "")]
    assert found.status[0].level == b"\x02"
    pairs = [KeyValue(key=key, value=value) for key, value in ours.values.items()]
    status = RosStatus(level=b"\x02", name="hardware", message="fault", hardware_id="arm", values=pairs)
    header = Header(stamp=Time(sec=STAMP // 10**9, nanosec=STAMP % 10**9))
    assert decode_diagnostics(serialize_message(DiagnosticArray(header=header, status=[status]))) == (STAMP, (ours,))
