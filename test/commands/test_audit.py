"""`dynid audit`: the published model is indefinite, the nominal model is positive definite."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import DataError, UnknownNameError
from dynid.identification.feasibility.pose_kernels import InertiaFunctions
from dynid.identification.feasibility.rounding import eigenvalue_rounding_error, rounding_of
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, load_robot
from dynid.runtime.model import load_model

POSES = ["--poses", "65536", "--json"]


def run(*arguments: str) -> tuple[int, dict]:
    result = CliRunner().invoke(app, ["audit", *arguments, *POSES])
    return result.exit_code, json.loads(result.stdout)


def test_the_published_model_is_indefinite() -> None:
    code, found = run("paper")
    assert code == 1
    assert found["certificate"] == "counterexample" and not found["positive_definite"]
    assert found["lambda_min"] == pytest.approx(-0.00208, abs=2e-5)
    assert found["pose_deg"][1:6] == pytest.approx([56, 2, -124, 90, 90], abs=2.0)
    assert found["poses_checked"] >= 65536


@pytest.mark.slow
def test_the_published_model_with_its_own_geometry_is_undecided() -> None:
    code, found = run("paper", "--profile", "paper")
    assert code == 1
    assert -5e-5 < found["lambda_min"] < 0.0
    assert found["positive_definite"] is None
    assert found["rounding_kg_m2"] == pytest.approx(3.9e-5, rel=0.02)
    words = CliRunner().invoke(app, ["audit", "paper", "--profile", "paper", "--poses", "65536"]).stdout
    assert "undecided within rounding" in words and "+-5e-06" in words


def test_undecided_margin_covers_the_worst_rounding() -> None:
    robot = load_robot("crane_x7")
    model = ArmModel.of(robot, mount="hanging")
    phi = load_model(robot.folder / "models" / "paper.yaml", robot).base.values
    pose, half = np.deg2rad([0.0, 56.4, 1.6, -123.4, 90.0, 90.0, 8.6, 0.0]), 5e-6

    def smallest(values: FloatArray) -> float:
        return float(np.linalg.eigvalsh(model.inertia_matrix(pose[None], BaseParameters(model.names, values))[0])[0])

    before, bound = smallest(phi), eigenvalue_rounding_error(InertiaFunctions(model), phi, pose, half)
    gradient = np.array([smallest(phi + 1e-6 * e) - smallest(phi - 1e-6 * e) for e in np.eye(len(phi))])
    assert smallest(phi + half * np.sign(gradient)) - before == pytest.approx(bound, rel=0.05)
    random = np.random.default_rng(0)
    moved = [smallest(phi + half * random.uniform(-1.0, 1.0, len(phi))) - before for _ in range(50)]
    assert 0.1 * bound < np.abs(moved).max() < bound


@pytest.mark.parametrize(
    ("values", "half"), [([0.0904, 0.01184, 3.0], 5e-6), ([2.0, 30.0], 0.5), ([1.5e-5, 0.0], 5e-7), ([0.0], 0.0)]
)
def test_rounding_is_that_of_the_last_decimal(values: list[float], half: float) -> None:
    assert rounding_of(values) == pytest.approx(half, abs=1e-16)
    assert rounding_of([*values, 1.0 / 3.0]) < 1e-15  # all digits of a double: not rounded


def test_the_nominal_model_is_positive_definite(tmp_path: Path) -> None:
    code, found = run("nominal")
    assert code == 0
    assert found["lambda_min"] > 0.004 and found["certificate"] == "searched"


def test_a_model_is_found_by_name_file_or_folder(tmp_path: Path) -> None:
    shipped = load_robot("crane_x7").folder / "models" / "paper.yaml"
    copy = tmp_path / "model.yaml"
    content = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    copy.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert run(str(copy)) == run("paper") == run(str(tmp_path))


@pytest.mark.parametrize("arguments", [["nothing"], ["paper", "--profile", "nothing"]])
def test_unknown_names_are_quoted_in_the_error(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["audit", *arguments])
    assert isinstance(result.exception, UnknownNameError)
    assert "'nothing'" in str(result.exception)


@pytest.mark.slow
def test_the_model_of_another_robot_is_refused_by_its_name(tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "config" / "crane_x7" / "models" / "paper.yaml"
    with pytest.raises(DataError, match="is a model of 'crane_x7', not of 'tx40': name its robot with --robot"):
        CliRunner().invoke(app, ["audit", str(path), "--robot", "tx40"], catch_exceptions=False)
