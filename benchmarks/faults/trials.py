"""Refused requests: starts behind a relay, and robot files with excessive limits or a gear."""

from typing import Any

import numpy as np

from benchmarks.faults.driver_cases import DriverCase
from benchmarks.faults.servo_lockstep import SimulatedClock, SimulatedLine, SimulatedPort
from dynid.errors import BusError, ConfigurationError, SafetyError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.bus import control_table as table
from dynid.hardware.safety.guard import SafetyGuard, SafetySettings
from dynid.hardware.safety.guard_states import GuardEvent
from dynid.robot import FloatArray, Robot
from dynid.robot.file import RobotFile
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.servo.chain import ServoChain

PORT = "the other end of a relay"
PUSH_CYCLES = 400
RATIOS = (-3.0, -2.0, -0.5, 0.5, 1.5, 2.0, 3.0)
FEWEST_DEG = 3.0  # shortest movement of the driven joint [deg]
MOTOR_DEG, JOINT_DEG = 170.0, 80.0  # limits on each side of the middle: a motor's encoder knows one turn


class Relay(SimulatedLine):
    """Line without the mark of a simulated arm, as of a relay to any arm."""

    def open(self, port: str, baudrate: int) -> SimulatedPort:
        """Open the line; see `SimulatedLine.open`."""
        super().open(port, baudrate)
        handler = _RelayedPort(port, self)
        handler.setBaudRate(baudrate)
        return handler


class _RelayedPort(SimulatedPort):
    @property
    def simulated(self) -> bool:
        """Whether the line has proved that it is simulated."""
        return False


def _relay(robot: Robot, seed: int) -> tuple[ServoChain, Relay]:
    chain = ServoChain(robot, ArmPlant(robot, seed=seed))
    return chain, Relay(chain, SimulatedClock(seed), seed=seed, keep_sent=True)


def relay_without_consent(robot: Robot, seed: int) -> list[str]:
    """Open a relay without `allow_real_port`: it must be refused, and no byte may be sent."""
    _, line = _relay(robot, seed)
    found = []
    try:
        DynamixelArm(robot, PORT, clock=line.clock, opener=line.open).open()
        found.append("the driver opened it")
    except SafetyError:
        pass
    return found + ([f"{len(line.sent)} frames were sent"] if line.sent else [])


def relay_without_eeprom(robot: Robot, seed: int) -> list[str]:
    """Open a relay to factory-fresh servos with `allow_real_port` alone: only the mode may change in the EEPROM."""
    chain, line = _relay(robot, seed)
    before = {one: bytes(servo.bytes[: table.EEPROM_END]) for one, servo in chain.servos.items()}
    driver, found = DynamixelArm(robot, PORT, allow_real_port=True, clock=line.clock, opener=line.open), []
    try:
        driver.open()
        found.append("the driver started with other settings than its own")
        driver.close()
    except BusError as error:
        found += [] if "write_eeprom" in str(error) else [f"the driver did not name it; its text: {error}"]
    found += ["the line counts as simulated"] if driver.simulated else []
    written = [
        f"servo {one}: address {at}"
        for one, servo in chain.servos.items()
        for at in range(table.EEPROM_END)
        if servo.bytes[at] != before[one][at] and at != table.OPERATING_MODE.address
    ]
    return found + ([f"EEPROM written: {', '.join(written)}"] if written else [])


def _changed(robot: Robot, axis: int, **changes: Any) -> Robot:
    content = robot.file.model_dump(exclude_none=True)
    joint = content["joints"][axis] | changes
    content["joints"] = [*content["joints"][:axis], joint, *content["joints"][axis + 1 :]]
    return Robot(RobotFile.model_validate(content), robot.folder)


