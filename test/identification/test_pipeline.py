"""From bag to model on lock-step runs: true parameters, rejections, results written completely or not at all."""

import json
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pinocchio
import pytest

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DataError, InputNotFoundError, OutputExistsError, OutputWriteError, UnknownNameError
from dynid.export import result_files as export
from dynid.identification.checks import FITTED, Fitted, judge
from dynid.identification.data.preprocessing import preprocess_recording
from dynid.identification.estimators.table import estimator
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import read_model_file
from dynid.model.standard import from_file
from dynid.recording.driver_recording import TorqueSeries, load_driver_recording
from dynid.reporting.result_writer import write_result
from dynid.robot import load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.simulation.plant.arm import plant_standard
from dynid.simulation.plant.nuisances import NUISANCES
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")
CONTROLLER = load_controller(ROBOT)
MOTIONS = load_excitation(ROBOT)
FEW_POSES = 20_000
# What the lock-step run cannot have, delay and hold aside, is switched off; the rest is the model's own physics.
QUIET = tuple(sorted(set(NUISANCES) - {"delay"}))


def bag(
    folder: Path,
    motion: str,
    off: tuple[str, ...] = (),
    seed: int = 1,
    mount: str | None = None,
    friction: str = "viscous",
) -> Path:
    run = simulate(
        ROBOT,
        MOTIONS.trajectory(motion),
        FeedforwardPd(CONTROLLER),
        switched_off=off,
        seed=seed,
        mount=mount,
        friction=friction,
    )
    write_bag(run, ROBOT, CONTROLLER, folder, profile="limited")
    return folder


def settings(**acceptance: float) -> IdentificationSettings:
    loaded = load_identification(ROBOT)
    limits = loaded.acceptance.model_copy(update={"fresh_poses": FEW_POSES, **acceptance})
    return loaded.model_copy(update={"acceptance": limits})


def plain(**acceptance: float) -> IdentificationSettings:
    """Return settings with a fixed friction structure, because choosing one takes most of a fit's time."""
    chosen = settings(**acceptance)
    friction = chosen.coulomb_friction.model_copy(update={"structure": "Coulomb-viscous"})
    return chosen.model_copy(update={"coulomb_friction": friction})


class Bags(dict[str, Path]):
    """Bags by name, each made when a test first asks for it."""

    MADE = {
        "usual": ("demo_identification",),
        "usual_validation": ("demo_validation", (), 2),
        "no_coulomb": ("demo_identification", ("coulomb",)),
        "no_coulomb_validation": ("demo_validation", ("coulomb",), 2),
        "quiet": ("demo_identification", QUIET),
        "quiet_validation": ("demo_validation", QUIET),
        "rubbing": ("demo_identification", (), 1, None, "M6"),
        "rubbing_validation": ("V01", (), 2, None, "M6"),
        "hanging": ("demo_validation", QUIET, 1, "hanging"),
    }

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __missing__(self, name: str) -> Path:
        self[name] = bag(self.folder / name, *self.MADE[name])
        return self[name]


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> Bags:
    return Bags(tmp_path_factory.mktemp("bags"))


@pytest.fixture(scope="module")
def usual(bags: Bags) -> Identification:
    return identify(ROBOT, [bags["usual"]], validation=[bags["usual_validation"]], settings=settings())


@pytest.fixture(scope="module")
def quiet(bags: Bags) -> Identification:
    return identify(ROBOT, [bags["quiet"]], validation=[bags["quiet_validation"]], settings=settings())


@pytest.fixture(scope="module")
def rubbing(bags: Bags) -> Identification:
    return identify(ROBOT, [bags["rubbing"]], validation=[bags["rubbing_validation"]], settings=settings())


def truth(mount: str | None = None) -> np.ndarray:
    model = ArmModel.of(ROBOT, mount=mount)
    return model.base_parameters(from_file(plant_standard(ROBOT), model.mdh)).values


# -- how good the model is -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_with_all_nuisances_the_model_is_accepted(usual: Identification) -> None:
    assert usual.verdict.accepted, [check.sentence() for check in usual.verdict.failed]
    assert len(usual.base.names) == 39 and usual.estimate.rank == 39
    # what Coulomb and viscous friction fitted to all samples had reached, with a fifth of this play at the encoders
    assert 0.01 < usual.validations[0].errors.relative <= 0.043 and usual.fit.relative <= 0.056
    assert usual.audit.lambda_min >= 1e-4


