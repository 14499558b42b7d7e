"""An emulated servo bus with a simple plant, and an arm on it."""

import gc
from collections.abc import Iterator

import pytest

from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus


@pytest.fixture(autouse=True, scope="module")
def no_long_collections() -> Iterator[None]:
    """Freeze old objects: the servo bus is a thread of this process and must answer within milliseconds."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def arm(robot: Robot, bus: EmulatedServoBus) -> Iterator[DynamixelArm]:
    with DynamixelArm(robot, bus.port) as opened:
        yield opened
