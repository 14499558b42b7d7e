"""`./run benchmark calls`: figures as JSON, and limits that can be exceeded."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.cli import app
from benchmarks.speed import calls
from benchmarks.speed.known_models import known_model, random_states, reference_load
from typer.testing import CliRunner

from dynid.runtime.c_folder import ambiguous_torques


def test_compiled_calls_equal_the_reference_on_all_robots_and_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "LIMITS_US", dict.fromkeys(calls.LIMITS_US, 1e9))  # a busy machine is no failure
    result = CliRunner().invoke(app, ["benchmark", "calls", "--states", "200", "--json"], catch_exceptions=False)
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["states"] == 200 and found["controller_us"] > 0.0
    kinds = 2 if shutil.which("gcc") is None else 4  # model and controller, and C with double and with float
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


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_float_is_compared_where_friction_has_one_solution() -> None:
    model = known_model("serial_9dof")
    found = calls.differences(model, 2 * calls.CHUNK)
    assert found["c_"] < calls.SAME and found["float_"] < 0.1 * calls.SAME_FLOAT


def test_ambiguous_torques_satisfy_the_friction_law_with_two_solutions() -> None:
    model = known_model("serial_9dof")
    assert model.friction_law is not None
    q, dq, ddq = random_states(9, 5000, seed=5000)
    two = ambiguous_torques(model, q, dq, ddq)
    assert 5 < two.sum() < 50
    te, wanted = reference_load(model, q, dq), replace(model, friction_law=None).torques(q, dq, ddq)
    share = np.arange(0.5, 1.5, 1e-5)[:, None]
    for marked, solutions in ((two, 2), (~two & (np.abs(te) > 5.0), 1)):
        rows, axes = (one[:20] for one in np.nonzero(marked))
        for row, axis in zip(rows, axes, strict=True):
            tm, rest = -share * te[row], np.ones_like(share)
            residual = tm - wanted[row] - model.friction_law.torque(rest * dq[row], tm, rest * te[row])
            signs = np.sign(residual[:, axis] * np.sign(tm[0, axis]))
            assert (np.diff(signs) > 0.0).sum() <= solutions
            assert solutions == 1 or (np.diff(signs) > 0.0).sum() == 2
