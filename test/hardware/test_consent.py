"""Recognition of simulated lines: only a proven one counts as simulated; all others need consent."""

import contextlib
import fcntl
import os
import pty
import struct
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from plain_bus import IndependentAxesPlant, running_bus
from relay import Relay

from dynid.errors import BusError, SafetyError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.simulated_line import is_simulated, is_simulated_port
from dynid.hardware.startup.bring_up import StartOptions
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.simulation.bus.terminal import ServoTerminal


@pytest.fixture
def relay(bus: EmulatedServoBus) -> Iterator[Relay]:
    opened = Relay(bus.port)
    yield opened
    opened.close()


@pytest.mark.slow
def test_only_the_simulated_arms_own_line_is_simulated(bus: EmulatedServoBus, relay: Relay, tmp_path: Path) -> None:
    link = tmp_path / "arm"
    link.symlink_to(bus.port)
    assert is_simulated_port(bus.port) and is_simulated_port(link)
    for other in (relay.port, "/dev/null", "/dev/ttyUSB77", tmp_path):
        assert not is_simulated_port(other)


def test_a_copied_window_size_is_no_proof(bus: EmulatedServoBus) -> None:
    """As a program like `script` copies it from the terminal that it runs in."""
    master, slave = pty.openpty()
    line = os.open(bus.port, os.O_RDWR | os.O_NOCTTY)
    try:
        assert is_simulated(line)
        size = fcntl.ioctl(line, termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
        assert not is_simulated(slave) and not is_simulated_port(os.ttyname(slave))
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("<HHHH", 24, 80, 0, 0))
        assert not is_simulated(slave)
    finally:
        for descriptor in (master, slave, line):
            os.close(descriptor)


def test_a_port_counts_as_simulated_only_while_its_cable_is_in(tmp_path: Path) -> None:
    terminal = ServoTerminal(tmp_path / "arm")
    assert is_simulated_port(tmp_path / "arm")
    device = os.path.realpath(tmp_path / "arm")
    terminal.pull()
    assert not is_simulated_port(tmp_path / "arm")
    master, slave = pty.openpty()  # may get the number that is free now
    assert not is_simulated_port(os.ttyname(slave)), device
    for descriptor in (master, slave):
        os.close(descriptor)
    terminal.plug()
    assert is_simulated_port(tmp_path / "arm")
    terminal.pull()


def test_a_relay_gets_no_torque_without_consent(robot: Robot, relay: Relay) -> None:
    with pytest.raises(SafetyError, match=f"{relay.port} is not a simulated servo bus"):
        DynamixelArm(robot, relay.port)
    assert relay.written == b""


def test_no_eeprom_write_without_consent_behind_a_relay(robot: Robot, bus: EmulatedServoBus, relay: Relay) -> None:
    before = {one: bytes(servo.bytes[: table.EEPROM_END]) for one, servo in bus.chain.servos.items()}
    with pytest.raises(BusError, match="write_eeprom:=true"):
        DynamixelArm(robot, relay.port, allow_real_port=True).open()
    mode = table.OPERATING_MODE.address
    for one, servo in bus.chain.servos.items():
        after = bytes(servo.bytes[: table.EEPROM_END])
        assert [at for at in range(table.EEPROM_END) if at != mode and after[at] != before[one][at]] == []
    with DynamixelArm(robot, relay.port, allow_real_port=True, start=StartOptions(write_eeprom=True)) as arm:
        assert not arm.simulated and arm.changed


def test_consent_is_checked_again_after_the_port_was_lost(robot: Robot, bus: EmulatedServoBus, tmp_path: Path) -> None:
    link = tmp_path / "arm"
    link.symlink_to(bus.port)
    arm = DynamixelArm(robot, str(link))
    arm.open()
    assert arm.simulated
    arm.close()
    with contextlib.closing(Relay(bus.port)) as relay:
        link.unlink()
        link.symlink_to(relay.port)
        with pytest.raises(SafetyError, match="is not a simulated servo bus"):
            arm.open()
        assert relay.written == b"" and not arm.bus.is_open


def test_a_simulators_own_line_needs_no_consent(robot: Robot) -> None:
    with (
        running_bus(EmulatedServoBus(robot, IndependentAxesPlant(robot))) as served,
        DynamixelArm(robot, served.port) as arm,
    ):
        assert arm.simulated and arm.changed