@pytest.mark.slow
def test_load_dependent_gear_friction_does_not_bias_the_model(rubbing: Identification, bags: Bags) -> None:
    """With published friction and all nuisances the model is accepted, with true gravity and rotor parameters."""
    assert rubbing.verdict.accepted, [check.sentence() for check in rubbing.verdict.failed]
    expected, names = truth(), rubbing.base.names
    for kind, least, close in (("M", 0.02, 0.05), ("IA", 1e-5, 0.1)):
        judged = [k for k, name in enumerate(names) if name.startswith(kind) and abs(expected[k]) > least]
        np.testing.assert_allclose(rubbing.base.values[judged], expected[judged], rtol=close)
    assert rubbing.friction is not None and rubbing.friction.depends_on_load
    held_out = rubbing.validations[0].errors
    assert held_out.moving < 0.08 and held_out.relative > 2 * held_out.moving  # the rest are joints that stick
    found = identify(ROBOT, [bags["rubbing"]], validation=[bags["rubbing_validation"]], settings=plain())
    assert held_out.moving < 0.5 * found.validations[0].errors.moving
    assert not found.verdict.accepted  # Coulomb and viscous friction alone: the case that is refused


@pytest.mark.slow
def test_essential_parameters_allow_load_dependent_gear_friction(rubbing: Identification, bags: Bags) -> None:
    """Friction adds rows to the samples; errors per axis must leave them out."""
    own = settings()
    samples = preprocess_recording(load_driver_recording(bags["rubbing"], ROBOT), ROBOT, own)
    found = estimator("essential").estimate(rubbing.model, samples, own.coulomb_friction)
    assert found.residual_sigma.shape == (ROBOT.size,) and 0 < np.count_nonzero(found.base.values) < 39
    trusted = found.regression.trusted.reshape(-1, ROBOT.size)
    assert len(trusted) > len(samples), "no rows beside the samples: nothing was tested"
    assert (found.residual_sigma > 0).all() and found.errors.moving < 0.15


@pytest.mark.slow
def test_ladder_selects_the_structure_of_the_gears(usual: Identification, rubbing: Identification) -> None:
    for found, wanted in ((usual, "Coulomb-viscous"), (rubbing, "directional")):
        block = found.model_file().friction_law
        assert block is not None and block.structure.split(",")[0] == wanted
        (taken,) = [rung for rung in block.ladder if rung.chosen]
        assert taken.name == block.structure and len(block.ladder) >= 7
        assert taken.held_out <= 1.05 * min(rung.held_out for rung in block.ladder)
        stated = found.model_file().torque_deviations
        assert stated is not None and np.shape(stated.deviations_nm) == (len(stated.speeds_rad_s) + 1, ROBOT.size)
        assert (np.array(stated.deviations_nm[-1]) < np.array(stated.deviations_nm[0])).all()  # sticking is not known
        again = found.model_file().friction()
        assert again is not None and found.friction is not None
        np.testing.assert_array_equal(again.values, found.friction.values)


@pytest.mark.slow
def test_coulomb_friction_is_a_separate_result(usual: Identification, quiet: Identification, tmp_path: Path) -> None:
    expected = np.array(ROBOT.file.simulation.nuisances.coulomb_friction_nm)
    assert usual.friction is not None and quiet.friction is not None
    np.testing.assert_allclose(usual.friction["fb"], expected, rtol=0.1)
    assert quiet.friction["fb"].max() < 0.01 * expected.min()
    write_result(usual, tmp_path / "model")
    read = read_model_file(tmp_path / "model" / "model.yaml").friction()
    assert read is not None and read.terms == usual.friction.terms
    np.testing.assert_array_equal(read.values, usual.friction.values)
    plant = mujoco.MjModel.from_xml_path(str(tmp_path / "model" / "model.xml"))
    losses = [plant.joint(name).frictionloss[0] for name in ROBOT.joint_names]
    np.testing.assert_allclose(losses, usual.friction["fb"], atol=1e-6)


@pytest.mark.slow
def test_both_currents_are_compared(bags: Bags, usual: Identification) -> None:
    (check,) = [one for one in usual.verdict.checks if one.id == "torque_source"]
    assert check.name == "parameters from goal instead of present current"
    assert 0.0 < check.value < 0.01 and check.passed
    recording = load_driver_recording(bags["usual"], ROBOT)
    assert recording.applied is not None
    chosen = plain()
    applied, half = recording.applied, len(recording.applied.time) // 2
    wrong_unit = replace(recording, applied=TorqueSeries(applied.time, 1.2 * applied.tau))
    cut = replace(recording, applied=TorqueSeries(applied.time[:half], applied.tau[:half]))
    for other, passes in ((recording, True), (cut, True), (wrong_unit, False)):
        samples = preprocess_recording(other, ROBOT, chosen)
        estimate = estimator("ols").estimate(usual.model, samples, chosen.coulomb_friction)
        found = Fitted(usual.model, chosen, samples, estimate, usual.audit, usual.fit)
        (again,) = [one for one in judge(FITTED, [found], chosen).checks if one.id == "torque_source"]
        assert again.passed is passes and 0.0 < again.value < (0.02 if passes else 0.5)
        assert np.isnan(samples.other_tau).any() == (other is cut)


