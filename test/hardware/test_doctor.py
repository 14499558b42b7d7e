"""The doctor on the emulated bus: a case of every finding, no write without a request, and every fix."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from plain_bus import IndependentAxesPlant
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import BusError, UnknownNameError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.protocol import Instruction
from dynid.hardware.bus.usb_latency import latency_ms, set_latency
from dynid.hardware.startup import doctor
from dynid.hardware.startup.doctor import Diagnosis, examine
from dynid.hardware.startup.doctor_fixes import apply_fixes
from dynid.hardware.startup.servo_checks import Finding
from dynid.robot import Robot, load_robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.simulation.faults.script import FactoryFresh, FaultInjector, FaultScript, SameId
from dynid.simulation.servo.servo import Servo

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    """With a cycle so long that a busy test machine keeps it."""
    share = tmp_path_factory.mktemp("share")
    for part in ("config", "urdf"):
        shutil.copytree(ROOT / part / "crane_x7", share / part / "crane_x7")
    file = share / "config" / "crane_x7" / "robot.yaml"
    text = file.read_text()
    assert text.count("cycle_s: 0.001") == 1
    file.write_text(text.replace("cycle_s: 0.001", "cycle_s: 1.0"))
    return load_robot(file.parent)


@pytest.fixture
def healthy(bus: EmulatedServoBus) -> EmulatedServoBus:
    """Servos set up as the driver needs them."""
    for servo in bus.chain.servos.values():
        servo.set(table.RETURN_DELAY_TIME, 0)
        servo.set(table.OPERATING_MODE, table.CURRENT_MODE)
    return bus


@pytest.fixture
def busy_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may lose up to half of the replies."""
    monkeypatch.setattr(doctor, "MANY_INCOMPLETE", 0.5)


def look(robot: Robot, bus: EmulatedServoBus, **options: object) -> Diagnosis:
    return examine(robot, bus.port, cycles=20, **options)


def finding(found: Diagnosis, check: str) -> Finding:
    (one,) = (one for one in found.findings if one.check == check)
    return one


@pytest.mark.usefixtures("busy_host")
def test_a_healthy_arm_needs_nothing_and_nothing_is_written(robot: Robot, healthy: EmulatedServoBus) -> None:
    before = {servo_id: bytes(servo.bytes[:120]) for servo_id, servo in healthy.chain.servos.items()}
    instructions: set[int] = set()
    execute = healthy.chain.execute
    healthy.chain.execute = (  # type: ignore[method-assign]
        lambda packet: (instructions.add(packet.instruction), execute(packet))[1]
    )
    found = look(robot, healthy)
    assert not found.must_act
    assert {one.level for one in found.findings if one.check != "cycle"} == {"ok"}  # a busy machine may lose a reply
    checks = [one.check for one in found.findings]
    assert checks == ["port", "USB latency", "servos", "temperature", "limits", "posture", "cycle", "real time"]
    assert "all 8 servos answer at 3000000 bit/s" in finding(found, "servos").text
    assert "of 1000000 us (fast sync read)" in finding(found, "cycle").text
    reads = {Instruction.PING, Instruction.READ, Instruction.SYNC_READ, Instruction.FAST_SYNC_READ}
    assert instructions <= reads and Instruction.FAST_SYNC_READ in instructions
    assert {servo_id: bytes(servo.bytes[:120]) for servo_id, servo in healthy.chain.servos.items()} == before


