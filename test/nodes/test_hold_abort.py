"""The check before hand guiding, if its motion is aborted: the reason of the abort is in the error."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from test.shared.felt import ROBOT, model_file

from dynid.errors import NodeError, SafetyError
from dynid.nodes import holding
from dynid.runtime.model import Model

MODEL, POSTURE = Model.of_file(ROBOT, model_file()), ROBOT.rest_posture
ABORT = "the motion hold_check_1 was cancelled"


class Aborted:
    """Supervisor of an arm whose motion is aborted; afterwards the arm stands with given torques (n,) [N m]."""

    def __init__(self, tau: np.ndarray) -> None:
        self.tau, self.seconds, self.experiment = tau, 0.0, None
        self.node = SimpleNamespace(create_subscription=self.subscribe, destroy_subscription=lambda _: None)

    def subscribe(self, _: type, topic: str, take: Callable[[bytes], None], *_more: object, **_options: object) -> None:
        assert topic == "joint_states"
        self.take = take

    def now(self) -> float:
        return self.seconds

    def wait(self, condition: Callable[[], bool], *_: Any) -> None:
        while not condition():
            self.seconds += 0.01
            message = JointState(name=list(ROBOT.joint_names), position=POSTURE.tolist(), effort=self.tau.tolist())
            message.velocity = [0.0] * ROBOT.size
            message.header.stamp.sec, fraction = 100 + int(self.seconds), self.seconds % 1.0
            message.header.stamp.nanosec = int(1e9 * fraction)
            self.take(serialize_message(message))


@pytest.fixture(autouse=True)
def aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(*_: object) -> float:
        raise NodeError(ABORT)

    monkeypatch.setattr(holding, "execute", execute)
    monkeypatch.setattr(Aborted, "set_parameters", lambda *_: None, raising=False)


def check(tau: np.ndarray) -> None:
    motions = (holding.sway_motion(ROBOT, POSTURE, "hold_check_1"),)
    holding.check_holding(Aborted(tau), MODEL, motions)  # type: ignore[arg-type]


@pytest.mark.slow
def test_with_the_expected_load_only_the_abort_is_reported() -> None:
    with pytest.raises(NodeError, match=f"^{ABORT}$"):
        check(MODEL.gravity(POSTURE))


def test_with_an_unexpected_load_load_and_abort_are_reported() -> None:
    with pytest.raises(SafetyError, match=f"carries .* This was measured after the motion had been aborted: {ABORT}"):
        check(3.0 * MODEL.gravity(POSTURE) + 2.0)
