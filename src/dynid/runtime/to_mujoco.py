"""Identified model as a MuJoCo model, with friction, for simulation."""

from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np

from dynid.errors import DataError
from dynid.export.mjcf import PlantOptions, compile_plant
from dynid.export.mujoco_friction import MujocoFriction
from dynid.export.simple_friction import whole_friction
from dynid.model.standard import to_file
from dynid.robot import Robot
from dynid.runtime.model import Model, load_model


class MujocoArm(NamedTuple):
    """MuJoCo model of an arm, its data at the zero pose, and an object that writes friction before each step."""

    model: mujoco.MjModel
    data: mujoco.MjData
    friction: MujocoFriction


def mujoco_model(
    result: Path | str | Model, robot: Robot | None = None, *, mount: str | None = None, geometry: bool = False
) -> MujocoArm:
    """Convert an identified model to a MuJoCo model, with simulation data and a friction object.

    Call `friction.update(data)` before every `mujoco.mj_step(model, data)`. Write torques into `data.ctrl` or into
    `data.qfrc_applied`. `data.ctrl` has one actuator per joint, named as the joint, within the limits of robot.yaml.

    Args:
        result: result folder of an identification, path of a model.yaml, or a loaded model.
        robot: robot of the model; None loads the robot that model.yaml names.
        mount: name of the mount, which determines gravity; None is the mount stated in the model.
        geometry: whether to keep shapes for a viewer, and gripper fingers coupled to other joints. Then the MuJoCo
            model may have more joints than the robot; `friction.dofs` are the indices of the robot's degrees of
            freedom.

    Raises:
        InputNotFoundError: the file does not exist.
        ConfigurationError: the file is not a valid model.yaml.
        DataError: the model has no standard parameters, replaces lengths of the URDF, or has a joint with both a spring
            and a friction offset.
    """
    model = result if isinstance(result, Model) else load_model(result, robot)
    own = model.robot
    if model.standard is None or model.lengths_m:
        lacks = "holds base parameters only" if model.standard is None else "replaces lengths of the URDF"
        raise DataError(
            f"the model of {own.name} {lacks}, so no MuJoCo model can be built of it: load a result folder that "
            "identify wrote for the URDF's geometry"
        )
    arm = model.arm(mount)
    content = to_file(model.standard, arm.mdh, own.name, own.joint_names, "identified")
    options = PlantOptions(mount or model.mount, np.zeros(own.size), geometry=geometry, motors=True)
    plant = compile_plant(own, content, options).model
    friction = MujocoFriction(plant, whole_friction(own, model.base, model.friction_law), own.joint_names)
    data = mujoco.MjData(plant)
    mujoco.mj_forward(plant, data)
    return MujocoArm(plant, data, friction)