SPOILED: dict[str, tuple[str, str, str, str, Callable[[Servo], object]]] = {
    # check, level, words, fix, how servo 4 is spoiled
    "hardware error": ("hardware error", "error", "reports overheating", "reboot", lambda s: s.raise_hardware_error(4)),
    "torque on": ("torque", "error", "has torque on", "torque-off", lambda s: s.set(table.TORQUE_ENABLE, 1)),
    "homing offset": ("homing offset", "error", "homing offset 7", "", lambda s: s.set(table.HOMING_OFFSET, 7)),
    "current limit": ("current limit", "error", "limited to 0.27 A", "", lambda s: s.set(table.CURRENT_LIMIT, 100)),
    "firmware": ("firmware", "error", "has no bus watchdog", "", lambda s: s.set(table.FIRMWARE_VERSION, 30)),
    "shutdown": ("shutdown", "warning", "does not switch off", "", lambda s: s.set(table.SHUTDOWN, 0)),
    "voltage": ("voltage", "error", "outside its limits", "", lambda s: s.set(table.PRESENT_INPUT_VOLTAGE, 200)),
    "hot": ("temperature", "error", "is at 80 deg C", "", lambda s: s.set(table.PRESENT_TEMPERATURE, 80)),
    "warm": ("temperature", "warning", "current limit is lowered", "", lambda s: s.set(table.PRESENT_TEMPERATURE, 70)),
    "settings": ("settings", "error", "drive mode is 4 instead of 0", "eeprom", lambda s: s.set(table.DRIVE_MODE, 4)),
    "operating mode": ("settings", "error", "mode is 16 (", "eeprom", lambda s: s.set(table.OPERATING_MODE, 16)),
    "return delay": (
        "settings",
        "error",
        "time is 250 instead",
        "eeprom",
        lambda s: s.set(table.RETURN_DELAY_TIME, 250),
    ),
    "PWM limit": (
        "settings",
        "error",
        "PWM limit is 100 instead of 885",
        "eeprom",
        lambda s: s.set(table.PWM_LIMIT, 100),
    ),
    "secondary ID": ("settings", "error", "is 100 instead of 255", "eeprom", lambda s: s.set(table.SECONDARY_ID, 100)),
    "startup": ("settings", "error", "is 1 instead of 0", "eeprom", lambda s: s.set(table.STARTUP_CONFIGURATION, 1)),
    "goal PWM": ("goal PWM", "warning", "goal PWM 100", "", lambda s: s.set(table.GOAL_PWM, 100)),
    "too hot": ("temperature limit", "error", "limit of 90", "", lambda s: s.set(table.TEMPERATURE_LIMIT, 90)),
    "too cold": ("temperature limit", "error", "limit of 70", "", lambda s: s.set(table.TEMPERATURE_LIMIT, 70)),
    "low voltage": ("voltage", "warning", "limits 11.5 to", "", lambda s: s.set(table.MIN_VOLTAGE_LIMIT, 115)),
    "high voltage": ("voltage", "warning", "to 12.5 V", "", lambda s: s.set(table.MAX_VOLTAGE_LIMIT, 125)),
    "shock": ("shutdown", "warning", "not switch off at electrical", "", lambda s: s.set(table.SHUTDOWN, 0b100100)),
    "dip": ("shutdown", "warning", "switches off at input", "", lambda s: s.set(table.SHUTDOWN, 0b110101)),
    "quiet": ("answers", "warning", "do not confirm writes", "", lambda s: s.set(table.STATUS_RETURN_LEVEL, 1)),
    "mute": ("answers", "warning", "answers pings but not reads", "", lambda s: s.set(table.STATUS_RETURN_LEVEL, 0)),
}


@pytest.mark.parametrize("name", SPOILED)
def test_faults_of_a_servo_are_found(robot: Robot, healthy: EmulatedServoBus, name: str) -> None:
    check, level, words, fix, spoil = SPOILED[name]
    spoil(healthy.chain.servos[4])
    found = look(robot, healthy)
    one = finding(found, check)
    assert (one.level, one.fix, one.servo_ids) == (level, fix, (4,)) and words in one.text and one.remedy
    assert "limits" not in [one.check for one in found.findings] or check in (
        "hardware error",
        "torque",
        "answers",
        "temperature",
    )
    if fix == "eeprom":
        assert len(apply_fixes(robot, healthy.port, None, ["eeprom"])) == 1
        assert "settings" not in [one.check for one in look(robot, healthy).findings]


def test_different_firmware_at_servos_of_one_model_is_found(robot: Robot, healthy: EmulatedServoBus) -> None:
    healthy.chain.servos[3].set(table.FIRMWARE_VERSION, 45)  # the only XM540
    assert "firmware versions" not in [one.check for one in look(robot, healthy).findings]
    healthy.chain.servos[5].set(table.FIRMWARE_VERSION, 45)
    one = finding(look(robot, healthy), "firmware versions")
    assert one.level == "warning" and one.text.endswith("48 at 2, 4, 6, 7, 8, 9; 45 at 5") and 3 not in one.servo_ids


