"""Findings, refusals and writes at a start: nothing is written before all checks, or without a request."""

from collections.abc import Callable

import pytest

from dynid.errors import BusError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.protocol import Instruction, Packet
from dynid.hardware.safety.settings import load_safety
from dynid.hardware.startup.bring_up import StartOptions
from dynid.hardware.startup.servo_checks import judge_servos
from dynid.hardware.startup.servo_snapshot import Snapshot
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.simulation.faults.script import FactoryFresh, FaultInjector, FaultScript, SameId
from dynid.simulation.servo.servo import Servo

WRITES = (Instruction.WRITE, Instruction.SYNC_WRITE, Instruction.REBOOT)
TOLD = StartOptions(write_eeprom=True)


@pytest.fixture
def written(bus: EmulatedServoBus, monkeypatch: pytest.MonkeyPatch) -> list[Packet]:
    """Every packet that writes or reboots, as the servos receive it."""
    seen: list[Packet] = []
    execute = bus.chain.execute

    def recorded(packet: Packet) -> list[bytes]:
        if packet.instruction in WRITES:
            seen.append(packet)
        return execute(packet)

    monkeypatch.setattr(bus.chain, "execute", recorded)
    return seen


def refusal(robot: Robot, bus: EmulatedServoBus, options: StartOptions | None = None) -> str:
    with pytest.raises(BusError) as caught:
        DynamixelArm(robot, bus.port, start=options).open()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def writes_to(packets: list[Packet], register: table.Register) -> list[Packet]:
    return [packet for packet in packets if int.from_bytes(packet.payload[:2], "little") == register.address]


# -- who is there --------------------------------------------------------------------------------------------------


def test_one_message_lists_missing_unexpected_and_wrong_servos(
    robot: Robot, bus: EmulatedServoBus, written: list[Packet]
) -> None:
    bus.chain.servos.pop(5)
    bus.chain.servos[12] = Servo(12, 1020)
    bus.chain.servos[3].set(table.MODEL_NUMBER, 1020)
    text = refusal(robot, bus)
    assert f"missing servos: 5 ({robot.joint_names[3]})" in text
    assert "unexpected servos: 12 (model 1020 (XM430-W350" in text and "wrong servos: 3 (" in text
    assert "instead of model 1120 (XM540-W270" in text
    assert written == []


def test_factory_fresh_servos_are_named_with_a_remedy(
    robot: Robot, bus: EmulatedServoBus, written: list[Packet]
) -> None:
    FaultInjector(FaultScript(faults=(FactoryFresh(kind="factory_fresh"),)), bus.chain)
    text = refusal(robot, bus)
    assert "no servo answers" in text and "servos 2, 3, 4, 5, 6, 7, 8, 9 answer at 57600 bit/s, factory-fresh" in text
    assert f"dynid doctor {bus.port} --fix baud-rate" in text and written == []


def test_new_servo_with_the_factory_id_is_reported(robot: Robot, bus: EmulatedServoBus) -> None:
    bus.chain.servos.pop(7)
    bus.chain.servos[1] = Servo(1, 1020, baud_code=1)
    text = refusal(robot, bus)
    assert "missing servos: 7 (" in text
    assert "servos 1 answer at 57600 bit/s, factory-fresh: give 1 the missing ids with DYNAMIXEL Wizard" in text


def test_two_servos_with_one_id_are_reported(robot: Robot, bus: EmulatedServoBus, written: list[Packet]) -> None:
    FaultInjector(FaultScript(faults=(SameId(kind="same_id", of=4),)), bus.chain)
    assert "two servos share an id" in refusal(robot, bus) and not writes_to(written, table.TORQUE_ENABLE)


# -- in what state they are ----------------------------------------------------------------------------------------


def test_eeprom_is_written_only_when_allowed(robot: Robot, bus: EmulatedServoBus, written: list[Packet]) -> None:
    text = refusal(robot, bus, StartOptions())
    everyone = "servos 2, 3, 4, 5, 6, 7, 8, 9"
    assert f"return delay time is 250 instead of 0 at {everyone}" in text
    assert "operating mode" not in text  # position mode is what the driver leaves, and changes unasked
    assert "factory-fresh: 2, 3" in text and "write_eeprom:=true" in text and written == []
    with DynamixelArm(robot, bus.port, start=TOLD) as arm:
        assert len(arm.changed) == 8
    del written[:]
    with DynamixelArm(robot, bus.port, start=StartOptions()) as arm:
        assert arm.changed == []
    addresses = {int.from_bytes(packet.payload[:2], "little") for packet in written}
    assert {one for one in addresses if one < table.EEPROM_END} == {table.OPERATING_MODE.address}


def test_torque_goes_off_before_the_mode_is_set_and_the_goal_is_zero_after_it(
    robot: Robot, bus: EmulatedServoBus, written: list[Packet]
) -> None:
    DynamixelArm(robot, bus.port, start=TOLD).open()
    addresses = [int.from_bytes(packet.payload[:2], "little") for packet in written if packet.packet_id == 2]
    order = [addresses.index(one.address) for one in (table.TORQUE_ENABLE, table.OPERATING_MODE, table.GOAL_CURRENT)]
    assert order == sorted(order)
    assert not any(any(packet.payload[2:]) for packet in writes_to(written, table.TORQUE_ENABLE))
    assert not any(any(packet.payload[2:]) for packet in writes_to(written, table.GOAL_CURRENT))


