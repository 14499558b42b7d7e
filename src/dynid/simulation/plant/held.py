"""Simulated arm with a payload, a cube, in its hand."""

import mujoco
import numpy as np

from dynid.model.dynamics import ArmModel
from dynid.model.parameters import StandardParameters
from dynid.model.standard import LinkInertia, StandardFile, from_file, from_link_frame, to_file
from dynid.robot import FloatArray, Robot
from dynid.simulation.plant.arm import ArmPlant, plant_standard

CUBE_M = 0.04
INERTIAL_FIELDS = ("body_mass", "body_inertia", "body_ipos", "body_iquat")  # inertial fields of a MuJoCo model


def holding(
    robot: Robot, mass_kg: float, offset_m: FloatArray | None = None, arm: StandardFile | None = None
) -> StandardFile:
    """Return standard parameters of an arm with a cube in its hand.

    Args:
        robot: the robot.
        mass_kg: mass of the cube.
        offset_m: position of the cube's centre relative to the tool, in the tool's link frame, (3,) [m]; None is zero.
        arm: standard parameters of the arm without payload; None selects those of the robot's simulated arm.
    """
    mdh = ArmModel.of(robot).mdh
    own = from_file(arm or plant_standard(robot), mdh)
    centre = np.array(robot.file.tool_m) + (np.zeros(3) if offset_m is None else offset_m)
    cube = LinkInertia(mass_kg, centre, mass_kg * CUBE_M**2 / 6.0 * np.eye(3))
    values = np.array(own.values)
    last = slice(10 * (mdh.size - 1), 10 * mdh.size)
    values[last] += from_link_frame(cube, mdh.in_link[-1])
    return to_file(StandardParameters(own.names, values, own.chain_size), mdh, robot.name, robot.joint_names, "held")


class HeldBody:
    """Cube that a simulated arm can take into its hand and put down again, also during a motion.

    Args:
        plant: the simulated arm, which has no payload at first.
        mass_kg: mass of the cube.
    """

    def __init__(self, plant: ArmPlant, mass_kg: float) -> None:
        self._model = plant.compiled.model
        full = plant.recompiled(holding(plant.robot, mass_kg)).model
        self._bodies = [{name: getattr(one, name).copy() for name in INERTIAL_FIELDS} for one in (self._model, full)]

    def take(self) -> None:
        """Attach the cube to the hand."""
        self._set(1)

    def put_down(self) -> None:
        """Detach the cube from the hand."""
        self._set(0)

    def _set(self, which: int) -> None:
        for name, values in self._bodies[which].items():
            getattr(self._model, name)[:] = values
        mujoco.mj_setConst(self._model, mujoco.MjData(self._model))
