"""The servo bus on simulated time: the driver's own code, the wire's timing, and repeatability."""

import numpy as np
import pytest
from benchmarks.faults.servo_lockstep import HOST_S, SimulatedClock, SimulatedLine
from dynamixel_sdk import COMM_RX_TIMEOUT, COMM_SUCCESS, Protocol2PacketHandler
from plain_bus import IndependentAxesPlant

from dynid.errors import BusError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.protocol import build_sync_read, build_sync_write
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.robot import Robot
from dynid.simulation.faults.script import FaultInjector, FaultScript, Unplugged
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.servo.chain import ServoChain
from dynid.simulation.servo.trace import CHUNK, TracedArm


@pytest.fixture
def line(robot: Robot) -> SimulatedLine:
    return SimulatedLine(ServoChain(robot, IndependentAxesPlant(robot)), SimulatedClock(), keep_sent=True)


def driver(robot: Robot, line: SimulatedLine, baudrate: int | None = None) -> DynamixelArm:
    return DynamixelArm(robot, "simulated", allow_real_port=True, baudrate=baudrate, clock=line.clock, opener=line.open)


# -- the clock -------------------------------------------------------------------------------------------------


def test_time_passes_only_by_waiting() -> None:
    clock, seen = SimulatedClock(), []
    began = clock.monotonic_ns()
    assert clock.monotonic_ns() - began < 1_000
    clock.at(began + 2_000_000, lambda due: seen.append((due, clock.now_ns)))
    clock.at(began + 1_000_000, lambda due: seen.append((due, clock.now_ns)))
    clock.sleep(0.0015)
    assert seen == [(began + 1_000_000, began + 1_000_000)]
    clock.sleep(0.001)
    assert len(seen) == 2 and 2_500_000 <= clock.now_ns - began < 2_700_000


def test_the_wall_clock_steps_and_the_monotonic_one_does_not() -> None:
    clock = SimulatedClock()
    wall, steady = clock.realtime_ns(), clock.monotonic_ns()
    clock.step_realtime(-3600.0)
    assert clock.realtime_ns() - wall == pytest.approx(-3.6e12, abs=1e6)
    assert 0 < clock.monotonic_ns() - steady < 1e6


def test_a_host_that_stands_still_misses_time() -> None:
    clock = SimulatedClock()
    clock.after(0.001, lambda _: clock.stand_still(0.5))
    clock.sleep(0.002)
    assert clock.elapsed_s == pytest.approx(0.501, abs=1e-4)


# -- the wire --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("baudrate", "fast", "microseconds"),
    [(3_000_000, False, 760), (4_000_000, False, 570), (3_000_000, True, 600), (4_000_000, True, 450)],
)
def test_cycle_takes_the_time_of_the_wire(
    robot: Robot, line: SimulatedLine, baudrate: int, fast: bool, microseconds: float
) -> None:
    """The figures of a real line: request, eight states, and goal currents in 228 bytes, or 180 with a fast read."""
    for servo in line.chain.servos.values():
        servo.set(table.RETURN_DELAY_TIME, 0)
        servo.set(table.BAUD_RATE, 5 if baudrate == 3_000_000 else 6)
    port = line.open("simulated", baudrate)
    began_ns = line.clock.now_ns
    port.send(build_sync_read(robot.servo_ids, table.STATE_ADDRESS, table.STATE_SIZE, fast=fast))
    received = b""
    for _ in range(4):
        received += port.receive(1.0) if len(received) < (120 if fast else 168) else b""
    assert len(received) == (120 if fast else 168)
    port.send(build_sync_write(robot.servo_ids, 102, [b"\0\0"] * robot.size))
    arrived_ns = line._free_ns
    assert (arrived_ns - began_ns) * 1e-3 - 3 * HOST_S * 1e6 == pytest.approx(microseconds, rel=0.01)


