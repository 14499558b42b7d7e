"""The emergency stop: publishers that may have pressed it, and those that can release it."""

import time
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from std_msgs.msg import Bool

from dynid.nodes.common import LATCHED, STREAM
from dynid.nodes.emergency_stop import DELIVERY_S, QUALITIES, EmergencyStop, PressedPublishers
from dynid.nodes.supervisor import Supervisor

BUTTON, WINDOW = b"button", b"window"


def presses(*present: bytes, since_s: float = 0.0) -> PressedPublishers:
    found = PressedPublishers()
    found.update_publishers(frozenset(present), len(present), since_s)
    return found


def test_single_publisher_can_release_its_press() -> None:
    one = presses(BUTTON)
    one.press(0, 0.0)
    assert one.active and not one.release(0.9 * DELIVERY_S), "a message of one that has left may still arrive"
    assert one.active and one.release(DELIVERY_S) and not one.active


def test_false_of_another_publisher_releases_nothing() -> None:
    one = presses(BUTTON)
    one.press(0, 0.0)
    one.update_publishers(frozenset((BUTTON, WINDOW)), 2, 5.0)
    assert not one.release(9.0) and one.pressed == {BUTTON}
    one.update_publishers(frozenset((BUTTON,)), 1, 10.0)
    assert not one.release(10.5) and one.release(11.0) and not one.active


def test_true_among_several_publishers_counts_for_all() -> None:
    one = presses(BUTTON, WINDOW)
    one.press(0, 0.0)
    one.update_publishers(frozenset((BUTTON,)), 1, 1.0)
    assert one.release(3.0) and one.active, "the other one may have pressed, and has left"
    assert one.unknown and not one.pressed


def test_vanished_publisher_keeps_the_stop_pressed() -> None:
    one = presses(BUTTON)
    one.press(0, 0.0)
    one.update_publishers(frozenset((WINDOW,)), 1, 5.0)
    assert one.release(9.0) and one.unknown
    one.update_publishers(frozenset((BUTTON,)), 1, 10.0)  # also if it comes back
    assert one.release(99.0) and one.unknown


def test_a_publisher_counted_before_it_is_identified_is_unknown() -> None:
    early = PressedPublishers()
    early.update_publishers(frozenset(), 1, 0.0)
    early.press(0, 0.0)
    beside = PressedPublishers()
    beside.update_publishers(frozenset((BUTTON,)), 2, 0.0)
    beside.press(0, 0.0)
    assert early.unknown and beside.unknown and beside.pressed == {BUTTON}
    assert not beside.release(9.0)


def test_repeated_message_presses_for_no_other_publisher() -> None:
    one = presses(BUTTON)
    one.press(0, 5.0)
    one.update_publishers(frozenset((BUTTON, WINDOW)), 2, 5.1)
    one.press(1, 5.1)
    one.press(2, 5.1)
    assert one.pressed == {BUTTON}
    one.press(2, 5.2)  # the same subscription again: another message
    assert one.pressed == {BUTTON, WINDOW}


def test_a_message_that_arrives_much_later_counts_for_all() -> None:
    one = presses(BUTTON)
    one.press(0, 5.0)
    one.update_publishers(frozenset((BUTTON, WINDOW)), 2, 6.0)
    one.press(1, 6.0)
    assert one.pressed == {BUTTON, WINDOW}


def test_replaced_publisher_between_checks_is_noticed() -> None:
    one = presses(BUTTON)
    one.update_publishers(frozenset((WINDOW,)), 1, 5.0)
    assert not one.has_sole_publisher(5.5) and one.has_sole_publisher(6.0)


class Watched:
    """An emergency stop of a node, and the publishers of another one."""

    def __init__(self, listening: Supervisor, others: Supervisor) -> None:
        self.listening, self.others = listening, others
        self.stops: list[str] = []
        node: Any = listening.node
        self.stop = EmergencyStop(node, self.stops.append)

    def publisher(self, quality: Any = LATCHED) -> Any:
        count = len(self.stop._presses.present)
        made = self.others.node.create_publisher(Bool, "estop", quality)
        self.listening.wait(lambda: len(self.stop._presses.present) == count + 1, 10.0, "the publisher")
        reached = len(QUALITIES) if quality is LATCHED else len(QUALITIES) - 1
        self.listening.wait(lambda: made.get_subscription_count() == reached, 10.0, "the subscriptions")
        return made

    def pass_time(self, seconds: float = 1.5 * DELIVERY_S) -> None:
        end_s = time.monotonic() + seconds
        self.listening.wait(lambda: time.monotonic() >= end_s, 30.0, "the passing of time")


def test_a_window_that_starts_and_sends_false_releases_no_button(domain: str) -> None:
    with Supervisor() as listening, Supervisor() as others:
        watched = Watched(listening, others)
        stop, button = watched.stop, watched.publisher()
        watched.pass_time()
        button.publish(Bool(data=True))
        listening.wait(lambda: stop.pressed, 10.0, "the press")
        assert len(watched.stops) == 1 and watched.stops[0].startswith("emergency stop: true on topic estop (from ")
        window = watched.publisher(STREAM)
        window.publish(Bool(data=False))
        watched.pass_time()
        assert stop.pressed and "2 publishers send it" in stop.clear_refusal and stop.refusal == stop.clear_refusal
        button.publish(Bool(data=False))  # nobody can say whose that is
        watched.pass_time(0.5)
        assert stop.pressed
        others.node.destroy_publisher(window)
        listening.wait(lambda: not stop.pressed, 10.0, "what the button has latched")
        assert not stop.refusal and len(watched.stops) == 1


def test_a_button_that_vanished_stays_pressed_until_the_fault_is_cleared(domain: str) -> None:
    with Supervisor() as listening, Supervisor() as others:
        watched = Watched(listening, others)
        stop, button = watched.stop, watched.publisher(STREAM)
        button.publish(Bool(data=True))
        listening.wait(lambda: stop.pressed, 10.0, "the press")
        assert "must publish false" in stop.clear_refusal
        others.node.destroy_publisher(button)
        listening.wait(lambda: not stop.clear_refusal, 10.0, "the end of the publisher")
        assert stop.pressed and "has left topic estop" in stop.refusal
        window = watched.publisher(STREAM)
        watched.pass_time()
        window.publish(Bool(data=False))
        watched.pass_time(0.5)
        assert stop.pressed
        stop.forget_absent()
        assert not stop.pressed and not stop.refusal
