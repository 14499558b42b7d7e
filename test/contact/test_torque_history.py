"""Torques in force between two states: online, along a recording, and computed by hand."""

import numpy as np
import pytest

from dynid.contact.recorded import torques_before
from dynid.contact.torque_history import HISTORY, TorqueHistory
from dynid.errors import ConfigurationError
from dynid.identification.data.signals import Signals, Torques
from dynid.identification.settings import load_identification
from dynid.robot import load_robot

MS = 1_000_000


def constant(value: float) -> np.ndarray:
    return np.full(2, value)


def test_a_torque_acts_until_the_next_one_is_written() -> None:
    """Stamps of 1 ms; what answers a state is written 0.4 ms later."""
    found = TorqueHistory(2, 0.0004)
    assert (found.between(0, MS) == 0.0).all(), "nothing was written yet"
    found.note(0, constant(10.0))
    found.note(MS, constant(20.0))
    np.testing.assert_allclose(found.between(0, MS), constant(6.0))
    np.testing.assert_allclose(found.between(MS, 2 * MS), constant(0.4 * 10.0 + 0.6 * 20.0))
    found.note(MS, constant(99.0))  # once more: it was written, and does not count again
    np.testing.assert_allclose(found.between(2 * MS, 4 * MS), constant(20.0))
    np.testing.assert_allclose(found.between(0, 2 * MS), constant((10.0 + 0.6 * 20.0) / 2.0))


def test_late_command_is_not_counted_as_in_force() -> None:
    """Torques that alternate: the last command has the other sign than what the arm had."""
    found = TorqueHistory(2)
    for k in range(6):
        found.note(k * MS, constant((-1.0) ** k))
        if k:
            np.testing.assert_allclose(found.between((k - 1) * MS, k * MS), constant((-1.0) ** (k - 1)))


def test_missing_torques_are_counted_and_a_clock_set_back_restarts() -> None:
    found = TorqueHistory(2)
    for k in range(5):
        if k != 2:
            found.note(k * MS, constant(float(k)))
        np.testing.assert_allclose(found.between(k * MS, (k + 1) * MS), constant(1.0 if k == 2 else float(k)))
    assert found.missing == 1 and found.newest_ns == 4 * MS
    found.note(MS, constant(7.0))
    assert found.newest_ns == MS
    np.testing.assert_allclose(found.between(MS, 2 * MS), constant(7.0))


def test_a_full_history_forgets_its_oldest_torques() -> None:
    found = TorqueHistory(2)
    for k in range(2 * HISTORY):
        found.note(k * MS, constant(float(k)))
    begin = 2 * HISTORY - 10
    np.testing.assert_allclose(found.between(begin * MS, (begin + 1) * MS), constant(float(begin)))


@pytest.mark.parametrize("cycle_s", [0.001, 0.002])
def test_online_torques_equal_those_of_a_recording(cycle_s: float) -> None:
    """Stamps jitter, states are lost, and the delay of a recording is to the middle of a torque's effect."""
    robot, random = load_robot("crane_x7"), np.random.default_rng(4)
    settings = load_identification(robot)
    transmission = settings.transmission(robot, simulated=False)
    time = cycle_s * (np.arange(200) + 0.2 * random.uniform(-1.0, 1.0, 200))
    tau, seen = random.normal(size=(200, 2)), np.sort(random.choice(200, 150, replace=False))
    given = Torques(time, tau, "goal", settings.goal_delay(robot, cycle_s, simulated=False))
    q = np.zeros((150, 2))
    signals = Signals(("a", "b"), time[seen], q, time[seen], q, np.ones(2), other=given)
    along, online = torques_before(signals), TorqueHistory(2, transmission)
    stamps = np.rint(time * 1e9).astype(int)
    for k in range(1, 150):
        for j in range(seen[k - 1], seen[k]):
            online.note(int(stamps[j]), tau[j])
        found = online.between(int(stamps[seen[k - 1]]), int(stamps[seen[k]]))
        if k > 1:  # what was in force before the first row, a recording does not say
            np.testing.assert_allclose(found, along[k], atol=0.02)  # the hold is that of the median period


def test_the_transmission_delay_excludes_the_hold_of_the_cycle() -> None:
    """Of 0.9 ms to the middle of a goal current's effect, half a cycle of 1 ms is its own hold."""
    robot = load_robot("crane_x7")
    settings = load_identification(robot)
    assert settings.transmission(robot, simulated=False) == pytest.approx(0.0004)
    assert settings.transmission(robot, simulated=True) == 0.0
    for cycle_s in (0.001, 0.002):  # the hold is that of the cycle in force, the transmission that of the line
        assert settings.goal_delay(robot, cycle_s, simulated=False) == pytest.approx(0.0004 + 0.5 * cycle_s)
    with pytest.raises(ConfigurationError, match=r"goal_delay_s of crane_x7 is 0\.0003 s, expected at least half"):
        settings.model_copy(update={"goal_delay_s": 0.0003}).transmission(robot, simulated=False)
