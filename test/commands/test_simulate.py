"""`dynid simulate` and `dynid validate`: complete and reproducible bags, which are never overwritten."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import DataError, OutputExistsError, UnknownNameError
from dynid.recording.bag_metadata import Topic
from dynid.recording.bag_reader import read_bag
from dynid.recording.bag_writer import BagWriter
from dynid.recording.driver_recording import load_driver_recording
from dynid.recording.messages import encode_string
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
    one, again = (load_driver_recording(path) for path in (bags / "V01-2", tmp_path / "V01"))
    assert (one.tau_present == again.tau_present).all()
    assert one.hardware.mount == "hanging" and one.experiment is not None and one.experiment.profile == "paper"


@pytest.mark.slow
def test_existing_bags_are_refused_before_anything_runs(bags: Path) -> None:
    before = sorted(bags.iterdir())
    with pytest.raises(OutputExistsError, match="V01-1"):
        simulate(bags, "V01", "--trials", "3")
    assert sorted(bags.iterdir()) == before


def test_trajectories_are_chosen_by_name_or_pattern() -> None:
    known = ("PA01", "PA02", "PB01", "V01")
    assert chosen_names(["V01", "PA*", "PA01"], known) == ["V01", "PA01", "PA02"]
    with pytest.raises(UnknownNameError, match="PX"):
        chosen_names(["PX*"], known)


def test_nuisances_and_mounts_must_exist(tmp_path: Path) -> None:
    for arguments in (["--without", "gremlins"], ["--mount", "floating"], ["--profile", "wild"]):
        with pytest.raises(UnknownNameError, match=arguments[1]):
            simulate(tmp_path / "bags", "V01", *arguments)
    assert not (tmp_path / "bags").exists()


@pytest.mark.slow
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
    assert found["simulated"] == ["V01-1", "V01-2"]


def as_if_real(bag: Path, folder: Path) -> Path:
    """Return the same bag with a driver that reports a real arm."""
    read = read_bag(bag)
    writer = BagWriter(folder, [Topic(one.name, one.message_type, one.qos) for one in read.topics.values()])
    writer.open()
    for name, topic in read.topics.items():
        for k, stamp in enumerate(topic.messages.log_ns):
            raw = topic.messages[k]
            if name == "/hardware_settings":
                raw = encode_string(raw[8:].rstrip(b"\0").decode().replace('"simulated":true', '"simulated":false'))
            writer.write(name, int(stamp), raw)
    writer.close()
    return folder


@pytest.mark.slow
def test_recordings_of_a_simulated_arm_are_reported_as_simulated(bags: Path, tmp_path: Path) -> None:
    said = "Recorded from a simulated arm, so no evidence about a real one: V01-1."
    real = as_if_real(bags / "V01-1", tmp_path / "V01-1")
    for bag, expected in ((bags / "V01-1", True), (real, False)):
        done = CliRunner().invoke(app, ["validate", "nominal", str(bag)])
        assert done.exit_code == 0 and (said in done.stdout) is expected


@pytest.mark.slow
def test_a_truncated_bag_is_reported_as_cut_off(bags: Path, tmp_path: Path) -> None:
    shutil.copytree(bags / "V01-1", tmp_path / "V01-1")
    (data,) = (tmp_path / "V01-1").glob("*.mcap")
    data.write_bytes(data.read_bytes()[: data.stat().st_size * 3 // 4])
    text = CliRunner().invoke(app, ["validate", "nominal", str(tmp_path / "V01-1")]).stdout
    assert "the file is cut off" in text
    assert "cut off" not in CliRunner().invoke(app, ["validate", "nominal", str(bags / "V01-1")]).stdout


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
    names = (
        "relative torque error",
        "relative torque error of the worst joint",
        "torque error over the noise of the data",
    )
    assert {f"{name}, V01-1" for name in names} <= failed
    content["torque_constants_nm_per_a"][0] *= 2.0
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump(content), encoding="utf-8")
    refused = CliRunner().invoke(app, ["validate", str(other), str(bags / "V01-1")])
    assert isinstance(refused.exception, DataError) and "torque constants" in str(refused.exception)
