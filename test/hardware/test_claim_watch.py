"""The driver's check of an arm whose commander claims to hold it."""

import numpy as np
import pytest
from benchmarks.faults.claim_case import ClaimRun, moves_while_held

from dynid.hardware.safety.claim_watch import DISPLACEMENT_LIMIT_RAD, WINDOW_S, ClaimWatch
from dynid.robot import Robot

N, CYCLE_S = 3, 0.01
SEEN = np.ones(N, dtype=bool)


def watched(speed_rad_s: float, seconds: float, *, claims: object = True, seen: np.ndarray = SEEN) -> float | None:
    """When a joint that turns at this speed is noticed [s]; None if it is not."""
    watch, q = ClaimWatch(N), np.zeros(N)
    for k in range(round(seconds / CYCLE_S)):
        q[1] = 0.3 + speed_rad_s * k * CYCLE_S
        claimed = claims(k * CYCLE_S) if callable(claims) else bool(claims)
        joint = watch.moved(claimed, q, seen, 100.0 + k * CYCLE_S)
        if joint is not None:
            assert joint == 1
            return k * CYCLE_S
    return None


@pytest.mark.slow
@pytest.mark.parametrize("speed_rad_s", [4.7, -1.0, 0.5])
def test_a_held_joint_that_runs_away_is_noticed_once_it_moved_too_far(speed_rad_s: float) -> None:
    noticed_s = watched(speed_rad_s, 3.0)
    assert noticed_s is not None and abs(noticed_s - DISPLACEMENT_LIMIT_RAD / abs(speed_rad_s)) <= 1.5 * CYCLE_S


@pytest.mark.slow
def test_a_hand_that_leads_a_held_arm_slowly_is_no_fault() -> None:
    assert watched(0.95 * DISPLACEMENT_LIMIT_RAD / (2.0 * WINDOW_S), 20.0) is None
    assert watched(1.05 * DISPLACEMENT_LIMIT_RAD / WINDOW_S, 20.0) is not None


def test_without_a_claim_nothing_is_watched() -> None:
    assert watched(4.7, 3.0, claims=False) is None
    assert watched(1.0, 6.0, claims=lambda now_s: now_s % 0.6 < 0.5) is None  # each claim begins where the arm is


def test_a_joint_that_is_not_read_is_not_judged() -> None:
    assert watched(4.7, 3.0, seen=np.array([True, False, True])) is None


@pytest.mark.slow
def test_driver_stops_an_arm_that_is_falsely_claimed_held(robot: Robot) -> None:
    assert moves_while_held(robot, 0) == []


@pytest.mark.slow
def test_the_same_torque_without_the_claim_is_followed(robot: Robot) -> None:
    """Without the watch the joint goes on moving; the row of the fault table must report this."""
    run = ClaimRun(robot, 0, claims=False)
    run.run()
    assert not np.isfinite(run.fault_s) and run.text == "" and np.isfinite(run.pushed_s)
    way = run.arm.trace().between(run.pushed_s, np.inf).q[:, run.axis]
    assert np.abs(way - way[0]).max() > DISPLACEMENT_LIMIT_RAD
