"""The benchmark's baselines are the same loop, so that its ratios compare equals."""

from dataclasses import replace

import numpy as np

from dynid.benchmarking.baseline import PlainLoop, ScalarLoop, cost, filtered_samples, lsqnonlin_like, standard_for
from dynid.benchmarking.refinement import make_case
from dynid.identification.closed_loop import ClosedLoop, LoopOptions
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard
from dynid.robot import load_robot
from dynid.trajectory.trajectory import through

ROBOT = load_robot("crane_x7")
CORNERS_DEG = [[0, 0, 0, -90, 0, 0, 0, 0], [-30, 25, 35, -60, 40, 30, 40, 30], [20, -15, -20, -110, -30, -40, -30, 5]]
MOTION = through("short", ROBOT.joint_names, np.deg2rad(CORNERS_DEG), np.full(8, 2.5), np.full(8, 8.0))
MODEL = ArmModel.of(ROBOT)
NOMINAL = MODEL.base_parameters(load_standard(ROBOT.folder / "models" / "nominal.yaml", MODEL.mdh))
# so short a motion leaves least squares to the noise: start from another arm instead
CASE = replace(make_case(ROBOT, MOTION), phi0=NOMINAL.with_values(1.1 * NOMINAL.values))


def test_all_three_loops_agree() -> None:
    phi = CASE.phi0.values
    paper = ClosedLoop(CASE.model, CASE.settings, CASE.data, LoopOptions(integrator="trapezoid")).simulate(phi)
    scalar = ScalarLoop(CASE.model, CASE.settings, CASE.data).commands(phi)
    plain = PlainLoop(CASE.robot, CASE.model, CASE.settings, CASE.data).commands(phi, 1500)
    np.testing.assert_allclose(scalar[:1500], plain, atol=1e-9)
    np.testing.assert_allclose(paper.motion[2], scalar, atol=1e-6)
    np.testing.assert_allclose(filtered_samples(CASE.data, scalar), paper.tau, atol=1e-5)
    assert np.isclose(cost(scalar, CASE.data), np.sum((paper.tau - CASE.data.tau) ** 2), rtol=1e-5)


def test_the_plain_model_has_the_base_parameters() -> None:
    standard = standard_for(CASE.model, CASE.phi0.values)
    np.testing.assert_allclose(CASE.model.base_parameters(standard).values, CASE.phi0.values, atol=1e-12)


def test_the_baseline_optimises() -> None:
    scalar = ScalarLoop(CASE.model, CASE.settings, CASE.data)
    calls = []

    def commands(phi: np.ndarray) -> np.ndarray:
        calls.append(phi)
        return scalar.commands(phi)

    start = cost(scalar.commands(CASE.phi0.values), CASE.data)
    found = lsqnonlin_like(commands, CASE.data, CASE.phi0.values, maximum_evaluations=3)
    assert 2.0 * found.cost < start
    assert len(calls) > len(CASE.phi0.values)  # one simulation per parameter and Jacobian
