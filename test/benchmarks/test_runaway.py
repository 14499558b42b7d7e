"""The table "run away": a reduced run, and a violation of each requirement."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.faults.runaway import CASES, EFFORTS, MODELS, PRESSED_S, judged, run_case, runaway_rows

from dynid.control.guiding import Guiding
from dynid.control.model_laws import ComputedTorque, GravityCompensation
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")


def test_no_joint_runs_away_in_one_case_of_each_kind() -> None:
    found = [run_case(ROBOT, *case, seed=k) for k, case in enumerate(CASES)]
    assert [row.cause for row in runaway_rows(found)] == [*EFFORTS, *MODELS, *MODELS]
    assert not any(one.violations for one in found), found
    assert sum(not one.refused for one in found) >= 4 and max(one.error_rad for one in found) > 0.1


def test_a_wrong_model_does_not_drive_the_arm_from_hold_to_hold() -> None:
    """With the turned sign of joint 1 and holds by the same law, that joint swung by 154 deg within 2.5 s."""
    found = run_case(ROBOT, MODELS[1], ComputedTorque.name, seed=157)
    assert found.released and found.violations == () and 20.0 < np.rad2deg(found.error_rad) < 21.0


def arm(error_deg: float = 1.0, pressed_s: float = 0.0, guided: float = 0.0) -> Any:
    """Return the state of an arm after its case, as the judge reads it."""
    pressed = pressed_s * np.eye(ROBOT.size)[4]
    motion, start = SimpleNamespace(active=True), np.zeros(ROBOT.size) if guided else None
    error = np.deg2rad(error_deg)
    return SimpleNamespace(error_rad=error, pressed_s=pressed, robot=ROBOT, motion=motion, taken_over=start)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ""),
        ({"error_deg": 25.0}, ""),
        ({"error_deg": 25.2}, "25.2 deg off its reference, at most 25.1 deg"),
        ({"error_deg": float("nan")}, "nan deg off"),
        ({"error_deg": 4.9, "guided": 1.0}, ""),
        ({"error_deg": 5.1, "guided": 1.0}, "5.1 deg off where the law took over, at most 5.0 deg"),
        ({"pressed_s": PRESSED_S}, ""),
        ({"pressed_s": 2.0}, f"{ROBOT.joint_names[4]} is pressed on its limit for 2.0 s"),
    ],
)
def test_an_arm_that_runs_away_or_presses_on_a_limit_violates(given: dict[str, float], words: str) -> None:
    found = judged(arm(**given), *CASES[0], seed=7)
    assert bool(found.violations) == bool(words) and all(words in one for one in found.violations)
    (row,) = runaway_rows([found])
    assert row.violations == bool(words) and all("seed 7" in one for one in row.findings)


def test_a_guiding_law_of_a_wrong_mount_runs_away_without_its_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guiding, "update", lambda self, dt, q, tau: tau)
    found = [run_case(ROBOT, "wrong mount", GravityCompensation.name, seed) for seed in range(4)]
    assert any("off where the law took over" in text for one in found for text in one.violations), found
