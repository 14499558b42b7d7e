"""`dynid campaign`: result, exit code, and what an existing output does."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import OutputExistsError


def test_one_bag_at_every_interval(tmp_path: Path) -> None:
    runner, bags, out = CliRunner(), tmp_path / "bags", tmp_path / "result"
    made = ["simulate", "PA01", "V01", "--profile", "paper", "--out", str(bags), "--json", "--seed", "2"]
    assert runner.invoke(app, made, catch_exceptions=False).exit_code == 0
    arguments = ["campaign", str(bags / "PA01"), str(bags / "nothing"), "--validate", str(bags / "V01")]
    result = runner.invoke(app, [*arguments, "--out", str(out), "--json"], catch_exceptions=False)
    found = json.loads(result.stdout)
    assert found["runs"] == 4 and found["reused"] == 0
    assert sum(row["total"] for row in found["routing"].values()) == 4
    assert list(found["failures"]) == ["nothing"]
    assert found["outcomes"]["feasible"] + found["outcomes"]["rescued"] + found["outcomes"]["refused"] == 4
    assert result.exit_code == (0 if found["accepted"] else 1)
    assert found["accepted"] == all(check["passed"] for check in found["checks"])
    names = {path.name for path in out.iterdir()}
    assert names == {
        "model.yaml", "model.xml", "model.urdf", "rotor_inertias.yaml", "campaign.json", "tables", "runs",
    }  # fmt: skip
    assert not (tmp_path / "result.runs").exists()
    before = (out / "model.yaml").read_bytes()
    with pytest.raises(OutputExistsError, match="result"):
        runner.invoke(app, [*arguments, "--out", str(out)], catch_exceptions=False)
    assert (out / "model.yaml").read_bytes() == before
    audited = runner.invoke(app, ["audit", str(out), "--poses", "65536", "--json"])
    assert audited.exit_code == 0 and json.loads(audited.stdout)["lambda_min"] >= 1e-4
