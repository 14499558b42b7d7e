"""An accepted model of the simulated CRANE-X7, true except for warm gears, and a motion with a contact force."""

from collections.abc import Callable

import numpy as np

from dynid.control.arm_controller import ArmController
from dynid.control.control_model import ControlModel, from_model_file
from dynid.control.controller import load_controller
from dynid.control.dynamics_kernel import compile_single
from dynid.control.model_laws import ComputedTorque
from dynid.control.motion import MotionExecutor
from dynid.control.plan import Phase
from dynid.model.drive import of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.gear_presets import gear_friction
from dynid.model.model_file import ModelFile, TorqueDeviations, friction_block, parameter_rows
from dynid.model.standard import StandardFile, from_file
from dynid.robot import FloatArray, load_robot
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.simulation.plant.arm import plant_standard
from dynid.trajectory.trajectory import through

ROBOT = load_robot("crane_x7")
ARM = ArmModel.of(ROBOT)
N = ROBOT.size
SPREAD = (0.03, 0.06, 0.03, 0.04, 0.01, 0.01, 0.01, 0.01)  # as an identified model of this arm states when it is fast
AWAY = np.deg2rad([40.0, 25.0, -30.0, -60.0, 60.0, 40.0, -60.0, 30.0])


def model_file(**changes: object) -> ModelFile:
    """Parameters without FV and the friction of the gears beside them, a little warm."""
    phi = of_kinds(ARM.base_parameters(from_file(plant_standard(ROBOT), ARM.mdh)), ("FV",), others=True)
    content = ModelFile(
        robot=ROBOT.name,
        structure_hash=ARM.structure_hash,
        accepted=True,
        parameters=parameter_rows(ARM, phi),
        friction_law=friction_block(gear_friction(ROBOT).scaled(0.97)),
        torque_deviations=TorqueDeviations(speeds_rad_s=(0.1,), deviations_nm=(SPREAD, SPREAD)),
    )
    return content.model_copy(update=changes)


def control_model() -> ControlModel:
    """Return the same model as controllers use it."""
    return from_model_file(model_file(), ARM)


def moved(
    push: Callable[[SteppedArm, float], FloatArray | None],
    each: Callable[[SteppedArm, FloatArray], None],
    seed: int = 3,
    standard: StandardFile | None = None,
) -> tuple[SteppedArm, float, list[tuple[Phase, int]]]:
    """Move there and back under computed torque.

    Args:
        push: what a hand adds (n,) [N m] at a time since the start [s].
        each: is given the arm after each measurement, and the torque that was commanded before.
        seed: of the arm.
        standard: its standard parameters; None is as it truly is.

    Returns:
        The arm, the motion's duration [s], and its phases.
    """
    settings = load_controller(ROBOT)
    law = ComputedTorque(settings, control_model(), compile_single(ARM))
    arm, motion = SteppedArm(ROBOT, seed=seed, standard=standard), MotionExecutor(ROBOT, ArmController(law, 0.002, N))
    points = np.array([ROBOT.rest_posture, ROBOT.rest_posture + 0.6 * AWAY, ROBOT.rest_posture])
    way = through("there", ROBOT.joint_names, points, np.full(N, 3.0), np.full(N, 8.0), [0.5, 0.5], 0.3)
    motion.begin(way, arm.measure(), arm.stamp_ns)
    arm.command(np.zeros(N))
    tau = np.zeros(N)
    while motion.phase != "done":
        step = arm.follow(motion, push(arm, arm.stamp_ns * 1e-9))
        each(arm, tau)
        tau = np.zeros(N) if step is None else step.tau.copy()
    return arm, way.duration, list(motion.phases)
