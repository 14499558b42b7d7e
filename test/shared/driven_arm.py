"""A driver on a line with simulated servos, in lock-step."""

from dataclasses import dataclass

from benchmarks.faults.servo_lockstep import SimulatedClock, SimulatedLine

from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.robot import Robot
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.servo.chain import ServoChain


@dataclass
class Driven:
    """A driver on a line with simulated servos, in lock-step."""

    robot: Robot
    plant: ArmPlant
    chain: ServoChain
    line: SimulatedLine
    driver: DynamixelArm


def driven(robot: Robot, **plant: object) -> Driven:
    clock, arm = SimulatedClock(), ArmPlant(robot, **plant)  # type: ignore[arg-type]
    chain = ServoChain(robot, arm)
    line = SimulatedLine(chain, clock)
    driver = DynamixelArm(robot, "simulated", allow_real_port=True, clock=clock, opener=line.open)
    driver.open()
    return Driven(robot, arm, chain, line, driver)