@pytest.mark.slow
def test_friction_that_is_ignored_costs_accuracy(bags: Bags, usual: Identification) -> None:
    chosen = settings()
    ignored = chosen.coulomb_friction.model_copy(update={"treatment": "ignored"})
    found = identify(
        ROBOT,
        [bags["usual"]],
        validation=[bags["usual_validation"]],
        settings=chosen.model_copy(update={"coulomb_friction": ignored}),
    )
    assert found.friction is None and found.model_file().friction_law is None
    assert found.validations[0].errors.relative > 1.5 * usual.validations[0].errors.relative


@pytest.mark.slow
def test_without_coulomb_friction_the_error_stays_within_3_percent(bags: Bags) -> None:
    found = identify(
        ROBOT,
        [bags["no_coulomb"]],
        validation=[bags["no_coulomb_validation"]],
        settings=plain(relative_torque_error=0.03),
    )
    assert found.verdict.accepted, [check.sentence() for check in found.verdict.failed]


@pytest.mark.slow
def test_without_any_nuisance_the_truth_is_recovered(quiet: Identification) -> None:
    """In the metric of the torques: parameters that the motion hardly shows may differ a little more than others."""
    expected = truth()
    assert np.abs(quiet.estimate.base.values - expected).max() < 0.01 * np.abs(expected).max()
    model, rng = ArmModel.of(ROBOT), np.random.default_rng(5)
    q = rng.uniform(ROBOT.lower, ROBOT.upper, (200, 8))
    dq, ddq = rng.uniform(-2, 2, (200, 8)), rng.uniform(-10, 10, (200, 8))
    W = model.regressor(q, dq, ddq).reshape(-1, 39)
    difference = W @ (quiet.base.values - expected)
    assert np.linalg.norm(difference) < 0.01 * np.linalg.norm(W @ expected)
    assert quiet.validations[0].errors.relative < 0.005


@pytest.mark.slow
def test_coulomb_friction_biases_parameters_beyond_tolerance(usual: Identification, quiet: Identification) -> None:
    """Control case of the recovery above: Coulomb friction moves the parameters much farther."""
    expected = truth()
    near = np.linalg.norm(quiet.base.values - expected)
    assert np.linalg.norm(usual.base.values - expected) > 10 * near


@pytest.mark.slow
def test_the_mount_comes_from_the_bag(bags: Bags, quiet: Identification) -> None:
    """A hanging arm's motion is predicted by the model of the standing one: gravity is the recording's."""
    found = identify(ROBOT, [bags["hanging"]], settings=plain())
    assert found.mount == "hanging" and found.model.gravity[2] == pytest.approx(9.80665)
    expected = truth("hanging")
    np.testing.assert_allclose(expected, truth(), atol=1e-12)
    gravity_terms = [k for k, name in enumerate(found.base.names) if name.startswith("M")]
    assert np.abs(found.base.values - expected)[gravity_terms].max() < 2e-3


# -- verdicts that reject --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_too_large_an_error_is_rejected_by_name(bags: Bags) -> None:
    strict = plain(relative_torque_error=0.005)
    found = identify(ROBOT, [bags["usual"]], validation=[bags["usual_validation"]], settings=strict)
    assert not found.verdict.accepted
    assert {check.name for check in found.verdict.failed} == {
        "relative torque error, identification",
        "relative torque error, usual_validation",
    }
    told = json.loads(found.verdict_json())
    assert told["accepted"] is False and sum(not check["passed"] for check in told["checks"]) == 2
    assert found.model_file().accepted is False


@pytest.mark.slow
def test_a_motion_that_does_not_show_all_parameters_is_rejected(bags: Bags) -> None:
    found = identify(ROBOT, [bags["usual"]], settings=plain(condition_number=5.0))
    assert [check.name for check in found.verdict.failed] == ["condition number of the regressor"]


@pytest.mark.slow
def test_a_bag_that_was_identified_from_is_no_held_out_bag(bags: Bags) -> None:
    with pytest.raises(DataError, match="identified from"):
        identify(ROBOT, [bags["usual"]], validation=[bags["usual"]], settings=plain())


