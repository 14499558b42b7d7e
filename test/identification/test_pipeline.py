"""From bag to model on lock-step runs: recovery of the truth, verdicts that reject, results written whole or not."""

import json
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pinocchio
import pytest

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DataError, InputNotFoundError, OutputExistsError, UnknownNameError
from dynid.identification.model_file import load_model
from dynid.identification.pipeline import Identification, identify, write_result
from dynid.identification.preprocessing import preprocess_recording
from dynid.identification.regression import Regression
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.identification.torque_source import torque_source_check
from dynid.model.dynamics import ArmModel
from dynid.model.standard import from_file
from dynid.recording.recording import TorqueSeries, load_recording
from dynid.robot import load_robot
from dynid.simulation import export
from dynid.simulation.lockstep import simulate
from dynid.simulation.nuisances import NUISANCES
from dynid.simulation.plant import nominal_standard
from dynid.simulation.simulated_bag import write_bag
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")
CONTROLLER = load_controller(ROBOT)
MOTIONS = load_excitation(ROBOT)
FEW_POSES = 20_000
# What the lock-step run cannot have, delay and hold aside, is switched off; the rest is the model's own physics.
QUIET = tuple(sorted(set(NUISANCES) - {"delay"}))


def bag(folder: Path, motion: str, off: tuple[str, ...] = (), seed: int = 1, mount: str | None = None) -> Path:
    run = simulate(
        ROBOT, MOTIONS.trajectory(motion), FeedforwardPd(CONTROLLER), switched_off=off, seed=seed, mount=mount
    )
    write_bag(run, ROBOT, CONTROLLER, folder, profile="limited")
    return folder


def settings(**acceptance: float) -> IdentificationSettings:
    loaded = load_identification(ROBOT)
    limits = loaded.acceptance.model_copy(update={"fresh_poses": FEW_POSES, **acceptance})
    return loaded.model_copy(update={"acceptance": limits})


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bags")
    return {
        "usual": bag(folder / "usual", "demo_identification"),
        "usual_validation": bag(folder / "usual_validation", "demo_validation", seed=2),
        "no_coulomb": bag(folder / "no_coulomb", "demo_identification", ("coulomb",)),
        "no_coulomb_validation": bag(folder / "no_coulomb_validation", "demo_validation", ("coulomb",), seed=2),
        "quiet": bag(folder / "quiet", "demo_identification", QUIET),
        "quiet_validation": bag(folder / "quiet_validation", "demo_validation", QUIET),
        "hanging": bag(folder / "hanging", "demo_validation", QUIET, mount="hanging"),
    }


@pytest.fixture(scope="module")
def usual(bags: dict[str, Path]) -> Identification:
    return identify(ROBOT, [bags["usual"]], validation_bags=[bags["usual_validation"]], settings=settings())


@pytest.fixture(scope="module")
def quiet(bags: dict[str, Path]) -> Identification:
    return identify(ROBOT, [bags["quiet"]], validation_bags=[bags["quiet_validation"]], settings=settings())


def truth(mount: str | None = None) -> np.ndarray:
    model = ArmModel.of(ROBOT, mount=mount)
    return model.base_parameters(from_file(nominal_standard(ROBOT), model.mdh)).values


# -- how good the model is -------------------------------------------------------------------------------------


def test_with_all_nuisances_the_model_is_accepted(usual: Identification) -> None:
    assert usual.verdict.accepted, [check.sentence() for check in usual.verdict.failed]
    assert len(usual.base.names) == 39 and usual.estimate.rank == 39
    assert 0.01 < usual.validations[0].errors.relative <= 0.10
    assert usual.audit.lambda_min >= 1e-4


def test_coulomb_friction_is_a_result_of_its_own(usual: Identification, quiet: Identification, tmp_path: Path) -> None:
    expected = np.array(ROBOT.file.simulation.nuisances.coulomb_friction_nm)
    assert usual.friction is not None and quiet.friction is not None
    np.testing.assert_allclose(usual.friction.values, expected, rtol=0.1)
    assert quiet.friction.values.max() < 0.01 * expected.min()
    write_result(usual, tmp_path / "model")
    read = load_model(tmp_path / "model" / "model.yaml").friction()
    assert read is not None and read.names == usual.friction.names
    np.testing.assert_array_equal(read.values, usual.friction.values)
    plant = mujoco.MjModel.from_xml_path(str(tmp_path / "model" / "model.xml"))
    losses = [plant.joint(name).frictionloss[0] for name in ROBOT.joint_names]
    np.testing.assert_allclose(losses, usual.friction.values, atol=1e-6)


def test_both_currents_are_compared(bags: dict[str, Path], usual: Identification) -> None:
    name = "parameters from goal instead of present current"
    (check,) = [one for one in usual.verdict.checks if one.name == name]
    assert 0.0 < check.value < 0.01 and check.passed
    recording = load_recording(bags["usual"], ROBOT)
    assert recording.applied is not None
    model, chosen = ArmModel.of(ROBOT), load_identification(ROBOT)
    regression = Regression.stack(model, preprocess_recording(recording, ROBOT, chosen), chosen.coulomb_friction)
    wrong_unit = replace(recording, applied=TorqueSeries(recording.applied.time, 1.2 * recording.applied.tau))
    other = preprocess_recording(wrong_unit, ROBOT, chosen, torque_source="goal")
    assert not torque_source_check(model, chosen, regression, other).passed


