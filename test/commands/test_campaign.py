"""`dynid campaign`: result, exit code, and existing outputs."""

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import ConfigurationError, OutputExistsError
from dynid.robot import load_robot

pytestmark = pytest.mark.slow


def test_campaign_runs_one_bag_at_every_interval(tmp_path: Path) -> None:
    runner, bags, out = CliRunner(), tmp_path / "bags", tmp_path / "result"
    made = ["simulate", "PA01", "V01", "--profile", "paper", "--out", str(bags), "--json", "--seed", "2"]
    made += ["--friction", "viscous"]
    assert runner.invoke(app, made, catch_exceptions=False).exit_code == 0
    arguments = ["campaign", str(bags / "PA01"), str(bags / "nothing"), "--validate", str(bags / "V01")]
    result = runner.invoke(app, [*arguments, "--out", str(out), "--json"], catch_exceptions=False)
    found = json.loads(result.stdout)
    assert found["runs"] == 4 and found["reused"] == 0
    assert sum(row["total"] for row in found["routing"].values()) == 4
    assert list(found["failures"]) == ["nothing"]
    assert found["outcomes"]["feasible"] + found["outcomes"]["rescued"] + found["outcomes"]["refused"] == 4
    sound = found["accepted"] and all(check["passed"] for check in found["processing"])
    assert result.exit_code == (0 if sound else 1)
    assert found["accepted"] == all(check["passed"] for check in found["checks"])
    names = {path.name for path in out.iterdir()}
    assert names == {
        "model.yaml",
        "model.xml",
        "model.urdf",
        "rotor_inertias.yaml",
        "bam",
        "belief.npz",
        "campaign.json",
        "figures",
        "tables",
        "runs",
        "predictions.npz",
        "report.html",
    }
    assert not (tmp_path / "result.runs").exists()
    html = (out / "report.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])  # type: ignore[index]
    assert [len(one["x"]) for one in data["cloud"]["stages"].values()] == [found["outcomes"]["feasible"]] * 3
    assert data["conditioning"]["bags"] == ["PA01"] and data["conditioning"]["intervals"] == [10, 20, 40, 80]
    assert [(one["name"], one["kind"]) for one in data["motions"]] == [("V01", "held out"), ("PA01", "fitted")]
    assert found["reason"] in html and "OLS, SDP, CLIE" in html and "<strong>nothing</strong>" in html
    before = (out / "model.yaml").read_bytes()
    with pytest.raises(OutputExistsError, match="result"):
        runner.invoke(app, [*arguments, "--out", str(out)], catch_exceptions=False)
    assert (out / "model.yaml").read_bytes() == before
    assert yaml.safe_load(before)["friction_law"]["terms"][0]["symbol"] == "fb"
    audited = runner.invoke(app, ["audit", str(out), "--poses", "65536", "--json"])
    assert audited.exit_code == 0 and json.loads(audited.stdout)["lambda_min"] >= 1e-4


def test_a_campaign_uses_the_given_settings_file(tmp_path: Path) -> None:
    """The paper's way: Coulomb friction ignored; a settings file that is not valid is refused before any work."""
    runner, bags, out = CliRunner(), tmp_path / "bags", tmp_path / "result"
    made = ["simulate", "PA01", "--profile", "paper", "--out", str(bags), "--json", "--seed", "2"]
    assert runner.invoke(app, made, catch_exceptions=False).exit_code == 0
    shipped = load_robot("crane_x7").folder / "identification_paper.yaml"
    settings = tmp_path / "settings.yaml"
    settings.write_text(shipped.read_text(encoding="utf-8") + "campaign_intervals_s: [0.04, 0.06, 0.08]\n")
    arguments = ["campaign", str(bags / "PA01"), "--out", str(out), "--settings", str(settings), "--json"]
    found = json.loads(runner.invoke(app, arguments, catch_exceptions=False).stdout)
    assert found["runs"] == 3 and sorted(found["routing"]) == ["40", "60", "80"], found["routing"]
    assert yaml.safe_load((out / "model.yaml").read_text())["friction_law"] is None
    settings.write_text("schema_version: 1\nfriction: ignored\n")
    with pytest.raises(ConfigurationError, match="friction"):
        runner.invoke(app, [*arguments[:3], str(tmp_path / "other"), *arguments[4:]], catch_exceptions=False)
    assert not (tmp_path / "other").exists()
