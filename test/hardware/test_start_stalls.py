"""Starts on a host that stalls at any moment: late answers are awaited, and silence is explained correctly."""

from collections.abc import Callable

import pytest
from benchmarks.faults.servo_lockstep import SimulatedClock, SimulatedLine
from plain_bus import IndependentAxesPlant, running_bus

from dynid.errors import BusError, BusTimeoutError, MuteServoError, SilentLineError
from dynid.hardware.arm.cycle_rate import find_rate
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.protocol import Instruction, Packet
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.loop.diagnostics import line_status
from dynid.hardware.safety.guard import SafetyGuard
from dynid.hardware.startup.bring_up import StartOptions
from dynid.hardware.startup.doctor import Diagnosis, examine
from dynid.hardware.startup.servo_snapshot import read_snapshot
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.simulation.faults.script import Fault, FaultInjector, FaultScript, LineFault, Stall
from dynid.simulation.servo.chain import ServoChain

BROADCAST_PING = 9  # number of the doctor's request that is listened for so long that a stall may pass unseen
SHORT_S, LONG_S = (0.05, 0.2, 0.5, 0.9), 5.0
STRIDE = 2 * len(SHORT_S)  # between the requests that one test stalls; four tests together stall half of all
REQUESTS, DOCTORS_REQUESTS = 205, 105  # of a start with its measurement of the rate; of the doctor with 50 cycles
REBOOTED = StartOptions(write_eeprom=True, reboot_servos=True)


def simulated(robot: Robot, *faults: Fault) -> SimulatedLine:
    chain = ServoChain(robot, IndependentAxesPlant(robot))
    return SimulatedLine(chain, SimulatedClock(), FaultInjector(FaultScript(faults=faults), chain))


def stalled(robot: Robot, request: int, for_s: float) -> SimulatedLine:
    return simulated(robot, Stall(kind="stall", request=request, for_s=for_s))


def arm_on(robot: Robot, line: SimulatedLine, options: StartOptions = REBOOTED) -> DynamixelArm:
    return DynamixelArm(robot, "line", allow_real_port=True, clock=line.clock, opener=line.open, start=options)


def opened(robot: Robot, line: SimulatedLine) -> ServoBus:
    bus = ServoBus("line", 3_000_000, robot.servo_ids, clock=line.clock, opener=line.open)
    bus.open()
    return bus


def requests_of(line: SimulatedLine) -> int:
    assert line.faults is not None
    return line.faults.requests


def answer(line: SimulatedLine, spoil: Callable[[Packet, list[bytes]], list[bytes]]) -> None:
    """Have the servos' answers changed before the line's own faults."""
    execute = line.chain.execute
    line.chain.execute = lambda packet: spoil(packet, execute(packet))  # type: ignore[method-assign]


# -- the driver ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_idle_host_is_not_reported_as_busy(robot: Robot) -> None:
    line = simulated(robot)
    arm = arm_on(robot, line)
    arm.open()
    find_rate(arm)
    assert requests_of(line) >= REQUESTS and arm.bus.dialogue.lateness == ""
    line = simulated(robot)
    assert not doctor(robot, line).must_act and requests_of(line) >= DOCTORS_REQUESTS


