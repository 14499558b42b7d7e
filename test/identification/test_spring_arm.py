"""A known arm with springs: identified, judged, stored, read back, and refused without its springs."""

import mujoco
import numpy as np
import pytest
from recordings import motion, recorded
from spring_arms import SPRINGS, plain_arm, spring_arm, spring_torques

from dynid.control.controller import ControllerSettings
from dynid.errors import ConfigurationError
from dynid.identification.closed_loop.loop_data import ClosedLoopData
from dynid.identification.closed_loop.simulation import ClosedLoop
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.elastic.model import ElasticModel
from dynid.identification.feasibility.belief import Belief
from dynid.identification.feasibility.consistent import consistent_projection
from dynid.identification.feasibility.posterior import possible_arms
from dynid.identification.held_out import validate
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.model.springs import PREFIX
from dynid.model.standard import load_nominal
from dynid.reporting.result_writer import write_result
from dynid.robot import FloatArray
from dynid.runtime.model import load_model

ROBOT, NAMES = spring_arm(), ("KS0_2", "KS1_2", "KS3_2", "KS1_3")
TRUTH = {f"{PREFIX}{power}_{axis + 1}": k for axis, (_, powers) in SPRINGS.items() for power, k in powers.items()}
ARM = ArmModel.of(ROBOT)
PHI = ARM.base_parameters(load_nominal(ROBOT, ARM.mdh, ARM.regrouping.standard))


@pytest.fixture(scope="module")
def found() -> Identification:
    """Return the model identified from 25 s and judged by another motion."""
    return identify(ROBOT, [recorded(ROBOT, noise=0.05)], validation=[recorded(ROBOT, noise=0.05, seed=5)])


@pytest.mark.slow
def test_springs_are_recovered_with_their_deviations(found: Identification) -> None:
    assert found.verdict.accepted, [check for check in found.verdict.checks if not check.passed]
    deviations = found.base.standard_deviations
    assert deviations is not None
    for name in NAMES:
        sd = deviations[found.model.names.index(name)]
        assert abs(found.base[name] - TRUTH[name]) < 5.0 * sd, name
        assert sd < 0.08 * max(abs(TRUTH[name]), 10.0), name
    assert not found.consistent.strained
    assert not any("a spring of" in note for note in found.notes)


@pytest.mark.slow
def test_result_predicts_as_the_file_it_writes(found: Identification, tmp_path) -> None:
    report = write_result(found, tmp_path / "model")
    loaded = load_model(tmp_path / "model", ROBOT)
    q, dq, ddq = motion(ROBOT, 2.0, 9)[1:]
    np.testing.assert_array_equal(loaded.torques(q, dq, ddq), found.as_model().torques(q, dq, ddq))
    plain = ArmModel.of(plain_arm())
    links = BaseParameters(plain.names, np.array([loaded.base[name] for name in plain.names]))
    wanted = plain.inverse_dynamics(q, dq, ddq, links) + found_springs(loaded.base, q)
    np.testing.assert_allclose(ARM.inverse_dynamics(q, dq, ddq, loaded.base), wanted, atol=1e-9)
    verdict = validate(loaded, [recorded(ROBOT, noise=0.05, seed=6)]).verdict
    assert verdict.accepted
    text = report.read_text(encoding="utf-8")
    assert "KS3_2" in text and "(q2 + 1.0472)^3" in text
    assert "Springs are NOT in this file" in (tmp_path / "model" / "model.urdf").read_text(encoding="utf-8")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "model" / "model.xml"))
    assert np.atleast_1d(model.jnt_stiffness[2])[0] == pytest.approx(found.base["KS1_3"], rel=1e-9)


def found_springs(phi: BaseParameters, q: FloatArray) -> FloatArray:
    """Torques (N, 3) [N m] of the springs at q (N, 3) [rad] by their identified coefficients."""
    torques = np.zeros_like(q)
    for axis, (about, powers) in SPRINGS.items():
        away = q[:, axis] - np.deg2rad(about)
        torques[:, axis] = sum(phi[f"{PREFIX}{power}_{axis + 1}"] * away**power for power in powers)
    return torques


