"""Decision whether a machine keeps its cycle rate, from cycles of a real loop on a clock that the test advances."""

import re
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from dynid.errors import SafetyError
from dynid.hardware.arm.cycle_rate import CycleRate, period_s, shortest_mean_s
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.bus.clock import Clock
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.loop.cycle_meter import CycleCounts, CycleMeter
from dynid.hardware.loop.cycle_pace import CyclePace
from dynid.hardware.loop.diagnostics import state_text
from dynid.hardware.loop.rate_trial import ON_TRIAL, RateTrial, RunWatch, Window
from dynid.hardware.safety.guard import SafetyGuard, SafetySettings
from dynid.hardware.safety.guard_states import GuardState
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus

MOST_CYCLES = 6000  # a trial is decided before
SERVING_S = 0.0004  # what a quick machine takes for a cycle


class SteppedClock(Clock):
    """Clock that advances only by sleeping and by the work of a cycle."""

    def __init__(self) -> None:
        self.now_ns = 10**9

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


def tried(robot: Robot, bus: EmulatedServoBus, pace: CyclePace, work_s: Callable[[int], float]) -> CyclePace:
    """Run the driver's loop, each cycle of which takes this machine so long [s], until its rate is decided."""
    clock = SteppedClock()
    count = 0
    with DynamixelArm(robot, bus.port, clock=clock) as arm:
        while True:
            arm.robot = robot.at_cycle(pace.rate.cycle_s)

            def on_cycle(*_: object) -> None:
                nonlocal count, over
                count += 1
                clock.now_ns += round(1e9 * work_s(count))
                pace.evaluate(loop)  # noqa: B023 - called by this loop only
                try:
                    over = pace.may_enable()
                except SafetyError:
                    over = True
                lowered = not over and pace.lower(unasked=False)
                if over or lowered or count > MOST_CYCLES:
                    loop.stop()  # noqa: B023

            over = False
            pace.restart()
            loop = ControlLoop(arm, SafetyGuard(arm.robot, SafetySettings()), on_cycle=on_cycle, slow_poll_every=0)
            loop.run()
            assert loop.error is None and count <= MOST_CYCLES
            if over:
                return pace


def chosen(rate_hz: int = 1000, *, fixed: bool = False) -> CycleRate:
    return CycleRate(rate_hz, period_s(rate_hz), 0.0005, 0.0002, 1000, fixed)


@pytest.mark.slow
def test_a_rate_that_the_machine_keeps_stays(robot: Robot, bus: EmulatedServoBus) -> None:
    pace = tried(robot, bus, CyclePace(chosen(), held=False), lambda _: SERVING_S)
    assert pace.rate.rate_hz == 1000 and pace.may_enable() and not pace.lowered and pace.text.startswith("kept: ")


@pytest.mark.slow
def test_a_rate_that_the_machine_cannot_keep_is_lowered(robot: Robot, bus: EmulatedServoBus) -> None:
    pace = tried(robot, bus, CyclePace(chosen(), held=False), lambda _: 0.0014)
    assert pace.rate.rate_hz == 500 and pace.rate.cycle_s == 0.002 and pace.may_enable()
    assert pace.lowered.startswith("cycle rate lowered from 1000 to 500 Hz: of 100")
    assert pace.lowered.endswith("late: this machine is too busy or too slow")


@pytest.mark.slow
def test_cycles_that_are_always_late_leave_no_room(robot: Robot, bus: EmulatedServoBus) -> None:
    """None is missing: every third takes long, and the loop catches up."""
    pace = tried(robot, bus, CyclePace(chosen(), held=False), lambda k: 0.0002 if k % 3 else 0.0024)
    assert pace.rate.rate_hz < 1000 and re.search(r"Hz, [0-3] were missing and \d+ late", pace.lowered)


@pytest.mark.slow
def test_machine_that_keeps_no_rate_is_reported(robot: Robot, bus: EmulatedServoBus) -> None:
    pace = tried(robot, bus, CyclePace(chosen(), held=False), lambda _: 0.005)
    assert pace.rate.rate_hz == 250 and pace.text.startswith("not kept: ")
    with pytest.raises(SafetyError, match=r"no cycle rate is kept, of \d+ cycles at 250 Hz, \d+ were missing"):
        pace.may_enable()


@pytest.mark.slow
def test_a_rate_that_a_user_has_fixed_is_kept_with_a_warning(robot: Robot, bus: EmulatedServoBus) -> None:
    pace = CyclePace(chosen(fixed=True), held=False)
    assert pace.may_enable() and not pace.warning  # nobody waits for its trial
    first = CycleCounts(0, 0, 0, 0)
    pace._trial.note(Window.between(1000, first, CycleCounts(10**9, 700, 0, 650)))
    assert pace.may_enable() and not pace.lower(unasked=False)
    assert pace.warning.startswith("of 1000 cycles at 1000 Hz, 300 were missing and 650 late: this machine is too busy")
    assert pace.warning.endswith("1000 Hz goes on, as fixed by rate_hz")


