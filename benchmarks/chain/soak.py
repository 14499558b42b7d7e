"""Soak test of the control cycle: 1 kHz on the emulated bus with damaged replies, and a check for stale samples.

Each joint of the simulated arm encodes the time of its reading in its angle, by the clock that both processes share. So
an accepted sample is stale exactly if one of its angles is older than the request that it answers.
"""

import os
import subprocess  # nosec - a fixed argument list, no shell
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from benchmarks.children import child_environment
from dynid.errors import BusError
from dynid.hardware.arm.dynamixel_arm import ArmSample, DynamixelArm
from dynid.hardware.bus.control_table import IntArray
from dynid.hardware.bus.servo_units import ServoUnits
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.loop.diagnostics import state_text
from dynid.hardware.safety.guard import SafetyGuard
from dynid.parent import PARENT_VARIABLE
from dynid.robot import FloatArray, Robot
from dynid.simulation.plant.interface import PlantReading

CODES = 500
CODE_NS = 40_000  # time per code [ns]: codes repeat after 20 ms, longer than any reply delay
TOLERANCE_CODES = 2
PORT_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class SoakFigures:
    """Figures of a soak test.

    Attributes:
        rate_hz: accepted samples per second.
        accepted: samples in which the values of every servo were accepted.
        stale: accepted samples with a value older than the request.
        stale_percent: the same as a share of the accepted ones.
        rejected: samples that were not accepted.
        uncounted_rejects: rejected samples for which no counter rose.
        cycle_p50_us: median duration of a cycle.
        cycle_p99_us: 99th percentile of the durations.
        seconds: measured time.
        state: state of the driver at the end; it must be "enabled".
    """

    rate_hz: float
    accepted: int
    stale: int
    stale_percent: float
    rejected: int
    uncounted_rejects: int
    cycle_p50_us: float
    cycle_p99_us: float
    seconds: float
    state: str


class ClockPlant:
    """Arm whose angles encode the time of their reading; currents do not move it."""

    def __init__(self, robot: Robot) -> None:
        self.size = robot.size
        self._middle = middle_counts(robot)
        self._units = ServoUnits(robot)
        self._current = np.zeros(robot.size)

    def advance(self, duration_s: float) -> None:
        """Do nothing, since time passes by itself."""

    def set_currents(self, current_a: FloatArray) -> None:
        """Store the goal currents, which the servos then measure, (n,) [A]."""
        self._current[:] = current_a

    def measure(self) -> PlantReading:
        """Return angles that encode the time, at zero velocity."""
        counts = self._middle + clock_code(time.monotonic_ns()) - CODES // 2
        q = self._units.positions(counts)
        return PlantReading(q, np.zeros(self.size), self._current.copy())


def middle_counts(robot: Robot) -> IntArray:
    """Return the middles of the joints' ranges, (n,) counts."""
    return ServoUnits(robot).position_counts(0.5 * (robot.lower + robot.upper))


def clock_code(time_ns: int) -> int:
    """Return the code of a time on the monotonic clock [ns]."""
    return time_ns // CODE_NS % CODES


class WatchedArm(DynamixelArm):
    """Arm that compares the time in every sample with the time of the request."""

    def __init__(self, robot: Robot, port: str) -> None:
        super().__init__(robot, port)
        self._middle = middle_counts(robot)
        self.accepted = self.stale = self.rejected = self.uncounted = 0

    def read(self, meanwhile: Callable[[], None] | None = None) -> ArmSample:
        """Read a sample in the same way as the base class, and count whether it is stale."""
        before, asked = self._counted(), clock_code(time.monotonic_ns())
        sample = super().read(meanwhile)
        if not sample.complete:
            self.rejected += 1
            self.uncounted += self._counted() == before
            return sample
        self.accepted += 1
        counts = self._units.position_counts(sample.q)
        codes = counts - self._middle + CODES // 2
        # codes ahead of the request; negative values are older
        ahead = (codes - asked + CODES // 2) % CODES - CODES // 2
        self.stale += bool((ahead < -TOLERANCE_CODES).any())
        return sample

    def reset(self) -> None:
        """Reset the counts."""
        self.accepted = self.stale = self.rejected = self.uncounted = 0

    def _counted(self) -> int:
        counters = self.counters
        return sum(int(np.sum(getattr(counters, field.name))) for field in fields(counters) if field.name in REJECTS)


REJECTS = ("timeouts", "stale", "duplicates", "status_errors")


def soak(robot: Robot, seconds: float, probability: float, seed: int, progress: Callable[[float], None]) -> SoakFigures:
    """Run the control loop for some time while each reply is damaged with a probability.

    Args:
        robot: robot of the emulated bus, which keeps the wire's timing at the robot's own baud rate.
        seconds: measured time [s].
        probability: probability of a line fault per reply.
        seed: seed of the faults.
        progress: function that is called regularly with the time so far [s].

    Raises:
        BusError: the bus did not start, or the loop ended.
    """
    command = [sys.executable, "-m", "benchmarks.chain.soak_servos", str(robot.folder), str(probability), str(seed)]
    environment = {**os.environ, **child_environment(), PARENT_VARIABLE: str(os.getpid())}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as servos:
        try:
            assert servos.stdout is not None
            port = next((line.strip() for line in servos.stdout if line.startswith("/")), "")  # libraries print, too
            if not port:
                raise BusError("the emulated servo bus did not start")
            return _drive(robot, port, seconds, progress)
        finally:
            servos.terminate()


def _drive(robot: Robot, port: str, seconds: float, progress: Callable[[float], None]) -> SoakFigures:
    arm = WatchedArm(robot, port)
    arm.open()
    guard = SafetyGuard(robot)
    zero = np.zeros(robot.size)

    def command(sample: ArmSample, _: FloatArray) -> None:
        if sample.complete:
            loop.set_command(zero, arm.bus.monotonic_s(sample.stamp_ns))

    loop = ControlLoop(arm, guard, on_waiting=command, disable_cpu_idle=True)
    loop.start()
    try:
        loop.enable()
        arm.reset()
        began_s, pause = time.monotonic(), threading.Event()
        while (elapsed_s := time.monotonic() - began_s) < seconds and loop.running:
            progress(elapsed_s)
            pause.wait(min(0.5, seconds - elapsed_s))
        figures, state = loop.statistics(), state_text(loop)
        accepted, stale, rejected, uncounted = arm.accepted, arm.stale, arm.rejected, arm.uncounted
        elapsed_s = time.monotonic() - began_s
        if not loop.running:
            raise BusError(f"the control loop ended after {elapsed_s:.1f} s: {loop.error}")
    finally:
        loop.stop()
        arm.close()
    return SoakFigures(
        rate_hz=round(accepted / elapsed_s, 3),
        accepted=accepted,
        stale=stale,
        stale_percent=round(100.0 * stale / max(accepted, 1), 6),
        rejected=rejected,
        uncounted_rejects=uncounted,
        cycle_p50_us=figures.run_p50_us,
        cycle_p99_us=figures.run_p99_us,
        seconds=round(elapsed_s, 3),
        state=state,
    )
