"""Functions of the control loop on the emulated bus, without timing."""

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from plain_bus import IndependentAxesPlant, running_bus

from dynid.errors import BusError, SafetyError
from dynid.hardware.arm.dynamixel_arm import ArmSample, DynamixelArm
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.clock import Clock
from dynid.hardware.loop.arm_cycle import CONTRADICTIONS, ArmCycle
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.loop.cycle_meter import CycleMeter
from dynid.hardware.safety.guard import SafetyGuard, SafetySettings
from dynid.hardware.safety.guard_states import GuardState, Reason
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus

PATIENCE_S = 60.0  # for what comes at once unless the machine is busy


class Watcher:
    """Callback of the loop that records cycles, and lets a test wait for one with a condition."""

    def __init__(self) -> None:
        self.cycles: list[tuple[ArmSample, np.ndarray]] = []
        self.arrived = threading.Condition()

    def __call__(self, sample: ArmSample, applied: np.ndarray) -> None:
        with self.arrived:
            self.cycles.append((sample, applied))
            self.arrived.notify_all()

    def wait(self, accept: Callable[[ArmSample, np.ndarray], bool]) -> tuple[ArmSample, np.ndarray]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: bool(self.cycles) and accept(*self.cycles[-1]), timeout=PATIENCE_S)
            return self.cycles[-1]


# Nearly every test ends with a stop; test_hold.py and test_lowering.py have the usual times.
QUICK = SafetySettings(hold_s=0.3, lower_s=0.2, lower_dwell_s=0.2, lean_s=0.1)


@pytest.fixture
def bus(robot: Robot, plant: IndependentAxesPlant) -> Iterator[EmulatedServoBus]:
    """In real time, but without the wire's timing, so that a busy machine keeps up."""
    with running_bus(EmulatedServoBus(robot, plant, wire_time=False)) as served:
        yield served


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


@pytest.fixture
def loop(arm: DynamixelArm, robot: Robot, watcher: Watcher) -> Iterator[ControlLoop]:
    # The timeouts here are not what is tested, so a stalled test machine must not trip them.
    guard = SafetyGuard(robot, QUICK.model_copy(update={"command_timeout_s": 1.0, "current_ramp_s": 0.0}))
    started = ControlLoop(arm, guard, on_cycle=watcher, feedback_timeout_s=1.0)
    started.start()
    watcher.wait(lambda sample, _: sample.complete)
    yield started
    started.stop()


def test_commands_reach_the_motors_only_while_enabled(
    loop: ControlLoop, watcher: Watcher, robot: Robot, bus: EmulatedServoBus
) -> None:
    loop.set_command(np.full(8, 0.5))
    seen = len(watcher.cycles)
    watcher.wait(lambda *_: len(watcher.cycles) > seen + 20)
    assert not any(applied.any() for _, applied in watcher.cycles) and not bus.chain.max_abs_current_a.any()
    loop.enable()
    assert loop.guard.state is GuardState.ENABLED
    loop.set_command(np.full(8, 0.5))
    _, applied = watcher.wait(lambda _, applied: applied.all())
    assert applied == pytest.approx(0.5 / robot.torque_constants, abs=0.0014)
    loop.disable()
    assert loop.guard.state is GuardState.DISABLED and not any(bus.chain.summary()["torque_enabled"])


def test_a_command_from_before_enable_is_not_followed(loop: ControlLoop, watcher: Watcher) -> None:
    loop.set_command(np.full(8, 0.5))
    loop.enable()
    watcher.wait(lambda *_: loop.last_result.reasons == (Reason.NO_COMMAND,))
    assert not any(applied.any() for _, applied in watcher.cycles)


def test_an_old_command_is_not_applied(loop: ControlLoop, watcher: Watcher) -> None:
    loop.enable()
    loop.set_command(np.full(8, 0.5), stamp_s=time.monotonic() - 2.0)
    watcher.wait(lambda *_: loop.last_result.reasons == (Reason.STALE_COMMAND,))
    assert not any(applied.any() for _, applied in watcher.cycles)


