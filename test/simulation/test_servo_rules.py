"""The emulated servo against published behaviour of real ones; docs/servos.md refers to these tests.

Tests of undocumented behaviour try both values of a switch of `UndocumentedBehaviour`.
"""

import re
import struct
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from plain_bus import IndependentAxesPlant, ask, running_bus, send

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.protocol import (
    BROADCAST_ID,
    Instruction,
    build_packet,
    build_ping,
    build_read,
    build_sync_read,
    build_sync_write,
    build_write,
)
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.startup.servo_snapshot import read_snapshot
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.simulation.servo.chain import ServoChain
from dynid.simulation.servo.servo import Servo
from dynid.simulation.servo.undocumented import UndocumentedBehaviour

BACKUP, RESTORE = b"\x01CTRL", b"\x02CTRL"
CLEAR = b"\x01\x44\x58\x4c\x22"


@pytest.fixture
def chain(robot: Robot, plant: IndependentAxesPlant) -> ServoChain:
    """Return servos in factory state: position mode, torque off."""
    return ServoChain(robot, plant)


def put(chain: ServoChain, servo: int, register: table.Register, value: int) -> int:
    """Write a register and return the status error."""
    return ask(chain, build_write(servo, register.address, register.to_bytes(value)))[0]


def value(chain: ServoChain, servo: int, register: table.Register) -> int:
    return register.from_bytes(ask(chain, build_read(servo, register.address, register.size))[1])


def instruct(chain: ServoChain, servo: int, instruction: Instruction, payload: bytes = b"") -> int:
    return ask(chain, build_packet(servo, instruction, payload))[0]


def drive(chain: ServoChain, servo: int = 2, watchdog: int = 0) -> None:
    """Switch servos to current mode, torque on and 0.269 A."""
    assert put(chain, servo, table.OPERATING_MODE, 0) == 0
    assert put(chain, servo, table.GOAL_CURRENT, 100) == 0
    assert put(chain, servo, table.BUS_WATCHDOG, watchdog) == 0
    assert put(chain, servo, table.TORQUE_ENABLE, 1) == 0


# -- the control table -----------------------------------------------------------------------------------------


def test_the_table_lists_every_register_of_both_models() -> None:
    small, large = table.MODELS[1020], table.MODELS[1120]
    assert len(small) == 165 and set(large) - set(small) == {56, 57, 58, 152, 154, 156}
    assert [large[a].register.name for a in (60, 100, 147, 168, 633 - 1, 661)] == [
        "startup configuration",
        "goal PWM",
        "backup ready",
        "indirect address 1",
        "indirect address 56",
        "indirect data 56",
    ]


def test_defaults_are_each_models_own(chain: ServoChain) -> None:
    for servo, current, velocity in ((2, 1193, 200), (3, 2047, 128)):
        assert value(chain, servo, table.CURRENT_LIMIT) == value(chain, servo, table.GOAL_CURRENT) == current
        assert value(chain, servo, table.VELOCITY_LIMIT) == velocity
        assert value(chain, servo, table.GOAL_PWM) == 885


def test_a_small_servo_has_its_own_limits_modes_and_indirect_data() -> None:
    servo = Servo(7, 1200)
    assert servo.get(table.MODEL_NUMBER) == 1200 and servo.get(table.CURRENT_LIMIT) == 1750
    assert servo.write(38, struct.pack("<H", 1751)) == 4 and servo.write(38, struct.pack("<H", 1749)) == 0
    assert servo.write(8, b"\x07") == 4 and servo.write(10, b"\x08") == 4
    assert servo.write(168, struct.pack("<H", 65)) == 0  # indirect data 1, at 208, now stand for the LED
    assert servo.write(208, b"\x01") == 0 and servo.bytes[65] == 1
    assert servo.read(208, 1) == (0, b"\x01") and servo.read(578, 2)[0] == servo.undocumented.unlisted_error