def test_an_arm_that_waits_for_the_machine_needs_no_trial() -> None:
    pace = CyclePace(chosen(), held=True)
    assert pace.may_enable() and not pace.lower(unasked=True) and not pace.text.startswith(ON_TRIAL)


def test_a_driver_that_takes_most_of_the_processors_gets_a_lower_rate() -> None:
    """The other nodes idle during the trial, so no cycle may be missing yet."""
    pace = CyclePace(chosen(), held=False)
    for _ in range(2):
        pace._trial.note(Window.between(1000, CycleCounts(0, 0, 0, 0), CycleCounts(10**9, 1000, 0, 0), share=0.6))
    assert not pace.may_enable() and pace.lower(unasked=False) and pace.rate.rate_hz == 500
    assert "the driver alone takes 60% of the processors' time" in pace.lowered
    lost = Window(1000, 1000, 3, 3, 0, share=0.6)  # few replies are missing, so they are not the cause
    assert not lost.kept and "the driver alone takes" in lost.describe()
    assert Window(1000, 1000, 0, 0, 0, share=0.27).kept and Window(250, 250, 0, 0, 0, share=0.9).kept


GOOD, BAD = Window(1000, 1000, 0, 0, 0), Window(1000, 1000, 60, 0, 90)


def test_a_rate_is_kept_after_two_good_windows_in_sequence() -> None:
    trial = RateTrial(1000)
    for window, kept in ((GOOD, False), (BAD, False), (GOOD, False), (GOOD, True), (BAD, False), (GOOD, False)):
        trial.note(window)
        assert not trial.lower(2) and trial.kept is kept
    trial.note(BAD)  # the second since it was kept: a machine that keeps every other second does not keep the rate
    assert not trial.lower(3) and trial.lower(2) and trial.rate_hz == 500 and not trial.kept


def test_a_rate_missed_by_lost_replies_is_attributed_to_the_servos(robot: Robot) -> None:
    assert Window(1000, 1000, 60, 60, 90).cause == "servos do not reply in time"
    assert Window(1000, 1000, 60, 60, 900).cause == Window(1000, 1000, 60, 0, 0).cause != "servos do not reply in time"


# -- what the line takes -----------------------------------------------------------------------------------------


def test_other_programs_do_not_lengthen_the_measured_line_time() -> None:
    rng = np.random.default_rng(0)
    trips_ns = np.where(rng.random(400) < 0.5, 600_000.0, 4_000_000.0)
    trips_ns[200:210] = 600_000.0
    assert shortest_mean_s(trips_ns.tolist(), 10) == pytest.approx(0.0006)


def test_a_reply_that_is_taken_up_late_does_not_shorten_an_adapters_tick() -> None:
    trips_ns = [1_400_000.0 if k % 2 else 600_000.0 for k in range(50)]
    assert shortest_mean_s(trips_ns, 10) == pytest.approx(0.001)


def test_cycles_that_lack_a_servo_do_not_count() -> None:
    assert shortest_mean_s([np.inf, *[1e6] * 10, np.inf], 10) == pytest.approx(0.001)
    assert shortest_mean_s([1e6, 3e6], 10) == pytest.approx(0.002)


# -- a run that is given up --------------------------------------------------------------------------------------


def watched(cycles: int, late: int, incomplete: int = 0) -> RunWatch:
    """Two seconds at 1000 Hz in which so many cycles ran, and then a moment that does not count."""
    watch, meter = RunWatch(1_000_000), CycleMeter(1_000_000)
    watch.begin(meter.counts(0))
    meter.cycles, meter.late, meter.incomplete = cycles, late, incomplete
    watch.note(2 * 10**9, meter)
    meter.cycles += 1
    watch.note(2 * 10**9 + 300_000_000, meter)
    return watch


def test_missed_cycles_are_named_before_the_fault_that_they_may_have_caused() -> None:
    complaint = watched(1200, 1100).complaint
    assert complaint == (
        "of 2000 cycles at 1000 Hz since torque came on, 800 were missing and 1100 late: this machine is too busy or "
        "too slow; "
    )
    guard = SimpleNamespace(fault_text="no reply for 0.05 s from any servo", stop_text="", state=GuardState.FAULT)
    loop = SimpleNamespace(torque_off_unconfirmed=None, error=None, guard=guard, complaint=complaint)
    assert state_text(loop) == complaint + guard.fault_text  # type: ignore[arg-type]
    guard.fault_text = "emergency stop: true on topic estop"
    assert state_text(loop) == guard.fault_text  # type: ignore[arg-type]
    guard.fault_text, guard.stop_text = "", "stopped: no usable command for 1.0 s"
    assert state_text(loop) == complaint + guard.stop_text  # type: ignore[arg-type]


def test_few_missed_cycles_or_incomplete_reads_cause_no_complaint() -> None:
    assert not watched(1999, 20).complaint and not RunWatch(1_000_000).complaint
    assert not watched(2000, 20, incomplete=500).complaint  # the fault names the servos