def test_stop_brakes_a_moving_arm_and_leaves_torque_off(
    loop: ControlLoop, watcher: Watcher, plant: IndependentAxesPlant, bus: EmulatedServoBus
) -> None:
    loop.enable()
    loop.set_command(np.full(8, 0.5))
    watcher.wait(lambda sample, _: bool((sample.dq > 0.3).all()))
    loop.stop()
    assert not loop.running and loop.error is None
    assert not any(bus.chain.summary()["torque_enabled"]) and not any(bus.chain.summary()["goal_current_a"])
    assert any((applied < 0).all() for _, applied in watcher.cycles)
    loop.stop()
    with pytest.raises(SafetyError, match="not running"):
        loop.enable()


def test_stop_also_ends_a_wait_for_torque_off(loop: ControlLoop) -> None:
    loop.enable()
    ended = threading.Thread(target=loop.disable)
    ended.start()
    loop.stop()
    ended.join(PATIENCE_S)
    assert not ended.is_alive() and loop.error is None


def test_a_servo_that_falls_silent_is_a_named_fault(
    arm: DynamixelArm, robot: Robot, watcher: Watcher, bus: EmulatedServoBus
) -> None:
    loop = ControlLoop(arm, SafetyGuard(robot, SafetySettings(stop_time_s=0.05)), on_cycle=watcher)
    loop.start()
    watcher.wait(lambda sample, _: sample.complete)
    loop.enable()
    silent = bus.chain.servos.pop(6)
    watcher.wait(lambda *_: loop.guard.state is GuardState.FAULT)
    assert "no reply" in loop.guard.fault_text and "servo 6 (" in loop.guard.fault_text
    bus.chain.servos[6] = silent
    loop.stop()
    assert not any(bus.chain.summary()["torque_enabled"])


def test_one_lost_reply_does_not_refuse_enable(loop: ControlLoop, watcher: Watcher, bus: EmulatedServoBus) -> None:
    silent = bus.chain.servos.pop(6)
    watcher.wait(lambda sample, _: not sample.complete)
    enabling = threading.Thread(target=loop.enable)
    enabling.start()
    seen = len(watcher.cycles)
    watcher.wait(lambda *_: len(watcher.cycles) > seen + 3)
    assert loop.guard.state is GuardState.DISABLED
    bus.chain.servos[6] = silent
    enabling.join()
    assert loop.guard.state is GuardState.ENABLED


def test_enable_is_refused_while_a_servo_is_silent(
    arm: DynamixelArm, robot: Robot, watcher: Watcher, bus: EmulatedServoBus
) -> None:
    loop = ControlLoop(arm, SafetyGuard(robot), on_cycle=watcher)
    loop.start()
    silent = bus.chain.servos.pop(6)
    watcher.wait(lambda sample, _: not sample.complete)
    with pytest.raises(SafetyError, match="not all servos answer"):
        loop.enable()
    bus.chain.servos[6] = silent
    loop.stop()
    assert not any(bus.chain.summary()["torque_was_enabled"])


def test_a_hardware_error_is_a_fault_that_must_be_cleared(
    loop: ControlLoop, watcher: Watcher, bus: EmulatedServoBus
) -> None:
    loop.enable()
    bus.chain.servos[3].raise_hardware_error(1 << 2)
    watcher.wait(lambda *_: loop.guard.state is GuardState.FAULT and not loop.guard.torque_needed)
    assert loop.guard.fault_text.startswith("hardware error at servo 3 (")
    with pytest.raises(SafetyError, match="hardware error at servo 3"):
        loop.enable()
    bus.chain.servos[3].reboot()
    loop.clear_fault()
    assert loop.guard.state is GuardState.DISABLED


def test_torque_that_switches_itself_off_is_noticed(loop: ControlLoop, watcher: Watcher, bus: EmulatedServoBus) -> None:
    loop.enable()
    bus.chain.servos[5].reboot()
    watcher.wait(lambda *_: loop.guard.state is GuardState.FAULT)
    assert "servo 5 (" in loop.guard.fault_text


@pytest.mark.parametrize("which", ["on_cycle", "on_waiting"])
def test_an_exception_in_a_callback_ends_the_loop_without_torque(
    arm: DynamixelArm, robot: Robot, bus: EmulatedServoBus, which: str
) -> None:
    ended: list[BaseException | None] = []
    enabled, done = threading.Event(), threading.Event()

    def callback(sample: ArmSample, applied: np.ndarray) -> None:
        if enabled.is_set():
            raise RuntimeError("publisher gone")

    def on_end(error: BaseException | None) -> None:
        ended.append(error)
        done.set()

    loop = ControlLoop(arm, SafetyGuard(robot, QUICK), on_end=on_end, feedback_timeout_s=1.0, **{which: callback})
    loop.start()
    loop.enable()
    enabled.set()
    assert done.wait(PATIENCE_S)
    loop.stop()
    assert isinstance(loop.error, RuntimeError) and ended == [loop.error]
    assert not any(bus.chain.summary()["torque_enabled"])