@pytest.mark.parametrize("address", [14, 59, 66, 71, 99, 148, 252, 562, 662, 700])
@pytest.mark.parametrize("error", [7, 4])
def test_unlisted_registers_take_no_byte_with_either_error(chain: ServoChain, address: int, error: int) -> None:
    chain.undocumented.unlisted_error = error
    assert ask(chain, build_write(2, address, b"\1"))[0] == error
    assert ask(chain, build_read(2, address, 1)) == (error, b"")


@pytest.mark.parametrize("readable", [True, False])
def test_servos_are_set_up_even_if_gaps_are_not_readable(
    robot: Robot, plant: IndependentAxesPlant, readable: bool
) -> None:
    """A servo that refuses reads across gaps can still be set up and polled."""
    with running_bus(EmulatedServoBus(robot, plant, lock_step=True)) as served:
        served.chain.undocumented.gaps_readable = readable
        served.chain.servos[3].set(table.HOMING_OFFSET, 7)
        line = ServoBus(served.port, 3_000_000, robot.servo_ids)
        line.open()
        snapshot = read_snapshot(line, 3)
        assert snapshot.get(table.HOMING_OFFSET) == 7 and snapshot.get(table.SHUTDOWN) == 52
        assert line.read_block(2, 64, 7) == b"\0\0\0\0\2\0\0"
        assert line.read_block(77, 64, 7) is None
        line.close()
        assert ask(served.chain, build_read(2, 64, 7))[0] == (0 if readable else 7)


@pytest.mark.parametrize(("address", "data"), [(24, bytes(4)), (60, b"\1"), (9, b"\0"), (12, b"\1")])
def test_all_of_the_eeprom_is_locked_while_torque_is_on(chain: ServoChain, address: int, data: bytes) -> None:
    drive(chain)
    assert ask(chain, build_write(2, address, data))[0] == 7
    assert put(chain, 2, table.TORQUE_ENABLE, 0) == 0 and ask(chain, build_write(2, address, data))[0] == 0


@pytest.mark.parametrize(
    ("servo", "register", "good", "bad"),
    [
        (2, table.ID, 252, 253),
        (2, table.DRIVE_MODE, 13, 2),
        (3, table.DRIVE_MODE, 2, 16),
        (2, table.OPERATING_MODE, 16, 2),
        (2, table.TEMPERATURE_LIMIT, 100, 120),
        (2, table.MAX_VOLTAGE_LIMIT, 95, 94),
        (2, table.PWM_LIMIT, 885, 900),
        (2, table.CURRENT_LIMIT, 1193, 2000),
        (3, table.CURRENT_LIMIT, 2047, 2048),
        (2, table.HOMING_OFFSET, -1_044_479, -1_044_480),
        (2, table.STARTUP_CONFIGURATION, 3, 4),
        (2, table.BUS_WATCHDOG, 127, -2),
    ],
)
def test_values_out_of_range_are_refused(
    chain: ServoChain, servo: int, register: table.Register, good: int, bad: int
) -> None:
    assert put(chain, servo, register, bad) == 4
    assert put(chain, servo, register, good) == 0


@pytest.mark.parametrize(
    ("limit", "goal"),
    [
        (table.PWM_LIMIT, table.GOAL_PWM),
        (table.CURRENT_LIMIT, table.GOAL_CURRENT),
        (table.VELOCITY_LIMIT, table.GOAL_VELOCITY),
    ],
)
def test_goals_keep_within_their_limits(chain: ServoChain, limit: table.Register, goal: table.Register) -> None:
    assert put(chain, 2, limit, 50) == 0
    assert [put(chain, 2, goal, one) for one in (50, -50, 51, -51)] == [0, 0, 6, 6]
    send(chain, build_sync_write([2], goal.address, [goal.to_bytes(51)]))
    assert value(chain, 2, goal) == -50


