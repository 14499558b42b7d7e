"""Refinement from several loops: equal to one loop, parameters that need two loops, and refusals."""

from dataclasses import replace

import numpy as np
import pytest
from arms import arm, nominal

from dynid.control.controller import load_controller
from dynid.errors import DataError
from dynid.identification.closed_loop.clie import ClieOptions, refine, refine_loop
from dynid.identification.closed_loop.loop_data import ClosedLoopData
from dynid.identification.closed_loop.many_loops import ManyLoops
from dynid.identification.closed_loop.simulation import ClosedLoop
from dynid.model.dynamics import ArmModel
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation

pytestmark = pytest.mark.slow  # its kernels take a quarter of a minute to compile

ROBOT = load_robot("crane_x7")
MODEL, PHI, SETTINGS = arm("crane_x7"), nominal("crane_x7"), load_controller(ROBOT)
EXCITATION = load_excitation(ROBOT)
CYCLE = 0.001
SIGMA = np.linspace(0.002, 0.03, 8)


def measured(motion: str, seed: int) -> ClosedLoopData:
    """Commands of the nominal arm, with noise of another size on every axis."""
    trajectory = EXCITATION.trajectory(motion, "limited")
    times = np.arange(0.0, trajectory.duration, CYCLE)
    q, dq, ddq = trajectory.sample_all(times)
    samples = np.arange(0.5, times[-1], 0.04)
    data = ClosedLoopData(q, dq, ddq, samples, np.zeros((len(samples), 8)), np.array([q[0], dq[0]]))
    noise = np.random.default_rng(seed).normal(0.0, 1.0, data.tau.shape) * SIGMA
    return replace(data, tau=ClosedLoop(MODEL, SETTINGS, data).simulate(PHI).tau + noise)


@pytest.fixture(scope="module")
def loops() -> list[ClosedLoop]:
    return [ClosedLoop(MODEL, SETTINGS, measured(motion, seed)) for seed, motion in enumerate(("PA02", "PC01"))]


def test_one_loop_gives_the_single_loop_result(loops: list[ClosedLoop]) -> None:
    alone = refine(MODEL, SETTINGS, loops[0].data, PHI, ClieOptions(tolerance=1e-9))
    together = refine_loop(ManyLoops(loops[:1]), PHI, ClieOptions(tolerance=1e-9))
    np.testing.assert_allclose(together.base.values, alone.base.values, atol=1e-12)
    np.testing.assert_allclose(together.base.covariance, alone.base.covariance, rtol=1e-9)


def test_the_jacobian_is_that_of_finite_differences_of_both_loops(loops: list[ClosedLoop]) -> None:
    both, step = ManyLoops(loops), 1e-6
    J = both.jacobian(both.simulate(PHI), PHI, 2)
    assert J.shape == (len(both.data.tau), 8, len(MODEL.names))
    for k in (MODEL.names.index("MX2"), MODEL.names.index("IA4")):
        moved = [PHI.values + sign * step * np.eye(len(PHI.values))[k] for sign in (1.0, -1.0)]
        difference = np.subtract(*(both.simulate(phi).tau for phi in moved)) / (2.0 * step)
        np.testing.assert_allclose(J[..., k], difference, atol=2e-3 * np.abs(difference).max())


def test_two_loops_and_the_size_of_noise_bring_parameters_nearer(loops: list[ClosedLoop]) -> None:
    def scatter(loop: ClosedLoop | ManyLoops) -> float:
        covariance = refine_loop(loop, PHI).base.covariance
        assert covariance is not None
        return float(np.exp(np.mean(np.log(np.diag(covariance)))))

    alike, weighted = ManyLoops(loops), ManyLoops(loops, SIGMA)
    assert scatter(weighted) < 0.8 * scatter(alike) < 0.8 * scatter(loops[0])
    found = refine_loop(weighted, PHI.with_values(1.05 * PHI.values), ClieOptions(tolerance=1e-9))
    assert found.converged
    deviations = found.base.standard_deviations
    assert deviations is not None
    assert np.sqrt(np.mean(((found.base.values - PHI.values) / deviations) ** 2)) < 1.5


def test_weights_of_one_loop_are_ones_in_the_others(loops: list[ClosedLoop]) -> None:
    spoilt = np.array(loops[1].data.tau)
    spoilt[::7] += 2.0
    weights = np.ones_like(spoilt)
    weights[::7] = 1e-4
    trusting = ManyLoops([loops[0], ClosedLoop(MODEL, SETTINGS, replace(loops[1].data, tau=spoilt))])
    knowing = ManyLoops([loops[0], ClosedLoop(MODEL, SETTINGS, replace(loops[1].data, tau=spoilt, weights=weights))])
    errors = [np.abs(refine_loop(one, PHI).base.values - PHI.values).max() for one in (knowing, trusting)]
    assert errors[0] < 0.2 * errors[1]
    assert ManyLoops(loops).data.weights is None


def test_a_failing_loop_is_reported_and_others_are_not_joined(loops: list[ClosedLoop]) -> None:
    both = ManyLoops(loops)
    failed = both.simulate(-1.0 * PHI.values)
    assert not failed.completed
    with pytest.raises(DataError, match="did not complete has no derivative"):
        both.jacobian(failed, PHI)
    with pytest.raises(DataError, match="at least one recording"):
        ManyLoops([])
    longer = ArmModel.of(ROBOT, lengths_m={"r3": 0.3})
    with pytest.raises(DataError, match="different structure"):
        ManyLoops([loops[0], ClosedLoop(longer, SETTINGS, loops[1].data)])