def test_failed_torque_off_is_reported_with_the_cause_of_the_end(
    arm: DynamixelArm, robot: Robot, bus: EmulatedServoBus
) -> None:
    told: list[tuple[BaseException | None, BusError | None]] = []
    enabled, done = threading.Event(), threading.Event()

    def callback(sample: ArmSample, applied: np.ndarray) -> None:
        if enabled.is_set():
            bus.chain.servos.pop(4)
            raise RuntimeError("publisher gone")

    def on_end(error: BaseException | None) -> None:
        told.append((error, loop.torque_off_unconfirmed))
        done.set()

    guard = SafetyGuard(robot, SafetySettings(stop_time_s=0.1))
    loop = ControlLoop(arm, guard, on_cycle=callback, on_end=on_end, feedback_timeout_s=1.0)
    loop.start()
    loop.enable()
    silent = bus.chain.servos[4]
    enabled.set()
    assert done.wait(PATIENCE_S)
    loop.stop()
    bus.chain.servos[4] = silent
    assert told == [(loop.error, loop.torque_off_unconfirmed)] and loop.error is loop.torque_off_unconfirmed
    text = str(loop.error)
    assert text.startswith("TORQUE MAY STILL BE ON: ") and "servo 4 (" in text and "publisher gone" in text
    assert isinstance(loop.error.__cause__, RuntimeError)


