"""Rehearsal of a motion executor: every control law runs on dummy data, so that its functions are compiled."""

import numpy as np

from dynid.control.control_model import ControlModel, friction_or_zero
from dynid.control.controller import TorqueLaw, load_controller
from dynid.control.holding_check import HoldingTorque
from dynid.control.motion import MotionExecutor
from dynid.control.motion_check import MotionCheck, nominal_parameters, nominal_torques, robot_limits
from dynid.control.selection import CONTROLLERS, ControllerSelection
from dynid.control.self_collision import SelfCollision
from dynid.model.friction import FrictionLaw
from dynid.recording.messages import ReferenceEncoder
from dynid.robot import FloatArray, Robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.trajectory import approach

AMPLITUDE_RAD = 0.02
CYCLE_NS = 1_000_000
STATE_CYCLES = 5  # number of cycles in each state


def rehearse_motions(robot: Robot, mount: str | None = None) -> None:
    """Check a short motion of the robot and follow it with every control law, with artificial joint states.

    This compiles the functions that an executor uses.

    Args:
        robot: the robot that is about to be commanded.
        mount: mount of the arm; None is robot.yaml's default.

    Raises:
        DynidError: a file of the robot is missing or not valid. The real run raises the same error later.
    """
    selection = ControllerSelection(robot, load_controller(robot), mount)
    selection.prepare()
    limits = robot_limits(robot, load_excitation(robot).acceleration_limits)
    check = MotionCheck(robot, limits, nominal_torques(robot, mount), SelfCollision(robot))
    rest = robot.rest_posture
    inside = np.where(rest + AMPLITUDE_RAD <= robot.upper, rest + AMPLITUDE_RAD, rest - AMPLITUDE_RAD)
    motion = approach(rest, inside, robot.joint_names, 0.4, 0.8, "rehearsal")
    for law in _laws(robot, selection):
        _follow(MotionExecutor(robot, selection.controller, check), motion, law, rest)
    HoldingTorque(robot).note(CYCLE_NS, rest, *np.zeros((2, robot.size)))
    ReferenceEncoder(robot.joint_names).encode(0, *np.zeros((3, robot.size)))


def _laws(robot: Robot, selection: ControllerSelection) -> list[TorqueLaw]:
    """Return all control laws; each model-based law comes twice, without and with load-dependent friction.

    The laws use a model with the robot's nominal parameters.
    """
    model = selection.arm_model
    phi = nominal_parameters(robot, model)
    laws = [selection.make(CONTROLLERS[0])]
    for terms in ({}, {"fb": np.zeros(robot.size), "km": np.full(robot.size, 1e-6)}):
        friction = friction_or_zero(FrictionLaw.of(robot.size, terms), robot.size)
        fed = ControlModel(robot.name, model.structure_hash, phi, friction, True)
        laws += [selection.make(name, fed) for name in CONTROLLERS[1:]]
    return laws


def _follow(executor: MotionExecutor, motion: object, law: TorqueLaw, rest: FloatArray) -> None:
    """Run a control law for some cycles: follow the motion, brake, hold and release.

    A law that follows no reference (hand guiding) only holds and releases. The artificial joint states stay at the rest
    posture `rest` (n,) [rad].
    """
    stamp_ns, q = 0, np.array(rest)

    def cycles() -> None:
        nonlocal stamp_ns
        for _ in range(STATE_CYCLES):
            stamp_ns += CYCLE_NS
            executor.update(stamp_ns, q)

    executor.controller.switch_to(law, at_once=True)
    if law.follows_reference:
        executor.begin(motion, q, stamp_ns)  # type: ignore[arg-type]
        cycles()
        executor.cancel(stamp_ns)
        cycles()
    executor.hold(q, stamp_ns)
    cycles()
    executor.release()
