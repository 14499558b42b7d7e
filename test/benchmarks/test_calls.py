"""`./run benchmark calls`: figures as JSON, and limits that can be exceeded."""

import json

import pytest
from benchmarks.cli import app
from benchmarks.speed import calls
from typer.testing import CliRunner


def test_compiled_calls_are_the_reference_on_all_robots_and_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "LIMITS_US", dict.fromkeys(calls.LIMITS_US, 1e9))  # a busy machine is no failure
    result = CliRunner().invoke(app, ["benchmark", "calls", "--states", "200", "--json"], catch_exceptions=False)
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["states"] == 200 and found["controller_us"] > 0.0
    assert len([name for name in found if name.startswith("difference_")]) == 6


def test_slow_calls_and_differences_are_named() -> None:
    figures = dict.fromkeys(calls.LIMITS_US, 1.0) | {"difference_crane_x7_plain": 1e-12}
    assert calls.missed(figures) == []
    found = calls.missed(figures | {"controller_us": 16.0, "difference_crane_x7_plain": 2e-9})
    assert found == [
        "controller takes 16 us, required at most 15 us",
        "crane_x7_plain differs by 2e-09, required at most 1e-09",
    ]
