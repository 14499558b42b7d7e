"""Result of the pipeline benchmark: complete and consistent figures, and refusal of unmeasurable ones."""

import json
from collections import namedtuple
from pathlib import Path

import pytest
import yaml
from benchmarks.speed import pipeline
from benchmarks.speed.cold_start import fresh_process_seconds, simulate_and_identify
from benchmarks.speed.pipeline import Plan, benchmark_clie

from dynid.errors import DataError, OutputExistsError, UnknownNameError
from dynid.recording.bag_reader import read_bag
from dynid.recording.driver_recording import load_driver_recording
from dynid.robot import load_robot
from dynid.simulation.lockstep.bag_jobs import BagJob

pytestmark = pytest.mark.slow

PROMISED = {
    "campaign_seconds",
    "campaign_runs",
    "ag02_40ms_seconds",
    "ratio_plain",
    "ratio_compiled",
    "cost_relative_difference",
    "audit_poses_per_second",
    "simulate_realtime_factor",
    "compile_seconds",
}
SHORT = {
    "speed_factor": 0.9,
    "waypoints_deg": [
        [0, 0, 0, -90, 0, 0, 0, 0],
        [-30, 25, 35, -60, 40, 30, 40, 30],
        [20, -15, -20, -110, -30, -40, -30, 5],
        [-10, 10, -40, -50, 10, 20, 50, 40],
        [0, 0, 0, -90, 0, 0, 0, 0],
    ],
}
PLAN = Plan(identification=("V02",), held_out=("V01",), refined="short", interval_s=0.02)
COLD = iter((20.0, 3.0))


@pytest.fixture(scope="module")
def robot_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped robot with one more motion, so short that the plain baseline is quick."""
    shipped, folder = load_robot("crane_x7"), tmp_path_factory.mktemp("robot")
    for path in [*shipped.folder.glob("*.yaml"), *shipped.folder.glob("models/*.yaml")]:
        copy = folder / path.relative_to(shipped.folder)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
    for name, key, value in (
        ("robot", "urdf", str(shipped.urdf_path)),
        ("excitation", "trajectories", {"short": SHORT}),
    ):
        content = yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
        content[key] = content[key] | value if isinstance(value, dict) else value
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def measured(robot_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    work = tmp_path_factory.mktemp("work") / "new"
    with pytest.MonkeyPatch.context() as patch:  # the cold start compiles for half a minute
        patch.setattr(pipeline, "fresh_process_seconds", lambda job, cache: next(COLD))
        return benchmark_clie(str(robot_folder), quick=True, work=work, plan=PLAN), work


def test_every_promised_figure_is_there_and_plausible(measured: tuple[dict, Path]) -> None:
    figures, _ = measured
    assert figures.keys() >= PROMISED
    assert json.loads(json.dumps(figures)) == figures
    for name in PROMISED - {"cost_relative_difference"}:
        assert figures[name] > 0.0, name
    assert figures["compile_seconds"] == 20.0 and figures["start_seconds"] == 3.0
    assert figures["machine"]["cores"] >= 1 and figures["machine"]["libraries"]["numba"]


def test_extrapolated_baselines_are_marked_as_such(measured: tuple[dict, Path]) -> None:
    figures, _ = measured
    assert figures["baseline_extrapolated"] is True and "multiplied" in figures["baseline_note"]
    assert figures["baseline_simulations"] > 39  # at least one finite-difference Jacobian
    assert figures["ratio_plain"] == pytest.approx(figures["baseline_plain_seconds"] / figures["ag02_40ms_seconds"])
    assert figures["ratio_plain"] > figures["ratio_compiled"]
    difference = figures["refinement_cost"] / figures["baseline_cost"] - 1.0
    assert figures["cost_relative_difference"] == pytest.approx(difference)
    assert figures["cost_relative_difference"] < 5e-2  # 4 s of motion have several minima, and starts differ


def test_the_campaign_uses_bags_kept_in_the_work_folder(measured: tuple[dict, Path]) -> None:
    figures, work = measured
    assert sorted(path.name for path in (work / "bags").iterdir()) == ["V01", "V02", "short"]
    assert figures["bags_made"] == 1 and figures["simulate_trajectory"] == "short"  # two were made before
    assert load_driver_recording(work / "bags" / "V02").experiment.profile == "paper"  # type: ignore[union-attr]
    assert figures["campaign_runs"] == 4 == len(list((work / "campaign" / "runs").iterdir()))
    assert figures["campaign_processor_seconds"] > 0.0 and figures["campaign_clie_seconds"] > 0.0
    assert figures["campaign_feasible"] + len(figures["campaign_refused"]) == 4
    written = json.loads((work / "campaign" / "campaign.json").read_text(encoding="utf-8"))
    assert written["runs"] == 4 and list(written["held_out"]["result"]) == ["V01"]
    assert written["accepted"] == figures["campaign_accepted"]
    failed = [check["name"] for check in (*written["processing"], *written["checks"]) if not check["passed"]]
    assert figures["campaign_failed_checks"] == failed


def test_the_audit_finds_the_published_models_indefinite_pose(measured: tuple[dict, Path]) -> None:
    figures, _ = measured
    assert figures["audit_published_lambda_min"] == pytest.approx(-0.0021, abs=1e-4)
    assert figures["audit_finds_indefinite_seconds"] > 0.0


def test_impossible_measurements_are_refused_before_anything_runs(
    measured: tuple[dict, Path], robot_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OutputExistsError, match="new exists"):
        benchmark_clie(str(robot_folder), work=measured[1], plan=PLAN)
    with pytest.raises(UnknownNameError, match="unknown trajectory 'X"):
        benchmark_clie(str(robot_folder), work=tmp_path / "new", plan=Plan(identification=("X*",)))
    assert not (tmp_path / "new").exists()
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("benchmarks.speed.campaign.shutil.disk_usage", lambda folder: usage(9e9, 8.9e9, 1e8))
    with pytest.raises(DataError, match=r"need up to [4-9]\.\d GB, .* has 0\.1 GB free; .* --work"):
        benchmark_clie(str(robot_folder))


def test_a_cold_start_is_a_simulation_and_an_identification(tmp_path: Path) -> None:
    simulate_and_identify("crane_x7", "V01", "paper", "hanging", str(tmp_path / "bag"))
    assert read_bag(tmp_path / "bag").counts["/joint_states"] > 10_000
    job = BagJob("crane_x7", "V01", "paper", "floating", 0, (), tmp_path / "other")
    with pytest.raises(DataError, match=r"from V01: \S+ unknown mount 'floating'"):
        fresh_process_seconds(job, tmp_path / "cache")
