"""Closed-loop refinement: known parameters, an independent optimiser, feasibility, and refusals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from arms import arm, nominal, plant
from scipy.optimize import least_squares

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DataError, InfeasibleError
from dynid.identification.closed_loop.clie import ClieOptions, refine
from dynid.identification.closed_loop.loop_data import ClosedLoopData
from dynid.identification.closed_loop.recorded_loop import closed_loop_data, recorded_controller
from dynid.identification.closed_loop.simulation import ClosedLoop
from dynid.identification.feasibility.audit import Auditor
from dynid.identification.settings import load_identification
from dynid.model.model_file import read_model_file
from dynid.model.parameters import BaseParameters
from dynid.recording.driver_recording import load_driver_recording
from dynid.robot import FloatArray, load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.simulation.plant.nuisances import DELAY, NUISANCES
from dynid.trajectory.families import load_excitation

pytestmark = pytest.mark.slow  # its kernels take a quarter of a minute to compile

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
PHI = nominal("crane_x7")
SETTINGS = load_controller(ROBOT)
TRAJECTORY = load_excitation(ROBOT).trajectory("PA02", "limited")
CYCLE, COULOMB_NM = 0.001, 0.03


def reference(seconds: float | None = None) -> ClosedLoopData:
    times = np.arange(0.0, seconds or TRAJECTORY.duration, CYCLE)
    q, dq, ddq = TRAJECTORY.sample_all(times)
    samples = np.arange(0.5, times[-1], 0.04)
    return ClosedLoopData(q, dq, ddq, samples, np.zeros((len(samples), 8)), np.array([q[0], dq[0]]))


def measured(phi: BaseParameters, noise_nm: float = 0.0, coulomb_nm: float = 0.0) -> ClosedLoopData:
    """Commands of an arm with parameters phi, plus what no model of this structure explains."""
    data = reference()
    found = ClosedLoop(MODEL, SETTINGS, data).simulate(phi)
    noise = np.random.default_rng(4).normal(0.0, noise_nm or 1e-30, found.tau.shape)
    at = np.rint(data.sample_times / CYCLE).astype(int)
    return replace(data, tau=found.tau + noise + coulomb_nm * np.tanh(data.dq_ref[at] / 0.05))


def start_near(phi: BaseParameters, data: ClosedLoopData) -> BaseParameters:
    """Ordinary least squares on the reference motion."""
    at = np.rint(data.sample_times / CYCLE).astype(int)
    W = MODEL.regressor(data.q_ref[at], data.dq_ref[at], data.ddq_ref[at]).reshape(-1, len(MODEL.names))
    return phi.with_values(np.linalg.lstsq(W, data.tau.ravel(), rcond=None)[0])


@pytest.fixture(scope="module")
def auditor() -> Auditor:
    return Auditor(MODEL, ROBOT.audit_lower, ROBOT.audit_upper)


@pytest.fixture(scope="module")
def rubbing() -> ClosedLoopData:
    return measured(PHI, noise_nm=0.01, coulomb_nm=COULOMB_NM)


def test_known_parameters_are_recovered() -> None:
    data = measured(PHI)
    found = refine(MODEL, SETTINGS, data, start_near(PHI, data), ClieOptions(tolerance=1e-10, deviation_share=0.0))
    assert found.converged
    np.testing.assert_allclose(found.base.values, PHI.values, atol=1e-6)
    assert found.cost < 1e-6 * found.start_cost
    costs = [found.start_cost, *(step.found for step in found.iterations if step.accepted)]
    assert costs == sorted(costs, reverse=True)
    with pytest.raises(ValueError, match="read-only"):
        found.rmse[0] = 0.0


def test_known_load_does_not_bias_the_parameters() -> None:
    """What friction did to the joints is told to the loop, and rows that are not trusted are not believed."""
    plain = reference()
    load = -0.1 * np.tanh(plain.dq_ref / 0.05)
    loaded = replace(plain, external=load)
    tau = np.array(ClosedLoop(MODEL, SETTINGS, loaded).simulate(PHI).tau)
    start = start_near(PHI, replace(plain, tau=tau))
    found = refine(MODEL, SETTINGS, replace(loaded, tau=tau), start, ClieOptions(tolerance=1e-10, deviation_share=0.0))
    np.testing.assert_allclose(found.base.values, PHI.values, atol=1e-6)
    unaware = refine(MODEL, SETTINGS, replace(plain, tau=tau), start)
    assert np.abs(unaware.base.values - PHI.values).max() > 0.01

    tau[::10] += 1.0
    weights = np.ones_like(tau)
    weights[::10] = 1e-4
    spoilt = replace(loaded, tau=tau)
    weighted = refine(MODEL, SETTINGS, replace(spoilt, weights=weights), start)
    unweighted = refine(MODEL, SETTINGS, spoilt, start)
    error, expected = (np.abs(one.base.values - PHI.values).max() for one in (weighted, unweighted))
    assert error < 1e-4 < 1e-2 < expected
    with pytest.raises(DataError, match=r"weights is \(3, 8\), expected"):
        replace(spoilt, weights=np.ones((3, 8)))


def test_deviations_match_the_scatter_of_noise() -> None:
    data = measured(PHI, noise_nm=0.02)
    found = refine(MODEL, SETTINGS, data, start_near(PHI, data))
    deviations = found.base.standard_deviations
    assert deviations is not None
    normal = (found.base.values - PHI.values) / deviations
    assert 0.6 < np.sqrt(np.mean(normal**2)) < 1.4
    np.testing.assert_allclose(found.rmse, 0.02, rtol=0.15)


def test_an_independent_optimiser_finds_no_lower_cost(rubbing: ClosedLoopData) -> None:
    start = start_near(PHI, rubbing)
    found = refine(MODEL, SETTINGS, rubbing, start, ClieOptions(eps=0.0))
    loop = ClosedLoop(MODEL, SETTINGS, rubbing)

    def residual(phi: FloatArray) -> FloatArray:
        return np.asarray((loop.simulate(phi).tau - rubbing.tau).ravel())

    other = least_squares(residual, start.values, x_scale="jac", max_nfev=6)
    assert found.converged
    assert found.cost <= 2.0 * other.cost * (1 + 1e-6)
    assert found.cost < found.start_cost * (1 - 1e-4)  # and there was something to find


def test_the_model_stays_positive_definite_in_the_whole_domain(auditor: Auditor) -> None:
    """Data of a model that is indefinite in the domain, though not on the path: the published one."""
    truth = read_model_file(ROBOT.folder / "models" / "paper.yaml").base_parameters(MODEL)
    data = measured(truth, noise_nm=0.002)
    start = start_near(truth, data)
    alone = refine(MODEL, SETTINGS, data, start, ClieOptions(eps=0.0))
    assert auditor.audit(alone.base, limit=0.0).lambda_min < -1e-3  # the path alone does not see it
    options = ClieOptions(eps=2e-4)
    found = refine(MODEL, SETTINGS, data, start, options, auditor)
    assert found.converged and found.cuts > 0
    assert found.audit is not None and found.audit.passed
    assert auditor.audit(found.base, limit=options.eps - 1e-5, seed=99).passed  # fresh poses
    assert alone.cost < found.cost < 1.5 * alone.cost
    # the price is the least: no feasible point on the way to the unconstrained solution is cheaper
    loop = ClosedLoop(MODEL, SETTINGS, data)
    for share in (0.02, 0.1):
        between = found.base.values + share * (alone.base.values - found.base.values)
        if auditor.audit(found.base.with_values(between), limit=options.eps).passed:
            assert np.sum((loop.simulate(between).tau - data.tau) ** 2) >= found.cost * (1 - 1e-6)


def test_refined_parameters_stay_within_bounds(rubbing: ClosedLoopData) -> None:
    start = PHI.with_values(np.where([n.startswith("FV") for n in PHI.names], 0.5, 1.0) * PHI.values)
    found = refine(MODEL, SETTINGS, rubbing, start, ClieOptions(bound_factor=1.2, eps=0.0))
    friction = np.array([n.startswith("FV") for n in PHI.names])
    size = 1.2 * np.maximum(np.abs(start.values), 1e-4)
    assert np.all(np.abs(found.base.values) <= size + 1e-9)
    assert np.any(np.abs(found.base.values[friction]) > size[friction] - 1e-6)  # and some are at their bounds


def test_a_start_that_cannot_be_simulated_is_refused() -> None:
    data = measured(PHI)
    values = np.array(PHI.values)
    values[PHI.names.index("ZZR1")] = -0.5
    with pytest.raises(InfeasibleError, match="not positive definite on the path"):
        refine(MODEL, SETTINGS, data, PHI.with_values(values))


def test_a_motion_that_leaves_parameters_open_is_refused() -> None:
    data = reference(4.0)
    q, still = np.array(data.q_ref), np.zeros_like(data.q_ref)
    q[:, 7] = q[0, 7]
    idle = replace(
        data,
        q_ref=q,
        dq_ref=np.where(np.arange(8) == 7, still, data.dq_ref),
        ddq_ref=np.where(np.arange(8) == 7, still, data.ddq_ref),
    )
    with pytest.raises(DataError, match=r"do not depend on .*IA8"):
        refine(MODEL, SETTINGS, idle, PHI)
    with pytest.raises(DataError, match="another model"):
        refine(MODEL, SETTINGS, data, BaseParameters(("A",), np.zeros(1)))


def test_a_bag_of_the_ideal_arm_gives_its_parameters(tmp_path: Path, auditor: Auditor) -> None:
    off = [name for name in NUISANCES if name != DELAY]
    run = simulate(ROBOT, TRAJECTORY, FeedforwardPd(SETTINGS), switched_off=off, to_rest=False, friction="viscous")
    write_bag(run, ROBOT, SETTINGS, tmp_path / "bag", profile="limited")
    recording = load_driver_recording(tmp_path / "bag", ROBOT)
    assert recorded_controller(recording) == SETTINGS
    data = closed_loop_data(recording, ROBOT, load_identification(ROBOT), 0.08)
    found = refine(MODEL, recorded_controller(recording), data, start_near(PHI, data), auditor=auditor)
    assert found.converged
    np.testing.assert_allclose(found.base.values, plant("crane_x7").values, atol=1e-5)
    nameless = replace(recording, reference=None)
    with pytest.raises(DataError, match="lacks what closed-loop refinement needs: topic reference; record"):
        closed_loop_data(nameless, ROBOT, load_identification(ROBOT))


def test_a_start_at_the_true_values_converges_with_deviations() -> None:
    """A start at the optimum is never linearised, yet its deviations are computed."""
    data = measured(PHI)
    found = refine(MODEL, SETTINGS, data, PHI)
    assert found.converged and found.cost <= 1e-12
    assert found.base.covariance is not None and np.isfinite(found.base.covariance).all()
    distrusted = replace(data, weights=np.full_like(data.tau, 0.1))
    with pytest.raises(DataError, match="0 torques at speed do not determine 39 parameters"):
        refine(MODEL, SETTINGS, distrusted, PHI)
