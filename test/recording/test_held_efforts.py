"""Efforts with a lower rate than positions: only rows with new efforts are used, with a note."""

import numpy as np
import pytest
from recordings import motion

from dynid.recording.held_efforts import hold, without_held_efforts
from dynid.recording.repeated_rows import Rows
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("crane_x7")
TIME, Q, _, _ = motion(ROBOT, 40.0, 3)  # at 100 Hz


def efforts(seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).normal(0.0, 0.1, Q.shape)


@pytest.mark.parametrize("every", [2.0, 2.3, 2.5, 2.7, 3.3, 5.0, 5.785, 10.0, 20.0])
def test_rows_with_new_efforts_are_used(every: float) -> None:
    places = (np.floor(np.floor(np.arange(len(TIME)) / every) * every)).astype(int)
    rows = Rows(TIME, Q, efforts()[places])
    found = without_held_efforts(rows)
    new = np.flatnonzero(np.diff(places, prepend=-1))
    assert np.array_equal(found.time, TIME[new]) and np.array_equal(found.q, Q[new])
    assert found.tau is not None and np.array_equal(found.tau, efforts()[places[new]])
    assert found.words.startswith(f"efforts are held: they are renewed every {every:.3g} rows")
    assert f"({100.0 / every:.3g} Hz)" in found.words


def test_a_rest_does_not_hide_held_efforts() -> None:
    rests = np.arange(len(TIME)) // 500 == 2
    at = np.where(rests, 1000, np.arange(len(TIME)))
    assert hold(Rows(TIME, Q[at], efforts()[at // 10 * 10])) == 10.0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.7])
def test_efforts_that_repeat_by_chance_stay(share: float) -> None:
    """Coarse efforts of a slow arm: some rows repeat the one before, at no pace."""
    same = np.random.default_rng(1).random(len(TIME)) < share
    same[0] = False
    places = np.maximum.accumulate(np.where(same, 0, np.arange(len(TIME))))
    rows = Rows(TIME, Q, efforts()[places])
    assert hold(rows) == 0.0 and without_held_efforts(rows) is rows


@pytest.mark.parametrize("every", [3.0, 4.0, 5.0, 10.0, 20.0])
@pytest.mark.parametrize("seed", range(3))
def test_jitter_at_the_border_of_rows_hides_no_rate(every: float, seed: int) -> None:
    """Efforts that are renewed as a row is written belong to this row or to the next one."""
    jitter = np.random.default_rng(seed).uniform(-0.02, 0.02, int(len(TIME) / every) + 1)
    renewed = np.ceil(np.arange(len(jitter)) * every + jitter).astype(int)
    places = np.searchsorted(renewed, np.arange(len(TIME)), side="right") - 1
    assert hold(Rows(TIME, Q, efforts()[np.maximum(places, 0)])) == pytest.approx(every, rel=0.02)


@pytest.mark.parametrize("seed", range(8))
def test_random_holds_of_any_length_are_no_rate(seed: int) -> None:
    random = np.random.default_rng(seed)
    for most in (4, 6, 9):
        new = np.cumsum(random.integers(1, most, len(TIME)))
        places = np.repeat(new, np.diff(new, append=new[-1] + 1))[: len(TIME)]
        assert hold(Rows(TIME, Q, efforts()[np.minimum(places, len(TIME) - 1)])) == 0.0


def test_positions_alone_have_no_held_efforts() -> None:
    assert hold(Rows(TIME, Q)) == 0.0
