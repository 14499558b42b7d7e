"""`dynid.identify` by every method: equal kinds of results and files, and refusal without a closed loop."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dynid
from dynid.cli import app
from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import ConfigurationError, DataError, UnknownNameError
from dynid.identification.closed_loop.recorded_loop import refuse_open_loop
from dynid.identification.result import Identification
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.identification.stages import METHODS, Method
from dynid.model.model_file import read_model_file
from dynid.recording.driver_recording import load_driver_recording
from dynid.resources import yaml_text
from dynid.robot import load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.families import load_excitation

pytestmark = pytest.mark.slow

ROBOT = load_robot("crane_x7")
DEFAULT = load_identification(ROBOT)
# Friction of a known structure and few poses: choosing and auditing would take most of the time.
SETTINGS = DEFAULT.model_copy(
    update={
        "campaign_intervals_s": (0.04, 0.06, 0.08),
        "coulomb_friction": DEFAULT.coulomb_friction.model_copy(update={"structure": "Coulomb-viscous"}),
        "acceptance": DEFAULT.acceptance.model_copy(update={"fresh_poses": 10_000}),
    }
)
FILES = {"bam", "belief.npz", "model.yaml", "model.urdf", "model.xml", "rotor_inertias.yaml", "predictions.npz"}
FILES |= {"report.html"}
OF_CAMPAIGN = {"campaign.json", "tables", "figures", "runs"}
STAGES: dict[Method, tuple[str, ...]] = {
    "regression": ("ols",),
    "closed-loop": ("ols", "clie"),
    "campaign": ("ols", "clie"),
}


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bags")
    excitation, controller = load_excitation(ROBOT), load_controller(ROBOT)
    motions = {"first": "demo_identification", "second": "demo_identification", "other": "demo_validation"}
    for seed, (name, motion) in enumerate(motions.items()):
        law = FeedforwardPd(controller)
        run = simulate(ROBOT, excitation.trajectory(motion), law, seed=seed, friction="viscous")
        write_bag(run, ROBOT, controller, folder / name, profile="limited")
    return folder


@pytest.fixture(scope="module")
def found(bags: Path) -> dict[str, Identification]:
    """One result by every method from the same bags."""
    return {method: identified(bags, method) for method in METHODS}


def used(bags: Path, method: str) -> list[Path]:
    """The bags to identify from; one is enough for a campaign."""
    return [bags / name for name in (("first",) if method == "campaign" else ("first", "second"))]


def identified(bags: Path, method: Any, **options: Any) -> Identification:
    chosen = {"settings": SETTINGS, "validation": bags / "other", "method": method} | options
    if method == "campaign":
        chosen = {"processes": 1} | chosen
    return dynid.identify(ROBOT, used(bags, method), **chosen)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_same_kind_of_result(
    bags: Path, found: dict[str, Identification], tmp_path: Path, method: Method
) -> None:
    result = found[method]
    assert result.verdict.accepted, result.verdict.failed
    judged = [check.id for check in result.verdict.checks]
    assert {"torque_error_held_out", "inertia_eigenvalue", "missed_cycles", "torque_error_fitted"} <= set(judged)
    assert ("refinement_converged" in judged) == (method != "regression")
    assert [one.name for one in result.validations] == ["other"] and result.validations[0].deviations is not None
    assert set(result.simulated) == {"other", *(bag.name for bag in used(bags, method))}
    assert result.deviations is not None
    out = tmp_path / "model"
    report = dynid.write_result(result, out)
    assert {path.name for path in out.iterdir()} == FILES | (OF_CAMPAIGN if method == "campaign" else set())
    file = read_model_file(out / "model.yaml")
    assert file.accepted and file.feasibility == "consistent" and file.provenance["method"] == method
    stages = file.provenance["stages"]
    assert tuple(one["name"] for one in stages) == (*STAGES[method], "result")
    assert all(one["lambda_min"] > 0.0 for one in stages if one["lambda_min"] is not None)
    html = report.read_text(encoding="utf-8")
    assert f"Method: {method}</h2>" in html and "Stages of the method" in html
    assert ("closed-loop refinement: converged after" in html) == (method != "regression")
    q, dq, ddq = np.random.default_rng(1).uniform(-1, 1, (3, 10, ROBOT.size))
    assert np.isfinite(dynid.load_model(out).torques(q, dq, ddq)).all()


def test_the_joint_refinement_starts_from_the_regression(found: dict[str, Identification]) -> None:
    first, refined = found["regression"], found["closed-loop"]
    np.testing.assert_allclose(refined.estimate.base.values, first.estimate.base.values)
    assert not np.allclose(refined.base.values, first.base.values, rtol=1e-6)
    assert "refined jointly over 2 closed loops" in refined.source
    assert "2 closed loops together; the input error fell by" in refined.refinement


def test_stored_runs_resume_a_campaign_and_move_to_the_result(bags: Path, tmp_path: Path) -> None:
    runs, out = tmp_path / "model.runs", tmp_path / "model"
    first = identified(bags, "campaign", runs=runs)
    assert first.campaign is not None and len(list(runs.iterdir())) == 3
    again = identified(bags, "campaign", runs=runs)
    assert again.campaign is not None and again.campaign.summary["reused"] == 3
    np.testing.assert_array_equal(again.base.values, first.base.values)
    dynid.write_result(again, out)
    assert not runs.exists() and len(list((out / "runs").iterdir())) == 3


def test_unknown_method_is_refused_with_the_choices(bags: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown method 'magic'; known: regression, closed-loop, campaign"):
        identified(bags, "magic")


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("closed-loop", {"held_out_share": 0.3}, "held_out_share belongs to method 'regression'"),
        ("campaign", {"setup": ["tilt"]}, "setup belongs to method 'regression'"),
        ("closed-loop", {"processes": 2}, "processes belongs to the methods 'regression' and 'campaign'"),
        ("closed-loop", {"runs": "runs"}, "runs belongs to method 'campaign'"),
    ],
)
def test_an_option_of_another_method_is_refused(bags: Path, method: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        identified(bags, method, **options)


@pytest.mark.parametrize("method", ["closed-loop", "campaign"])
def test_arrays_hold_no_closed_loop(method: Method) -> None:
    time = np.arange(0.0, 10.0, 0.01)
    q = np.sin(time)[:, None] * np.full(ROBOT.size, 0.2)
    arrays = dynid.recording_from_arrays(ROBOT, time, q, q, name="log")
    with pytest.raises(DataError, match=r"log lacks what closed-loop refinement needs: reference, .*'regression'"):
        dynid.identify(ROBOT, arrays, method=method, settings=SETTINGS)


def test_a_bag_without_reference_or_controller_is_refused_by_name(
    bags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = load_driver_recording(bags / "first", ROBOT)
    refuse_open_loop(whole)
    open_loop = replace(whole, reference=None, experiments=())
    with pytest.raises(DataError, match=r"first lacks .*: topics reference, experiment; record .*'ff_pd', or"):
        refuse_open_loop(open_loop)
    (experiment,) = whole.experiments
    other = replace(whole, experiments=(experiment.model_copy(update={"controller": "computed_torque"}),))
    with pytest.raises(DataError, match=r"first lacks .*gains of the control law 'ff_pd' \(it ran 'computed_torque'"):
        refuse_open_loop(other)
    for place in ("data.recordings.bags.driver_recording_of", "campaign.campaign.load_driver_recording"):
        monkeypatch.setattr(f"dynid.identification.{place}", lambda *_: open_loop)
    for method in ("closed-loop", "campaign"):
        with pytest.raises(DataError, match=r"first lacks .*topics reference, experiment"):
            dynid.identify(ROBOT, bags / "first", method=method, settings=SETTINGS)


@pytest.mark.parametrize("method", METHODS)
def test_the_command_identifies_by_every_method(bags: Path, tmp_path: Path, method: Method) -> None:
    folder, out = own_folder(tmp_path, SETTINGS), tmp_path / "model"
    arguments = ["identify", *used(bags, method), "--validate", bags / "other", "--method", method]
    arguments += ["--robot", folder, "--out", out, "--json"]
    done = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    result = json.loads(done.stdout)
    assert done.exit_code == 0 and result["accepted"] and result["method"] == method, result
    assert read_model_file(out / "model.yaml").provenance["method"] == method
    assert not out.with_name("model.runs").exists()
    assert ("campaign" in result) == (method == "campaign")


def test_the_command_names_the_methods(bags: Path, tmp_path: Path) -> None:
    arguments = ["identify", str(bags / "first"), "--out", str(tmp_path / "model"), "--method", "magic"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and all(method in done.output for method in METHODS)


def own_folder(tmp_path: Path, settings: IdentificationSettings) -> Path:
    """A copy of the robot with other settings."""
    root = Path(__file__).parents[2]
    for part in ("config", "urdf"):
        shutil.copytree(root / part / "crane_x7", tmp_path / "share" / part / "crane_x7")
    folder = tmp_path / "share" / "config" / "crane_x7"
    (folder / "identification.yaml").write_text(yaml_text(settings.model_dump(mode="json")), encoding="utf-8")
    return folder