def test_sdk_works_on_the_simulated_line(robot: Robot, line: SimulatedLine) -> None:
    sdk, port = Protocol2PacketHandler(), line.open("simulated", 3_000_000)
    assert sdk.ping(port, 3) == (1120, COMM_SUCCESS, 0)
    began = line.clock.elapsed_s
    assert sdk.ping(port, 99)[1] == COMM_RX_TIMEOUT
    assert 0.015 < line.clock.elapsed_s - began < 0.05
    assert sdk.write1ByteTxRx(port, 2, 11, 0) == (COMM_SUCCESS, 0)
    assert sdk.read1ByteTxRx(port, 2, 11) == (0, COMM_SUCCESS, 0)


def test_servos_at_another_baud_rate_do_not_answer(robot: Robot, line: SimulatedLine) -> None:
    with pytest.raises(BusError, match="no servo answers"):
        driver(robot, line, baudrate=1_000_000).open()


def test_a_pulled_cable_is_an_error_and_comes_back(robot: Robot, line: SimulatedLine) -> None:
    arm = driver(robot, line)
    arm.open()
    assert arm.read().complete
    line.faults = FaultInjector(
        FaultScript(faults=(Unplugged(kind="unplugged", at_s=line.chain.time_s + 0.01, for_s=0.1),)), line.chain
    )
    with pytest.raises(BusError, match="lost"):
        for _ in range(100):
            arm.read()
    with pytest.raises(BusError, match="does not exist"):
        arm.open()
    line.clock.sleep(0.2)
    line.settle(line.clock.now_ns)
    arm.open()
    assert arm.read().complete
    arm.close()


def test_equal_seeds_give_equal_bytes_on_the_line(robot: Robot) -> None:
    def run() -> list[tuple[int, bytes]]:
        chain = ServoChain(robot, TracedArm(ArmPlant(robot, seed=4)))
        line = SimulatedLine(chain, SimulatedClock(4), seed=4, keep_sent=True)
        with driver(robot, line) as arm:
            arm.enable()
            for count in range(50):
                sample = arm.read()
                arm.write_currents(0.01 * count * np.ones(robot.size) - sample.q * 0.1)
                line.clock.sleep(0.0003)
        return line.sent

    first, second = run(), run()
    assert first == second and len(first) > 150


def test_unread_bytes_stay_in_the_buffer(line: SimulatedLine) -> None:
    bus = ServoBus("simulated", 3_000_000, (2,), clock=line.clock, opener=line.open)
    bus.open()
    with bus.line() as port:
        port.writePort(list(build_sync_read((2, 3), 126, 10)))
        line.clock.sleep(0.01)
        pieces = [port.readPort(5) for _ in range(9)]
    assert [len(piece) for piece in pieces] == [5] * 8 + [2]


# -- the record ------------------------------------------------------------------------------------------------


def test_record_holds_the_motion_of_the_arm(robot: Robot) -> None:
    arm = TracedArm(ArmPlant(robot, seed=1))
    current = np.full(robot.size, 0.1)
    arm.set_currents(current)
    for _ in range(20):
        arm.advance(0.001)
    trace = arm.trace()
    assert trace.time_s == pytest.approx(0.001 * np.arange(1, 21)) and (trace.current_a == current).all()
    assert (trace.q[-1] == arm.plant.q).all() and (trace.dq[-1] == arm.plant.dq).all()
    part = trace.between(0.0045, 0.0101)
    assert part.time_s == pytest.approx([0.005, 0.006, 0.007, 0.008, 0.009, 0.010])


def test_record_drops_old_samples(robot: Robot) -> None:
    arm = TracedArm(ArmPlant(robot), keep_s=0.5)  # it rests on its stand, so time costs nothing
    for _ in range(3 * CHUNK + 5):
        arm.advance(0.001)
    time_s = arm.trace().time_s
    assert time_s[-1] == pytest.approx(0.001 * (3 * CHUNK + 5)) and CHUNK < len(time_s) <= 2 * CHUNK + 5
