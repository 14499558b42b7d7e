"""Faults without a motion: the real driver alone on a simulated line, with a check of each requirement."""

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.faults.servo_lockstep import SimulatedClock, SimulatedLine
from dynid.hardware.arm.dynamixel_arm import ArmSample, DynamixelArm
from dynid.hardware.bus import control_table as table
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.safety.guard import SafetyGuard, load_safety
from dynid.hardware.safety.guard_states import GuardEvent, GuardState
from dynid.hardware.safety.load_history import LoadHistory
from dynid.hardware.safety.overload import OverloadModel
from dynid.hardware.safety.settings import SafetySettings
from dynid.robot import FloatArray, Robot
from dynid.simulation.faults.script import Fault, FaultInjector, FaultScript, Unread
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.servo.chain import ServoChain
from dynid.simulation.servo.trace import TracedArm

PORT = "the simulated line"
OLD_S, LOST_S = 0.8, 1.6  # age limits of slow data, shorter than the defaults for short runs [s]
LATE_S = 0.2  # delay of a reaction: slow values are checked every 20 ms, and a round takes half a second [s]
LOADED, REST_S = 0.8, 0.25  # share of the load that trips a servo, and time without a driver [s]


@dataclass(frozen=True)
class DriverCase:
    """Row of the table that is checked without a motion; `check` returns the violations of one seed."""

    name: str
    expectation: str
    check: Callable[[Robot, int], list[str]]


class BareDriver:
    """Driver with its control loop in this thread, on a simulated clock; runs once.

    Args:
        robot: the robot.
        faults: faults of line and servos, which begin after the checks of the start.
        settings: settings of the guard.
        seed: seed of all random values.
    """

    def __init__(self, robot: Robot, faults: Sequence[Fault], settings: SafetySettings, seed: int) -> None:
        self.clock = SimulatedClock(seed)
        self._script = FaultScript(seed=seed, faults=tuple(faults))
        self.line = SimulatedLine(ServoChain(robot, TracedArm(ArmPlant(robot, seed=seed))), self.clock, seed=seed)
        self.arm = DynamixelArm(robot, PORT, allow_real_port=True, clock=self.clock, opener=self.line.open)
        self.guard = SafetyGuard(robot, settings)

    def run(self, seconds: float, each: Callable[[ControlLoop, float], None]) -> None:
        """Run for a duration [s]; `each` is called in every cycle with the loop and the time since the first [s]."""
        began_s: list[float] = []

        def on_cycle(_: ArmSample, __: FloatArray) -> None:
            began_s[:] = began_s or [self.clock.elapsed_s]
            passed_s = self.clock.elapsed_s - began_s[0]
            each(loop, passed_s)
            if passed_s > seconds:
                loop.stop()  # called from within the loop: only requests the end

        loop = ControlLoop(self.arm, self.guard, on_cycle=on_cycle)
        with self.arm:
            self.line.faults = FaultInjector(self._script, self.line.chain)
            loop.run()


def unread_temperature(robot: Robot, seed: int) -> list[str]:
    """Return violations of an unread temperature: the servo's current limit must fall, then a fault must stop it."""
    axis = seed % robot.size
    servo_id = robot.servo_ids[axis]
    fault = Unread(kind="unread", servo=servo_id, register_name=table.PRESENT_TEMPERATURE.name)
    driver = BareDriver(robot, [fault], _short(robot), seed)
    full = driver.guard.current_limits.copy()
    lowered: list[float] = []
    faulted: list[float] = []

    def each(loop: ControlLoop, passed_s: float) -> None:
        if passed_s == 0.0:
            loop.request(GuardEvent.ENABLE)
        if not lowered and driver.guard.current_limits[axis] < full[axis]:
            lowered.append(passed_s)
        if not faulted and driver.guard.state is GuardState.FAULT:
            faulted.append(passed_s)

    driver.run(LOST_S + 2 * LATE_S, each)
    found = []
    if not lowered or lowered[0] > OLD_S + LATE_S:
        found.append(f"the current limit of servo {servo_id} was not lowered within {OLD_S + LATE_S:.1f} s: {lowered}")
    if not faulted or not LOST_S - LATE_S < faulted[0] < LOST_S + LATE_S:
        found.append(f"no fault at {LOST_S} s: {faulted}")
    if f"servo {servo_id} (" not in driver.guard.fault_text or "temperature" not in driver.guard.fault_text:
        found.append(f"the driver did not name it; its text: {driver.guard.fault_text}")
    return found


def unread_before_enable(robot: Robot, seed: int) -> list[str]:
    """Return violations if a temperature is never read while torque is off: torque must not come on."""
    servo_id = robot.servo_ids[seed % robot.size]
    fault = Unread(kind="unread", servo=servo_id, register_name=table.PRESENT_TEMPERATURE.name)
    driver = BareDriver(robot, [fault], _short(robot), seed)
    asked: list[Future[None]] = []

    def each(loop: ControlLoop, passed_s: float) -> None:
        if not asked and passed_s > LOST_S + LATE_S:
            asked.append(loop.request(GuardEvent.ENABLE))

    driver.run(LOST_S + 2 * LATE_S, each)
    error = asked[0].exception() if asked and asked[0].done() else None
    if error is None or f"servo {servo_id} (" not in str(error):
        return [f"enable was not refused by name: {error}"]
    torque = any(servo.torque_was_enabled for servo in driver.line.chain.servos.values())
    return ["torque was on"] if torque else []


def kept_load(robot: Robot, seed: int) -> list[str]:
    """Return violations if a restarted driver does not begin with the stored load minus its decay."""
    overload = OverloadModel.of(robot)
    if overload is None:
        return []
    loaded = np.random.default_rng(seed).uniform(0.0, LOADED, robot.size)
    expected = overload.step(loaded, np.zeros(robot.size), REST_S)
    with tempfile.TemporaryDirectory(prefix="dynid-load-") as folder:
        now_s = [100.0]
        path = Path(folder) / "state" / "load.yaml"
        before = LoadHistory(robot, path, lambda: ("boot", now_s[0]))
        before.keep(loaded)
        now_s[0] += REST_S
        after = LoadHistory(robot, path, lambda: ("boot", now_s[0]))
        found = []
        for what, history, tolerance in (("deactivate", before, 1e-9), ("a restart", after, 1e-4)):
            guard = SafetyGuard(robot)
            guard.restore_load(history.now())
            if np.abs(guard.load - expected).max() > tolerance:
                found.append(f"after {what} the load is {guard.load.max():.3f} instead of {expected.max():.3f}")
    return found


def _short(robot: Robot) -> SafetySettings:
    return load_safety(robot).model_copy(update={"slow_data_old_s": OLD_S, "slow_data_lost_s": LOST_S})


DRIVER_CASES = (
    DriverCase("temperature never read", "current lowered, then arm stops", unread_temperature),
    DriverCase("temperature never read, torque off", "torque refused", unread_before_enable),
    DriverCase("driver stopped or restarted near overload", "load kept, less its decay", kept_load),
)