def test_servos_that_are_not_the_robots_are_found(robot: Robot, healthy: EmulatedServoBus) -> None:
    healthy.chain.servos.pop(5)
    healthy.chain.servos[12] = Servo(12, 1020)
    one = finding(look(robot, healthy), "servos")
    assert one.level == "error" and "missing servos: 5" in one.text and "unexpected servos: 12" in one.text


def test_two_servos_with_one_id_are_found(robot: Robot, healthy: EmulatedServoBus) -> None:
    FaultInjector(FaultScript(faults=(SameId(kind="same_id", of=4),)), healthy.chain)
    found = look(robot, healthy)
    assert any("two servos share an id" in one.text and one.level == "error" for one in found.findings)


def test_a_posture_outside_the_limits_is_found(
    robot: Robot, healthy: EmulatedServoBus, plant: IndependentAxesPlant
) -> None:
    plant.q[3] = robot.upper[3] + 0.2
    one = finding(look(robot, healthy), "posture")
    assert one.level == "error" and f"{robot.joint_names[3]} reads 11.4 deg, its limits are -159 to 0 deg" in one.text


def test_the_angles_show_which_joint_was_moved_and_which_way(
    robot: Robot, healthy: EmulatedServoBus, plant: IndependentAxesPlant
) -> None:
    """What the sign test of docs/real_arm.md rests on: one joint is moved by hand between two calls."""
    before = finding(look(robot, healthy), "posture").text.split(": ")[1].split(", ")
    plant.q[1] += 0.2
    after = finding(look(robot, healthy), "posture").text.split(": ")[1].split(", ")
    (moved,) = (k for k, (one, other) in enumerate(zip(before, after, strict=True)) if one != other)
    angles = [float(text.split()[1]) for text in (before[moved], after[moved])]
    assert moved == 1 and before[1].startswith(robot.joint_names[1]) and 11.3 < angles[1] - angles[0] < 11.6


@pytest.mark.usefixtures("busy_host")
def test_servos_without_fast_reads_are_read_plainly(robot: Robot, healthy: EmulatedServoBus) -> None:
    healthy.line_fault = lambda frames: [] if len(frames[0]) > 60 and frames[0][4] == 0xFE else frames
    one = finding(look(robot, healthy), "cycle")
    assert one.level != "error" and "(sync read)" in one.text


def test_a_line_that_loses_replies_is_found(robot: Robot, healthy: EmulatedServoBus) -> None:
    replies = [0]

    def lose_some(frames: list[bytes]) -> list[bytes]:
        replies[0] += len(frames) == 8
        return frames[:-1] if len(frames) == 8 and replies[0] % 3 == 0 else [] if frames[0][4] == 0xFE else frames

    healthy.line_fault = lose_some
    one = finding(look(robot, healthy), "cycle")
    assert one.level == "error" and "reads were incomplete" in one.text and "cable" in one.remedy


def test_a_line_that_is_too_slow_for_the_cycle_is_found(robot: Robot, healthy: EmulatedServoBus) -> None:
    quick = robot.file.model_copy(update={"bus": robot.file.bus.model_copy(update={"cycle_s": 1e-6})})
    one = finding(look(Robot(quick, robot.folder), healthy), "cycle")
    assert one.level == "error" and "raise the servos' baud rate" in one.remedy


@pytest.mark.parametrize(
    ("port", "words"), [("/dev/no_such_port", "does not exist"), ("/dev/null", "not a usable serial")]
)
def test_a_port_that_cannot_be_opened_is_found(robot: Robot, port: str, words: str) -> None:
    found = examine(robot, port)
    assert found.must_act and words in finding(found, "port").text


def test_a_busy_port_is_found(robot: Robot, healthy: EmulatedServoBus) -> None:
    from dynid.hardware.bus.port import close_port, open_port

    taken = open_port(healthy.port, 3_000_000)
    assert "is busy" in finding(look(robot, healthy), "port").text
    close_port(taken)


# -- the latency timer ---------------------------------------------------------------------------------------------


@pytest.fixture
def system(tmp_path: Path, bus: EmulatedServoBus) -> Path:
    """Device files of a port whose adapter waits for 16 ms."""
    device = tmp_path / "class" / "tty" / Path(bus.port).name / "device"
    device.mkdir(parents=True)
    (device / "latency_timer").write_text("16\n")
    return tmp_path