def test_an_enable_that_fails_half_way_switches_torque_off_again(
    arm: DynamixelArm, loop: ControlLoop, bus: EmulatedServoBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    disable = arm.disable

    def fails_first() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise BusError("torque off was not confirmed")
        disable()

    monkeypatch.setattr(arm, "disable", fails_first)
    bus.chain.servos[7].raise_hardware_error(1 << 5)
    with pytest.raises(BusError, match=r"did not switch on at servo 7 \(.*not confirmed"):
        loop.enable()
    loop.disable()  # returns when torque is off
    assert loop.running and len(calls) == 2 and not any(bus.chain.summary()["torque_enabled"])
    loop.stop()
    assert loop.torque_off_unconfirmed is None and loop.error is None


def test_torque_that_may_be_on_after_enable_ends_the_loop_and_silences_the_bus(
    arm: DynamixelArm, robot: Robot, watcher: Watcher, bus: EmulatedServoBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise BusError("torque off was not confirmed")

    done = threading.Event()
    loop = ControlLoop(
        arm, SafetyGuard(robot, QUICK), on_cycle=watcher, on_end=lambda _: done.set(), feedback_timeout_s=1.0
    )
    loop.start()
    watcher.wait(lambda sample, _: sample.complete)
    monkeypatch.setattr(arm, "disable", fails)
    bus.chain.servos[7].raise_hardware_error(1 << 5)
    with pytest.raises(BusError, match="did not switch on"):
        loop.enable()
    assert done.wait(PATIENCE_S)
    loop.stop()
    assert not loop.running and loop.torque_off_unconfirmed is not None
    assert any(bus.chain.summary()["torque_enabled"])  # the emulated servos' watchdog is what is left


@pytest.mark.parametrize("then", ["goes on", "ends"])
def test_a_request_that_timed_out_is_not_served_later(
    arm: DynamixelArm, robot: Robot, bus: EmulatedServoBus, then: str
) -> None:
    held, go_on, done = threading.Event(), threading.Event(), threading.Event()
    seen: list[ArmSample] = []

    def callback(sample: ArmSample, applied: np.ndarray) -> None:
        held.set()
        go_on.wait(PATIENCE_S)
        seen.append(sample)
        if then == "ends":
            raise RuntimeError("publisher gone")
        if len(seen) == 10:
            done.set()

    loop = ControlLoop(
        arm, SafetyGuard(robot, QUICK), on_cycle=callback, on_end=lambda _: done.set(), feedback_timeout_s=1.0
    )
    loop.start()
    assert held.wait(PATIENCE_S)
    with pytest.raises(SafetyError, match="did not enable within"):
        loop.enable(timeout_s=0.01)
    go_on.set()
    assert done.wait(PATIENCE_S)
    assert loop.guard.state is GuardState.DISABLED
    loop.stop()
    assert not any(bus.chain.summary()["torque_was_enabled"])


def test_an_impossible_posture_refuses_enable(
    loop: ControlLoop, watcher: Watcher, robot: Robot, bus: EmulatedServoBus, plant: IndependentAxesPlant
) -> None:
    plant.q[3] = robot.upper[3] + 0.25
    watcher.wait(lambda sample, _: bool(sample.q[3] > robot.upper[3] + 0.1))
    with pytest.raises(SafetyError, match=f"{robot.joint_names[3]} reads 0\\.2"):
        loop.enable()
    assert loop.guard.state is GuardState.DISABLED and not any(bus.chain.summary()["torque_was_enabled"])


def test_arm_without_commands_is_left_without_torque(
    arm: DynamixelArm, robot: Robot, watcher: Watcher, bus: EmulatedServoBus
) -> None:
    guard = SafetyGuard(robot, QUICK.model_copy(update={"commands_ended_s": 0.05}))
    loop = ControlLoop(arm, guard, on_cycle=watcher, feedback_timeout_s=1.0)
    loop.start()
    loop.enable()
    seen = len(watcher.cycles)
    watcher.wait(lambda *_: len(watcher.cycles) > seen + 100)
    assert guard.state is GuardState.ENABLED
    loop.set_command(np.zeros(8), stamp_s=time.monotonic() + 0.1)
    watcher.wait(lambda *_: bool(guard.stop_text) and guard.state is GuardState.DISABLED)
    assert loop.running and not any(bus.chain.summary()["torque_enabled"])
    counted = loop.statistics().interventions
    loop.stop()
    assert counted["no_command"] > 50 and counted["stale_command"] > 0 and counted["commands_ended"] > 0
    assert counted["joint_limit"] == 0


def test_a_lost_port_ends_the_loop_with_its_error(robot: Robot, plant: IndependentAxesPlant) -> None:
    served = EmulatedServoBus(robot, plant, wire_time=False)
    thread = threading.Thread(target=served.run)
    thread.start()
    done = threading.Event()
    arm = DynamixelArm(robot, served.port)
    arm.open()
    loop = ControlLoop(arm, SafetyGuard(robot, QUICK), on_end=lambda error: done.set())
    loop.start()
    served.stop()
    thread.join()
    served.close()
    assert done.wait(PATIENCE_S)
    loop.stop()
    assert isinstance(loop.error, BusError) and "lost" in str(loop.error)
    with pytest.raises(SafetyError, match="not running"):
        loop.disable()


def test_a_loop_cannot_be_started_twice(loop: ControlLoop) -> None:
    with pytest.raises(SafetyError, match="before"):
        loop.start()


def test_every_cycle_is_counted(loop: ControlLoop, watcher: Watcher) -> None:
    watcher.wait(lambda *_: len(watcher.cycles) > 100)
    loop.stop()
    statistics = loop.statistics()
    assert statistics.cycles == len(watcher.cycles)
    assert statistics.incomplete == sum(not sample.complete for sample, _ in watcher.cycles)
    assert statistics.missed == statistics.incomplete + statistics.skipped
    assert 0.0 < statistics.cycle_p50_us <= statistics.cycle_p99_us


def test_every_cycle_is_handed_over_once(arm: DynamixelArm, robot: Robot, watcher: Watcher) -> None:
    waiting = Watcher()
    loop = ControlLoop(arm, SafetyGuard(robot, QUICK), on_cycle=watcher, on_waiting=waiting)
    loop.start()
    watcher.wait(lambda *_: len(watcher.cycles) > 50)
    loop.stop()
    assert [s.stamp_ns for s, _ in waiting.cycles] == [s.stamp_ns for s, _ in watcher.cycles]


def test_meter_counts_every_reason_of_the_guard() -> None:
    meter = CycleMeter(1_000_000)
    for reasons in ((Reason.DISABLED,), (), (Reason.JOINT_LIMIT, Reason.VELOCITY_LIMIT), (Reason.JOINT_LIMIT,)):
        meter.add_reasons(reasons)
    figures = meter.statistics(5)
    assert set(figures.interventions) == {reason.name.lower() for reason in Reason} - {"disabled"}
    assert {name: count for name, count in figures.interventions.items() if count} == {
        "joint_limit": 2,
        "velocity_limit": 1,
    }


def test_meter_counts_late_and_missed_cycles() -> None:
    meter = CycleMeter(1_000_000)
    assert meter.statistics(5).rate_hz == 0.0
    meter.started_ns = 1
    for late_ns, complete in ((0, True), (499_000, True), (501_000, False), (-5, True)):
        meter.add(300_000, late_ns, complete)
    meter.skipped = 6
    figures = meter.statistics(1 + 10_000_000)
    assert figures.behind == 0
    meter.add(300_000, 7_900_000, True)
    assert meter.statistics(2 + 10_000_000).behind == 7  # planned and still to come; the counts below are from before
    assert (figures.cycles, figures.late, figures.incomplete, figures.missed) == (4, 1, 1, 7)
    assert figures.rate_hz == pytest.approx(300.0) and figures.cycle_p50_us == pytest.approx(300.0)


def test_a_cycle_that_is_behind_leaves_slow_data_for_later_but_not_for_ever(
    arm: DynamixelArm, robot: Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter, polls = CycleMeter(1_000_000), []
    cycle = ArmCycle(
        arm, SafetyGuard(robot), meter, on_cycle=None, on_waiting=None, slow_poll_every=5, feedback_timeout_s=1.0
    )
    ran: list[bool] = []
    monkeypatch.setattr(arm, "slow_poll", lambda: polls.append(len(ran)))
    for behind in [False] * 11 + [True] * 41:
        cycle.run(behind=behind)
        ran.append(behind)
    assert polls == [0, 5, 10, 30, 50]


# -- stopping well, and what else stops it -----------------------------------------------------------------------------


def test_an_arm_whose_publisher_fails_is_brought_to_rest_first(
    arm: DynamixelArm, robot: Robot, watcher: Watcher, plant: IndependentAxesPlant, bus: EmulatedServoBus
) -> None:
    failing, done = threading.Event(), threading.Event()
    speeds: list[float] = []

    def publish(sample: ArmSample, applied: np.ndarray) -> None:
        if failing.is_set():
            raise RuntimeError("publisher gone")

    def on_end(_: BaseException | None) -> None:
        speeds.append(float(np.abs(plant.dq).max()))
        done.set()

    guard = SafetyGuard(robot, SafetySettings(command_timeout_s=1.0, current_ramp_s=0.0))
    loop = ControlLoop(arm, guard, on_cycle=watcher, on_waiting=publish, on_end=on_end, feedback_timeout_s=1.0)
    loop.start()
    watcher.wait(lambda sample, _: sample.complete)
    loop.enable()
    loop.set_command(np.full(8, 0.5))
    watcher.wait(lambda sample, _: bool((sample.dq > 0.3).all()))
    failing.set()
    assert done.wait(20.0)
    assert speeds[0] < 0.1 and isinstance(loop.error, RuntimeError) and loop.torque_off_unconfirmed is None
    assert "control loop failed: publisher gone" in guard.fault_text
    assert not any(bus.chain.summary()["torque_enabled"])


def test_a_process_that_stalls_finds_its_servos_stopped_and_leaves_them_so(
    arm: DynamixelArm, robot: Robot, bus: EmulatedServoBus
) -> None:
    hold_up, off = threading.Event(), threading.Event()
    after: list[np.ndarray] = []

    def callback(sample: ArmSample, applied: np.ndarray) -> None:
        if hold_up.is_set():
            hold_up.clear()
            tripped = threading.Event()
            while not all(bus.chain.summary()["watchdog_tripped"]):
                tripped.wait(0.01)
            after.append(np.zeros(8))
        elif after:
            after.append(applied)
            if loop.guard.state is GuardState.FAULT and not any(bus.chain.summary()["torque_enabled"]):
                off.set()

    loop = ControlLoop(arm, SafetyGuard(robot, QUICK), on_cycle=callback, feedback_timeout_s=1.0)
    loop.start()
    loop.enable()
    hold_up.set()
    assert off.wait(20.0)
    assert loop.guard.fault_text.startswith("bus watchdog tripped at all servos: this process stalled for 0.")
    assert not np.any(after)
    loop.clear_fault()
    loop.enable()  # the watchdogs were cleared with it
    loop.stop()


def test_repeated_contradicting_commands_for_one_state_reveal_two_publishers(
    loop: ControlLoop, watcher: Watcher
) -> None:
    loop.enable()
    for k in range(CONTRADICTIONS - 1):
        loop.set_command(np.full(8, 0.1), stamp_s=float(k))
        loop.set_command(np.full(8, 0.3), stamp_s=float(k))
    loop.set_command(np.full(8, 0.1), stamp_s=100.0)
    loop.set_command(np.full(8, 0.101), stamp_s=100.0)  # a quicker controller's next step
    seen = len(watcher.cycles)
    watcher.wait(lambda *_: len(watcher.cycles) > seen + 3)
    assert loop.guard.state is GuardState.ENABLED
    for k in range(CONTRADICTIONS):
        loop.set_command(np.full(8, 0.1), stamp_s=101.0 + k)
        loop.set_command(np.full(8, 0.3), stamp_s=101.0 + k)
    watcher.wait(lambda *_: loop.guard.state is GuardState.FAULT)
    assert loop.guard.fault_text.startswith("two publishers command the arm")


def test_a_command_older_than_the_last_is_refused_and_counted(loop: ControlLoop, watcher: Watcher) -> None:
    loop.enable()
    now_s = time.monotonic()
    loop.set_command(np.full(8, 0.2), stamp_s=now_s)
    loop.set_command(np.full(8, 0.4), stamp_s=now_s - 0.001)
    _, applied = watcher.wait(lambda _, applied: applied.any())
    assert (applied[0] * loop.arm.robot.torque_constants[0]) < 0.3
    assert loop.statistics().commands_out_of_order == 1


def test_a_fault_from_outside_stops_the_arm_and_latches(
    loop: ControlLoop, watcher: Watcher, bus: EmulatedServoBus
) -> None:
    loop.enable()
    loop.fault("emergency stop")
    watcher.wait(lambda *_: loop.guard.state is GuardState.FAULT and not loop.guard.torque_needed)
    with pytest.raises(SafetyError, match="emergency stop"):
        loop.enable()
    loop.clear_fault()
    loop.fault("again")  # also without torque
    watcher.wait(lambda *_: loop.guard.state is GuardState.FAULT)


class PatientClock(Clock):
    """Waits for a command for as long as the loop does."""

    def __init__(self) -> None:
        self.waits = threading.Event()

    def wait_until(self, deadline_ns: int, awaits: Callable[[], bool]) -> None:
        while awaits():
            self.waits.set()
            self.sleep(0.001)
        super().wait_until(deadline_ns, awaits)


@pytest.mark.parametrize("urgent", ["fault", "disable", "stop"])
def test_waiting_loop_serves_urgent_requests(
    loop: ControlLoop, watcher: Watcher, monkeypatch: pytest.MonkeyPatch, urgent: str
) -> None:
    loop.enable()
    clock = PatientClock()
    monkeypatch.setattr(loop, "_clock", clock)
    with monkeypatch.context() as patched:
        patched.setattr(loop._cycle, "awaits_command", lambda: loop.guard.state is GuardState.ENABLED)
        assert clock.waits.wait(20.0)
        if urgent == "fault":
            loop.fault("emergency stop")
            watcher.wait(lambda *_: loop.guard.state is GuardState.FAULT)
        else:
            getattr(loop, urgent)()
        loop.stop()
    assert loop.guard.state is (GuardState.FAULT if urgent == "fault" else GuardState.DISABLED)


def test_work_waits_for_torque_off_and_reports_errors(loop: ControlLoop) -> None:
    done: list[str] = []
    loop.between_cycles(lambda: done.append(threading.current_thread().name), PATIENCE_S)
    assert done == ["control loop"]
    loop.enable()
    with pytest.raises(SafetyError, match="disable the arm first"):
        loop.between_cycles(lambda: done.append(""), PATIENCE_S)
    loop.disable()

    def fails() -> None:
        raise BusError("no such servo")

    with pytest.raises(BusError, match="no such servo"):
        loop.between_cycles(fails, PATIENCE_S)
    assert len(done) == 1 and loop.running


def test_the_error_of_a_servo_is_named(loop: ControlLoop, watcher: Watcher, bus: EmulatedServoBus) -> None:
    loop.enable()
    bus.chain.servos[3].raise_hardware_error(1 << 5)
    watcher.wait(lambda *_: loop.guard.state is GuardState.FAULT)
    assert loop.guard.fault_text.endswith("): overload")


def test_servos_that_no_longer_drive_are_asked_at_once(
    arm: DynamixelArm, robot: Robot, watcher: Watcher, bus: EmulatedServoBus
) -> None:
    guard = SafetyGuard(robot, SafetySettings(command_timeout_s=1.0, current_ramp_s=0.0))
    loop = ControlLoop(arm, guard, on_cycle=watcher, feedback_timeout_s=1.0, slow_poll_every=0)  # no other way to learn
    loop.start()
    watcher.wait(lambda sample, _: sample.complete)
    loop.enable()
    loop.set_command(0.3 * robot.torque_limits)
    watcher.wait(lambda _, applied: bool((applied > 0.2).all()))
    bus.chain.servos[5].set(table.TORQUE_ENABLE, 0)
    bus.chain._update_drive()
    loop.set_command(0.3 * robot.torque_limits)
    watcher.wait(lambda *_: loop.guard.state is GuardState.FAULT)
    assert loop.guard.fault_text.startswith("torque switched off by itself at servo 5 (")
    loop.stop()


def test_silent_arm_is_left_braking(arm: DynamixelArm, robot: Robot, bus: EmulatedServoBus) -> None:
    done = threading.Event()
    guard = SafetyGuard(robot, SafetySettings(longest_stop_s=0.5))
    loop = ControlLoop(arm, guard, on_end=lambda _: done.set(), feedback_timeout_s=0.05)
    loop.start()
    loop.enable()
    bus.line_fault = lambda frames: []
    assert done.wait(20.0)
    bus.line_fault = None
    assert all(bus.chain.summary()["torque_enabled"]) and not any(bus.chain.summary()["goal_current_a"])
    for servo in bus.chain.servos.values():  # torque with no voltage: the motor brakes
        assert servo.get(table.OPERATING_MODE) == table.POSITION_MODE and servo.get(table.GOAL_PWM) == 0
    text = str(loop.error)
    assert text.startswith("TORQUE MAY STILL BE ON") and "is the cable plugged in" in text
    assert "now only brake them" in text and "no reply for 0.05 s from any servo" in text


def test_a_warm_servo_gets_less_current_and_a_hot_one_is_a_fault(
    loop: ControlLoop, watcher: Watcher, bus: EmulatedServoBus, robot: Robot
) -> None:
    loop.enable()
    loop.set_command(2.0 * robot.torque_limits, stamp_s=time.monotonic() + 1.0)
    watcher.wait(lambda _, applied: applied[0] == pytest.approx(robot.current_limits[0], abs=0.01))
    bus.chain.servos[2].set(table.PRESENT_TEMPERATURE, 70)

    def cooler(_: ArmSample, applied: np.ndarray) -> bool:
        loop.set_command(2.0 * robot.torque_limits, stamp_s=time.monotonic() + 1.0)
        return 0.0 < applied[0] < 0.7 * robot.current_limits[0]

    watcher.wait(cooler)
    bus.chain.servos[2].set(table.PRESENT_TEMPERATURE, 78)
    watcher.wait(lambda *_: loop.guard.state is GuardState.FAULT)
    assert "78 deg C reached at servo 2 (" in loop.guard.fault_text


@pytest.mark.parametrize(("register", "value"), [(table.BUS_WATCHDOG, 0), (table.GOAL_PWM, 100)])
def test_a_setting_that_changes_under_torque_is_a_fault(
    loop: ControlLoop, watcher: Watcher, bus: EmulatedServoBus, register: table.Register, value: int
) -> None:
    loop.enable()
    bus.chain.servos[3].set(register, value)
    watcher.wait(lambda *_: loop.guard.state is GuardState.FAULT)
    assert f"has {register.name} {value} instead of" in loop.guard.fault_text


def test_meter_reports_percentiles_of_the_whole_run() -> None:
    meter = CycleMeter(1_000_000)
    for k in range(10_000):
        meter.add(5_000_000 if k % 1000 == 0 else 300_500 if k % 50 else 700_500, 0, True)
    figures = meter.statistics(1)
    assert (figures.run_p50_us, figures.run_p99_us, figures.run_p999_us) == (302.0, 702.0, 702.0)
    meter.add(10**12, 0, True)  # longer than anything that is told apart
    assert meter.statistics(1).run_p50_us == 302.0