def wide_limits(robot: Robot, seed: int) -> list[str]:
    """Widen a joint's position or velocity limit beyond the URDF's: it must be refused by name."""
    rng = np.random.default_rng([seed, 1])
    axis = int(rng.integers(robot.size))
    joint = robot.file.joints[axis]
    more = float(np.exp(rng.uniform(np.log(2.0), np.log(5000.0))))
    changes: dict[str, Any] = {"upper_deg": (joint.upper_deg or 0.0) + more}
    if rng.random() < 0.5:
        changes = {"velocity_limit_rad_s": joint.velocity_limit * (1.0 + 0.02 * more)}
    try:
        wide = _changed(robot, axis, **changes)
        DynamixelArm(wide, PORT, allow_real_port=True)
    except (ConfigurationError, ValueError) as error:
        return [] if joint.name in str(error) else [f"the joint is not named: {error}"]
    return [f"{joint.name} may be driven with {changes}"]


def gear(robot: Robot, seed: int) -> list[str]:
    """Add a gear to a joint: angles, torques and limits must be those of the joint."""
    rng = np.random.default_rng([seed, 2])
    axis, ratio = int(rng.integers(robot.size)), float(rng.choice(RATIOS))
    reach = min(MOTOR_DEG / abs(ratio), JOINT_DEG)
    middle = float(np.rad2deg(0.5 * (robot.lower[axis] + robot.upper[axis])))
    joint = robot.file.joints[axis]
    changes = {
        "gear_ratio": ratio,
        "torque_constant_nm_per_a": float(robot.torque_constants[axis]) / abs(ratio),
        "lower_deg": max(joint.lower_deg or 0.0, middle - reach),
        "upper_deg": min(joint.upper_deg or 0.0, middle + reach),
        "zero_offset_rad": float(np.deg2rad(middle)),
    }
    geared = _changed(robot, axis, **changes)
    start = np.clip(geared.rest_posture, geared.lower + 0.1, geared.upper - 0.1)
    start[axis] = np.deg2rad(middle)
    plant = ArmPlant(geared, seed=seed, q0=start)
    chain = ServoChain(geared, plant)
    line = SimulatedLine(chain, SimulatedClock(seed), seed=seed)
    driver = DynamixelArm(geared, PORT, allow_real_port=True, clock=line.clock, opener=line.open)
    driver.open()
    return _push_outwards(driver, line, plant, axis, float(rng.choice((-1.0, 1.0))))


def _push_outwards(driver: DynamixelArm, line: SimulatedLine, plant: ArmPlant, axis: int, side: float) -> list[str]:
    """Drive one joint towards a limit with full current through the guard; return violations."""
    robot, found = driver.robot, list[str]()
    guard = SafetyGuard(robot, SafetySettings(current_ramp_s=0.0, command_timeout_s=1.0))
    guard.handle(GuardEvent.ENABLE)
    driver.enable()
    tau, moved = np.zeros(robot.size), 0.0
    tau[axis] = side * robot.torque_limits[axis]
    begin: FloatArray = plant.q.copy()
    for _ in range(PUSH_CYCLES):
        sample = driver.read()
        if np.abs(sample.q - plant.q).max() > 0.02:
            found.append(f"angles are read as {sample.q}, and are {plant.q}")
            break
        result = guard.filter(tau, 0.0, sample.q, sample.dq, sample.valid)
        driver.write_currents(result.current_a)
        line.clock.sleep(0.001)
        moved = max(moved, side * float(plant.q[axis] - begin[axis]))
    outside = max(float(robot.lower[axis] - plant.q[axis]), float(plant.q[axis] - robot.upper[axis]))
    if not found and moved < np.deg2rad(FEWEST_DEG):
        found.append(f"the joint moved by {moved:.3f} rad towards where it was driven")
    if outside > 0.0:
        found.append(f"the joint went {outside:.3f} rad beyond its limit")
    driver.close()
    return found


TRIAL_CASES = (
    DriverCase("relay to an arm, real port not allowed", "start refused", relay_without_consent),
    DriverCase("relay to an arm, writing the EEPROM not allowed", "start refused", relay_without_eeprom),
    DriverCase("limit of robot.yaml beyond the URDF's", "start refused", wide_limits),
    DriverCase("gear ratio, negative too, driven to a limit", "joint obeys", gear),
)
