"""Handshake, torque and currents of the arm against the emulated bus."""

import time
from dataclasses import fields

import numpy as np
import pytest
from plain_bus import IndependentAxesPlant, running_bus

from dynid.errors import BusError, BusTimeoutError, SafetyError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.clock import Clock
from dynid.hardware.bus.protocol import Instruction, Packet
from dynid.hardware.bus.slow_state import ARMED
from dynid.hardware.loop.diagnostics import OK, WARN, servo_status
from dynid.hardware.safety.guard import SafetyGuard
from dynid.hardware.startup.bring_up import StartOptions
from dynid.robot import Robot, load_robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.simulation.servo.servo import Servo
from dynid.simulation.servo.undocumented import RANGE_ERROR, UndocumentedBehaviour


def test_a_real_port_is_refused_unless_allowed(robot: Robot) -> None:
    with pytest.raises(SafetyError, match="/dev/ttyUSB0"):
        DynamixelArm(robot, "/dev/ttyUSB0")
    allowed = DynamixelArm(robot, "/dev/no_such_port", allow_real_port=True)
    with pytest.raises(BusError, match="does not exist"):
        allowed.open()


def test_opening_sets_the_servos_up_and_closing_leaves_a_safe_mode(robot: Robot, bus: EmulatedServoBus) -> None:
    with DynamixelArm(robot, bus.port) as arm:
        assert len(arm.changed) == 8 and "return delay time 250 -> 0" in arm.changed[0]
        for servo in bus.chain.servos.values():
            assert servo.get(table.OPERATING_MODE) == table.CURRENT_MODE
            assert servo.get(table.GOAL_CURRENT) == 0 and not servo.torque_enabled
    for servo in bus.chain.servos.values():
        assert servo.get(table.OPERATING_MODE) == table.POSITION_MODE
        assert servo.get(table.GOAL_CURRENT) == 0 and not servo.torque_enabled and not servo.get(table.BUS_WATCHDOG)
    with DynamixelArm(robot, bus.port, start=StartOptions()) as arm:
        assert arm.changed == []
        assert bus.chain.servos[4].get(table.OPERATING_MODE) == table.CURRENT_MODE


def test_a_servo_left_in_current_mode_drives_at_its_limit_once_enabled(robot: Robot, bus: EmulatedServoBus) -> None:
    """What closing avoids: after power-on the goal current is the limit, and somebody switches torque on."""
    servo, left_so = bus.chain.servos[4], bus.chain.servos[5]
    with DynamixelArm(robot, bus.port):
        pass
    left_so.set(table.OPERATING_MODE, table.CURRENT_MODE)
    for one in (servo, left_so):
        one.reboot()
        one.set(table.GOAL_CURRENT, one.get(table.CURRENT_LIMIT))  # the manual's value at power-on
        one.set(table.TORQUE_ENABLE, 1)
    assert left_so.drive_current_count == left_so.get(table.CURRENT_LIMIT) and servo.drive_current_count == 0


def test_a_servo_that_does_not_take_the_safe_mode_is_named(robot: Robot, bus: EmulatedServoBus) -> None:
    arm = DynamixelArm(robot, bus.port)
    arm.open()
    write = arm.bus.write

    def refused(servo_id: int, register: table.Register, value: int) -> None:
        if register is table.OPERATING_MODE:
            raise BusError(f"servo {servo_id}: write {value} {register.name}: access error")
        write(servo_id, register, value)

    arm.bus.write = refused  # type: ignore[method-assign]
    first = robot.joint_names[0]
    with pytest.raises(BusError, match=f"torque is off, but {first}, .* did not confirm position mode"):
        arm.close()
    assert not arm.bus.is_open


def test_a_servo_that_confirms_late_is_asked_again(robot: Robot, bus: EmulatedServoBus) -> None:
    arm = DynamixelArm(robot, bus.port)
    arm.open()
    write, lost = arm.bus.write, [robot.servo_ids[6], robot.servo_ids[7], robot.servo_ids[7]]

    def late(servo_id: int, register: table.Register, value: int) -> None:
        write(servo_id, register, value)
        if register is table.OPERATING_MODE and servo_id in lost:  # before the goal current that the mode has set
            lost.remove(servo_id)
            raise BusTimeoutError(f"servo {servo_id}: write {value} {register.name} failed 3 times: no answer")

    arm.bus.write = late  # type: ignore[method-assign]
    arm.close()
    assert not lost
    for servo in bus.chain.servos.values():
        assert servo.get(table.OPERATING_MODE) == table.POSITION_MODE and servo.get(table.GOAL_CURRENT) == 0


