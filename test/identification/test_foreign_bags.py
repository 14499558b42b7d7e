"""Bags of other software: several publishers on one topic, missing efforts, clocks that are set back."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from recordings import recorded
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import DataError
from dynid.identification.data.log_search import FoundLog, find_logs
from dynid.identification.data.recordings import load_recording
from dynid.identification.pipeline import identify
from dynid.identification.settings import load_identification
from dynid.recording.bag_metadata import Topic
from dynid.recording.bag_writer import BagWriter
from dynid.recording.log import Log, LogFacts
from dynid.recording.messages import (
    JOINT_STATE,
    JOINT_TRAJECTORY,
    STRING,
    JointStateEncoder,
    ReferenceEncoder,
    encode_string,
)
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("planar_3r")
SETTINGS = load_identification(ROBOT)
SIGNALS = recorded(ROBOT).signals(SETTINGS)
WHOLE = JointStateEncoder(ROBOT.joint_names)
START_NS = 1_000_000_000_000
Message = Callable[[int, int], list[bytes]]  # of row and stamp [ns]


def sent(k: int, stamp_ns: int, encoder: JointStateEncoder = WHOLE, **changed: FloatArray) -> bytes:
    own = {"position": SIGNALS.q[k], "velocity": np.zeros(3), "effort": SIGNALS.tau[k]} | changed
    return encoder.encode(stamp_ns, **own)


def write(path: Path, message: Message, topic: str = "/joint_states") -> Path:
    writer = BagWriter(path, [Topic(topic, JOINT_STATE)])
    writer.open()
    for k, time in enumerate(SIGNALS.time.tolist()):
        at = START_NS + round(1e9 * time)
        for one in message(k, at):
            writer.write(topic, at, one)
    writer.close()
    return path


def found(path: Path) -> FoundLog:
    (one,) = find_logs(path, ROBOT)
    return one


def test_messages_of_a_gripper_on_the_same_topic_are_left_out(tmp_path: Path) -> None:
    gripper = JointStateEncoder(("finger",))
    other = gripper.encode(START_NS, position=[0.0], velocity=[0.0], effort=[0.0])
    log = found(write(tmp_path / "bag", lambda k, at: [other, sent(k, at)])).read()
    np.testing.assert_array_equal(log.q, SIGNALS.q)
    assert log.tau is not None and f"{len(log.q)} of {2 * len(log.q)} messages were left out" in log.notes[0]
    assert "lacks the joint" in log.notes[0]


def test_efforts_that_are_missing_or_not_finite_cost_their_own_rows(tmp_path: Path) -> None:
    bare = JointStateEncoder(ROBOT.joint_names, fields=("position",))

    def message(k: int, at: int) -> list[bytes]:
        if k % 3 == 0:
            return [bare.encode(at, position=SIGNALS.q[k])]
        return [sent(k, at, effort=np.full(3, np.nan) if k % 5 == 0 else SIGNALS.tau[k])]

    log = found(write(tmp_path / "bag", message)).read()
    rows = [k for k in range(len(SIGNALS.q)) if k % 3 and k % 5]
    assert log.tau is not None
    np.testing.assert_array_equal(log.tau, SIGNALS.tau[rows])
    assert "has no effort for each joint" in log.notes[0] and "not finite" in log.notes[1]
    nothing = write(tmp_path / "nan", lambda k, at: [sent(k, at, effort=np.full(3, np.nan))])
    assert found(nothing).read().tau is None  # a broadcaster without that interface


def test_messages_without_stamps_have_the_recorders_times(tmp_path: Path) -> None:
    log = found(write(tmp_path / "bag", lambda k, at: [sent(k, 0)])).read()
    np.testing.assert_allclose(log.time, SIGNALS.time - SIGNALS.time[0], atol=1e-8)
    assert "no stamps of their own" in log.notes[0]


def test_commands_without_stamps_have_the_recorders_times(tmp_path: Path) -> None:
    """A trajectory with stamp 0 is to start at once."""
    encode = ReferenceEncoder(ROBOT.joint_names)
    writer = BagWriter(tmp_path / "bag", [Topic("/joint_states", JOINT_STATE), Topic("/command", JOINT_TRAJECTORY)])
    writer.open()
    for k, time in enumerate(SIGNALS.time.tolist()):
        at = START_NS + round(1e9 * time)
        writer.write("/joint_states", at + 1000, sent(k, at))
        writer.write("/command", at, encode.encode(0, SIGNALS.q[k] + 0.01, np.zeros(3), np.zeros(3)))
    writer.close()
    log = found(tmp_path / "bag").read()
    np.testing.assert_allclose(log.goal, SIGNALS.q + 0.01)


def test_gaps_are_counted_whatever_rows_they_leave() -> None:
    time = np.concatenate([np.arange(30), 100 + np.arange(5), 200 + np.arange(30)]) * 0.01
    log = Log("gaps", ("a",), time, np.sin(time)[:, None], None)
    assert LogFacts.of(log).gaps == 2 and len(log.pieces()) == 2


def test_a_clock_that_is_set_back_starts_a_new_piece(tmp_path: Path) -> None:
    half = len(SIGNALS.q) // 2
    back = 5_000_000_000
    log = found(write(tmp_path / "bag", lambda k, at: [sent(k, at - back * (k >= half))])).read()
    np.testing.assert_array_equal(log.q, SIGNALS.q)
    assert [len(one.q) for one in log.pieces()] == [half, len(log.q) - half]
    assert "set back 1 times, by 4.99 s" in log.notes[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "said"),
    [
        (lambda k, at: [sent(k, at, effort=np.zeros(3))], "the torque is the same in every row"),
        (lambda k, at: [sent(k, at, effort=1e3 * SIGNALS.tau[k])], "its limit in robot.yaml is"),
        (lambda k, at: [sent(k, at, position=np.degrees(SIGNALS.q[k]))], "its limits in robot.yaml are"),
        (
            lambda k, at: [sent(k, at), sent(k, at + 1_000_000, position=SIGNALS.q[k] + 0.5)],
            "two publishers on one topic",
        ),
    ],
    ids=["silent", "unit of efforts", "unit of positions", "two arms"],
)
def test_impossible_messages_are_refused_by_logs_and_identify(tmp_path: Path, message: Message, said: str) -> None:
    path = write(tmp_path / "bag", message)
    assert said in found(path).problem
    with pytest.raises(DataError, match=said):
        load_recording(path, ROBOT)
    done = CliRunner().invoke(app, ["logs", str(path), "--robot", "planar_3r", "--json"])
    assert said in json.loads(done.stdout)["logs"][0]["missing"]


@pytest.mark.slow
def test_identify_takes_joint_states_of_other_software_and_says_what_it_took_for_granted(tmp_path: Path) -> None:
    path = write(tmp_path / "bag", lambda k, at: [sent(k, at)], "/arm/joint_states")
    source = load_recording(path, ROBOT)
    assert "neither mount nor units" in source.notes[0] and source.torque_constants == ()
    direct = recorded(ROBOT)
    result = identify(ROBOT, [source], held_out_share=0.3)
    again = identify(ROBOT, [direct], held_out_share=0.3)
    np.testing.assert_allclose(result.base.values, again.base.values, rtol=1e-4, atol=1e-6)
    assert any("neither mount nor units" in note for note in result.notes)


def test_a_foreign_bag_without_torques_names_its_topics(tmp_path: Path) -> None:
    writer = BagWriter(tmp_path / "words", [Topic("/chatter", STRING)])
    writer.open()
    writer.write("/chatter", 1, encode_string("hello"))
    writer.close()
    with pytest.raises(DataError, match=r"no torques of robot 'planar_3r'.*its topics are: /chatter"):
        load_recording(tmp_path / "words", ROBOT)
    bare = JointStateEncoder(ROBOT.joint_names, fields=("position",))
    path = write(tmp_path / "bag", lambda k, at: [bare.encode(at, position=SIGNALS.q[k])])
    with pytest.raises(DataError, match="'/joint_states' carries no efforts"):
        load_recording(path, ROBOT)
