"""`dynid simulate` and `dynid validate`: bags appear whole, reproducibly, and never over others."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import DataError, OutputExistsError, UnknownNameError
from dynid.recording.bag_reader import read_bag
from dynid.recording.recording import load_recording
from dynid.robot import load_robot
from dynid.simulation.lockstep.bag_jobs import chosen_names

SETTING = ["--profile", "paper", "--mount", "hanging", "--without", "coulomb"]


def simulate(out: Path, *arguments: str) -> dict:
    result = CliRunner().invoke(app, ["simulate", *arguments, "--out", str(out), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bags")
    simulate(folder, "V01", "--trials", "2", "--seed", "3", *SETTING)
    return folder


@pytest.mark.slow
def test_trials_differ_and_seeds_repeat(bags: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in bags.iterdir()) == ["V01-1", "V01-2"]
    simulate(tmp_path, "V01", "--seed", "4", *SETTING)
    digests = [read_bag(path).sha256() for path in (bags / "V01-1", bags / "V01-2", tmp_path / "V01")]
    assert digests[0] != digests[1]
    one, again = (load_recording(path) for path in (bags / "V01-2", tmp_path / "V01"))
    assert (one.tau_present == again.tau_present).all()
    assert one.hardware.mount == "hanging" and one.experiment is not None and one.experiment.profile == "paper"


def test_existing_bags_are_refused_before_anything_runs(bags: Path) -> None:
    before = sorted(bags.iterdir())
    with pytest.raises(OutputExistsError, match="V01-1"):
        simulate(bags, "V01", "--trials", "3")
    assert sorted(bags.iterdir()) == before


def test_names_and_patterns() -> None:
    known = ("PA01", "PA02", "PB01", "V01")
    assert chosen_names(["V01", "PA*", "PA01"], known) == ["V01", "PA01", "PA02"]
    with pytest.raises(UnknownNameError, match="PX"):
        chosen_names(["PX*"], known)


def test_nuisances_and_mounts_must_exist(tmp_path: Path) -> None:
    for arguments in (["--without", "gremlins"], ["--mount", "floating"], ["--profile", "wild"]):
        with pytest.raises(UnknownNameError, match=arguments[1]):
            simulate(tmp_path / "bags", "V01", *arguments)
    assert not (tmp_path / "bags").exists()


def test_validate_judges_a_model(bags: Path) -> None:
    good = CliRunner().invoke(app, ["validate", "nominal", str(bags / "V01-1"), str(bags / "V01-2"), "--json"])
    found = json.loads(good.stdout)
    assert good.exit_code == 0 and found["accepted"]
    row = found["bags"]["V01-1"]
    assert list(row["axes"]) == list(load_robot("crane_x7").joint_names)
    squares = [axis["rmse_nm"] ** 2 for axis in row["axes"].values()]
    assert row["rmse_nm"] ** 2 == pytest.approx(sum(squares) / len(squares))
    assert row["mne"] == pytest.approx(sum(axis["mne"] for axis in row["axes"].values()) / len(squares))
    assert 0.001 < row["relative"] < 0.08
    assert any(check["name"] == "relative torque error, V01-2" and check["passed"] for check in found["checks"])


def test_validate_rejects_a_wrong_model(bags: Path, tmp_path: Path) -> None:
    import yaml

    content = yaml.safe_load((load_robot("crane_x7").folder / "models" / "paper.yaml").read_text(encoding="utf-8"))
    for row in content["parameters"]:
        row["value"] *= 1.5
    wrong = tmp_path / "model.yaml"
    wrong.write_text(yaml.safe_dump(content), encoding="utf-8")
    result = CliRunner().invoke(app, ["validate", str(wrong), str(bags / "V01-1"), "--json"])
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and not found["accepted"]
    failed = {check["name"] for check in found["checks"] if not check["passed"]}
    assert failed == {"relative torque error, V01-1", "relative torque error of the worst joint, V01-1"}
    content["torque_constants_nm_per_a"][0] *= 2.0
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump(content), encoding="utf-8")
    refused = CliRunner().invoke(app, ["validate", str(other), str(bags / "V01-1")])
    assert isinstance(refused.exception, DataError) and "torque constants" in str(refused.exception)
