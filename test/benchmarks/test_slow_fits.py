"""Friction fitted to a slow motion of a random arm, for which mass and load friction are nearly collinear."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.studies.drawn_arms import draw_arm, record
from benchmarks.studies.motion_classes import CLASSES, drawn_motion

from dynid.identification.estimators.gear_fit import GearFitter
from dynid.identification.estimators.gear_ladder import LADDER
from dynid.identification.estimators.gear_rows import GearRows
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import physical_lower_bounds
from dynid.robot import load_robot


@pytest.mark.study
def test_fit_of_a_slow_motion_settles() -> None:
    """Steps of Gauss-Newton without a search along them jump to and fro across the valley for ever."""
    robot = load_robot("crane_x7")
    settings, model = load_identification(robot), ArmModel.of(robot)
    motion = drawn_motion(robot, CLASSES["slow"], 1)
    samples = record(robot, draw_arm(robot, 1), motion, 1).source.samples(settings)
    coulomb = settings.coulomb_friction
    rows = GearRows(model, samples, coulomb.slow_rad_s)
    trust = np.where(rows.sliding_share < coulomb.sliding_share, coulomb.slow_weight, 1.0)
    fitter = GearFitter(rows, model.gears, trust, physical_lower_bounds(model.names), coulomb.transition_rad_s)
    structure = next(one for one in LADDER if one.name == "directional")
    assert fitter.fit(replace(structure, drift=True), None, 80).settled
