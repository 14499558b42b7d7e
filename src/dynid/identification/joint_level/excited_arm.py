"""Excitation of a joint of the simulated arm, in the same way as on the real arm but faster than real time."""

from collections.abc import Collection

from dynid.control.controller import ControllerSettings
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.motion import MotionExecutor
from dynid.control.motion_check import MotionCheck, nominal_torques, robot_limits
from dynid.control.open_loop import plan_excitation
from dynid.errors import DataError
from dynid.model.friction import FrictionLaw
from dynid.model.standard import StandardFile
from dynid.robot import FloatArray, Robot
from dynid.simulation.lockstep.run import SimulatedRun
from dynid.simulation.lockstep.stepped_arm import SteppedArm

LONGEST_S = 600.0


def simulate_excitation(
    robot: Robot,
    controller: ControllerSettings,
    joint: int,
    acceleration_limits: FloatArray,
    *,
    mount: str | None = None,
    seed: int = 0,
    switched_off: Collection[str] = (),
    standard: StandardFile | None = None,
    friction: FrictionLaw | str | None = None,
) -> SimulatedRun:
    """Simulate the excitation of one joint: approach, excitation, and return to the rest posture.

    Args:
        robot: the robot.
        controller: settings of the controller (feedforward and PD feedback), which keeps all other joints in place.
        joint: index of the excited joint.
        acceleration_limits: largest accelerations of the approach, (n,) [rad/s^2].
        mount: name of a mount of robot.yaml; None means the default mount.
        seed: seed of all random disturbances.
        switched_off: names of simulated disturbances (nuisances of robot.yaml) that are disabled.
        standard: standard parameters of the simulated arm; None reads the file that robot.yaml names for it.
        friction: friction law of the gears, or its name; None means the law that robot.yaml chooses.

    Raises:
        SafetyError: the joint cannot be excited; the message gives the reason.
        DataError: the run takes longer than `LONGEST_S` of simulated time.
    """
    arm = SteppedArm(robot, mount=mount, seed=seed, switched_off=switched_off, standard=standard, friction=friction)
    limits, torques = robot_limits(robot, acceleration_limits), nominal_torques(robot, mount)
    check = MotionCheck(robot, limits, torques)
    motion = MotionExecutor(robot, FeedforwardPd(controller), check)
    q = arm.measure()
    plan = plan_excitation(robot, controller, joint, q, check, limits, torques)
    motion.begin(plan, q, arm.stamp_ns)
    if not arm.run(motion, lambda: not motion.moving, LONGEST_S):
        raise DataError(f"'{plan.name}' did not end within {LONGEST_S:.0f} s of simulated time")
    return arm.recorded(plan.name, plan.duration, motion.phases)