def test_goal_positions_keep_within_the_limits_in_position_mode_alone(chain: ServoChain) -> None:
    assert put(chain, 2, table.MAX_POSITION_LIMIT, 3000) == 0
    assert [put(chain, 2, table.GOAL_POSITION, one) for one in (3000, 3001, -1)] == [0, 6, 6]
    assert put(chain, 2, table.OPERATING_MODE, 4) == 0
    assert [put(chain, 2, table.GOAL_POSITION, one) for one in (3001, -1, 1_048_576)] == [0, 0, 4]


@pytest.mark.parametrize(("address", "data"), [(102, b"\1"), (103, b"\x7f"), (101, b"\0\0"), (100, bytes(3))])
def test_half_a_register_bypasses_no_limit(chain: ServoChain, address: int, data: bytes) -> None:
    before = bytes(chain.servos[2].bytes)
    assert ask(chain, build_write(2, address, data))[0] == 5
    send(chain, build_sync_write([2], address, [data]))
    assert bytes(chain.servos[2].bytes) == before


# -- indirect addresses ----------------------------------------------------------------------------------------


def test_indirect_data_have_the_rules_of_their_targets(chain: ServoChain) -> None:
    for place, target in enumerate((102, 103, 65, 132)):
        assert ask(chain, build_write(2, 168 + 2 * place, struct.pack("<H", target)))[0] == 0
    assert ask(chain, build_write(2, 224, struct.pack("<hB", -300, 1)))[0] == 0
    assert value(chain, 2, table.GOAL_CURRENT) == -300 and ask(chain, build_read(2, 65, 1)) == (0, b"\1")
    assert ask(chain, build_read(2, 224, 3)) == (0, struct.pack("<hB", -300, 1))
    assert ask(chain, build_write(2, 224, struct.pack("<h", 2000)))[0] == 6
    assert ask(chain, build_write(2, 225, b"\0"))[0] == 5  # half of the goal current
    assert ask(chain, build_write(2, 227, b"\0"))[0] in (5, 7)  # a part of what is read-only
    for target in (63, 662):
        assert ask(chain, build_write(2, 168, struct.pack("<H", target)))[0] == 4


def test_indirect_data_without_target_keep_their_value_until_reboot(chain: ServoChain) -> None:
    assert ask(chain, build_write(2, 634, b"\x2a"))[0] == 0 and ask(chain, build_read(2, 634, 1)) == (0, b"\x2a")
    assert ask(chain, build_write(2, 578, b"\x41\0"))[0] == 0
    assert instruct(chain, 2, Instruction.REBOOT) == 0
    assert ask(chain, build_read(2, 578, 2)) == (0, b"\x7a\2") and ask(chain, build_read(2, 634, 1)) == (0, b"\0")


def test_moving_is_read_from_the_speed(chain: ServoChain, plant: IndependentAxesPlant) -> None:
    for speed, moving in ((0.0, 0), (0.2, 0), (0.3, 1), (-0.3, 1)):  # the threshold is 10 counts: 0.24 rad/s
        plant.dq[:] = speed
        assert value(chain, 2, table.MOVING) == moving


# -- ids, baud rate, status ------------------------------------------------------------------------------------


@pytest.mark.parametrize("new", [False, True])
def test_after_an_id_write_the_old_id_is_silent(chain: ServoChain, new: bool) -> None:
    chain.undocumented.new_id_answers = new
    (reply,) = send(chain, build_write(2, 7, b"\x14"))
    assert reply[4] == (20 if new else 2)
    assert send(chain, build_ping(2)) == [] and ask(chain, build_ping(20))[1][:2] == b"\xfc\x03"
    assert list(chain.servos) == [20, 3, 4, 5, 6, 7, 8, 9]
    send(chain, build_write(20, 7, b"\3"))  # now two servos have one id
    assert list(chain.duplicate_id_servos) == [3] and len(send(chain, build_ping(3))) == 1