def test_a_silent_servo_leaves_no_other_in_current_mode(robot: Robot, bus: EmulatedServoBus) -> None:
    arm = DynamixelArm(robot, bus.port)
    arm.open()
    del bus.chain.servos[4]
    with pytest.raises(BusError, match="torque off was not confirmed by"):
        arm.close()
    assert not arm.bus.is_open
    assert {one.get(table.OPERATING_MODE) for one in bus.chain.servos.values()} == {table.POSITION_MODE}


@pytest.mark.parametrize("late", [False, True])
def test_a_start_that_fails_half_way_leaves_no_servo_in_current_mode(
    robot: Robot, bus: EmulatedServoBus, late: bool
) -> None:
    arm = DynamixelArm(robot, bus.port)
    write = arm.bus.write

    def refused(servo_id: int, register: table.Register, value: int) -> None:
        if servo_id == 5 and (register is table.BUS_WATCHDOG or (late and register is table.GOAL_CURRENT)):
            raise BusError("servo 5: the cable is loose")
        write(servo_id, register, value)

    arm.bus.write = refused  # type: ignore[method-assign]
    named = rf"cable is loose; servo 5 \({robot.joint_names[3]}\) did not confirm position mode: in current mode"
    with pytest.raises(BusError, match=named if late else "cable is loose$"):
        arm.open()
    for servo in bus.chain.servos.values():
        assert servo.get(table.OPERATING_MODE) == table.POSITION_MODE
        assert late or servo.get(table.GOAL_CURRENT) == 0


def with_other(robot: Robot, bus: EmulatedServoBus) -> tuple[Robot, Servo]:
    """The robot with a further servo on its line, 99, and that servo."""
    line = robot.file.bus.model_copy(update={"other_ids": (99,)})
    servo = bus.chain.servos[99] = Servo(99, 1020)
    return Robot(robot.file.model_copy(update={"bus": line}), robot.folder), servo


def test_other_servos_on_the_line_may_neither_follow_nor_drive(robot: Robot, bus: EmulatedServoBus) -> None:
    loaded, other = with_other(robot, bus)
    other.set(table.SECONDARY_ID, 3)
    with pytest.raises(BusError, match=r"servo 99, one of other_ids .* obeys servo 3 .*shadow_ids: \[99\]"):
        DynamixelArm(loaded, bus.port).open()
    other.set(table.SECONDARY_ID, table.NO_ID)
    other.set(table.TORQUE_ENABLE, 1)
    with pytest.raises(BusError, match=r"servo 99, one of other_ids .* has torque on"):
        DynamixelArm(loaded, bus.port).open()
    other.set(table.TORQUE_ENABLE, 0)
    with DynamixelArm(loaded, bus.port):
        assert not other.torque_enabled


def test_the_hottest_servo_of_a_joint_counts_beside_one_that_was_not_read() -> None:
    arm = DynamixelArm(load_robot("viperx_300s"), "/dev/no_such_port", allow_real_port=True)
    temperatures = np.full(len(arm.robot.wired_servos), 40.0)
    temperatures[1], temperatures[arm.robot.size] = np.nan, 74.0
    found = arm.by_joint(temperatures)
    assert found[1] == 74.0 and (np.delete(found, 1) == 40.0).all()


def test_line_without_servos_is_reported(robot: Robot, bus: EmulatedServoBus) -> None:
    bus.chain.servos.clear()
    with pytest.raises(BusError, match="no servo answers"):
        DynamixelArm(robot, bus.port).open()


