"""Identified model as a pinocchio model, with rotor inertias as armature and the gravity of the arm's mount."""

from collections.abc import Mapping

import numpy as np
import pinocchio

from dynid.errors import DataError
from dynid.export.urdf import identified_urdf
from dynid.model.chain import pinocchio_chain_model
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import StandardParameters
from dynid.robot import Robot


def pinocchio_model(
    robot: Robot, arm: ArmModel, standard: StandardParameters | None, lengths_m: Mapping[str, float]
) -> pinocchio.Model:
    """Return the chain joints of an identified model as a pinocchio model, without friction.

    Args:
        robot: robot whose URDF contains the geometry.
        arm: model structure and gravity of this robot as mounted.
        standard: physically consistent standard parameters; None if they are not known.
        lengths_m: modified DH lengths of the model that replace those of the URDF, by name.

    Raises:
        DataError: `standard` is None, `lengths_m` is not empty, or motors that move several joints have rotor inertia.
    """
    if standard is None:
        raise DataError(
            f"the model of {robot.name} holds base parameters only, from which no pinocchio model can be built: load "
            "the result folder that identify wrote"
        )
    if lengths_m:
        raise DataError(
            f"the model of {robot.name} replaces the lengths {', '.join(lengths_m)} of the URDF, from which "
            "pinocchio's geometry is read: correct the URDF and identify again"
        )
    rotors = arm.drive.inertia(standard.axis("IA"))
    if (rotors != np.diag(np.diag(rotors))).any():
        raise DataError(
            f"motors of {robot.name} move several joints, so that their rotors couple these; pinocchio's armature "
            "holds one inertia per joint: use Model's own inertia_matrix and torques"
        )
    names = robot.joint_names[: robot.chain_size]
    made = pinocchio_chain_model(identified_urdf(robot, arm.mdh, standard), names)
    made.armature = np.array(np.diag(rotors)[: robot.chain_size])
    made.gravity.linear = np.array(arm.gravity)
    return made
