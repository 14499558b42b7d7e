"""The soak test: its counts of stale and uncounted replies, and a short run; durations are not checked."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from benchmarks.chain.soak import CODE_NS, CODES, ClockPlant, WatchedArm, clock_code, middle_counts
from plain_bus import running_bus

from dynid.hardware.bus.servo_units import ServoUnits
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.simulation.plant.interface import PlantReading

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


class DelayedClock(ClockPlant):
    """Clock that simulates values of some servos from an earlier request."""

    delay_ns = np.zeros(8, dtype=np.int64)

    def measure(self) -> PlantReading:
        now_ns = time.monotonic_ns()
        codes = np.array([clock_code(int(now_ns - delay)) for delay in self.delay_ns])
        q = self._units.positions(self._middle + codes - CODES // 2)
        return PlantReading(q, np.zeros(8), np.zeros(8))


@pytest.fixture
def plant(robot: Robot) -> DelayedClock:
    return DelayedClock(robot)


@pytest.fixture
def arm(robot: Robot, plant: DelayedClock) -> Iterator[tuple[WatchedArm, EmulatedServoBus]]:
    with running_bus(EmulatedServoBus(robot, plant, wire_time=False)) as bus:
        opened = WatchedArm(robot, bus.port)
        opened.open()
        opened.reset()
        yield opened, bus
        bus.line_fault = None
        opened.close()


def test_clock_positions_stay_within_limits_and_encode_the_time(robot: Robot) -> None:
    lower, upper = (ServoUnits(robot).position_counts(limit) for limit in (robot.lower, robot.upper))
    middle = middle_counts(robot)
    assert (middle - CODES // 2 > lower).all() and (middle + CODES // 2 < upper).all()
    assert clock_code(7 * CODE_NS) == 7 and clock_code((CODES + 3) * CODE_NS) == 3
    before = clock_code(time.monotonic_ns())
    counts = ServoUnits(robot).position_counts(ClockPlant(robot).measure().q)
    codes = (counts - middle + CODES // 2 - before) % CODES
    assert (codes == codes[0]).all()


@pytest.mark.parametrize("old", [range(8), (3,)], ids=["all", "one"])
def test_values_of_an_earlier_request_are_stale(
    arm: tuple[WatchedArm, EmulatedServoBus], plant: DelayedClock, old: range | tuple[int, ...]
) -> None:
    watched, _ = arm
    for _ in range(20):
        watched.read()
    assert (watched.accepted, watched.stale) == (20, 0)
    plant.delay_ns = np.array([8_000_000 if axis in old else 0 for axis in range(8)])
    for _ in range(5):
        watched.read()
    assert watched.stale >= 4  # one of them may be delayed by the test machine so much that it looks new


def test_rejected_replies_are_counted_and_uncounted_ones_reported(arm: tuple[WatchedArm, EmulatedServoBus]) -> None:
    watched, bus = arm
    bus.line_fault = lambda frames: []
    watched.read()
    assert (watched.rejected, watched.uncounted) == (1, 0)
    watched._counted = lambda: 0  # type: ignore[method-assign]
    watched.read()
    assert (watched.rejected, watched.uncounted) == (2, 1)


@pytest.mark.slow
def test_the_command_prints_its_figures() -> None:
    options = ["--soak", "--seconds", "3", "--probability", "0.05", "--json"]
    command = [sys.executable, str(BENCHMARKS), "benchmark", "bus", *options]  # it changes how its process is scheduled
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    figures = json.loads(done.stdout)
    assert figures["accepted"] > 100 and figures["rejected"] > 0
    assert figures["uncounted_rejects"] == 0 and figures["seconds"] >= 3.0
    assert {"rate_hz", "stale_percent", "cycle_p50_us", "cycle_p99_us"} <= figures.keys()