def test_the_latency_timer_is_found_and_fixed(robot: Robot, healthy: EmulatedServoBus, system: Path) -> None:
    one = finding(look(robot, healthy, system=system), "USB latency")
    assert one.level == "error" and "latency timer 16 ms" in one.text and "udev" in one.remedy
    assert apply_fixes(robot, healthy.port, None, ["latency-timer"], system) == ["latency timer 16 ms -> 1 ms"]
    assert latency_ms(healthy.port, system) == 1
    assert finding(look(robot, healthy, system=system), "USB latency").level == "ok"


def test_a_latency_timer_that_cannot_be_set_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BusError, match="only FTDI adapters have one"):
        set_latency("/dev/ttyUSB7", tmp_path)
    file = tmp_path / "class" / "tty" / "ttyUSB7" / "device" / "latency_timer"
    file.parent.mkdir(parents=True)
    file.write_text("16")

    def forbidden(*_: object, **__: object) -> int:
        raise PermissionError

    monkeypatch.setattr(Path, "write_text", forbidden)
    with pytest.raises(BusError, match="sudo tee"):
        set_latency("/dev/ttyUSB7", tmp_path)


# -- fixes ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("busy_host")
def test_servos_as_delivered_are_brought_to_the_bus(robot: Robot, bus: EmulatedServoBus) -> None:
    FaultInjector(FaultScript(faults=(FactoryFresh(kind="factory_fresh"),)), bus.chain)
    one = finding(look(robot, bus), "servos")
    assert "answer at 57600 bit/s, factory-fresh" in one.text and (one.fix, one.servo_ids) == (
        "baud-rate",
        robot.servo_ids,
    )
    lines = apply_fixes(robot, bus.port, None, ["eeprom", "baud-rate"])
    assert lines[0] == "servo 2: baud rate 57600 -> 3000000 bit/s" and len(lines) == 8 + 8
    assert not look(robot, bus).must_act


def test_servos_in_a_foreign_mode_are_left_where_no_program_surprises_the_arm(
    robot: Robot, healthy: EmulatedServoBus
) -> None:
    """In current mode with the goal that the change of mode sets, the arm would run when torque is switched on."""
    for servo in healthy.chain.servos.values():
        servo.set(table.OPERATING_MODE, 4)
    lines = apply_fixes(robot, healthy.port, None, ["eeprom"])
    assert lines[0] == "servo 2: operating mode 4 -> 3" and len(lines) == 8
    for servo in healthy.chain.servos.values():
        assert servo.get(table.OPERATING_MODE) == table.POSITION_MODE and servo.get(table.GOAL_CURRENT) == 0
    assert "settings" not in [one.check for one in look(robot, healthy).findings]


@pytest.mark.usefixtures("busy_host")
def test_torque_and_errors_are_fixed_by_name_only(robot: Robot, healthy: EmulatedServoBus) -> None:
    healthy.chain.servos[3].set(table.TORQUE_ENABLE, 1)
    healthy.chain.servos[4].raise_hardware_error(1 << 5)
    assert apply_fixes(robot, healthy.port, None, ["reboot"]) == [
        f"servo 4 ({robot.joint_names[2]}): rebooted after it reported overload"
    ]
    assert healthy.chain.servos[3].torque_enabled
    assert apply_fixes(robot, healthy.port, None, ["torque-off", "reboot"]) == ["servo 3: torque off"]
    assert not look(robot, healthy).must_act
    with pytest.raises(UnknownNameError, match="unknown fix 'everything'; known: latency-timer, baud-rate"):
        apply_fixes(robot, healthy.port, None, ["everything"])


def test_torque_goes_off_although_a_servo_is_missing(robot: Robot, healthy: EmulatedServoBus) -> None:
    for servo in healthy.chain.servos.values():
        servo.set(table.TORQUE_ENABLE, 1)
    healthy.chain.servos.pop(9)
    with pytest.raises(BusError, match=r"servo 9 .*of the others: servo 2: torque off, servo 3: torque off"):
        apply_fixes(robot, healthy.port, None, ["torque-off"])
    assert not any(servo.torque_enabled for servo in healthy.chain.servos.values())


