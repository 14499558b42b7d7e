"""A recorded motion is complete once every topic has reached its end."""

import pytest

from dynid.recording.completeness import MotionCompletion, reported_motion
from dynid.recording.messages import JointStateEncoder, ReferenceEncoder, encode_string
from dynid.recording.settings import ExperimentSettings

END_NS = 5_000_000_123
BEGUN = ExperimentSettings(trajectory="V01", profile="limited", controller="ff_pd", gains={}, duration_s=1.0)
MOVING = BEGUN.entered("approach", 10).entered("trajectory", 1_000_000_000)
STATE, REFERENCE = JointStateEncoder(("a", "b")), ReferenceEncoder(("a", "b"))


def message(settings: ExperimentSettings) -> bytes:
    return encode_string(settings.model_dump_json())


def state(stamp_ns: int) -> bytes:
    return STATE.encode(stamp_ns, position=[0, 0], velocity=[0, 0], effort=[0, 0])


def reference(stamp_ns: int) -> bytes:
    return REFERENCE.encode(stamp_ns, [0, 0], [0, 0], [0, 0])


@pytest.fixture
def completion() -> MotionCompletion:
    return MotionCompletion("/experiment", ["/joint_states", "/reference", "/joint_commands"])


def test_a_motion_is_complete_once_every_seen_topic_reached_its_end(completion: MotionCompletion) -> None:
    assert not completion.note("/experiment", message(MOVING))
    for stamp_ns in (END_NS - 3_000_000, END_NS - 2_000_000):
        assert not completion.note("/joint_states", state(stamp_ns)) and not completion.note(
            "/reference", reference(stamp_ns)
        )
    assert not completion.note("/experiment", message(MOVING.entered("done", END_NS)))
    assert not completion.note("/joint_states", state(END_NS - 1))
    assert not completion.note("/reference", reference(END_NS)), "states are still on their way"
    assert completion.missing == {"/joint_states"}
    assert completion.note("/joint_states", state(END_NS)) and not completion.missing
    assert not completion.note("/joint_states", state(END_NS + 1)), "news only once"
    assert not completion.missing


def test_topics_without_stamps_are_not_awaited(completion: MotionCompletion) -> None:
    completion.note("/joint_commands", state(0))
    completion.note("/joint_states", state(END_NS))
    completion.note("/experiment", message(MOVING))
    assert completion.note("/experiment", message(MOVING.entered("done", END_NS)))


@pytest.mark.parametrize("phase", ["done", "cancelled"])
def test_the_message_of_the_end_may_be_the_last_to_come(completion: MotionCompletion, phase: str) -> None:
    completion.note("/joint_states", state(END_NS + 5))
    completion.note("/diagnostics", b"")
    completion.note("/experiment", message(MOVING))
    assert completion.missing == {"the end of the motion on /experiment"}
    assert completion.note("/experiment", message(MOVING.entered(phase, END_NS)))  # type: ignore[arg-type]
    assert not completion.missing


def test_another_motion_in_the_same_bag_has_an_end_of_its_own(completion: MotionCompletion) -> None:
    completion.note("/joint_states", state(END_NS))
    completion.note("/experiment", message(MOVING.entered("done", END_NS)))
    assert not completion.note("/experiment", message(BEGUN.entered("approach", END_NS + 10)))
    assert completion.missing
    assert not completion.note("/joint_states", state(END_NS + 10**9))
    assert completion.note(
        "/experiment", message(BEGUN.entered("approach", END_NS + 10).entered("done", END_NS + 10**9))
    )


def test_messages_of_other_publishers_are_ignored(completion: MotionCompletion) -> None:
    completion.note("/joint_states", state(END_NS))
    assert not completion.note("/experiment", encode_string("hello")) and not completion.missing
    assert not completion.note("/experiment", message(BEGUN)) and not completion.missing, "it has not started"
    assert reported_motion(encode_string("{}")) is None and reported_motion(message(MOVING)) == MOVING
