"""`./run benchmark calls`: figures as JSON, and the bars that they may miss."""

import json
import shutil

import pytest
from benchmarks.cli import app
from benchmarks.speed import calls
from typer.testing import CliRunner


def test_compiled_calls_are_the_reference_on_all_robots_and_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "LIMITS_US", dict.fromkeys(calls.LIMITS_US, 1e9))  # a busy machine is no failure
    result = CliRunner().invoke(app, ["benchmark", "calls", "--states", "200", "--json"], catch_exceptions=False)
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["states"] == 200 and found["controller_us"] > 0.0
    kinds = 1 if shutil.which("gcc") is None else 3  # Python, and C with double and with float
    assert len([name for name in found if name.startswith("difference_")]) == 6 * kinds


def test_slow_calls_and_differences_are_named() -> None:
    figures = dict.fromkeys(calls.LIMITS_US, 1.0) | {"difference_crane_x7_plain": 1e-12}
    assert calls.missed(figures) == []
    figures |= {"difference_float_crane_x7_plain": 9e-5}
    assert calls.missed(figures) == []
    wrong = {"controller_us": 16.0, "difference_crane_x7_plain": 2e-9, "difference_float_crane_x7_plain": 2e-4}
    assert calls.missed(figures | wrong) == [
        "controller takes 16 us, required at most 15 us",
        "crane_x7_plain differs by 2e-09, required at most 1e-09",
        "float_crane_x7_plain differs by 0.0002, required at most 0.0001",
    ]