def test_a_secondary_id_listens_and_never_answers(chain: ServoChain) -> None:
    for servo in (2, 3):
        assert put(chain, servo, table.SECONDARY_ID, 100) == 0
    assert send(chain, build_write(100, 65, b"\1")) == [] and send(chain, build_read(100, 65, 1)) == []
    send(chain, build_sync_write([100], 84, [b"\5\0"]))
    send(chain, build_write(100, 9, b"\1"))  # its EEPROM cannot be reached in this way
    assert [ask(chain, build_read(servo, 65, 1))[1] for servo in (2, 3, 4)] == [b"\1", b"\1", b"\0"]
    assert ask(chain, build_read(3, 84, 2))[1] == b"\5\0" and ask(chain, build_read(3, 9, 1))[1] == b"\xfa"
    assert put(chain, 2, table.SECONDARY_ID, 255) == 0
    send(chain, build_write(100, 65, b"\0"))
    assert [ask(chain, build_read(servo, 65, 1))[1] for servo in (2, 3)] == [b"\1", b"\0"]


@pytest.mark.parametrize("answered", [True, False])
def test_a_damaged_instruction_is_repeated_answered_or_not(
    robot: Robot, plant: IndependentAxesPlant, answered: bool
) -> None:
    """The driver repeats the instruction whether the servo reports the damage or is silent."""
    with running_bus(EmulatedServoBus(robot, plant, lock_step=True)) as served:
        served.chain.undocumented.crc_error_answered = answered
        line = ServoBus(served.port, 3_000_000, robot.servo_ids)
        line.open()
        damaged = bytearray(build_read(3, 38, 2))
        damaged[-1] ^= 0xFF
        (answer, _) = line.dialogue.ask(bytes(damaged), 2)
        assert (None if answer is None else answer.error) == (3 if answered else None)
        with line.line() as port:
            sent, frames = port.send, [bytes(damaged)]
            port.send = lambda frame: sent(frames.pop() if frames else frame)  # type: ignore[method-assign]
        assert line.read(3, table.CURRENT_LIMIT) == 2047 and line.retries == 1
        line.close()


def test_broadcast_instructions_are_carried_out_and_not_answered(chain: ServoChain) -> None:
    assert (
        send(chain, build_write(BROADCAST_ID, 65, b"\1")) == [] and send(chain, build_read(BROADCAST_ID, 65, 1)) == []
    )
    assert all(servo.bytes[65] for servo in chain.servos.values())
    assert send(chain, build_packet(BROADCAST_ID, Instruction.REBOOT)) == []
    assert not any(servo.bytes[65] for servo in chain.servos.values())
    assert send(chain, build_packet(BROADCAST_ID, Instruction.FACTORY_RESET, b"\xff")) == []
    assert list(chain.servos) == list(range(2, 10))


@pytest.mark.parametrize("instruction", [Instruction.SYNC_READ, Instruction.BULK_READ])
@pytest.mark.parametrize("chained", [True, False])
def test_read_chains_break_behind_a_silent_servo(chain: ServoChain, instruction: Instruction, chained: bool) -> None:
    chain.replies_chained = chained
    if instruction == Instruction.SYNC_READ:
        frame = build_sync_read([2, 77, 3, 4], 132, 4)
    else:
        frame = build_packet(BROADCAST_ID, instruction, b"".join(struct.pack("<BHH", i, 132, 4) for i in (2, 77, 3, 4)))
    assert [reply[4] for reply in send(chain, frame)] == ([2] if chained else [2, 3, 4])


# -- position, drive mode --------------------------------------------------------------------------------------


def test_present_position_contains_the_homing_offset(chain: ServoChain, plant: IndependentAxesPlant) -> None:
    plant.q[:] = 0.1
    assert value(chain, 2, table.PRESENT_POSITION) == 2113
    assert put(chain, 2, table.HOMING_OFFSET, -66) == 0 and value(chain, 2, table.PRESENT_POSITION) == 2047
    assert put(chain, 2, table.HOMING_OFFSET, 1025) == 0 and value(chain, 2, table.PRESENT_POSITION) == 2113
    assert put(chain, 2, table.OPERATING_MODE, 0) == 0 and value(chain, 2, table.PRESENT_POSITION) == 2113 + 1025


