"""Baselines of the benchmark run the same loop as dynid, so that their ratios are comparable."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from arms import arm, nominal
from benchmarks.speed.baseline import PlainLoop, ScalarLoop, cost, filtered_samples, lsqnonlin_like, standard_for
from benchmarks.speed.refinement import Case, make_case

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.identification.closed_loop.simulation import ClosedLoop, LoopOptions
from dynid.robot import load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.trajectory import through

ROBOT = load_robot("crane_x7")
CORNERS_DEG = [[0, 0, 0, -90, 0, 0, 0, 0], [-30, 25, 35, -60, 40, 30, 40, 30], [20, -15, -20, -110, -30, -40, -30, 5]]
MOTION = through(
    "short", ROBOT.joint_names, np.deg2rad([*CORNERS_DEG, *CORNERS_DEG[::2]] * 2), np.full(8, 2.5), np.full(8, 8.0)
)
MODEL = arm("crane_x7")
NOMINAL = nominal("crane_x7")


@pytest.fixture(scope="module")
def case() -> Case:
    """As a campaign has it, from a bag; its start is another arm, for so short a motion leaves much to the noise."""
    settings = load_controller(ROBOT)
    run = simulate(ROBOT, MOTION, FeedforwardPd(settings), seed=1, to_rest=False)
    with tempfile.TemporaryDirectory() as folder:
        write_bag(run, ROBOT, settings, Path(folder) / "bag", profile="limited")
        made = make_case(ROBOT, Path(folder) / "bag")
    return replace(made, phi0=NOMINAL.with_values(1.1 * NOMINAL.values))


@pytest.mark.slow
def test_all_three_loops_agree(case: Case) -> None:
    phi = case.phi0.values
    paper = ClosedLoop(case.model, case.settings, case.data, LoopOptions(integrator="trapezoid")).simulate(phi)
    scalar = ScalarLoop(case.model, case.settings, case.data).commands(phi)
    plain = PlainLoop(case.robot, case.model, case.settings, case.data).commands(phi, 1500)
    np.testing.assert_allclose(scalar[:1500], plain, atol=1e-9)
    np.testing.assert_allclose(paper.motion[2], scalar, atol=1e-6)
    np.testing.assert_allclose(filtered_samples(case.data, scalar), paper.tau, atol=1e-5)
    assert case.data.external is not None and case.data.weights is not None
    ours = np.sum((case.data.weights * (paper.tau - case.data.tau)) ** 2)
    assert np.isclose(cost(scalar, case.data), ours, rtol=1e-5)


def test_standard_parameters_reproduce_the_base_parameters(case: Case) -> None:
    standard = standard_for(case.model, case.phi0.values)
    np.testing.assert_allclose(case.model.base_parameters(standard).values, case.phi0.values, atol=1e-12)


@pytest.mark.slow
def test_the_baseline_optimiser_halves_the_cost(case: Case) -> None:
    scalar = ScalarLoop(case.model, case.settings, case.data)
    calls = []

    def commands(phi: np.ndarray) -> np.ndarray:
        calls.append(phi)
        return scalar.commands(phi)

    start = cost(scalar.commands(case.phi0.values), case.data)
    found = lsqnonlin_like(commands, case.data, case.phi0.values, maximum_evaluations=3)
    assert 2.0 * found.cost < start
    assert len(calls) > len(case.phi0.values)  # one simulation per parameter and Jacobian
