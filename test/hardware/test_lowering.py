"""Phases of a stop: conditions for switching torque off."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from dynid.hardware.safety.lowering import Phase, StopSequence
from dynid.hardware.safety.posture import Posture
from dynid.hardware.safety.settings import SafetySettings
from dynid.robot import Robot

CYCLE_S = 0.001
STILL, NOTHING = np.zeros(8), np.zeros(8)
UPRIGHT = np.zeros(8)
HANGING = np.deg2rad([0.0, 0.0, 0.0, -10.0, 0.0, 0.0, 0.0, 0.0])


@pytest.fixture
def settings() -> SafetySettings:
    return SafetySettings(hold_s=0.5, stop_dwell_s=0.1, lower_dwell_s=0.3, lean_s=0.2, longest_stop_s=5.0)


@pytest.fixture
def hanging(robot: Robot, settings: SafetySettings) -> StopSequence:
    """A stop of an arm below its base, where no joint can balance."""
    return StopSequence(settings, Posture(robot, "hanging"))


@pytest.fixture
def upright(robot: Robot, settings: SafetySettings) -> StopSequence:
    return StopSequence(settings, Posture(robot))


Motion = Callable[[StopSequence, float], np.ndarray]


def run(stop: StopSequence, q: np.ndarray, motion: Motion | None = None, hold_s: float = 0.0) -> list[Phase]:
    """Advance a stop until it is done; the phases it was in, one per cycle."""
    phases: list[Phase] = []
    stop.begin(hold_s)
    while not stop.done:
        now = q if motion is None else q + motion(stop, CYCLE_S * len(phases))
        stop.advance(now, STILL, NOTHING, CYCLE_S)
        phases.append(stop.phase)
        assert len(phases) <= 6000
    return phases


def lengths(phases: list[Phase]) -> dict[Phase, float]:
    return {phase: CYCLE_S * phases.count(phase) for phase in Phase}


@pytest.mark.slow
def test_stop_holds_lowers_and_checks_then_ends(hanging: StopSequence) -> None:
    times = lengths(run(hanging, HANGING, hold_s=0.5))
    assert hanging.rested and times[Phase.LEAN] == 0.0
    assert times[Phase.HOLD] == pytest.approx(0.5, abs=0.003)
    assert times[Phase.RELEASED] == pytest.approx(0.3, abs=0.003)


def test_unloaded_arm_is_held_and_checked(hanging: StopSequence) -> None:
    assert lengths(run(hanging, HANGING, hold_s=1.0))[Phase.HOLD] == pytest.approx(1.0, abs=0.003)
    assert lengths(run(hanging, HANGING))[Phase.RELEASED] >= 0.297


def test_an_upright_arm_is_leaned_to_both_sides_before_its_release(upright: StopSequence) -> None:
    sides: list[np.ndarray] = []

    def watched(stop: StopSequence, _: float) -> np.ndarray:
        sides.append(stop.sides.copy())
        return STILL

    phases = run(upright, UPRIGHT + 0.01, watched)
    leaned = {tuple(one) for one in sides if one.any()}
    assert len(leaned) == 2 and np.sum(list(leaned), axis=0) == pytest.approx(0.0)
    assert {1, 3, 5} == {
        axis for one in leaned for axis in np.flatnonzero(one)
    }  # not those that turn about the vertical
    assert phases[-1] is Phase.RELEASED and upright.rested


def test_an_arm_that_sags_while_nothing_holds_it_is_caught_and_does_not_count_as_rested(
    hanging: StopSequence, settings: SafetySettings
) -> None:
    sagging: list[float] = [0.0]

    def sags(stop: StopSequence, _: float) -> np.ndarray:
        if stop.phase is Phase.RELEASED:
            sagging[0] += 0.0005
        return sagging[0] * (np.arange(8) == 1)

    phases = run(hanging, HANGING, sags)
    assert not hanging.rested and CYCLE_S * len(phases) == pytest.approx(settings.longest_stop_s, abs=0.002)
    caught = sum(before is Phase.RELEASED and after is Phase.LOWER for before, after in pairwise(phases))
    assert caught >= 5


def test_arm_that_moves_slowly_without_current_is_not_at_rest(hanging: StopSequence) -> None:
    """The arm moves below the resolution of any velocity register."""
    phases = run(hanging, HANGING, lambda _, time_s: 0.03 * time_s * (np.arange(8) == 3))
    assert not hanging.rested and phases.count(Phase.RELEASED) > 1000


def test_a_fast_arm_is_caught_at_once(hanging: StopSequence) -> None:
    hanging.begin(0.0)
    while hanging.phase is not Phase.RELEASED:
        hanging.advance(HANGING, STILL, NOTHING, CYCLE_S)
    hanging.advance(HANGING, 0.3 * (np.arange(8) == 1), NOTHING, CYCLE_S)
    assert hanging.phase is Phase.LOWER


def test_arm_held_by_a_contact_is_not_checked(hanging: StopSequence) -> None:
    hanging.begin(0.0)
    for _ in range(1000):
        hanging.advance(HANGING, STILL, 0.1 * (np.arange(8) == 1), CYCLE_S)
    assert hanging.phase is Phase.LOWER


def test_one_lost_reply_does_not_end_a_long_stop(robot: Robot) -> None:
    stop = StopSequence(SafetySettings(stop_time_s=0.2, longest_stop_s=5.0), Posture(robot, "hanging"))
    stop.begin(0.0)
    for cycle in range(1000):
        lost = np.zeros(8, dtype=bool) if cycle % 100 == 0 else None
        stop.advance(HANGING, STILL, 0.1 * (np.arange(8) == 1), CYCLE_S, lost)
    assert not stop.done


@pytest.mark.parametrize(("seen", "seconds"), [(0, 1.0), (7, 3.0), (8, 3.0)])
def test_an_arm_that_never_comes_to_rest_is_bounded_in_time(robot: Robot, seen: int, seconds: float) -> None:
    stop = StopSequence(SafetySettings(lower_from_s=0.6, stop_time_s=1.0, longest_stop_s=3.0), Posture(robot))
    stop.begin(0.5)
    cycles = 0
    while not stop.done:
        stop.advance(UPRIGHT, np.ones(8), NOTHING, CYCLE_S, np.arange(8) < seen)
        cycles += 1
    assert CYCLE_S * cycles == pytest.approx(seconds, abs=0.002) and not stop.rested and stop.strength < 1.0