def test_reverse_mode_turns_all_signs_but_the_homing_offsets(chain: ServoChain, plant: IndependentAxesPlant) -> None:
    assert put(chain, 2, table.DRIVE_MODE, 1) == 0 and instruct(chain, 2, Instruction.REBOOT) == 0
    plant.q[:], plant.dq[:] = 0.1, 1.0
    assert value(chain, 2, table.PRESENT_POSITION) == 4096 - 2113
    assert value(chain, 2, table.PRESENT_VELOCITY) == -42
    assert put(chain, 2, table.HOMING_OFFSET, 10) == 0 and value(chain, 2, table.PRESENT_POSITION) == 4106 - 2113
    drive(chain)
    assert plant.current_a[0] == pytest.approx(-0.269) and value(chain, 2, table.PRESENT_CURRENT) == 100


def test_boot_clear_and_position_mode_reset_the_turn_count(chain: ServoChain, plant: IndependentAxesPlant) -> None:
    assert value(chain, 2, table.PRESENT_POSITION) == 2048
    plant.q[:] = 2.0 * np.pi
    assert value(chain, 2, table.PRESENT_POSITION) == 2048 + 4096
    assert instruct(chain, 2, Instruction.REBOOT) == 0 and value(chain, 2, table.PRESENT_POSITION) == 2048
    plant.q[:] = 0.0
    assert value(chain, 2, table.PRESENT_POSITION) == 2048 - 4096
    assert instruct(chain, 2, Instruction.CLEAR, CLEAR) == 0 and value(chain, 2, table.PRESENT_POSITION) == 2048
    plant.q[:] = 2.0 * np.pi
    assert put(chain, 2, table.TORQUE_ENABLE, 1) == 0 and value(chain, 2, table.PRESENT_POSITION) == 2048


@pytest.mark.parametrize("mode", [4, 8])
def test_torque_by_goal_update_is_a_bit_of_the_drive_mode(
    chain: ServoChain, plant: IndependentAxesPlant, mode: int
) -> None:
    assert put(chain, 2, table.OPERATING_MODE, 0) == 0 and put(chain, 2, table.DRIVE_MODE, mode) == 0
    send(chain, build_sync_write([2], 102, [struct.pack("<h", 10)]))
    assert chain.servos[2].torque_enabled == (mode == 8) and bool(plant.current_a[0]) == (mode == 8)


def test_another_mode_resets_gains_profile_and_goals(chain: ServoChain) -> None:
    for address, data in ((84, b"\1\0"), (108, b"\1\0\0\0"), (112, b"\1\0\0\0"), (100, b"\1\0"), (102, b"\1\0")):
        assert ask(chain, build_write(2, address, data))[0] == 0
    assert put(chain, 2, table.OPERATING_MODE, 0) == 0
    assert ask(chain, build_read(2, 84, 2))[1] == struct.pack("<H", 800)
    assert ask(chain, build_read(2, 100, 16))[1] == struct.pack("<HHIII", 885, 1193, 0, 0, 0)


# -- watchdog and shutdown -------------------------------------------------------------------------------------


def test_the_watchdog_trips_only_with_torque_on(chain: ServoChain, plant: IndependentAxesPlant) -> None:
    assert put(chain, 3, table.BUS_WATCHDOG, 2) == 0
    drive(chain, 2, watchdog=2)
    chain.advance(0.05)
    assert chain.servos[2].watchdog_tripped and not chain.servos[3].watchdog_tripped
    assert not plant.current_a.any()  # in current mode the motor is free