# -- results ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_written_files_contain_the_result(usual: Identification, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "model"
    write_result(usual, folder)
    names = sorted(path.name for path in folder.iterdir())
    written = ["bam", "belief.npz", "model.urdf", "model.xml", "model.yaml", "predictions.npz", "report.html"]
    assert names == [*written, "rotor_inertias.yaml"]
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    read = read_model_file(folder / "model.yaml")
    model = ArmModel.of(ROBOT, mount=read.mount)
    phi = read.base_parameters(model)
    np.testing.assert_array_equal(phi.values, usual.base.values)
    assert read.accepted and read.verdict == usual.verdict.checks and read.feasibility == "consistent"
    assert [(row["sha256"], row["used"]) for row in read.provenance["bags"]] == [one[1:] for one in usual.sources]
    regrouped = model.base_parameters(read.standard_parameters(model)).values
    np.testing.assert_allclose(regrouped, phi.values, atol=1e-9)


def test_the_urdf_has_the_models_torques(usual: Identification, tmp_path: Path) -> None:
    """pinocchio on the written file, rotors and viscous friction aside, against the base parameters."""
    write_result(usual, tmp_path / "model")
    full = pinocchio.buildModelFromUrdf(str(tmp_path / "model" / "model.urdf"))
    names = ROBOT.joint_names[: ROBOT.chain_size]
    locked = [index for index, name in enumerate(full.names) if index and name not in names]
    chain = pinocchio.buildReducedModel(full, locked, pinocchio.neutral(full))
    chain.gravity.linear = np.array(usual.model.gravity)
    data, rng, n = chain.createData(), np.random.default_rng(2), len(names)
    q = rng.uniform(ROBOT.lower, ROBOT.upper, (50, 8))
    zero = np.zeros_like(q)
    expected = usual.model.inverse_dynamics(q, zero, zero, usual.base)[:, :n]
    found = np.array([pinocchio.computeGeneralizedGravity(chain, data, one[:n]) for one in q])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    M = usual.model.inertia_matrix(q, usual.base)[:, :n, :n]
    rotors = np.diag(usual.standard.axis("IA")[:n])
    for one, wanted in zip(q, M, strict=True):
        crba = pinocchio.crba(chain, data, one[:n])
        np.testing.assert_allclose(np.triu(crba) + np.triu(crba, 1).T + rotors, wanted, atol=1e-8)


def test_an_existing_folder_is_refused_and_left_alone(usual: Identification, tmp_path: Path) -> None:
    kept = tmp_path / "model" / "model.yaml"
    kept.parent.mkdir()
    kept.write_text("mine")
    with pytest.raises(OutputExistsError, match="model"):
        write_result(usual, kept.parent)
    assert kept.read_text() == "mine" and [path.name for path in tmp_path.iterdir()] == ["model"]


def test_nothing_is_written_when_writing_fails(
    usual: Identification, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "rotor_inertias", full)
    with pytest.raises(OutputWriteError, match="no space left on device; free some space"):
        write_result(usual, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# -- input that does not fit -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_bags_of_different_mounts_are_refused(bags: Bags) -> None:
    with pytest.raises(DataError, match=r"hanging.*upright|upright.*hanging"):
        identify(ROBOT, [bags["quiet"], bags["hanging"]], settings=settings())


@pytest.mark.slow
def test_a_bag_that_does_not_exist_is_refused_before_any_work(bags: Bags, tmp_path: Path) -> None:
    stages: list[str] = []
    with pytest.raises(InputNotFoundError, match="nowhere"):
        identify(ROBOT, [bags["quiet"], tmp_path / "nowhere"], settings=settings(), progress=stages.append)
    assert all(stage.startswith("reading") for stage in stages)


def test_an_identification_without_bags_is_refused() -> None:
    with pytest.raises(DataError, match="bag"):
        identify(ROBOT, [], settings=settings())


@pytest.mark.slow
def test_an_unknown_estimator_is_refused(bags: Bags) -> None:
    unknown = settings().model_copy(update={"estimator": "nope"})
    with pytest.raises(UnknownNameError, match="nope"):
        identify(ROBOT, [bags["quiet"]], settings=unknown)


@pytest.mark.slow
def test_two_bags_give_more_samples_than_one(bags: Bags, quiet: Identification) -> None:
    both = identify(ROBOT, [bags["quiet"], bags["quiet_validation"]], settings=plain())
    assert both.fit.relative < 0.005 and len(both.sources) == 2
    assert both.estimate.base.standard_deviations is not None
    expected = truth()
    assert np.abs(both.base.values - expected).max() < 0.01 * np.abs(expected).max()