@pytest.mark.slow
def test_without_its_springs_the_arm_is_refused() -> None:
    sets = []
    for seed in (0, 5):
        missing = spring_torques(motion(plain_arm(), 25.0, seed)[1])
        sets.append(recorded(plain_arm(), noise=0.05, seed=seed, torques=lambda tau, more=missing: tau + more))
    assert not identify(plain_arm(), sets[:1], validation=sets[1:]).verdict.accepted


def test_projection_leaves_springs_free() -> None:
    """Values of any sign and size stay; the arm itself is consistent already."""
    names, values = ARM.names, np.array(PHI.values)
    for name, value in zip(NAMES, (-300.0, -2.0e4, 50.0, 1.0e-3), strict=True):
        values[names.index(name)] = value
    moved = consistent_projection(ARM, PHI.with_values(values), ROBOT.file.physical_bounds)
    np.testing.assert_allclose(moved.base.values, values, rtol=1e-4, atol=2e-4)


@pytest.mark.slow
def test_posterior_draws_springs_as_the_data_leave_them(found: Identification) -> None:
    belief = found.estimate.belief
    assert isinstance(belief, Belief)
    drawn = possible_arms(ARM, belief, ROBOT.file.physical_bounds, 40, start=found.standard.values, seed=1)
    values = drawn.standard[:, ARM.regrouping.standard.index("KS1_3")]
    sd = np.sqrt(np.diag(belief.covariance))[list(belief.names).index("KS1_3")]
    assert np.abs(values - belief.values[list(belief.names).index("KS1_3")]).max() < 6.0 * sd
    assert values.std() > 0.2 * sd


@pytest.mark.slow
def test_averaged_rows_give_springs_as_parameters() -> None:
    time, q, dq, ddq = motion(ROBOT, 40.0, 0)
    tau = ARM.inverse_dynamics(q, dq, ddq, PHI) + 0.5 * np.sign(dq)
    run = recording_from_arrays(ROBOT, time, q, tau)
    settings = load_identification(ROBOT).model_copy(update={"rows": "averaged"})
    result = identify(ROBOT, [run], settings=settings)
    assert "averages" in result.rows
    for name in ("KS1_2", "KS1_3"):
        assert result.base[name] == pytest.approx(TRUTH[name], rel=0.05)
    states = (one[:50] for one in (q, dq, ddq))
    assert result.as_model().arm().names == ARM.names
    assert np.isfinite(result.as_model().torques(*states)).all()


@pytest.mark.slow
def test_simulated_loop_and_its_sensitivities_have_the_springs() -> None:
    """A loop that holds the arm: its torques follow a spring's coefficient as finite differences say."""
    settings = ControllerSettings(
        schema_version=1,
        proportional_gain_1_s2=(100.0,) * 3,
        velocity_gain_1_s=(20.0,) * 3,
        inertia_kg_m2=(2.0, 2.0, 0.5),
        damping_nm_s_rad=(0.0,) * 3,
        pseudo_differentiation_s=0.002,
    )
    moments = np.arange(0.0, 1.5, 0.001)
    q, dq, ddq = (np.stack([np.interp(moments, motion(ROBOT, 2.0, 1)[0], one[:, k]) for k in range(3)], axis=1)
                  for one in motion(ROBOT, 2.0, 1)[1:])  # fmt: skip
    samples = np.arange(0.1, 1.4, 0.02)
    data = ClosedLoopData(q, dq, ddq, samples, np.zeros((len(samples), 3)), np.array([q[0], dq[0]]), np.ones(1))
    loop = ClosedLoop(ARM, settings, data)
    simulation = loop.simulate(PHI)
    assert simulation.outcome == "completed", simulation.sentence()
    jacobian = loop.jacobian(simulation, PHI, 2)
    for name in ("KS1_2", "KS3_2", "KS1_3", ARM.names[0]):
        k, step = ARM.names.index(name), np.zeros(len(ARM.names))
        step[k] = 1e-3
        ahead, behind = (loop.simulate(PHI.values + sign * step).tau for sign in (1.0, -1.0))
        differences = (ahead - behind) / 2e-3
        assert np.linalg.norm(jacobian[:, :, k] - differences) < 0.02 * np.linalg.norm(differences), name


def test_elastic_joints_refuse_springs() -> None:
    with pytest.raises(ConfigurationError, match="the model with elastic joints cannot take springs"):
        ElasticModel(ROBOT, None)  # type: ignore[arg-type]
