"""`dynid excite`, `dynid elastic`, `dynid robot minimal-set`, `./run benchmark methods` as commands."""

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.cli import app
from benchmarks.studies import methods
from typer.testing import CliRunner

from dynid.control.motion_check import position_and_speed
from dynid.errors import OutputExistsError
from dynid.recording.bag_reader import read_bag
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.files import load_trajectory_file


def as_json(*words: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*map(str, words), "--json"], catch_exceptions=False)
    return dict(json.loads(result.stdout)) | {"exit_code": result.exit_code}


@pytest.mark.slow
def test_command_writes_a_one_joint_motion_that_can_be_simulated(tmp_path: Path) -> None:
    file = tmp_path / "alone.yaml"
    found = as_json("excite", "one-joint", "--out", file, "--periods", 2, "--postures", 1)
    assert found["kappa"] is None and found["rank"] < 39  # one posture is not enough
    robot = load_robot("crane_x7")
    assert [sine["joint"] for sine in found["sines"]] == list(reversed(robot.joint_names))
    motion = load_trajectory_file(file, load_excitation(robot), robot.rest_posture)
    position_and_speed(robot).check([motion])
    assert motion.duration == pytest.approx(found["duration_s"], abs=1e-6)
    with pytest.raises(OutputExistsError):
        as_json("excite", "one-joint", "--out", file)
    made = CliRunner().invoke(app, ["simulate", str(file), "--out", str(tmp_path / "bags")], catch_exceptions=False)
    assert made.exit_code == 0
    assert read_bag(tmp_path / "bags" / "alone").counts["/joint_states"] > 1000 * motion.duration


def test_command_prints_the_minimal_set() -> None:
    found = as_json("robot", "minimal-set", "lower_limb_3r", "--sets", 5)
    assert (found["rank"], found["invariant"], found["exit_code"]) == (9, True, 0)
    assert found["parameters"]["ZZ1"] == {"ZZ1": 1.0, "M2": 0.1296, "M3": 0.1296}  # as in Table 3


def test_set_that_depends_on_the_data_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynid.model.screws.same", lambda one, other: False)
    found = as_json("robot", "minimal-set", "lower_limb_3r", "--sets", 2)
    assert (found["invariant"], found["exit_code"]) == (False, 1)


def test_elastic_parameters_are_classified() -> None:
    found = as_json("elastic", "classify")
    assert set(found["kinds"].values()) == {"independent", "dependent", "unidentifiable"}
    assert found["kinds"]["K1"] == "independent"


def test_benchmark_prints_its_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "method_figures", lambda quick, progress: {"growth_exponent": 1.1, "quick": quick})
    assert as_json("benchmark", "methods", "--quick") == {
        "schema_version": 1,
        "growth_exponent": 1.1,
        "quick": True,
        "exit_code": 0,
    }


def test_the_minimal_set_is_the_same_for_100_random_sets() -> None:
    found = methods.minimal_set_figures()
    assert found == {"minimal_set_rank": 9, "minimal_set_same": 100, "minimal_set_random_sets": 100}
