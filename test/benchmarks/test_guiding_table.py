"""The table "guiding": a reduced run, and a violation of each requirement."""

import pytest
from benchmarks.faults.guiding import APPEARS, CAUSES, Guided, guided_rows, run_case
from benchmarks.faults.table import fault_document

from dynid.control.guiding import Guiding
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")


def test_one_case_of_each_kind_is_within_its_limits() -> None:
    found = [run_case(ROBOT, cause, seed) for seed, cause in enumerate(CAUSES)]
    assert [row.cause for row in guided_rows(found)] == list(CAUSES)
    assert not any(one.violations for one in found), found


@pytest.mark.parametrize(
    ("speed", "way", "words"),
    [
        (0.5, 0.1, ""),
        (0.52, 0.05, "the tool moved at 0.52 m/s"),
        (0.3, 0.11, "the tool moved by 0.110 m"),
        (float("nan"), 0.0, "nan m/s"),
    ],
)
def test_a_fast_or_a_long_fall_violates(speed: float, way: float, words: str) -> None:
    one = Guided(APPEARS, 7, 0.5, speed, way, "")
    assert bool(one.violations) == bool(words) and all(words in text for text in one.violations)
    (row,) = guided_rows([one])
    assert row.violations == bool(words) and all("seed 7" in text for text in row.findings)
    assert f"| {APPEARS} | 1 | 0 | {speed:.2f} | {way:.3f} | {int(bool(words))} |" in fault_document(
        [], [], [row], "", 1.0
    )


def test_appearing_loads_are_violations_without_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guiding, "update", lambda self, dt, q, tau: tau)
    found = [run_case(ROBOT, APPEARS, seed) for seed in range(4)]
    assert sum(bool(one.violations) for one in found) >= 2, found