@pytest.mark.slow
@pytest.mark.parametrize("first", range(len(SHORT_S)), ids=lambda first: f"from {first + 1}")
def test_a_start_succeeds_whenever_the_arm_stalls(robot: Robot, first: int) -> None:
    for request in range(1 + first, REQUESTS, STRIDE):
        for_s = SHORT_S[(request // STRIDE + first) % len(SHORT_S)]
        line = stalled(robot, request, for_s)
        line.chain.servos[4].raise_hardware_error(1 << 5)
        arm = arm_on(robot, line)
        arm.open()
        rate = find_rate(arm)
        which = f"request {request} stalled for {for_s} s"
        assert (arm.cycle.fast_read, arm.cycle.wire_timed, rate.rate_hz) == (True, True, 1000), which
        assert len(arm.changed) == 1 + robot.size, which  # one rebooted, and all return delays
        for servo in line.chain.servos.values():
            found = [servo.get(one) for one in (table.RETURN_DELAY_TIME, table.OPERATING_MODE, table.TORQUE_ENABLE)]
            assert found == [0, table.CURRENT_MODE, 0], which
        assert arm.bus.dialogue.slowest_s < for_s + 0.1, which
        assert arm.read().complete, which


@pytest.mark.slow
@pytest.mark.parametrize("request_number", range(1, REQUESTS, 12))
def test_a_line_that_falls_silent_is_named_as_the_cause(robot: Robot, request_number: int) -> None:
    line = stalled(robot, request_number, LONG_S)
    arm = arm_on(robot, line)
    with pytest.raises(BusError) as caught:
        arm.open()
        find_rate(arm)
    text = str(caught.value)
    if request_number == 1:  # nobody has ever answered
        assert "no servo answers on line at 3000000 bit/s within 1 s" in text
    else:
        assert isinstance(caught.value, SilentLineError) and "no servo on line answers: no answer in 1 s" in text
        assert "this computer stood still" in text
    assert "missing" not in text and "pings" not in text and "plugs" not in text
    assert line.clock.elapsed_s < LONG_S + 6.0


@pytest.mark.slow
def test_several_stalls_change_nothing_that_is_read_or_written(robot: Robot) -> None:
    for seed in range(25):
        faults = [Stall(kind="stall", request=1 + (seed * 7 + k * 11) % 150, for_s=0.03 * (k + 1)) for k in range(8)]
        line = simulated(robot, *{one.request: one for one in faults}.values())
        for servo_id, servo in line.chain.servos.items():
            servo.set(table.MIN_VOLTAGE_LIMIT, 90 + servo_id)
        bus = opened(robot, line)
        for _ in range(4):
            for servo_id in robot.servo_ids:
                snapshot = read_snapshot(bus, servo_id)
                assert snapshot.get(table.MIN_VOLTAGE_LIMIT) == 90 + servo_id
                assert snapshot.get(table.ID) == servo_id


@pytest.mark.parametrize("stall_s", SHORT_S)
def test_a_late_confirmation_does_not_confirm_another_write(robot: Robot, stall_s: float) -> None:
    """The first write is confirmed late; the second one never is, and both confirmations look the same."""
    line = stalled(robot, 1, stall_s)
    bus = opened(robot, line)
    lose = [table.GOAL_CURRENT.address]
    answer(
        line,
        lambda packet, frames: (
            [] if packet.instruction == Instruction.WRITE and packet.payload[0] == lose[0] else frames
        ),
    )
    with bus.patiently():
        bus.write(4, table.BUS_WATCHDOG, 0)
        assert bus.dialogue.late > 0
        with pytest.raises(MuteServoError, match="write 0 goal current failed 3 times: no answer, though it answers"):
            bus.write(4, table.GOAL_CURRENT, 0)


def test_a_late_value_is_not_taken_for_another_registers(robot: Robot) -> None:
    line = stalled(robot, 2, 0.3)
    line.chain.servos[4].set(table.PRESENT_TEMPERATURE, 41)
    bus = opened(robot, line)
    with bus.patiently():
        assert bus.read(4, table.ID) == 4
        assert bus.read(4, table.PRESENT_TEMPERATURE) == 41  # as long as the one before and the one behind
        assert bus.read(4, table.TORQUE_ENABLE) == 0


# -- who is silent, and for how long -------------------------------------------------------------------------------


@pytest.mark.parametrize("stall_s", [0.0, *SHORT_S])
def test_a_missing_servo_is_found_soon_and_named(robot: Robot, stall_s: float) -> None:
    for request in (1, 3, 9, 12):
        line = stalled(robot, request, stall_s) if stall_s else simulated(robot)
        line.chain.servos.pop(5)
        arm = arm_on(robot, line)
        with pytest.raises(BusError, match=r"missing servos: 5 \(") as caught:
            arm.open()
        if request == 1:  # of the others, some stall nobody but the one that is missing
            assert ("the machine is busy" in str(caught.value)) == (stall_s > 0.0)
        assert line.clock.elapsed_s < 13.0  # most of it for other baud rates


def test_a_line_without_servos_is_given_up_soon(robot: Robot) -> None:
    line = simulated(robot)
    line.chain.servos.clear()
    with pytest.raises(
        BusError, match=r"no servo answers on line at 3000000 bit/s within 1 s: it is not the servo bus"
    ):
        arm_on(robot, line).open()
    assert line.clock.elapsed_s < 13.0


def test_an_unexpected_servo_is_found_though_the_arm_stalls(robot: Robot) -> None:
    for request in (8, 9, 10):
        line = stalled(robot, request, 0.9)
        line.chain.servos[12] = type(line.chain.servos[2])(12, 1020)
        with pytest.raises(BusError, match=r"unexpected servos: 12 \(model 1020 \(XM430-W350"):
            arm_on(robot, line).open()


@pytest.mark.parametrize("stall_s", SHORT_S)
def test_mute_servo_is_distinguished_from_a_busy_host(robot: Robot, stall_s: float) -> None:
    line = stalled(robot, 2, stall_s)
    line.chain.servos[4].set(table.STATUS_RETURN_LEVEL, 0)
    bus = opened(robot, line)
    assert read_snapshot(bus, 3).get(table.ID) == 3
    with pytest.raises(MuteServoError, match="servo 4 on line answers pings but not reads"):
        read_snapshot(bus, 4)


def test_lost_servo_is_distinguished_from_a_silent_line(robot: Robot) -> None:
    line = simulated(robot)
    bus = opened(robot, line)
    assert all(bus.ping(servo_id) for servo_id in robot.servo_ids)
    line.chain.servos.pop(4)
    with pytest.raises(
        BusTimeoutError, match="servo 4 on line does not answer: no answer in 1 s, while other"
    ) as caught:
        read_snapshot(bus, 4)
    assert not isinstance(caught.value, SilentLineError | MuteServoError)


def test_a_host_that_is_always_slow_is_refused_with_its_latency(robot: Robot) -> None:
    line = simulated(robot, LineFault(kind="late_reply", for_s=1e6, delay_s=0.06))
    arm = arm_on(robot, line, StartOptions(write_eeprom=True))
    arm.open()
    with pytest.raises(
        BusError, match=r"reads of all servos .* complete: answers arrive after \d\d ms: the machine is"
    ):
        find_rate(arm)


# -- the doctor ----------------------------------------------------------------------------------------------------


def doctor(robot: Robot, line: SimulatedLine) -> Diagnosis:
    for servo in line.chain.servos.values():
        servo.set(table.RETURN_DELAY_TIME, 0)
        servo.set(table.OPERATING_MODE, table.CURRENT_MODE)
    return examine(robot, "line", cycles=50, clock=line.clock, opener=line.open)


def checks(found: Diagnosis) -> set[str]:
    return {one.check for one in found.findings}


@pytest.mark.slow
@pytest.mark.parametrize("first", range(len(SHORT_S)), ids=lambda first: f"from {first + 1}")
def test_the_doctor_reads_everything_whenever_the_arm_stalls(robot: Robot, first: int) -> None:
    for request in range(1 + first, DOCTORS_REQUESTS, STRIDE):
        for_s = SHORT_S[(request // STRIDE + first) % len(SHORT_S)]
        found = doctor(robot, stalled(robot, request, for_s))
        which = f"request {request} stalled for {for_s} s"
        assert not found.must_act, which
        assert checks(found) >= {"servos", "temperature", "limits", "posture", "cycle"}, which
        assert "not checked" not in checks(found), which
        assert "reply time" in checks(found) or request == BROADCAST_PING, which


@pytest.mark.slow
@pytest.mark.parametrize("request_number", range(1, DOCTORS_REQUESTS, 8))
def test_the_doctor_lists_what_it_could_not_read(robot: Robot, request_number: int) -> None:
    found = doctor(robot, stalled(robot, request_number, LONG_S))
    assert found.must_act
    (unread,) = (one for one in found.findings if one.check == "not checked")
    assert unread.level == "error" and "cycle time" in unread.text
    read_all = not unread.servo_ids
    assert ("posture of the arm" in unread.text) != read_all == ("posture" in checks(found))
    assert any("no servo" in one.text and one.level == "error" for one in found.findings)


def test_the_doctor_is_not_ready_if_one_servo_is_mute(robot: Robot) -> None:
    line = simulated(robot)
    line.chain.servos[4].set(table.STATUS_RETURN_LEVEL, 0)
    found = doctor(robot, line)
    assert found.must_act
    (unread,) = (one for one in found.findings if one.check == "not checked")
    assert unread.servo_ids == (4,) and "registers of servo 4; settings, limits" in unread.text


# -- in real time --------------------------------------------------------------------------------------------------


def test_a_simulated_arm_that_stalls_is_waited_for(robot: Robot, plant: IndependentAxesPlant) -> None:
    faults = FaultScript(faults=(Stall(kind="stall", request=20, for_s=0.4),))
    with running_bus(EmulatedServoBus(robot, plant, faults=faults)) as bus, DynamixelArm(robot, bus.port) as arm:
        assert bus.faults.injected == {"stall": 1}
        assert arm.bus.dialogue.late >= 1 and arm.bus.dialogue.slowest_s > 0.3
        status = line_status(ControlLoop(arm, SafetyGuard(robot)))
        assert int(status.values["late answers while set up"]) >= 1


def test_the_first_states_of_a_loop_may_come_late(robot: Robot, plant: IndependentAxesPlant) -> None:
    with running_bus(EmulatedServoBus(robot, plant)) as bus, DynamixelArm(robot, bus.port) as arm:
        states: list[bool] = []
        bus.faults = FaultInjector(FaultScript(faults=(Stall(kind="stall", request=5, for_s=0.9),)), bus.chain)
        loop = ControlLoop(arm, SafetyGuard(robot), on_waiting=lambda sample, _: states.append(sample.complete))
        loop.start()
        try:
            while loop.running and not (bus.faults.injected and states[-20:] == [True] * 20):
                loop.between_cycles(lambda: None, 5.0)
            assert loop.running and loop.error is None and not all(states)
        finally:
            loop.stop()