def test_a_step_of_the_wall_clock_does_not_bend_the_stamps(
    robot: Robot, bus: EmulatedServoBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall, hour_ns = time.time_ns, 3600 * 10**9
    with DynamixelArm(robot, bus.port) as arm:
        before = arm.read().stamp_ns
        assert abs(wall() - before) < hour_ns // 2
        monkeypatch.setattr(time, "time_ns", lambda: wall() + hour_ns)
        assert 0 < arm.read().stamp_ns - before < hour_ns // 2
    with DynamixelArm(robot, bus.port) as arm:  # opened anew, the clock counts as it is then
        assert arm.read().stamp_ns - before > hour_ns // 2


def test_quiet_servos_are_set_to_answer(robot: Robot, bus: EmulatedServoBus) -> None:
    for servo in bus.chain.servos.values():
        servo.set(table.STATUS_RETURN_LEVEL, 1)
    with DynamixelArm(robot, bus.port) as arm:
        assert arm.read().complete
    assert bus.chain.servos[2].get(table.STATUS_RETURN_LEVEL) == 2


def test_enable_arms_the_watchdog_and_starts_without_current(arm: DynamixelArm, bus: EmulatedServoBus) -> None:
    arm.enable()
    arm.read()  # whatever was sent before has been carried out when this is answered
    summary = bus.chain.summary()
    assert all(summary["torque_enabled"]) and not any(summary["drive_current_a"])
    assert {s.get(table.BUS_WATCHDOG) for s in bus.chain.servos.values()} == {5}
    arm.disable()
    arm.read()
    assert not any(bus.chain.summary()["torque_enabled"])
    assert {s.get(table.BUS_WATCHDOG) for s in bus.chain.servos.values()} == {0}


def missed(bus: EmulatedServoBus, register: table.Register, writes: int) -> None:
    bus.chain.missed_writes[5, register.address] = writes


def test_a_lost_arming_is_written_again(arm: DynamixelArm, bus: EmulatedServoBus) -> None:
    missed(bus, table.BUS_WATCHDOG, 2)
    arm.enable()
    assert bus.chain.servos[5].get(table.BUS_WATCHDOG) == 5 and all(bus.chain.summary()["torque_enabled"])
    assert arm.bus.retries == 1 and (arm.slow.wanted == arm.slow.armed).all()


def test_a_lost_goal_current_stays_away_from_one_servo_alone(arm: DynamixelArm, bus: EmulatedServoBus) -> None:
    arm.enable()
    missed(bus, table.GOAL_CURRENT, 1)
    for lost in (True, False):
        written = arm.write_currents(np.full(8, 0.1))
        arm.read()
        goals = {key: one.get(table.GOAL_CURRENT) for key, one in bus.chain.servos.items()}
        assert (goals.pop(5) == 0) == lost and all(goals.values()) and written.all()


def test_a_servo_that_is_not_armed_keeps_all_torque_off(arm: DynamixelArm, bus: EmulatedServoBus) -> None:
    missed(bus, table.BUS_WATCHDOG, 99)
    with pytest.raises(BusError, match=r"torque stays off: servo 5 \(.*\) has bus watchdog 0 instead of 5: configure"):
        arm.enable()
    assert not any(bus.chain.summary()["torque_was_enabled"])


@pytest.mark.parametrize(
    ("register", "value"),
    [
        (table.DRIVE_MODE, 1),
        (table.OPERATING_MODE, table.POSITION_MODE),
        (table.SECONDARY_ID, 3),
        (table.PWM_LIMIT, 600),
        (table.CURRENT_LIMIT, 100),
        (table.GOAL_PWM, 100),
    ],
)
def test_a_setting_that_changed_since_the_start_refuses_torque(
    arm: DynamixelArm, bus: EmulatedServoBus, register: table.Register, value: int
) -> None:
    bus.chain.servos[4].set(register, value)
    with pytest.raises(BusError, match=rf"servo 4 \(.*\) has {register.name} {value} instead of"):
        arm.enable()
    assert not any(bus.chain.summary()["torque_was_enabled"])


def test_slow_polls_read_all_settings_of_all_servos(arm: DynamixelArm) -> None:
    for _ in range(16 * 25):  # in each round one block of one servo
        arm.slow_poll()
    expected = [0, 0, 255, 885, 0, 885]
    assert np.delete(arm.slow.armed, ARMED.index(table.CURRENT_LIMIT), axis=1).tolist() == [expected] * 8
    assert (arm.slow.armed[:, ARMED.index(table.CURRENT_LIMIT)] > 1000).all()


def test_one_lost_confirmation_is_asked_again(arm: DynamixelArm, bus: EmulatedServoBus) -> None:
    replies: list[list[bytes]] = []

    def lose_first(frames: list[bytes]) -> list[bytes]:
        replies.append(frames)
        return frames[:-1] if len(replies) == 1 else frames

    bus.line_fault = lose_first
    arm.enable()
    assert len(replies) == len(ARMED) + 3 and all(bus.chain.summary()["torque_enabled"])


def test_torque_that_does_not_come_on_is_named_and_all_go_off(arm: DynamixelArm, bus: EmulatedServoBus) -> None:
    bus.chain.servos[7].raise_hardware_error(1 << 5)
    with pytest.raises(BusError, match=r"did not switch on at servo 7 \("):
        arm.enable()
    assert not any(bus.chain.summary()["torque_enabled"])


def test_currents_are_rounded_and_capped(arm: DynamixelArm, bus: EmulatedServoBus, robot: Robot) -> None:
    arm.enable()
    written = arm.write_currents(np.array([0.004, -0.004, 100.0, -100.0, 0.0, 0.0, 0.0, 0.0]))
    assert written[:2] == pytest.approx([0.00269, -0.00269])
    assert (np.abs(written) <= robot.current_limits).all()
    sample = arm.read()
    assert sample.current_a == pytest.approx(written)
    assert sample.tau_present == pytest.approx(written * robot.torque_constants)
    assert (bus.chain.max_abs_current_a <= robot.current_limits).all()


@pytest.mark.parametrize("bad", [[0.0] * 7, [0.0] * 9, [np.nan] + [0.0] * 7, [np.inf] + [0.0] * 7])
def test_unusable_currents_are_refused(arm: DynamixelArm, bus: EmulatedServoBus, bad: list[float]) -> None:
    arm.enable()
    with pytest.raises(SafetyError, match="8 finite numbers"):
        arm.write_currents(np.array(bad))
    arm.read()
    assert not any(bus.chain.summary()["goal_current_a"])


def test_samples_follow_the_plant(arm: DynamixelArm, plant: IndependentAxesPlant) -> None:
    arm.enable()
    for _ in range(50):
        arm.write_currents(np.full(8, 0.3))
    sample = arm.read()
    assert sample.q == pytest.approx(plant.q, abs=2 * np.pi / 4096)
    assert sample.dq == pytest.approx(plant.dq, abs=0.0239808) and sample.dq.min() > 0.1
    later = arm.read()
    assert later.stamp_ns > sample.stamp_ns
    assert not np.shares_memory(sample.q, later.q) and not np.shares_memory(sample.valid, later.valid)


@pytest.mark.parametrize("leave", ["close", "exception"])
def test_leaving_is_without_current_and_torque(robot: Robot, bus: EmulatedServoBus, leave: str) -> None:
    arm = DynamixelArm(robot, bus.port)
    try:
        with arm:
            arm.enable()
            arm.write_currents(np.full(8, 0.5))
            arm.read()
            assert all(bus.chain.summary()["drive_current_a"])
            if leave == "exception":
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    arm.close()
    summary = bus.chain.summary()
    assert not any(summary["torque_enabled"]) and not any(summary["goal_current_a"])


def test_torque_off_that_is_not_confirmed_is_an_error(arm: DynamixelArm, bus: EmulatedServoBus) -> None:
    arm.enable()
    bus.chain.servos.pop(4)
    with pytest.raises(BusError, match=r"torque off was not confirmed by servo 4 \("):
        arm.close()
    assert not arm.bus.is_open


def test_slow_poll_reads_all_servos_in_turn(arm: DynamixelArm, bus: EmulatedServoBus) -> None:
    assert np.isnan(arm.slow.voltage_v).all()
    bus.chain.servos[9].set(table.PRESENT_TEMPERATURE, 61)
    bus.chain.servos[3].set(table.BUS_WATCHDOG, -1)
    for _ in range(25):  # a round
        arm.slow_poll()
    assert arm.slow.voltage_v == pytest.approx(np.full(8, 12.0))
    assert arm.slow.temperature_deg_c[-1] == 61 and arm.slow.watchdog.tolist() == [0, -1, 0, 0, 0, 0, 0, 0]
    assert not arm.slow.torque_enable.any() and not arm.slow.hardware_error.any()


class AdjustableClock(Clock):
    """The system's clock, so many seconds ahead."""

    ahead_s = 0.0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + round(self.ahead_s * 1e9)


def test_missing_slow_data_are_reported(arm: DynamixelArm, bus: EmulatedServoBus) -> None:
    arm.bus.clock = clock = AdjustableClock()
    guard, joint = SafetyGuard(arm.robot), "4 (crane_x7_upper_arm_revolute_part_twist_joint)"
    old_s = guard.settings.slow_data_old_s
    assert servo_status(arm, guard).level == OK, "nobody has asked yet"
    servo = bus.chain.servos[4]
    for silent in (False, True):
        if silent:
            bus.chain.servos.pop(4)
        for _ in range(25):
            arm.slow_poll()
        clock.ahead_s += 0.6 * old_s
        report = servo_status(arm, guard)
        assert (report.level == WARN) is silent
    bus.chain.servos[4] = servo
    assert report.message.endswith(f"no slow data for {old_s:g} s from servo 4, whose current limit falls")
    age_s = float(report.values[joint].split("; ")[-2].removesuffix(" s old"))
    assert 1.2 * old_s - 0.05 <= age_s < 1.2 * old_s + 2.0
    clock.ahead_s += 60.0  # a loop that begins again, after a pause or a reboot
    arm.begin_slow_polls()
    assert servo_status(arm, guard).level == OK


def test_no_torque_and_no_current_is_written_before_enable(
    robot: Robot, bus: EmulatedServoBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Packet] = []
    execute = bus.chain.execute
    monkeypatch.setattr(bus.chain, "execute", lambda packet: (seen.append(packet), execute(packet))[1])
    with DynamixelArm(robot, bus.port) as arm:
        for _ in range(3):
            arm.read()
    for packet in seen:
        address, data = int.from_bytes(packet.payload[:2], "little"), packet.payload[2:]
        if packet.instruction == Instruction.WRITE and address in (64, 102):
            assert not any(data)
        if packet.instruction == Instruction.SYNC_WRITE and address in (64, 102):
            size = data[0]
            assert all(not any(data[i + 1 : i + 1 + size]) for i in range(2, len(data), size + 1))
    assert len(seen) > 50


@pytest.mark.parametrize("switch", [one.name for one in fields(UndocumentedBehaviour)])
def test_the_arm_is_driven_under_every_undocumented_behaviour(robot: Robot, bus: EmulatedServoBus, switch: str) -> None:
    """From the factory state to torque off, with a tripped watchdog between, only commanded current flows."""
    chain = bus.chain
    other = RANGE_ERROR if switch == "unlisted_error" else not getattr(chain.undocumented, switch)
    setattr(chain.undocumented, switch, other)
    with DynamixelArm(robot, bus.port) as arm:
        arm.enable()
        arm.write_currents(np.full(8, 0.1))
        arm.read()
        chain.advance(0.2)
        assert arm.tripped_watchdogs().all() and not any(chain.summary()["drive_current_a"])
        chain.max_abs_current_a[:] = 0.0
        arm.disable()
        arm.enable()
        assert arm.read().complete and arm.slow_poll() is False
        assert not chain.max_abs_current_a.any() and not any(chain.summary()["goal_current_a"])
        arm.disable()
    assert not any(chain.summary()["torque_enabled"])


def test_zero_offsets_are_added_to_encoder_angles(
    robot: Robot, bus: EmulatedServoBus, plant: IndependentAxesPlant
) -> None:
    joints = list(robot.file.joints)
    joints[1] = joints[1].model_copy(update={"zero_offset_rad": 0.05})
    mended = Robot(robot.file.model_copy(update={"joints": tuple(joints)}), robot.folder)
    offsets, step = 0.05 * (np.arange(robot.size) == 1), table.POSITION_RAD_PER_COUNT
    with DynamixelArm(mended, bus.port) as arm:  # the encoders are as they were
        assert arm.read().q - offsets == pytest.approx(plant.measure().q, abs=step)
    with running_bus(EmulatedServoBus(mended, plant, lock_step=True)) as served:  # these are off by as much
        with DynamixelArm(mended, served.port) as arm:
            assert arm.read().q == pytest.approx(plant.measure().q, abs=step)
        with DynamixelArm(robot, served.port) as arm:
            assert arm.read().q + offsets == pytest.approx(plant.measure().q, abs=step)
