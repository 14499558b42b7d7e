"""Bytes that the driver writes from start to end, recorded on the line: no torque or current without a request.

The bytes are recorded between driver and servos, and checked by a separate reader of the protocol.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from child import Child
from plain_bus import IndependentAxesPlant, running_bus
from relay import Relay

from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.safety.guard import SafetyGuard, SafetySettings
from dynid.hardware.startup.bring_up import StartOptions
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus

TORQUE_ENABLE, GOAL_CURRENT = 64, 102
GOALS = range(100, 120)  # goal PWM, current, velocity, profiles and position: any of them could move a servo
WRITE, SYNC_WRITE = 0x03, 0x83
READ_ONLY = (0x01, 0x02, 0x82, 0x8A)  # ping, read, (fast) sync read
INSTRUCTIONS = (*READ_ONLY, WRITE, SYNC_WRITE, 0x08)  # and reboot


@pytest.fixture
def tap(robot: Robot) -> Iterator[Relay]:
    served = EmulatedServoBus(robot, IndependentAxesPlant(robot), wire_time=False)
    with running_bus(served):
        opened = Relay(served.port)
        yield opened
        opened.close()


@dataclass(frozen=True)
class Write:
    """One value written to one servo: where in the stream, which servo, which address, the bytes."""

    offset: int
    servo: int
    address: int
    data: bytes


def writes(stream: bytes) -> list[Write]:
    """All values that a stream of instruction packets writes, byte by byte accounted for."""
    found, at = [], 0
    while at < len(stream):
        assert stream[at : at + 4] == b"\xff\xff\xfd\x00", f"byte {at} is in no packet"
        assert stream[at + 7] in INSTRUCTIONS, (
            f"byte {at + 7}: instruction {stream[at + 7]:#x} may write what is not read"
        )
        length = int.from_bytes(stream[at + 5 : at + 7], "little")
        body = stream[at + 7 : at + 7 + length - 2].replace(b"\xff\xff\xfd\xfd", b"\xff\xff\xfd")
        servo, instruction, address = stream[at + 4], body[0], int.from_bytes(body[1:3], "little")
        if instruction == WRITE:
            found.append(Write(at, servo, address, body[3:]))
        if instruction == SYNC_WRITE:
            size = int.from_bytes(body[3:5], "little")
            for start in range(5, len(body), size + 1):
                found.append(Write(at, body[start], address, body[start + 1 : start + 1 + size]))
        at += 7 + length
    return found


def moving(stream: bytes) -> list[Write]:
    """Return the writes that switch torque on or set a goal other than zero."""
    return [
        one
        for one in writes(stream)
        if any(
            byte and (one.address + k == TORQUE_ENABLE or one.address + k in GOALS) for k, byte in enumerate(one.data)
        )
    ]


def test_reader_finds_all_written_registers() -> None:
    torque_on = bytes.fromhex("fffffd00 02 0600 03 4000 01 dbcc".replace(" ", ""))
    current = bytes.fromhex("fffffd00 fe 0d00 83 6600 0200 02 0000 03 0100 0000".replace(" ", ""))
    quiet = bytes.fromhex("fffffd00 02 0600 03 4000 00 0000".replace(" ", ""))
    assert moving(quiet) == []
    assert [(one.servo, one.address) for one in moving(quiet + torque_on + current)] == [(2, 64), (3, 102)]
    both = bytes.fromhex("fffffd00 02 0b00 03 6200 0000 0000 0100 0000".replace(" ", ""))  # 98 to 103 in one write
    assert [(one.servo, one.address) for one in moving(both)] == [(2, 98)]
    with pytest.raises(AssertionError, match="instruction 0x4 "):
        moving(bytes.fromhex("fffffd00 02 0600 04 4000 01 dbcc".replace(" ", "")))  # written now, effective later
    with pytest.raises(AssertionError, match="byte 13 is in no packet"):
        moving(quiet + b"\x00")


def test_nothing_that_moves_is_written_before_enable_nor_after_disable(robot: Robot, tap: Relay) -> None:
    arm = DynamixelArm(robot, tap.port, allow_real_port=True, start=StartOptions(write_eeprom=True))
    arm.open()
    guard = SafetyGuard(robot, SafetySettings(command_timeout_s=1.0, current_ramp_s=0.0))
    moved, calm = threading.Event(), threading.Event()
    cycles = [0]

    def watch(_: object, applied: np.ndarray) -> None:
        cycles[0] += 1
        if applied.any():
            moved.set()
        if cycles[0] > 100:
            calm.set()

    loop = ControlLoop(arm, guard, on_cycle=watch, feedback_timeout_s=1.0)
    loop.start()
    loop.set_command(np.full(8, 1.0))  # a commander that does not wait for enable
    assert calm.wait(20.0)
    loop.fault("pressed")
    loop.clear_fault()
    before = len(tap.written)
    loop.set_command(np.full(8, 1.0))
    loop.enable()
    loop.set_command(np.full(8, 1.0))
    assert moved.wait(20.0)
    loop.disable()
    after = len(tap.written)
    cycles[0] = 0
    calm.clear()
    loop.set_command(np.full(8, 1.0))
    assert calm.wait(20.0)
    loop.stop()
    arm.close()
    found = moving(bytes(tap.written))
    assert before > 2_000 and [one for one in found if one.offset < before] == []
    assert [one for one in found if one.offset >= after] == []
    on = [one for one in found if one.address == TORQUE_ENABLE]
    assert [one.servo for one in on] == list(robot.servo_ids)
    last_zero = {
        one.servo: one.data
        for one in writes(bytes(tap.written))
        if one.address == GOAL_CURRENT and one.offset < on[0].offset
    }
    assert last_zero == dict.fromkeys(robot.servo_ids, b"\0\0")  # goal current 0 stood when torque came on


def test_a_node_that_is_started_activated_and_ended_writes_nothing_that_moves(tap: Relay) -> None:
    pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")
    code = (
        "import sys, threading, time\n"
        "import rclpy\n"
        "from dynid.nodes.hardware_node import HardwareNode\n"
        "told = ['port_name:=' + sys.argv[1], 'allow_real_port:=true', 'write_eeprom:=true']\n"
        "rclpy.init(args=['--ros-args', *(part for one in told for part in ('-p', one))])\n"
        "node = HardwareNode()\n"
        "node.trigger_configure(); node.trigger_activate()\n"
        "print('active', flush=True)\n"
        "sys.stdin.readline()\n"
        "node.trigger_deactivate(); node.trigger_cleanup(); node.shut_down()\n"
        "print('ended', flush=True)\n"
    )
    environment = {**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"}
    with Child(
        [sys.executable, "-c", code, tap.port],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        try:
            assert child.stdout.readline() == "active\n"
            configured = len(tap.written)
            growing = threading.Event()
            while len(tap.written) < configured + 2_000:
                growing.wait(0.01)
            child.stdin.write("end\n")
            child.stdin.flush()
            assert child.stdout.readline() == "ended\n"
        finally:
            child.send_signal(signal.SIGKILL)
    assert len(writes(bytes(tap.written))) > 30 and moving(bytes(tap.written)) == []