def test_a_tripped_watchdog_refuses_every_goal_and_zeroes_the_profile(chain: ServoChain) -> None:
    assert put(chain, 2, table.PROFILE_VELOCITY, 5) == 0
    drive(chain, 2, watchdog=2)
    assert put(chain, 2, table.PROFILE_VELOCITY, 5) == 0
    chain.advance(0.05)
    goals = (table.GOAL_PWM, table.GOAL_CURRENT, table.GOAL_VELOCITY, table.GOAL_POSITION)
    assert [put(chain, 2, goal, 1) for goal in goals] == [4] * 4
    assert value(chain, 2, table.PROFILE_VELOCITY) == 0 and put(chain, 2, table.PROFILE_VELOCITY, 5) == 0
    assert put(chain, 2, table.BUS_WATCHDOG, 0) == 0
    assert [put(chain, 2, goal, 1) for goal in goals] == [0] * 4


@pytest.mark.parametrize("rearms", [False, True])
@pytest.mark.parametrize("survive", [False, True])
def test_a_tripped_watchdog_follows_both_undocumented_behaviours(
    chain: ServoChain, plant: IndependentAxesPlant, rearms: bool, survive: bool
) -> None:
    chain.undocumented.rearms_while_tripped, chain.undocumented.goals_survive_trip = rearms, survive
    drive(chain, 2, watchdog=2)
    chain.advance(0.05)
    assert put(chain, 2, table.BUS_WATCHDOG, 5) == (0 if rearms else 4)
    assert put(chain, 2, table.BUS_WATCHDOG, 0) == 0
    assert plant.current_a[0] == pytest.approx(0.269 if survive else 0.0)


@pytest.mark.parametrize("bit", [0, 5])
def test_shutdown_keeps_torque_off_until_a_reboot(chain: ServoChain, plant: IndependentAxesPlant, bit: int) -> None:
    """Overload shuts down, input voltage (bit 0) only alerts: the shutdown register is 52."""
    drive(chain)
    chain.raise_hardware_error(2, 1 << bit)
    assert bool(plant.current_a[0]) == (bit == 0)
    assert put(chain, 2, table.TORQUE_ENABLE, 0) == 0x80
    assert put(chain, 2, table.TORQUE_ENABLE, 1) == (0x80 if bit == 0 else 0x81)
    assert instruct(chain, 2, Instruction.REBOOT) & 0x7F == 0
    assert put(chain, 2, table.TORQUE_ENABLE, 1) == 0


# -- the other instructions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [True, False])
def test_a_reg_write_is_checked_at_once_or_at_its_action(chain: ServoChain, at_once: bool) -> None:
    chain.undocumented.registered_at_once = at_once
    assert instruct(chain, 2, Instruction.ACTION) == 2
    bad = struct.pack("<Hh", 102, 2000)
    assert instruct(chain, 2, Instruction.REG_WRITE, bad) == (6 if at_once else 0)
    assert instruct(chain, 2, Instruction.ACTION) == (2 if at_once else 6)
    assert instruct(chain, 2, Instruction.REG_WRITE, b"\x66") == 5
    assert instruct(chain, 2, Instruction.REG_WRITE, struct.pack("<Hh", 102, 20)) == 0
    assert value(chain, 2, table.REGISTERED_INSTRUCTION) == 1 and value(chain, 2, table.GOAL_CURRENT) == 1193
    assert instruct(chain, 2, Instruction.ACTION) == 0
    assert value(chain, 2, table.REGISTERED_INSTRUCTION) == 0 and value(chain, 2, table.GOAL_CURRENT) == 20


@pytest.mark.parametrize("allowed", [False, True])
def test_a_factory_reset_with_torque_on_is_refused_or_carried_out(chain: ServoChain, allowed: bool) -> None:
    chain.undocumented.reset_with_torque = allowed
    drive(chain)
    assert instruct(chain, 2, Instruction.FACTORY_RESET, b"\x03") == 4
    assert instruct(chain, 2, Instruction.FACTORY_RESET) == 5
    assert instruct(chain, 2, Instruction.FACTORY_RESET, b"\x02") == (0 if allowed else 7)
    assert chain.servos[2].torque_enabled != allowed and value(chain, 2, table.OPERATING_MODE) == (3 if allowed else 0)


