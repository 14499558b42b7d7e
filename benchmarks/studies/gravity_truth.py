"""Gravity torques of an identified simulated arm, compared with the true ones and with the errors that it states."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from dynid.identification.feasibility.belief import Belief
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import read_model_file
from dynid.model.standard import from_file
from dynid.robot import load_robot
from dynid.simulation.plant.arm import plant_standard

POSTURES = 300


class GravityFigures(NamedTuple):
    """Error of gravity torques over random postures, relative to the true ones (root mean square).

    Attributes:
        error: error of the model.
        deviation: standard deviation that the model states.
    """

    error: float
    deviation: float


def gravity_figures(robot_folder: Path, result: Path) -> GravityFigures:
    """Return the error of gravity torques of a result, and the one that it states.

    Args:
        robot_folder: folder of the robot, whose nominal parameters are those of the simulated arm.
        result: folder of the result.
    """
    robot = load_robot(robot_folder)
    model = ArmModel.of(robot)
    true = of_kinds(model.base_parameters(from_file(plant_standard(robot), model.mdh)), KINDS, others=True)
    content, belief = read_model_file(result / "model.yaml"), Belief.load(result)
    found = {one.name: one.value for one in content.parameters}
    places = [belief.names.index(name) for name in true.names]
    q = np.random.default_rng(0).uniform(robot.lower, robot.upper, (POSTURES, robot.size))
    links = of_kinds(true.with_values(np.ones(len(true.names))), KINDS, others=True).values
    G = (model.regressor(q, 0.0 * q, 0.0 * q) * links).reshape(-1, len(true.names))
    size = float(np.linalg.norm(G @ true.values))
    wrong = G @ (np.array([found[name] for name in true.names]) - true.values)
    stated = np.einsum("ij,jk,ik->", G, belief.covariance[np.ix_(places, places)], G)
    return GravityFigures(float(np.linalg.norm(wrong)) / size, float(np.sqrt(stated)) / size)
