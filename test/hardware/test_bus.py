"""Opening ports, and set-up through the SDK, against the emulated bus."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from dynamixel_sdk import Protocol2PacketHandler

from dynid.errors import BusError, BusTimeoutError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.dialogue import QUICK_S
from dynid.hardware.bus.port import _sentence, close_port, is_pseudo_terminal, open_port
from dynid.hardware.bus.protocol import build_status, build_write
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus


@pytest.fixture
def line(robot: Robot, bus: EmulatedServoBus) -> Iterator[ServoBus]:
    opened = ServoBus(bus.port, 3_000_000, robot.servo_ids)
    opened.open()
    yield opened
    opened.close()


def test_single_registers_are_written_and_read_back(line: ServoBus, bus: EmulatedServoBus) -> None:
    assert line.ping(3) == 1120
    assert line.read(3, table.OPERATING_MODE) == table.POSITION_MODE
    line.write(3, table.OPERATING_MODE, 0)
    assert line.read(3, table.OPERATING_MODE) == 0
    line.write(3, table.GOAL_CURRENT, -300)
    assert line.read(3, table.GOAL_CURRENT) == -300
    bus.chain.servos[3].raise_hardware_error(1 << 5)
    assert line.read(3, table.HARDWARE_ERROR_STATUS) == 1 << 5  # the alert bit is no failure of the read
    line.reboot(3)
    assert line.read(3, table.HARDWARE_ERROR_STATUS) == 0


def test_refused_writes_say_which_servo_register_and_why(line: ServoBus) -> None:
    with pytest.raises(BusError, match=r"servo 4: write 9 operating mode: data range error"):
        line.write(4, table.OPERATING_MODE, 9)
    with pytest.raises(BusError, match=r"goal current: data limit error"):
        line.write(4, table.GOAL_CURRENT, 1500)
    line.write(4, table.TORQUE_ENABLE, 1)
    with pytest.raises(BusError, match=r"return delay time: access error"):
        line.write(4, table.RETURN_DELAY_TIME, 0)


def test_frames_are_stuffed_once_without_the_sdk(
    line: ServoBus, bus: EmulatedServoBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`addStuffing` of the SDK discards its result; once that is corrected, frames would be stuffed twice."""
    monkeypatch.delattr(Protocol2PacketHandler, "txPacket")
    sent: list[bytes] = []
    with line.line() as port:
        send = port.send
        port.send = lambda frame: (sent.append(frame), send(frame))[1]  # type: ignore[method-assign]
    line.write(3, table.HOMING_OFFSET, -131_073)  # FF FF FD FF
    assert sent == [build_write(3, 20, b"\xff\xff\xfd\xff")] and sent[0].count(b"\xff\xff\xfd\xfd\xff") == 1
    assert bus.chain.servos[3].get(table.HOMING_OFFSET) == line.read(3, table.HOMING_OFFSET) == -131_073


@pytest.mark.parametrize(("times", "works"), [(2, True), (3, False)])
def test_an_instruction_that_arrived_damaged_is_sent_again(
    line: ServoBus, bus: EmulatedServoBus, times: int, works: bool
) -> None:
    """Status 03 in any set-up instruction: twice is made good, three times says what it was."""
    for action in (lambda: line.write(3, table.RETURN_DELAY_TIME, 0), lambda: line.reboot(3)):
        left = iter(range(times))
        bus.line_fault = lambda frames, left=left: [build_status(3, 3)] if next(left, None) is not None else frames
        with contextlib.nullcontext() if works else pytest.raises(BusError, match="3 times: CRC error"):
            action()


def test_damaged_read_is_not_attributed_to_the_servo(line: ServoBus, bus: EmulatedServoBus) -> None:
    """Status 03 is no refusal to read across unlisted addresses: the next read asks for the whole block again."""
    answered: list[int] = []
    bus.line_fault = lambda frames: (answered.append(len(frames[0])), [build_status(2, 3)])[1]
    assert line.read_block(2, 64, 7) is None
    bus.line_fault = lambda frames: (answered.append(len(frames[0])), frames)[1]
    assert line.read_block(2, 64, 7) == b"\0\0\0\0\2\0\0" and answered == [18, 18]


