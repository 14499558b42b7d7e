"""`dynid audit`: the published model is found indefinite, the nominal one is not."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import UnknownNameError
from dynid.robot import load_robot

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
def test_its_own_geometry_leaves_it_on_the_boundary() -> None:
    code, found = run("paper", "--profile", "paper")
    assert code == 1
    assert -5e-5 < found["lambda_min"] < 0.0


def test_the_nominal_model_is_positive_definite(tmp_path: Path) -> None:
    code, found = run("nominal")
    assert code == 0
    assert found["lambda_min"] > 0.004 and found["certificate"] == "searched"


def test_a_path_works_as_the_name_does(tmp_path: Path) -> None:
    shipped = load_robot("crane_x7").folder / "models" / "paper.yaml"
    copy = tmp_path / "model.yaml"
    content = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    copy.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert run(str(copy)) == run("paper") == run(str(tmp_path))


@pytest.mark.parametrize("arguments", [["nothing"], ["paper", "--profile", "nothing"]])
def test_unknown_names_are_named(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["audit", *arguments])
    assert isinstance(result.exception, UnknownNameError)
    assert "'nothing'" in str(result.exception)
