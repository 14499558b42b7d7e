"""One arm of a coupled pair: how long its driver may take to answer."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from rclpy.task import Future
from test.shared.felt import ROBOT

from dynid.nodes import pair_side
from dynid.nodes.pair_side import ANSWER_S, PairSide
from dynid.recording.messages import JointStateEncoder


class FakeDriver:
    """A node for `PairSide` whose service answers when it is told to, and the clocks of the host and of the arm."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host_s, self.arm_s, self.asked = 100.0, 500.0, list[Future]()
        clock = SimpleNamespace(monotonic=lambda: self.host_s, monotonic_ns=time.monotonic_ns)
        monkeypatch.setattr(pair_side, "time", clock)
        monkeypatch.setattr(pair_side, "SinglePublisherSubscription", lambda *args, **more: SimpleNamespace(refusal=""))
        nothing: Callable[..., None] = lambda *args, **more: None  # noqa: E731
        node = SimpleNamespace(
            create_publisher=nothing,
            create_subscription=nothing,
            create_client=lambda *args: SimpleNamespace(call_async=self._call),
        )
        self.side = PairSide(node, ROBOT, 0, nothing, nothing)
        self._encode = JointStateEncoder(ROBOT.joint_names)

    def _call(self, request: Any) -> Future:
        self.asked.append(Future())
        return self.asked[-1]

    def pass_time(self, host_s: float, arm_s: float) -> None:
        """Let time pass on both clocks; a state arrives at its end, unless the arm's clock stands."""
        self.host_s, self.arm_s = self.host_s + host_s, self.arm_s + arm_s
        if arm_s:
            none = np.zeros(ROBOT.size)
            self.side._on_state(self._encode.encode(round(1e9 * self.arm_s), position=none, velocity=none, effort=none))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    made = FakeDriver(monkeypatch)
    made.pass_time(0.0, 1.0)
    made.side.set_enabled(False, lambda refusal: None)
    return made


def test_arm_that_is_lowered_slowly_by_a_busy_host_is_waited_for(driver: FakeDriver) -> None:
    for _ in range(9):
        driver.pass_time(0.4 * ANSWER_S, 0.1 * ANSWER_S)
        assert not driver.side.overdue
    driver.pass_time(0.4 * ANSWER_S, 0.2 * ANSWER_S)
    assert driver.side.overdue == "the leader's driver did not answer within 60 s"


def test_driver_without_states_is_waited_for_by_the_host(driver: FakeDriver) -> None:
    driver.pass_time(0.9 * ANSWER_S, 0.0)
    assert not driver.side.overdue
    driver.pass_time(0.2 * ANSWER_S, 0.0)
    assert driver.side.overdue


def test_answer_ends_its_own_request_only(driver: FakeDriver) -> None:
    driver.side.set_enabled(False, lambda refusal: None)
    former, newest = driver.asked
    driver.pass_time(2.0 * ANSWER_S, 2.0 * ANSWER_S)
    former.set_result(SimpleNamespace(success=True, message=""))
    assert driver.side.overdue
    newest.set_result(SimpleNamespace(success=True, message=""))
    assert not driver.side.overdue
