"""Starts that fail half way, and servos that belong to no joint: neither may leave the arm in a dangerous state."""

import numpy as np

from benchmarks.faults.driver_cases import DriverCase
from benchmarks.faults.servo_lockstep import SimulatedClock, SimulatedLine
from dynid.errors import BusError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.protocol import Instruction, Packet
from dynid.robot import Robot
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.servo.chain import ServoChain
from dynid.simulation.servo.servo import Servo

PORT = "the simulated line"
LOST_AT = (table.OPERATING_MODE, table.BUS_WATCHDOG, table.GOAL_CURRENT)
OTHER_ID = 99


def broken_start(robot: Robot, seed: int) -> list[str]:
    """Lose a servo while the driver sets the servos up: it must be named, and no other may stay in current mode.

    In current mode the goal is the current limit, with which the arm would run when any program switches torque on.
    """
    random = np.random.default_rng([seed, 3])
    lost, register = int(random.choice(robot.all_servo_ids)), LOST_AT[int(random.integers(len(LOST_AT)))]
    chain = ServoChain(robot, ArmPlant(robot, seed=seed))
    line, execute, gone = SimulatedLine(chain, SimulatedClock(seed), seed=seed), chain.execute, False

    def answer(packet: Packet) -> list[bytes]:
        nonlocal gone
        if packet.packet_id == lost and packet.instruction == Instruction.WRITE:
            gone = gone or int.from_bytes(packet.payload[:2], "little") == register.address
        return [] if gone and packet.packet_id == lost else execute(packet)

    chain.execute = answer  # type: ignore[method-assign]
    found = []
    try:
        DynamixelArm(robot, PORT, allow_real_port=True, clock=line.clock, opener=line.open).open()
        found.append("the driver started")
    except BusError as error:
        found += [] if f"servo {lost}" in str(error) else [f"servo {lost} is not named: {error}"]
    for one, servo in chain.servos.items():
        mode, goal = servo.get(table.OPERATING_MODE), servo.get(table.GOAL_CURRENT)
        if one != lost and (mode != table.POSITION_MODE or goal):
            found.append(f"servo {one} is left in mode {mode} with goal current {goal}")
    return found


def other_servo(robot: Robot, seed: int) -> list[str]:
    """Let a servo of `bus.other_ids` obey a servo of the arm, or have torque on: the start must be refused."""
    random = np.random.default_rng([seed, 4])
    bus = robot.file.bus.model_copy(update={"other_ids": (*robot.file.bus.other_ids, OTHER_ID)})
    robot = Robot(robot.file.model_copy(update={"bus": bus}), robot.folder)
    chain = ServoChain(robot, ArmPlant(robot, seed=seed))
    other = chain.servos[OTHER_ID] = Servo(OTHER_ID, 1020, next(iter(chain.servos.values())).get(table.BAUD_RATE))
    if random.integers(2):
        other.set(table.SECONDARY_ID, int(random.choice(robot.servo_ids)))
    else:
        other.set(table.TORQUE_ENABLE, 1)
    line = SimulatedLine(chain, SimulatedClock(seed), seed=seed)
    try:
        DynamixelArm(robot, PORT, allow_real_port=True, clock=line.clock, opener=line.open).open()
    except BusError as error:
        return [] if f"servo {OTHER_ID}" in str(error) else [f"the driver did not name it; its text: {error}"]
    return ["the driver started"]


START_TRIALS = (
    DriverCase("servo lost while the driver sets it up", "start refused", broken_start),
    DriverCase("other servo on the line obeys one, or has torque on", "start refused", other_servo),
)
