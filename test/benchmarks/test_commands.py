"""`./run benchmark`: a command group that accepts further benchmarks; results of `clie` as an object and as a table."""

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.cli import app
from benchmarks.faults import table_run
from benchmarks.speed import pipeline
from typer.testing import CliRunner

from dynid.errors import ConfigurationError, OutputExistsError

FIGURES = {"campaign_seconds": 67.25, "baseline_extrapolated": True, "machine": {"cores": 2}}


def test_the_group_lists_its_benchmarks() -> None:
    result = CliRunner().invoke(app, ["benchmark", "--help"])
    assert result.exit_code == 0 and "clie" in result.output


def test_json_and_table_contain_the_measured_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    def measure(robot: str, **options: Any) -> dict[str, Any]:
        asked.append({"robot": robot, **options})
        return FIGURES

    monkeypatch.setattr(pipeline, "benchmark_clie", measure)
    plain = ["benchmark", "clie", "--quick", "--mount", "upright", "--work", str(tmp_path / "new")]
    result = CliRunner().invoke(app, [*plain, "--json"], catch_exceptions=False)
    assert json.loads(result.stdout) == {"schema_version": 1} | FIGURES
    assert asked[0]["quick"] is True and asked[0]["work"] == tmp_path / "new" and asked[0]["plan"].mount == "upright"
    table = CliRunner().invoke(app, ["benchmark", "clie"], catch_exceptions=False).stdout
    assert "campaign_seconds" in table and "67.25" in table and "True" in table
    assert asked[1]["quick"] is False and asked[1]["plan"].profile == "paper"


def test_the_whole_fault_table_runs_on_an_arm_without_second_servos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_run, "in_processes", lambda _, jobs, __: ((job, [_outcome(job)]) for job in jobs))
    words = ["benchmark", "faults", "--runs", "2", "--json"]
    none = ["--process-runs", "0", "--falls", "0", "--runaways", "0", "--contacts", "0", "--guided", "0"]
    result = CliRunner().invoke(app, [*words, *none], catch_exceptions=False)
    (row,) = json.loads(result.stdout)
    assert result.exit_code == 0 and row["runs"] == 2
    with pytest.raises(ConfigurationError, match="has no joint with several servos"):
        CliRunner().invoke(app, [*words, *none, "--fault", "second servo of a joint hot"], catch_exceptions=False)


def _outcome(job: table_run.SeedJob) -> table_run.Outcome:
    return table_run.Outcome("noise", job.seed, (), 0.0)


def test_an_existing_work_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputExistsError, match="exists"):
        CliRunner().invoke(app, ["benchmark", "clie", "--work", str(tmp_path)], catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []
