"""Messages of one arm of a pair: torques by state, ignored messages, and stamps of answers."""

import numpy as np
import pytest
from test.shared.felt import ROBOT, N

from dynid.control.bilateral.arm_messages import ArmMessages
from dynid.errors import DataError
from dynid.recording.messages import JointStateDecoder, JointStateEncoder

NAMES = ROBOT.joint_names
STATE, EFFORT = JointStateEncoder(NAMES), JointStateEncoder(NAMES, fields=("effort",))
Q = np.linspace(-0.5, 0.5, N)


def state(stamp_ns: int, q: np.ndarray = Q) -> bytes:
    return STATE.encode(stamp_ns, position=q, velocity=2.0 * Q, effort=3.0 * Q)


def test_a_state_carries_the_last_efforts_applied_before_it() -> None:
    messages = ArmMessages(NAMES)
    first = messages.reading(state(100))
    assert first is not None and first.tau is None
    for stamp_ns in (100, 200):
        messages.applied(EFFORT.encode(stamp_ns, effort=np.full(N, float(stamp_ns))))
    second = messages.reading(state(200))
    assert second is not None and second.stamp_ns == 200 and (second.tau == 100.0).all()
    np.testing.assert_array_equal(second.q, Q)
    np.testing.assert_array_equal([messages.state["velocity"], messages.state["effort"]], [2.0 * Q, 3.0 * Q])


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_messages_with_non_finite_values_are_ignored(wrong: float) -> None:
    messages, bad = ArmMessages(NAMES), np.where(np.arange(N) == 3, wrong, Q)
    assert messages.reading(state(100, bad)) is None
    messages.applied(EFFORT.encode(50, effort=bad))
    found = messages.reading(state(100))
    assert found is not None and found.tau is None
    assert ArmMessages(("another joint",)).reading(state(100)) is None
    for take in (messages.applied, messages.reading):
        with pytest.raises(DataError):
            take(b"no message")


def test_an_answer_carries_the_stamp_of_the_newest_state() -> None:
    messages = ArmMessages(NAMES)
    for stamp_ns in (100, 200):
        messages.reading(state(stamp_ns))
    decoded = JointStateDecoder(NAMES).decode(messages.answer(4.0 * Q))
    assert decoded is not None and decoded[0] == 200
    np.testing.assert_array_equal(decoded[1]["effort"], 4.0 * Q)
    assert np.isnan(decoded[1]["position"]).all()
