"""A bag holds a motion to its end when everything that came at all has come so far."""

import pytest

from dynid.recording.messages import JointStateEncoder, ReferenceEncoder, encode_string
from dynid.recording.motion_end import MotionEnd, ended_ns
from dynid.recording.settings import ExperimentSettings

END_NS = 5_000_000_123
BEGUN = ExperimentSettings(trajectory="V01", profile="limited", controller="ff_pd", gains={}, duration_s=1.0)
MOVING = BEGUN.entered("approach", 10).entered("trajectory", 1_000_000_000)
STATE, REFERENCE = JointStateEncoder(("a", "b")), ReferenceEncoder(("a", "b"))


def told(settings: ExperimentSettings) -> bytes:
    return encode_string(settings.model_dump_json())


def state(stamp_ns: int) -> bytes:
    return STATE.encode(stamp_ns, position=[0, 0], velocity=[0, 0], effort=[0, 0])


def reference(stamp_ns: int) -> bytes:
    return REFERENCE.encode(stamp_ns, [0, 0], [0, 0], [0, 0])


@pytest.fixture
def end() -> MotionEnd:
    return MotionEnd("/experiment", ["/joint_states", "/reference", "/joint_commands"])


def test_all_topics_that_came_must_have_come_so_far(end: MotionEnd) -> None:
    assert not end.note("/experiment", told(MOVING))
    for stamp_ns in (END_NS - 3_000_000, END_NS - 2_000_000):
        assert not end.note("/joint_states", state(stamp_ns)) and not end.note("/reference", reference(stamp_ns))
    assert not end.note("/experiment", told(MOVING.entered("done", END_NS)))
    assert not end.note("/joint_states", state(END_NS - 1))
    assert not end.note("/reference", reference(END_NS)), "states are still on their way"
    assert end.recorded_ns is None and end.behind == {"/joint_states"}
    assert end.note("/joint_states", state(END_NS)) and end.recorded_ns == END_NS
    assert not end.note("/joint_states", state(END_NS + 1)), "it is told once"
    assert end.recorded_ns == END_NS


def test_what_carries_no_stamp_is_not_waited_for(end: MotionEnd) -> None:
    end.note("/joint_commands", state(0))
    end.note("/joint_states", state(END_NS))
    assert end.note("/experiment", told(MOVING.entered("done", END_NS)))


@pytest.mark.parametrize("phase", ["done", "cancelled"])
def test_the_message_of_the_end_may_be_the_last_to_come(end: MotionEnd, phase: str) -> None:
    end.note("/joint_states", state(END_NS + 5))
    end.note("/diagnostics", b"")
    assert end.note("/experiment", told(MOVING.entered(phase, END_NS)))  # type: ignore[arg-type]
    assert end.recorded_ns == END_NS


def test_another_motion_in_the_same_bag_has_an_end_of_its_own(end: MotionEnd) -> None:
    end.note("/joint_states", state(END_NS))
    end.note("/experiment", told(MOVING.entered("done", END_NS)))
    assert not end.note("/experiment", told(BEGUN.entered("approach", END_NS + 10)))
    assert end.recorded_ns is None
    assert not end.note("/joint_states", state(END_NS + 10**9))
    assert end.note("/experiment", told(BEGUN.entered("approach", END_NS + 10).entered("done", END_NS + 10**9)))


def test_what_others_say_on_the_topic_ends_nothing(end: MotionEnd) -> None:
    end.note("/joint_states", state(END_NS))
    assert not end.note("/experiment", encode_string("hello"))
    assert ended_ns(encode_string("{}")) is None and ended_ns(told(MOVING)) is None
    assert ended_ns(told(MOVING.entered("done", END_NS))) == END_NS
