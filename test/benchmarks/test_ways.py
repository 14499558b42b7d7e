"""`./run benchmark ways`: identification, refinements and campaign on the same bags."""

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.cli import app
from benchmarks.studies import ways as study
from benchmarks.studies.ways import WAYS, Figures, benchmark_ways, compared, medians
from typer.testing import CliRunner

from dynid.errors import DataError, UnknownNameError
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")


def figures(parameters: float) -> Figures:
    return Figures(parameters, 0.01, 0.02, 0.1, 4.0)


def test_the_paper_alone_ignores_dry_friction() -> None:
    found = {name: way.settings(ROBOT).coulomb_friction.treatment for name, way in WAYS.items()}
    assert found.pop("paper") == "ignored" and set(found.values()) == {"estimated"}


def test_medians_are_taken_over_arms_and_figures() -> None:
    found = medians([figures(0.1), figures(0.3), figures(0.2)])
    assert found["parameters"] == 0.2 and found["processor_s"] == 4.0
    assert medians([]) == {}


def test_a_way_without_a_model_counts_no_arm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bags = [tmp_path / name for name in ("one", "two", "judge")]
    used: list[tuple[str, list[Path]]] = []
    said: list[str] = []

    def identify(robot: object, recordings: list[Path], *, method: str, **others: object) -> str:
        used.append((method, recordings))
        if method == "closed-loop":
            raise DataError("no model")
        return "found"

    monkeypatch.setattr(study, "write_bags", lambda *arguments: bags)
    monkeypatch.setattr(study, "identify", identify)
    monkeypatch.setattr(study, "judged", lambda *arguments: figures(0.1))
    found = benchmark_ways(ROBOT, "M6", 2, tmp_path, said.append, ways=("identify", "refined_all"))
    assert found["identify"]["arms"] == 2 and found["refined_all"] == {"arms": 0}
    assert used[:2] == [("regression", bags[:1]), ("closed-loop", bags[:2])]
    assert any("no model" in one for one in said)


def test_the_command_prints_every_kind_of_friction(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(robot: object, friction: str, arms: int, *others: object, **options: Any) -> dict[str, Any]:
        return {name: medians([figures(0.1)]) | {"arms": arms} for name in options["ways"]}

    monkeypatch.setattr(study, "benchmark_ways", measured)
    words = ["benchmark", "ways", "--arms", "3", "--only", "identify"]
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert found["M6"]["identify"]["arms"] == found["viscous"]["identify"]["arms"] == 3
    plain = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "friction viscous" in plain.stdout
    with pytest.raises(UnknownNameError):
        CliRunner().invoke(app, [*words, "--only", "guess"], catch_exceptions=False)


@pytest.mark.study
def test_an_arm_is_identified_and_judged(tmp_path: Path) -> None:
    arm = study.draw_arm(ROBOT, 0)
    ((name, found),) = compared(ROBOT, arm, ("demo_identification",), ("identify",), tmp_path, lambda stage: None)
    assert name == "identify" and found is not None
    assert 0.0 < found.parameters < 0.01 and 0.0 < found.gravity_nm < 0.2
    assert 0.0 < found.held_out < 0.15 and 0.0 < found.closed_loop_deg < 2.0 < found.processor_s
