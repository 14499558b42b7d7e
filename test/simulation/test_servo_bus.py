"""The emulated bus: the real SDK with it, and the servos' rules."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks.traces import load_trace
from child import Child
from dynamixel_sdk import (
    COMM_RX_TIMEOUT,
    COMM_SUCCESS,
    GroupSyncRead,
    GroupSyncWrite,
    PortHandler,
    Protocol2PacketHandler,
)
from plain_bus import IndependentAxesPlant, ask, running_bus, send

from dynid.errors import ConfigurationError, DataError, InputNotFoundError, OutputExistsError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.protocol import (
    BROADCAST_ID,
    build_packet,
    build_ping,
    build_read,
    build_sync_read,
    build_sync_write,
    build_write,
)
from dynid.robot import Robot
from dynid.simulation.bus.process import serve, traced
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.simulation.faults.script import FaultScript
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.plant.held import HeldBody
from dynid.simulation.servo.chain import ServoChain
from dynid.simulation.servo.servo import Servo

SDK = Protocol2PacketHandler()


@pytest.fixture
def chain(robot: Robot, plant: IndependentAxesPlant) -> ServoChain:
    """Return servos without a port, in current mode with torque on."""
    servos = ServoChain(robot, plant)
    for servo_id in robot.servo_ids:
        assert ask(servos, build_write(servo_id, 11, b"\0")) == (0, b"")
    send(servos, build_sync_write(robot.servo_ids, 102, [b"\0\0"] * 8))
    send(servos, build_sync_write(robot.servo_ids, 64, [b"\1"] * 8))
    return servos


# -- the real SDK ----------------------------------------------------------------------------------------------


def test_the_sdk_pings_reads_writes_and_reboots_servos(port: PortHandler) -> None:
    assert SDK.ping(port, 3) == (1120, COMM_SUCCESS, 0)
    assert SDK.ping(port, 2) == (1020, COMM_SUCCESS, 0)
    assert SDK.ping(port, 44)[1] == COMM_RX_TIMEOUT
    assert SDK.write1ByteTxRx(port, 2, 11, 0) == (COMM_SUCCESS, 0)
    assert SDK.read1ByteTxRx(port, 2, 11) == (0, COMM_SUCCESS, 0)
    assert SDK.write2ByteTxRx(port, 2, 102, 250) == (COMM_SUCCESS, 0)
    assert SDK.read2ByteTxRx(port, 2, 102) == (250, COMM_SUCCESS, 0)
    assert SDK.write1ByteTxRx(port, 2, 64, 1) == (COMM_SUCCESS, 0)
    assert SDK.reboot(port, 2) == (COMM_SUCCESS, 0)
    assert SDK.read1ByteTxRx(port, 2, 64) == (0, COMM_SUCCESS, 0)


def test_a_broadcast_ping_of_the_sdk_finds_all_servos(port: PortHandler, robot: Robot) -> None:
    found, result = SDK.broadcastPing(port)
    assert result == COMM_SUCCESS and {i: m[0] for i, m in found.items()} == {
        one.servo_id: one.model_number for one in robot.wired_servos
    }


@pytest.mark.parametrize("fast", [False, True])
def test_group_reads_of_the_sdk_give_all_positions(
    port: PortHandler, robot: Robot, plant: IndependentAxesPlant, fast: bool
) -> None:
    group = GroupSyncRead(port, SDK, 126, 10)
    for servo_id in robot.servo_ids:
        assert group.addParam(servo_id)
    assert (group.fastSyncRead() if fast else group.txRxPacket()) == COMM_SUCCESS
    counts = [group.getData(servo_id, 132, 4) for servo_id in robot.servo_ids]
    assert counts == (np.rint(plant.q * 4096 / (2 * np.pi)) + 2048).tolist()


def test_a_group_write_of_the_sdk_sets_all_currents(
    port: PortHandler, robot: Robot, bus: EmulatedServoBus, plant: IndependentAxesPlant
) -> None:
    for servo_id in robot.servo_ids:
        assert SDK.write1ByteTxRx(port, servo_id, 11, 0) == (COMM_SUCCESS, 0)
        assert SDK.write1ByteTxRx(port, servo_id, 64, 1) == (COMM_SUCCESS, 0)
    group = GroupSyncWrite(port, SDK, 102, 2)
    for axis, servo_id in enumerate(robot.servo_ids):
        assert group.addParam(servo_id, [10 * axis, 0])
    assert group.txPacket() == COMM_SUCCESS
    assert SDK.ping(port, 2)[1] == COMM_SUCCESS
    assert plant.current_a == pytest.approx(10 * np.arange(8) * 0.00269)
    assert plant.time_s == pytest.approx(0.001)


# -- the servos' rules -----------------------------------------------------------------------------------------


def test_eeprom_is_locked_while_torque_is_on(chain: ServoChain) -> None:
    assert ask(chain, build_write(2, 9, b"\0"))[0] == 7
    assert ask(chain, build_write(2, 64, b"\0"))[0] == 0
    assert ask(chain, build_write(2, 9, b"\0"))[0] == 0


@pytest.mark.parametrize(
    ("address", "data", "error"),
    [
        (0, b"\1\1", 7),
        (132, b"\0\0\0\0", 7),
        (64, b"\2", 4),
        (98, b"\x80", 4),
        (102, b"\1", 5),
        (102, (2000).to_bytes(2, "little"), 6),
        (140, bytes(20), 7),
    ],
)
def test_refused_writes_change_nothing(chain: ServoChain, address: int, data: bytes, error: int) -> None:
    before = bytes(chain.servos[2].bytes)
    assert ask(chain, build_write(2, address, data))[0] == error
    assert bytes(chain.servos[2].bytes) == before


def test_reads_beyond_the_table_and_unknown_instructions_are_errors(chain: ServoChain) -> None:
    assert ask(chain, build_read(2, 661, 2)) == (7, b"")
    assert ask(chain, build_read(2, 64, 0)) == (4, b"")
    assert ask(chain, build_packet(2, 0x77)) == (2, b"")
    assert ask(chain, build_packet(2, 2, b"\0")) == (5, b"")


def test_changing_the_mode_resets_the_goal_to_the_current_limit() -> None:
    servo = Servo(2, 1020)
    assert servo.write(102, b"\0\0") == 0
    assert servo.write(11, b"\0") == 0
    assert servo.get(table.GOAL_CURRENT) == 1193
    assert servo.drive_current_count == 0
    servo.write(64, b"\1")
    assert servo.drive_current_count == 1193  # what a driver with the wrong order would meet


def test_a_motor_without_torque_carries_no_current(chain: ServoChain, plant: IndependentAxesPlant) -> None:
    send(chain, build_sync_write([2, 3], 102, [b"\x64\0", b"\x64\0"]))
    assert plant.current_a[:3] == pytest.approx([0.269, 0.269, 0.0])
    ask(chain, build_write(2, 64, b"\0"))
    assert plant.current_a[:2] == pytest.approx([0.0, 0.269])
    assert chain.summary()["max_abs_current_a"][0] == pytest.approx(0.269)
    assert chain.summary()["torque_enabled"] == [False] + [True] * 7


def test_watchdog_trips_stops_and_refuses_goals(chain: ServoChain, plant: IndependentAxesPlant, robot: Robot) -> None:
    send(chain, build_sync_write(robot.servo_ids, 98, [b"\2"] * 8))
    send(chain, build_sync_write(robot.servo_ids, 102, [b"\x64\0"] * 8))
    chain.advance(0.035)
    send(chain, build_ping(9))  # any instruction feeds every servo's watchdog
    chain.advance(0.035)
    assert plant.current_a.all()
    chain.advance(0.006)
    assert not plant.current_a.any()
    assert ask(chain, build_read(2, 98, 1)) == (0, b"\xff")
    send(chain, build_sync_write(robot.servo_ids, 102, [b"\x64\0"] * 8))
    assert not plant.current_a.any()
    assert ask(chain, build_write(2, 102, b"\x64\0"))[0] == 4
    assert ask(chain, build_write(2, 98, b"\0"))[0] == 0
    assert ask(chain, build_write(2, 102, b"\x64\0"))[0] == 0
    assert plant.current_a[0] > 0.0 and not plant.current_a[1:].any()


def test_a_hardware_error_alerts_shuts_down_and_needs_a_reboot(chain: ServoChain, plant: IndependentAxesPlant) -> None:
    send(chain, build_sync_write([4], 102, [b"\x64\0"]))
    chain.servos[4].raise_hardware_error(1 << 5)
    assert ask(chain, build_read(4, 70, 1)) == (0x80, bytes([1 << 5]))
    assert ask(chain, build_write(4, 64, b"\1"))[0] == 0x80 | 1
    assert not plant.current_a.any()
    assert ask(chain, build_packet(4, 8))[0] == 0
    assert ask(chain, build_read(4, 64, 7)) == (0, b"\0\0\0\0\2\0\0")


@pytest.mark.parametrize(("level", "answers"), [(0, (1, 0, 0)), (1, (1, 1, 0)), (2, (1, 1, 1))])
def test_the_status_return_level_decides_what_is_answered(
    chain: ServoChain, level: int, answers: tuple[int, int, int]
) -> None:
    chain.servos[2].set(table.STATUS_RETURN_LEVEL, level)
    frames = (build_ping(2), build_read(2, 64, 1), build_write(2, 65, b"\1"))
    assert tuple(len(send(chain, frame)) for frame in frames) == answers


def test_a_missing_servo_costs_those_behind_it_in_a_sync_read_and_all_in_a_fast_one(chain: ServoChain) -> None:
    """Each waits for the reply of the one before (DynamixelSDK 331, 364); a switch lets each answer by itself."""
    assert len(send(chain, build_sync_read([2, 77, 3], 126, 10))) == 1
    chain.replies_chained = False
    assert len(send(chain, build_sync_read([2, 77, 3], 126, 10))) == 2
    assert len(send(chain, build_sync_read([2, 3], 126, 10, fast=True))) == 1
    assert send(chain, build_sync_read([2, 77, 3], 126, 10, fast=True)) == []


@pytest.mark.parametrize(
    "frame",
    [
        build_packet(BROADCAST_ID, 0x83, b"\x66\0\2\0\2\1"),
        build_packet(BROADCAST_ID, 0x83, b"\x66\0\0\0\2"),
        build_packet(BROADCAST_ID, 0x82, b"\x7e\0"),
        build_packet(2, 0x55, b"\0"),
        build_ping(77),
    ],
)
def test_malformed_group_instructions_are_left_alone(chain: ServoChain, frame: bytes) -> None:
    assert send(chain, frame) == [] and not chain.max_abs_current_a.any()


def test_an_arm_with_a_cable_to_pull_takes_no_body(robot: Robot, tmp_path: Path) -> None:
    held = HeldBody(ArmPlant(robot), 0.1)
    with pytest.raises(ConfigurationError, match="link and body exclude each other"):
        serve(robot, IndependentAxesPlant(robot), link=tmp_path / "port", body=held)


def test_registers_round_to_whole_counts(chain: ServoChain, plant: IndependentAxesPlant) -> None:
    plant.q[:], plant.dq[:] = 0.001, 0.013
    data = ask(chain, build_read(2, 126, 10))[1]
    assert int.from_bytes(data[2:6], "little") == 1 and int.from_bytes(data[6:], "little") == 2049


def test_long_times_are_advanced_in_small_steps(
    chain: ServoChain, plant: IndependentAxesPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[float] = []
    monkeypatch.setattr(plant, "advance", steps.append)
    chain.advance(0.0105)
    assert sum(steps) == pytest.approx(0.0105) and max(steps) <= 0.001


def test_a_plant_of_another_size_is_refused(robot: Robot, plant: IndependentAxesPlant) -> None:
    plant.size = 7
    with pytest.raises(ValueError, match="7 axes"):
        ServoChain(robot, plant)


# -- port, link, process ---------------------------------------------------------------------------------------


def test_the_link_to_the_port_is_removed_and_overwrites_nothing(
    robot: Robot, plant: IndependentAxesPlant, tmp_path: Path
) -> None:
    link = tmp_path / "ttyARM"
    bus = EmulatedServoBus(robot, plant, link=link)
    assert bus.port == str(link) and os.path.realpath(link).startswith("/dev/pts/")
    with pytest.raises(OutputExistsError):
        EmulatedServoBus(robot, plant, link=link)
    assert link.is_symlink()
    bus.close()
    bus.close()
    assert not link.is_symlink()


def test_a_baud_rate_that_servos_do_not_have_is_refused(robot: Robot, plant: IndependentAxesPlant) -> None:
    with pytest.raises(ConfigurationError, match="123"):
        EmulatedServoBus(robot, plant, baudrate=123)


def test_a_reply_takes_the_time_of_the_wire(robot: Robot, plant: IndependentAxesPlant) -> None:
    with running_bus(EmulatedServoBus(robot, plant, baudrate=57_600)) as bus:
        handler = PortHandler(bus.port)
        handler.setBaudRate(57_600)
        began = time.monotonic()
        assert SDK.ping(handler, 2)[1] == COMM_SUCCESS
        assert time.monotonic() - began >= (10 + 14) * 10 / 57_600 + 250 * 2e-6
        handler.closePort()


def script(*faults: dict[str, object], **options: object) -> FaultScript:
    return FaultScript.model_validate({"faults": faults, **options})


def opened(port: str, baudrate: int) -> PortHandler:
    handler = PortHandler(port)
    assert handler.setBaudRate(baudrate)
    return handler


def test_factory_fresh_servos_answer_at_57600_until_changed(robot: Robot, plant: IndependentAxesPlant) -> None:
    with running_bus(EmulatedServoBus(robot, plant, wire_time=False, faults=script({"kind": "factory_fresh"}))) as bus:
        fast = opened(bus.port, 3_000_000)
        assert SDK.ping(fast, 3)[1] == COMM_RX_TIMEOUT
        fast.closePort()
        slow = opened(bus.port, 57_600)
        assert SDK.ping(slow, 3) == (1120, COMM_SUCCESS, 0)
        assert SDK.read1ByteTxRx(slow, 3, 9)[0] == 250 and SDK.read1ByteTxRx(slow, 3, 11)[0] == 3
        SDK.write1ByteTxOnly(slow, 3, 8, 5)
        assert SDK.ping(slow, 2)[1] == COMM_SUCCESS and SDK.ping(slow, 3)[1] == COMM_RX_TIMEOUT
        slow.closePort()
        fast = opened(bus.port, 3_000_000)
        assert SDK.ping(fast, 3)[1] == COMM_SUCCESS and SDK.ping(fast, 2)[1] == COMM_RX_TIMEOUT
        fast.closePort()


def test_late_reply_arrives_whole_and_does_not_block_the_line(bus: EmulatedServoBus, port: PortHandler) -> None:
    frames: list[bytes] = []
    bus.line_fault = lambda reply: (frames.extend(reply), [0.05, *reply])[1]
    port.writePort(build_sync_read([2, 3, 4], 132, 4))
    ready = select.poll()
    ready.register(port.ser.fd, select.POLLIN)
    assert not ready.poll(20)
    bus.line_fault = None
    port.writePort(build_ping(9))
    first = read_exactly(port, 14)
    assert first[4] == 9
    assert read_exactly(port, 45) == b"".join(frames) and len(frames) == 3


def read_exactly(port: PortHandler, size: int) -> bytes:
    ready, data = select.poll(), b""
    ready.register(port.ser.fd, select.POLLIN)
    while len(data) < size:
        assert ready.poll(60_000)
        data += port.readPort(size - len(data))
    return data


def test_a_pulled_cable_breaks_the_port_and_comes_back_under_its_path(
    robot: Robot, plant: IndependentAxesPlant, tmp_path: Path
) -> None:
    link = tmp_path / "ttyARM"
    bus = EmulatedServoBus(robot, plant, wire_time=False, link=link)
    with running_bus(bus):
        client = opened(str(link), 3_000_000)
        assert SDK.ping(client, 3)[1] == COMM_SUCCESS
        bus.pull()
        hung_up = select.poll()
        hung_up.register(client.ser.fd, 0)
        assert hung_up.poll(60_000)[0][1] & select.POLLHUP and not link.is_symlink()
        bus.pull(False)
        while not link.is_symlink():
            os.sched_yield()
        again = opened(str(link), 3_000_000)
        assert SDK.ping(again, 3) == (1120, COMM_SUCCESS, 0)
        again.closePort()
    assert not link.is_symlink()


def test_pulling_the_cable_by_script_needs_a_link(robot: Robot, plant: IndependentAxesPlant) -> None:
    with pytest.raises(ConfigurationError, match="fixed path"):
        EmulatedServoBus(robot, plant, faults=script({"kind": "unplugged", "at_s": 1.0}))


def test_a_fault_script_drops_replies_of_the_bus(robot: Robot, plant: IndependentAxesPlant) -> None:
    faults = script({"kind": "missing_reply", "servo": 3, "replies": 2})
    with running_bus(EmulatedServoBus(robot, plant, wire_time=False, faults=faults)) as bus:
        client = opened(bus.port, 3_000_000)
        assert [SDK.ping(client, servo)[1] == COMM_SUCCESS for servo in (2, 3, 3, 3)] == [True, False, False, True]
        client.closePort()
        assert bus.faults.injected == {"missing_reply": 2}


def test_bus_records_the_motion(robot: Robot, tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    began_s = time.monotonic()
    arm = ArmPlant(robot)
    with traced(arm, path) as plant, running_bus(EmulatedServoBus(robot, plant, wire_time=False)) as bus:
        client = opened(bus.port, 3_000_000)
        for register, value in ((11, 0), (64, 1)):
            assert SDK.write1ByteTxRx(client, 2, register, value)[1] == 0
        assert SDK.write2ByteTxRx(client, 2, 102, 100)[1] == 0
        while not arm.dq[0]:
            SDK.ping(client, 2)
        client.closePort()
    trace = load_trace(path)
    assert (trace.q[-1] == arm.q).all() and trace.current_a[-1, 0] == pytest.approx(0.269)
    assert began_s <= trace.time_s[0] < trace.time_s[-1] <= time.monotonic()
    with pytest.raises(OutputExistsError), traced(arm, path):
        pass
    with pytest.raises(InputNotFoundError):
        load_trace(tmp_path / "no such file")
    path.write_bytes(b"nothing")
    with pytest.raises(DataError, match="not a trace"):
        load_trace(path)


SERVE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "shared")!r})
from dynid.robot import load_robot
from plain_bus import IndependentAxesPlant
from dynid.simulation.bus.process import serve
from pathlib import Path
robot = load_robot("crane_x7")
clock = Path(sys.argv[3]) if len(sys.argv) > 3 else None
serve(robot, IndependentAxesPlant(robot), link=Path(sys.argv[1]), ignore_interrupt=sys.argv[2] == "ignore", clock=clock)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_served_in_a_process_it_ends_by_signal_and_reports(tmp_path: Path, number: signal.Signals) -> None:
    link = tmp_path / "ttyARM"
    clock = tmp_path / "clock"
    command = [sys.executable, "-c", SERVE, str(link), "no", str(clock)]
    with Child(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == str(link) and clock.is_file()
        handler = PortHandler(str(link))
        handler.setBaudRate(3_000_000)
        for frame in ((2, 11, 0), (2, 64, 1)):
            assert SDK.write1ByteTxRx(handler, *frame) == (COMM_SUCCESS, 0)
        handler.closePort()
        process.send_signal(number)
        summary = json.loads(process.stdout.read())
        assert process.wait(60) == 0
    assert not clock.exists() and not link.is_symlink()
    assert summary["torque_enabled"] == [True] + [False] * 7
    assert summary["max_abs_current_a"][0] == pytest.approx(1193 * 0.00269)
    assert not link.is_symlink()


@pytest.mark.parametrize("front_end", [("dynid", "simulated-arm"), ("dynid.simulation.bus.process",)], ids=" ".join)
def test_both_front_ends_serve_the_simulated_arm(tmp_path: Path, front_end: tuple[str, ...]) -> None:
    """The second one is what launch files start."""
    link = tmp_path / "ttyARM"
    options = ["--robot", "crane_x7", "--link", str(link), "--ignore-interrupt", "--lock-step", "--no-wire-time"]
    command = [sys.executable, "-m", *front_end, *options]
    with Child(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == str(link)
        client = opened(str(link), 3_000_000)
        assert SDK.ping(client, 2)[1] == COMM_SUCCESS
        process.send_signal(signal.SIGINT)
        assert SDK.ping(client, 2)[1] == COMM_SUCCESS
        client.closePort()
        process.send_signal(signal.SIGTERM)
        assert json.loads(process.stdout.read())["torque_enabled"] == [False] * 8
        assert process.wait(10) == 0
    refused = subprocess.run([*command, "--seed", "x"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and refused.stderr.startswith("error: ") and "simulated-arm --help" in refused.stderr


def test_the_port_file_names_a_served_port_whatever_else_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "port"
    code = "print('a library says hello', flush=True)\nfrom dynid.simulation.bus.process import main\nmain()"
    command = [sys.executable, "-c", code, "--port-file", str(file)]
    with Child(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "a library says hello\n"
        port = process.stdout.readline()
        assert port.startswith("/dev/pts/") and file.read_text() == port
        client = opened(port.strip(), 3_000_000)
        assert SDK.ping(client, 2)[1] == COMM_SUCCESS
        client.closePort()
        process.send_signal(signal.SIGTERM)
        assert json.loads(process.stdout.read()) and process.wait(10) == 0
    assert not file.exists()
    file.write_text("of somebody else")
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode and f"output {file} exists" in refused.stderr and file.read_text() == "of somebody else"


def test_clients_are_called_when_the_first_step_is_computed(robot: Robot, plant: IndependentAxesPlant) -> None:
    advanced: list[float] = []
    bus = EmulatedServoBus(robot, plant)
    bus.run(lambda: (advanced.append(bus.chain.time_s), bus.stop())[0])
    bus.close()
    assert advanced[0] > 0.0


def test_a_simulated_arm_of_a_launch_file_waits_until_its_driver_is_silent(tmp_path: Path) -> None:
    """Launch may be killed, and all of its processes are told to end at once: the arm is lowered first."""
    link = tmp_path / "ttyARM"
    command = [sys.executable, "-c", SERVE, str(link), "ignore"]
    with Child(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline()
        client = opened(str(link), 3_000_000)
        assert SDK.write1ByteTxRx(client, 2, 64, 1) == (COMM_SUCCESS, 0)
        process.send_signal(signal.SIGTERM)
        for _ in range(50):
            assert SDK.ping(client, 2)[1] == COMM_SUCCESS
        assert SDK.write1ByteTxRx(client, 2, 64, 0) == (COMM_SUCCESS, 0)
        assert SDK.ping(client, 2)[1] == COMM_SUCCESS  # torque is off, and the driver has not left yet
        client.closePort()
        assert json.loads(process.stdout.read())["torque_enabled"] == [False] * 8
        assert process.wait(10) == 0


def test_the_served_arm_ends_with_its_parent(tmp_path: Path) -> None:
    link = tmp_path / "ttyARM"
    starter = (
        "import subprocess, sys\n"
        f"p = subprocess.Popen([sys.executable, '-c', {SERVE!r}, {str(link)!r}, 'ignore'], stdout=subprocess.PIPE)\n"
        "print(p.pid, p.stdout.readline(), flush=True)\n"
    )
    output = subprocess.run([sys.executable, "-c", starter], capture_output=True, text=True, timeout=300, check=True)
    pid = int(output.stdout.split()[0])
    with contextlib.suppress(ProcessLookupError):  # it may be gone already
        ended = os.pidfd_open(pid)
        assert select.select([ended], [], [], 20.0)[0]
        os.close(ended)
    assert not link.is_symlink()