def test_friction_that_is_ignored_costs_accuracy(bags: dict[str, Path], usual: Identification) -> None:
    chosen = load_identification(ROBOT)
    ignored = chosen.coulomb_friction.model_copy(update={"treatment": "ignored"})
    found = identify(
        ROBOT, [bags["usual"]], validation_bags=[bags["usual_validation"]],
        settings=chosen.model_copy(update={"coulomb_friction": ignored}),
    )  # fmt: skip
    assert found.friction is None and found.model_file().coulomb_friction is None
    assert found.validations[0].errors.relative > 1.5 * usual.validations[0].errors.relative


def test_without_coulomb_friction_three_percent_are_left(bags: dict[str, Path]) -> None:
    found = identify(
        ROBOT,
        [bags["no_coulomb"]],
        validation_bags=[bags["no_coulomb_validation"]],
        settings=settings(relative_torque_error=0.03),
    )
    assert found.verdict.accepted, [check.sentence() for check in found.verdict.failed]


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


def test_the_true_model_is_far_from_the_one_with_friction(usual: Identification, quiet: Identification) -> None:
    """The case that the recovery above rejects: Coulomb friction moves the parameters by far more."""
    expected = truth()
    near = np.linalg.norm(quiet.base.values - expected)
    assert np.linalg.norm(usual.base.values - expected) > 10 * near


def test_the_mount_comes_from_the_bag(bags: dict[str, Path], quiet: Identification) -> None:
    """A hanging arm's motion is predicted by the model of the standing one: gravity is the recording's."""
    found = identify(ROBOT, [bags["hanging"]], settings=settings())
    assert found.mount == "hanging" and found.model.gravity[2] == pytest.approx(9.80665)
    expected = truth("hanging")
    np.testing.assert_allclose(expected, truth(), atol=1e-12)
    gravity_terms = [k for k, name in enumerate(found.base.names) if name.startswith("M")]
    assert np.abs(found.base.values - expected)[gravity_terms].max() < 2e-3


# -- verdicts that reject --------------------------------------------------------------------------------------


def test_too_large_an_error_is_rejected_by_name(bags: dict[str, Path]) -> None:
    strict = settings(relative_torque_error=0.02)
    found = identify(ROBOT, [bags["usual"]], validation_bags=[bags["usual_validation"]], settings=strict)
    assert not found.verdict.accepted
    assert {check.name for check in found.verdict.failed} == {
        "relative torque error, identification",
        "relative torque error, usual_validation",
    }
    told = json.loads(found.verdict_json())
    assert told["accepted"] is False and sum(not check["passed"] for check in told["checks"]) == 2
    assert found.model_file().accepted is False


def test_a_motion_that_does_not_show_all_parameters_is_rejected(bags: dict[str, Path]) -> None:
    found = identify(ROBOT, [bags["usual"]], settings=settings(condition_number=5.0))
    assert [check.name for check in found.verdict.failed] == ["condition number of the regressor"]


def test_a_bag_that_was_identified_from_is_no_held_out_bag(bags: dict[str, Path]) -> None:
    with pytest.raises(DataError, match="identified from"):
        identify(ROBOT, [bags["usual"]], validation_bags=[bags["usual"]])


# -- results ---------------------------------------------------------------------------------------------------


def test_what_is_written_is_the_result(usual: Identification, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "model"
    write_result(usual, folder)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["model.urdf", "model.xml", "model.yaml", "rotor_inertias.yaml"]
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    read = load_model(folder / "model.yaml")
    model = ArmModel.of(ROBOT, mount=read.mount)
    phi = read.base_parameters(model)
    np.testing.assert_array_equal(phi.values, usual.base.values)
    assert read.accepted and read.verdict == usual.verdict.checks and read.feasibility == "consistent"
    assert [entry["sha256"] for entry in read.provenance["bags"]] == [sha for _, sha in usual.sources]
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
    with pytest.raises(OSError, match="No space"):
        write_result(usual, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# -- input that does not fit -----------------------------------------------------------------------------------


def test_bags_of_different_mounts_are_refused(bags: dict[str, Path]) -> None:
    with pytest.raises(DataError, match=r"hanging.*upright|upright.*hanging"):
        identify(ROBOT, [bags["quiet"], bags["hanging"]], settings=settings())


def test_a_bag_that_does_not_exist_is_refused_before_any_work(bags: dict[str, Path], tmp_path: Path) -> None:
    stages: list[str] = []
    with pytest.raises(InputNotFoundError, match="nowhere"):
        identify(ROBOT, [bags["quiet"], tmp_path / "nowhere"], settings=settings(), progress=stages.append)
    assert all(stage.startswith("reading") for stage in stages)


def test_no_bag_at_all_is_refused() -> None:
    with pytest.raises(DataError, match="bag"):
        identify(ROBOT, [], settings=settings())


def test_an_unknown_estimator_is_refused(bags: dict[str, Path]) -> None:
    unknown = settings().model_copy(update={"estimator": "nope"})
    with pytest.raises(UnknownNameError, match="nope"):
        identify(ROBOT, [bags["quiet"]], settings=unknown)


def test_two_bags_give_more_samples_than_one(bags: dict[str, Path], quiet: Identification) -> None:
    both = identify(ROBOT, [bags["quiet"], bags["quiet_validation"]], settings=settings())
    assert both.fit.relative < 0.005 and len(both.sources) == 2
    assert both.estimate.base.standard_deviations is not None
    expected = truth()
    assert np.abs(both.base.values - expected).max() < 0.01 * np.abs(expected).max()
