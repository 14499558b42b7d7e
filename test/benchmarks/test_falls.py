"""The table "falls": known postures from which the arm fell, the judge, and the random postures."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.faults.falls import CAUSES, MOUNTS, Fall, FallRun, Landing, draw, fall_rows
from benchmarks.faults.table import fault_document

from dynid.hardware.safety.settings import load_safety
from dynid.robot import Robot

NEARLY_UPRIGHT = (
    Fall((0.0, 0.0, 0.0, -3.0, 0.0, 0.0, 0.0, 0.0), payload_kg=0.5, cause="disable"),
    Fall((0.0, 2.0, 0.0, -2.0, 0.0, 0.0, 0.0, 0.0), cause="SIGTERM"),
)
LANDED = Landing(NEARLY_UPRIGHT[0], off_s=5.0, moved_rad=0.01, tool_m_s=0.3, rested=True)


@pytest.mark.parametrize("fall", NEARLY_UPRIGHT, ids=["payload", "no payload"])
def test_balanced_arm_is_lowered_and_stays_without_torque(robot: Robot, fall: Fall) -> None:
    landing = FallRun(robot, fall).run()
    assert landing.violations == () and landing.rested


def test_torque_that_goes_off_an_upright_arm_is_a_violation(robot: Robot) -> None:
    """A guard that ends a stop too early must violate the table."""
    hasty = load_safety(robot).model_copy(update={"longest_stop_s": 0.3})
    landing = FallRun(robot, NEARLY_UPRIGHT[1], hasty).run()
    assert not landing.rested and any("after torque off" in text for text in landing.violations)
    (row,) = fall_rows([landing])
    assert (row.cause, row.runs, row.violations, row.unrested) == ("SIGTERM", 1, 1, 1) and row.findings


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"off_s": 31.0}, "torque went off"), ({"moved_rad": 0.06}, "deg after"), ({"tool_m_s": 0.8}, "m/s")],
)
def test_judge_names_violations(changes: dict[str, float], word: str) -> None:
    assert LANDED.violations == ()
    (text,) = replace(LANDED, **changes).violations
    assert word in text


def test_drawn_cases_cover_all_causes_and_mounts_and_every_third_is_near_a_balance(robot: Robot) -> None:
    drawn = [draw(robot, index) for index in range(18)]
    assert {one.cause for one in drawn} == set(CAUSES) and {one.mount for one in drawn} == set(MOUNTS)
    assert [one.balanced for one in drawn] == [index % 3 == 0 for index in range(18)]
    for one in drawn:
        q = np.deg2rad(one.q_deg)
        assert (q >= robot.lower - 1e-3).all() and (q <= robot.upper + 1e-3).all() and 0.0 <= one.payload_kg <= 0.5
    assert draw(robot, 3) == drawn[3] and draw(robot, 3, seed=1) != drawn[3]


def test_the_document_has_a_row_for_each_cause() -> None:
    text = fault_document([], fall_rows([LANDED]), [], "one", 1.0)
    assert "| disable | 1 | 0 | 5.0 | 5.0 | 0.57 | 0.30 | 0 |" in text