def test_clear_requires_its_key_and_a_stopped_shaft(chain: ServoChain, plant: IndependentAxesPlant) -> None:
    assert instruct(chain, 2, Instruction.CLEAR, CLEAR[:4]) == 5
    assert instruct(chain, 2, Instruction.CLEAR, b"\x02" + CLEAR[1:]) == 4
    plant.dq[:] = 1.0
    assert instruct(chain, 2, Instruction.CLEAR, CLEAR) == 1


def test_a_backup_needs_torque_off_and_restores_the_eeprom(chain: ServoChain) -> None:
    assert instruct(chain, 2, Instruction.BACKUP, RESTORE) == 1
    assert instruct(chain, 2, Instruction.BACKUP, BACKUP[:3]) == 5
    assert instruct(chain, 2, Instruction.BACKUP, b"\x03CTRL") == 4
    assert put(chain, 2, table.HOMING_OFFSET, 5) == 0 and ask(chain, build_write(2, 84, b"\7\0"))[0] == 0
    assert value(chain, 2, table.BACKUP_READY) == 0
    assert instruct(chain, 2, Instruction.BACKUP, BACKUP) == 0 and value(chain, 2, table.BACKUP_READY) == 1
    assert put(chain, 2, table.HOMING_OFFSET, 6) == 0
    assert instruct(chain, 2, Instruction.BACKUP, RESTORE) == 0
    assert value(chain, 2, table.HOMING_OFFSET) == 5 and ask(chain, build_read(2, 84, 2))[1] == b"\x20\3"
    drive(chain)
    assert instruct(chain, 2, Instruction.BACKUP, BACKUP) == 1


def test_startup_configuration_restores_ram_and_switches_torque_on(chain: ServoChain) -> None:
    assert ask(chain, build_write(2, 84, b"\7\0"))[0] == 0
    assert instruct(chain, 2, Instruction.BACKUP, BACKUP) == 0
    assert put(chain, 2, table.STARTUP_CONFIGURATION, 3) == 0
    assert instruct(chain, 2, Instruction.REBOOT) == 0
    assert chain.servos[2].torque_enabled and ask(chain, build_read(2, 84, 2))[1] == b"\7\0"


@pytest.mark.parametrize("instruction", [Instruction.BULK_READ, Instruction.BULK_WRITE, Instruction.FAST_BULK_READ])
@pytest.mark.parametrize("payload", [b"", b"\2\x84", struct.pack("<BHHB", 2, 65, 2, 1)])
def test_malformed_bulk_instructions_are_left_alone(
    chain: ServoChain, instruction: Instruction, payload: bytes
) -> None:
    before = [bytes(servo.bytes) for servo in chain.servos.values()]
    assert send(chain, build_packet(BROADCAST_ID, instruction, payload)) == []
    assert [bytes(servo.bytes)[:120] for servo in chain.servos.values()] == [one[:120] for one in before]


def test_tests_that_the_page_names_exist() -> None:
    """Every row of the page's first table names tests."""
    page = (Path(__file__).parents[2] / "docs" / "servos.md").read_text()
    rows = [row.split("|")[3] for row in page.split("## Known")[1].split("## Not stated")[0].splitlines() if "|" in row]
    folder = Path(__file__).parent
    here = Path(__file__).read_text() + (folder / "test_motor.py").read_text()
    for row in rows[2:]:
        names = re.findall(r"`(\w+(?:\.py)?)`", row)
        assert names, row
        assert [one for one in names if not ((folder / one).is_file() or f"def test_{one}" in here)] == []
    switches = page.split("## Not stated")[1].split("## Assumed without")[0].count("\n| ") - 1
    assert switches == len(fields(UndocumentedBehaviour)) + 2
