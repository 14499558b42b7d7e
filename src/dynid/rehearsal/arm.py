"""Rehearsal of a servo driver and a simulated arm: both run for some cycles, so that their functions are compiled."""

import contextlib
import threading

import numpy as np

from dynid.errors import DynidError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.safety.guard import SafetyGuard
from dynid.hardware.safety.limit_kernels import all_finite
from dynid.hardware.safety.settings import load_safety
from dynid.recording.messages import DiagnosticStatus, JointStateDecoder, JointStateEncoder, encode_diagnostics
from dynid.robot import Robot
from dynid.simulation.bus.running import running_bus
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.plant.interface import Plant

CYCLES = 20  # number of cycles that covers every kind of message between driver and servos
# Settings of a short stop: all stages of a real stop, each as short as possible, within 0.3 s.
SHORT_STOP = {"hold_s": 0.0, "stop_dwell_s": 0.002, "lean_s": 0.002, "lower_s": 0.01, "lower_dwell_s": 0.01}
SHORT_STOP |= {"lower_from_s": 0.01, "stop_time_s": 0.1, "longest_stop_s": 0.3}


def rehearse_arm(robot: Robot, plant: Plant | None = None) -> None:
    """Open a simulated arm in this process, run some cycles with torque, stop it, and close it again.

    This compiles the functions that a driver and a simulated arm use.

    Args:
        robot: the robot whose driver or simulation is about to start.
        plant: simulated mechanics of the arm, not to be used again afterwards; None creates new mechanics.
    """
    arrived = threading.Event()
    left = CYCLES

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            arrived.set()

    with running_bus(EmulatedServoBus(robot, plant or ArmPlant(robot), wire_time=False)) as bus:
        arm = DynamixelArm(robot, bus.port)
        # errors are reported when the real arm is opened; end the loop before closing its port
        with contextlib.suppress(DynidError), contextlib.ExitStack() as used:
            arm.open()
            used.callback(arm.close)
            # compiles the variant for writable arrays, which is called when the cycle rate is chosen
            arm.write_currents(np.zeros(robot.size))
            guard = SafetyGuard(robot, load_safety(robot).model_copy(update=SHORT_STOP))
            loop = ControlLoop(arm, guard, on_waiting=count, slow_poll_every=1)
            loop.start()
            used.callback(loop.stop)
            loop.enable()
            loop.set_command(np.zeros(robot.size), held=True)
            arrived.wait(1.0)


def rehearse_messages(robot: Robot) -> None:
    """Encode and decode each message that a driver publishes or receives, to compile the functions for it."""
    zeros = np.zeros(robot.size)
    encoder = JointStateEncoder(robot.joint_names)
    raw = encoder.encode(0, position=zeros, velocity=zeros, effort=zeros)
    state = JointStateDecoder(robot.joint_names).decode(raw)
    assert state is not None, "it has all joints"
    all_finite(state[1]["effort"])
    encode_diagnostics(0, [DiagnosticStatus("rehearsal", 0, "", "", {})])