def test_a_missing_servo_times_out_by_its_id(line: ServoBus) -> None:
    with pytest.raises(BusTimeoutError, match="servo 77"):
        line.ping(77)
    with pytest.raises(BusTimeoutError, match=r"servo 77.*operating mode"):
        line.read(77, table.OPERATING_MODE)
    assert line.read_block(77, 64, 7) is None
    assert line.ping(2) == 1020


def test_an_answer_that_comes_twice_is_counted(line: ServoBus, bus: EmulatedServoBus) -> None:
    bus.line_fault = lambda frames: [b"".join(frames) * 2]
    assert line.read_block(4, 64, 1) == b"\x00"
    assert line.surplus == 1
    bus.line_fault = None
    assert line.read_block(4, 64, 1) == b"\x00" and line.surplus == 1


def test_group_reads_mark_a_missing_servo(line: ServoBus, bus: EmulatedServoBus) -> None:
    line.sync_write(table.TORQUE_ENABLE, [1, 0] * 4)
    assert line.sync_read(table.TORQUE_ENABLE) == ([1, 0] * 4, [True] * 8)
    bus.chain.servos.pop(5)
    values, valid = line.sync_read(table.TORQUE_ENABLE)
    assert valid == [True, True, True, False, True, True, True, True] and values[2] == 1
    assert line.read_block(2, 64, 7) == b"\x01\x00\x00\x00\x02\x00\x00"


def test_a_reply_without_parameters_is_no_value(line: ServoBus, bus: EmulatedServoBus) -> None:
    bus.line_fault = lambda frames: [build_status(2, 0)]
    with pytest.raises(BusError, match="servo 2"):
        line.read(2, table.CURRENT_LIMIT)


def test_a_second_process_finds_the_port_busy(line: ServoBus) -> None:
    with pytest.raises(BusError, match="busy"):
        open_port(line.port, 3_000_000)
    line.close()
    close_port(open_port(line.port, 3_000_000))


def test_closed_bus_is_reported(line: ServoBus) -> None:
    line.close()
    line.close()
    with pytest.raises(BusError, match="not open"):
        line.ping(2)


def test_a_symbolic_link_to_a_port_is_followed(robot: Robot, bus: EmulatedServoBus, tmp_path: Path) -> None:
    link = tmp_path / "arm"
    link.symlink_to(bus.port)
    assert is_pseudo_terminal(link) and not is_pseudo_terminal("/dev/ttyUSB0")
    linked = ServoBus(str(link), 3_000_000, robot.servo_ids)
    linked.open()
    assert linked.ping(2) == 1020
    linked.close()


@pytest.mark.parametrize(
    ("port", "words"),
    [
        ("/dev/no_such_port", "does not exist"),
        ("/dev/null", "not a usable serial port"),
        (__file__, "not a serial port"),
    ],
)
def test_ports_that_cannot_be_opened_are_named_in_one_line(port: str, words: str) -> None:
    with pytest.raises(BusError, match=words) as caught:
        open_port(port, 3_000_000)
    assert port in str(caught.value) and "\n" not in str(caught.value)


def test_a_denied_permission_names_the_group_dialout() -> None:
    assert "dialout" in _sentence("/dev/ttyUSB0", errno.EACCES)
    assert "busy" in _sentence("/dev/ttyUSB0", errno.EAGAIN)
    assert os.strerror(errno.ENODEV) in _sentence("/dev/ttyUSB0", errno.ENODEV)


def test_an_unknown_baud_rate_is_refused(bus: EmulatedServoBus) -> None:
    with pytest.raises(BusError, match="4500000"):
        open_port(bus.port, 4_500_000)


def test_another_baud_rate_gets_no_answer(robot: Robot, bus: EmulatedServoBus) -> None:
    other = ServoBus(bus.port, 1_000_000, robot.servo_ids)
    other.open()
    with pytest.raises(BusTimeoutError):
        other.ping(2, QUICK_S[:1])
    other.close()
