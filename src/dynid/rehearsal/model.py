"""Rehearsal of the functions that are generated for one arm: each is called once, so that it is compiled."""

import numpy as np

from dynid.codegen.compile import compile_inverse_dynamics, compile_pivots
from dynid.control.dynamics_kernel import compile_single
from dynid.identification.feasibility.pose_kernels import compile_pose_kernels
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import Robot


def rehearse_model(robot: Robot, mount: str | None = None) -> None:
    """Compile each function that is generated from the arm's equations of motion, by evaluating it at the zero pose.

    Args:
        robot: the robot whose geometry and structure determine the functions.
        mount: mount of the arm; None is robot.yaml's default.
    """
    model = ArmModel.of(robot, mount=mount)
    phi = BaseParameters(model.names, np.ones(len(model.names)))
    pose = np.zeros((1, model.axes))
    compile_single(model)
    compile_pivots(model)(pose, phi, 0.0)
    compile_inverse_dynamics(model)(pose, pose, pose, phi)
    kernels = compile_pose_kernels(model)
    kernels.margins(pose, phi.values, 0.0)
    kernels.slopes(pose, phi.values, 0.0)