@pytest.mark.parametrize("fix", ["torque-off", "eeprom"])
def test_servos_that_answer_reads_only_are_fixed(robot: Robot, healthy: EmulatedServoBus, fix: str) -> None:
    for servo in healthy.chain.servos.values():
        servo.set(table.TORQUE_ENABLE, int(fix == "torque-off"))
        servo.set(table.RETURN_DELAY_TIME, 250)
        servo.set(table.STATUS_RETURN_LEVEL, 1)
    assert len(apply_fixes(robot, healthy.port, None, [fix])) >= len(healthy.chain.servos)
    assert not any(servo.torque_enabled for servo in healthy.chain.servos.values())
    assert fix == "torque-off" or {one.get(table.RETURN_DELAY_TIME) for one in healthy.chain.servos.values()} == {0}


# -- the command ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("busy_host")
def test_command_prints_remedies_and_sets_the_exit_code(robot: Robot, bus: EmulatedServoBus) -> None:
    arguments = ["doctor", bus.port, "--cycles", "20", "--robot", str(robot.folder)]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 1 and "return delay time is 250 instead of 0" in shown.output
    assert f"dynid doctor {bus.port} --robot {robot.folder} --fix eeprom" in shown.output.replace("\n", "")
    assert "fix the errors above" in shown.output
    told = CliRunner().invoke(app, [*arguments, "--fix", "eeprom", "--json"])
    content = json.loads(told.output)
    assert told.exit_code == 0 and content["must_act"] is False and len(content["fixed"]) == 8
    assert {one["level"] for one in content["findings"] if one["check"] != "cycle"} == {"ok"}
    again = CliRunner().invoke(app, [*arguments, "--fix", "eeprom"])
    assert again.exit_code == 0 and "nothing to fix" in again.output and "the arm is ready to be driven" in again.output


# -- how the arm is built -----------------------------------------------------------------------------------------


def test_a_servo_of_another_unit_of_current_is_named(robot: Robot, healthy: EmulatedServoBus) -> None:
    small = Servo(5, 1200)
    small.set(table.RETURN_DELAY_TIME, 0)
    healthy.chain.servos[5] = small
    one = finding(look(robot, healthy), "servos")
    assert one.level == "error" and one.servo_ids == (5,)
    assert (
        "is model 1200 (XL330-M288, 1 mA per count) instead of model 1020 (XM430-W350, 2.69 mA per count)" in one.text
    )


def test_a_servo_without_current_control_is_named(robot: Robot, healthy: EmulatedServoBus) -> None:
    healthy.chain.servos[5].set(table.MODEL_NUMBER, 1060)
    found = {one.check: one.text for one in look(robot, healthy).findings}
    assert "XL430-W250, no current control" in found["servos"]
    assert "servo 5" in found["model"] and "has no current control" in found["model"]


def test_reverse_mode_is_never_changed_for_its_owner(robot: Robot, healthy: EmulatedServoBus) -> None:
    healthy.chain.servos[4].set(table.DRIVE_MODE, 1)
    one = finding(look(robot, healthy), "reverse mode")
    assert one.level == "error" and not one.fix and "its joint would turn the wrong way" in one.text
    assert apply_fixes(robot, healthy.port, None, ["eeprom"]) == []
    assert healthy.chain.servos[4].get(table.DRIVE_MODE) == 1


def test_unlisted_shadow_servo_is_not_changed(robot: Robot, healthy: EmulatedServoBus) -> None:
    """An arm with a second servo on a joint, of which robot.yaml does not say so: both stay as they are."""
    shadow = Servo(12, 1020)
    shadow.set(table.SECONDARY_ID, 4)
    healthy.chain.servos[12] = shadow
    healthy.chain.servos[4].set(table.DRIVE_MODE, 1)
    found = look(robot, healthy)
    one = finding(found, "shadow")
    assert "servo 12 obeys servo 4" in one.text and "shadow_ids: [12]" in one.remedy and not one.fix
    assert all(other.fix != "eeprom" for other in found.findings)
    assert apply_fixes(robot, healthy.port, None, ["eeprom"]) == []
    assert shadow.get(table.SECONDARY_ID) == 4 and healthy.chain.servos[4].get(table.DRIVE_MODE) == 1


def test_a_servo_that_obeys_another_of_the_arm_is_found(robot: Robot, healthy: EmulatedServoBus) -> None:
    healthy.chain.servos[5].set(table.SECONDARY_ID, 4)
    one = finding(look(robot, healthy), "shadow")
    assert one.level == "error" and "servo 5" in one.text and "obeys servo 4" in one.text and not one.fix