def test_torque_that_is_on_is_taken_over_only_on_request(
    robot: Robot, bus: EmulatedServoBus, written: list[Packet]
) -> None:
    bus.chain.servos[6].set(table.TORQUE_ENABLE, 1)
    text = refusal(robot, bus, TOLD)
    assert f"servo 6 ({robot.joint_names[4]}) has torque on" in text and "take_over:=true" in text
    assert written == [] and bus.chain.servos[6].torque_enabled
    DynamixelArm(robot, bus.port, start=StartOptions(write_eeprom=True, take_over=True)).open()
    assert not bus.chain.servos[6].torque_enabled


def test_hardware_error_is_rebooted_only_on_request(robot: Robot, bus: EmulatedServoBus, written: list[Packet]) -> None:
    bus.chain.servos[6].raise_hardware_error(1 << 5)
    text = refusal(robot, bus, TOLD)
    assert "servo 6 (" in text and "reports overload: remove the cause" in text and "reboot_servos:=true" in text
    assert written == []
    with DynamixelArm(robot, bus.port, start=StartOptions(write_eeprom=True, reboot_servos=True)) as arm:
        assert any("rebooted after it reported overload" in line for line in arm.changed)
        arm.enable()


def test_error_that_survives_a_reboot_is_reported(
    robot: Robot, bus: EmulatedServoBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    servo = bus.chain.servos[6]
    servo.raise_hardware_error(1 << 2)
    monkeypatch.setattr(servo, "reboot", lambda: None)
    text = refusal(robot, bus, StartOptions(write_eeprom=True, reboot_servos=True))
    assert "still reports overheating after a reboot" in text


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda s: s.set(table.FIRMWARE_VERSION, 37), "firmware 37, which has no bus watchdog"),
        (lambda s: s.set(table.PRESENT_INPUT_VOLTAGE, 90), "has 9.0 V, outside its limits 9.5 to 16.0 V"),
        (lambda s: s.set(table.PRESENT_TEMPERATURE, 79), "is at 79 deg C: let it cool down"),
        (lambda s: s.set(table.CURRENT_LIMIT, 100), "limited to 0.27 A, below current_limit_a 2.5"),
        (lambda s: s.set(table.HOMING_OFFSET, -1024), "homing offset -1024 (-90.00 deg)"),
    ],
    ids=["firmware", "voltage", "temperature", "current limit", "homing offset"],
)
def test_a_servo_that_is_not_fit_is_refused(
    robot: Robot, bus: EmulatedServoBus, spoil: Callable[[Servo], None], words: str
) -> None:
    spoil(bus.chain.servos[4])
    text = refusal(robot, bus)
    assert words in text and f"servo 4 ({robot.joint_names[2]})" in text and "servo 5" not in text


def test_shutdown_temperature_and_answer_findings_are_warnings(robot: Robot, bus: EmulatedServoBus) -> None:
    servos = [bus.chain.servos[servo_id] for servo_id in robot.servo_ids]
    for servo in servos:
        servo.set(table.RETURN_DELAY_TIME, 0)
        servo.set(table.OPERATING_MODE, table.CURRENT_MODE)
    servos[1].set(table.SHUTDOWN, 0b110000)
    servos[2].set(table.PRESENT_TEMPERATURE, 66)
    servos[3].set(table.STATUS_RETURN_LEVEL, 1)
    snapshots = [Snapshot(servo.servo_id, {0: bytes(servo.bytes)}) for servo in servos]
    found = judge_servos(robot, load_safety(robot), snapshots)
    assert {finding.level for finding in found} == {"warning"}
    assert [finding.check for finding in found] == ["shutdown", "temperature", "answers"]
    assert "does not switch off at overheating" in found[0].text


def test_a_goal_pwm_that_limits_torque_is_lifted(robot: Robot, bus: EmulatedServoBus) -> None:
    """The goal PWM follows the PWM limit only at power-on."""
    bus.chain.servos[5].set(table.PWM_LIMIT, 100)
    bus.chain.servos[5].set(table.GOAL_PWM, 100)
    with DynamixelArm(robot, bus.port) as arm:
        assert f"servo 5 ({robot.joint_names[3]}): PWM limit 100 -> 885" in arm.changed
    assert {servo.get(table.GOAL_PWM) for servo in bus.chain.servos.values()} == {885}


def test_servo_that_answers_only_pings_is_set_to_answer(robot: Robot, bus: EmulatedServoBus) -> None:
    bus.chain.servos[5].set(table.STATUS_RETURN_LEVEL, 0)
    with DynamixelArm(robot, bus.port) as arm:
        assert arm.read().complete
    assert bus.chain.servos[5].get(table.STATUS_RETURN_LEVEL) == table.STATUS_RETURN_ALL


def test_own_torque_is_taken_over_when_the_port_is_opened_again(robot: Robot, bus: EmulatedServoBus) -> None:
    arm = DynamixelArm(robot, bus.port, start=TOLD)
    arm.open()
    arm.enable()
    arm.bus.close()  # as when the cable is pulled
    for servo in bus.chain.servos.values():
        servo.trip_watchdog()
    arm.open()
    assert not any(bus.chain.summary()["torque_enabled"]) and not any(bus.chain.summary()["watchdog_tripped"])
    arm.close()
    bus.chain.servos[2].set(table.TORQUE_ENABLE, 1)  # not ours
    with pytest.raises(BusError, match="has torque on"):
        arm.open()
