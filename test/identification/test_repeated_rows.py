"""Repeated rows: a recorder faster than its source, lost replies, and rows that only look repeated."""

import numpy as np
import pytest
from numpy.typing import NDArray
from recordings import motion

from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.settings import load_identification
from dynid.recording import repeated_rows
from dynid.recording.repeated_rows import Rows, repeated, without_repeats
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("crane_x7")
NOISE_NM = 0.01


def at(time: FloatArray) -> FloatArray:
    """Positions of a smooth motion of all joints, (N, n)."""
    whole, q, _, _ = motion(ROBOT, 40.0, 3)
    return np.stack([np.interp(time, whole, one) for one in q.T], axis=1)


def rows(time: FloatArray, q: FloatArray, seed: int = 0) -> Rows:
    return Rows(time, q, np.random.default_rng(seed).normal(0.0, NOISE_NM, q.shape), None)


def taken(whole: Rows, places: NDArray[np.int64], time: FloatArray) -> Rows:
    """Rows of a source as another clock has written them."""
    return Rows(time, whole.q[places], whole.tau[places], None)


@pytest.mark.parametrize(("source_hz", "recorder_hz"), [(29.3, 30.0), (47.0, 50.0), (25.0, 100.0), (40.0, 100.0)])
def test_the_clock_of_a_source_slower_than_its_recorder_is_restored(source_hz: float, recorder_hz: float) -> None:
    source = np.arange(0.0, 30.0, 1.0 / source_hz)
    clock = np.arange(0.02, 29.9, 1.0 / recorder_hz)
    places = np.searchsorted(source, clock, side="right") - 1
    recorded = taken(rows(source, at(source)), places, clock)
    found = without_repeats(recorded)
    true = source[np.unique(places)]
    inside = slice(20, -20)
    assert len(found.time) == len(true) and f"{source_hz:.3g} Hz" in found.words
    own = np.append(True, np.diff(places) > 0)
    assert np.std((clock[own] - true)[inside]) > np.std((found.time - true)[inside])
    assert np.std((found.time - true)[inside]) < 0.05 / source_hz
    assert np.array_equal(found.q, at(true))


def test_replies_that_were_lost_are_bridged_and_long_ones_left_out() -> None:
    time = np.arange(0.0, 30.0, 0.02)
    whole, random = rows(time, at(time)), np.random.default_rng(1)
    lost = random.random(len(time)) < 0.04
    lost[[0, -1]] = False
    lost[695:710] = False
    lost[700:705] = True  # longer, and an arm may be at rest
    places = np.maximum.accumulate(np.where(lost, 0, np.arange(len(time))))
    found = without_repeats(taken(whole, places, time))
    assert "neighbours" in found.words and len(time) - 15 <= len(found.time) <= len(time) - 5
    assert np.isin(found.time, time).all() and not ((found.time > time[699]) & (found.time < time[705])).any()
    before = np.abs(whole.q[places] - whole.q).max()
    assert np.abs(found.q - at(found.time)).max() < 0.1 * before


def test_rows_with_wrong_stamps_stay_unchanged() -> None:
    """It writes a state twice and skips the next: neither its source's clock nor its own explains the way."""
    time = np.arange(0.0, 20.0, 0.02)
    late = np.random.default_rng(2).uniform(-1.4, 0.0, len(time))
    places = np.clip(np.maximum.accumulate(np.ceil(np.arange(len(time)) + late)), 0, len(time) - 1).astype(np.int64)
    recorded = taken(rows(time, at(time)), places, time)
    assert repeated(recorded)[1].sum() > 20
    found = without_repeats(recorded)
    assert found.q is recorded.q and found.time is recorded.time and "so they were kept" in found.words


def test_rest_and_slow_motion_are_not_repeated_rows() -> None:
    time = np.arange(0.0, 20.0, 0.001)
    step = 2.0 * np.pi / 4096.0
    slow = np.round(0.05 * at(0.2 * time) / step) * step
    still = Rows(time, np.zeros_like(slow), np.zeros_like(slow), None)
    quantised = Rows(time, slow, np.round(0.01 * at(time), 2), None)
    assert without_repeats(still) is still and without_repeats(quantised) is quantised
    assert (np.diff(quantised.q, axis=0) == 0.0).all(axis=1).any()  # rows that are alike, and no repeats
    few = rows(time[:10], at(time[:10]))
    assert without_repeats(few) is few


def test_accelerations_of_a_recording_are_those_of_its_source() -> None:
    """As on a public run of a Franka arm: one row in 43 is a repeat, and an arm seems to stop there."""
    source, clock = np.arange(0.0, 30.0, 1.0 / 29.3), np.arange(0.02, 29.9, 1.0 / 30.0)
    places = np.searchsorted(source, clock, side="right") - 1
    recorded = taken(rows(source, at(source)), places, clock)
    found = recording_from_arrays(ROBOT, clock, recorded.q, recorded.tau)
    settings = load_identification(ROBOT)
    honest = recording_from_arrays(ROBOT, source, at(source), rows(source, at(source)).tau).samples(settings)
    samples = found.samples(settings)
    assert any("repeat the row before" in note for note in found.notes)
    assert np.abs(samples.ddq).max() < 1.2 * np.abs(honest.ddq).max()
    naive = np.gradient(np.gradient(recorded.q, clock, axis=0), clock, axis=0)
    assert np.abs(naive).max() > 1.5 * np.abs(honest.ddq).max()


def test_a_gap_in_the_recording_remains_one() -> None:
    source, clock = np.arange(0.0, 30.0, 1.0 / 29.3), np.arange(0.02, 29.9, 1.0 / 30.0)
    clock = clock[(clock < 12.0) | (clock > 12.7)]
    places = np.searchsorted(source, clock, side="right") - 1
    found = without_repeats(taken(rows(source, at(source)), places, clock))
    assert "29.3 Hz" in found.words
    assert np.abs(found.time - source[np.unique(places)]).max() < 0.04
    assert np.diff(found.time).max() > 0.6 and np.diff(found.time).min() > 0.0


@pytest.mark.parametrize("seed", range(40))
def test_new_stamps_of_a_jittering_recorder_increase(seed: int) -> None:
    """Rests divide the recording into many short stretches, whose fitted stamps may overlap their neighbours."""
    random = np.random.default_rng(seed)
    parts = [np.full(random.integers(9, 14), k) for k in range(12)]
    time = np.cumsum(random.exponential(size=sum(map(len, parts))) ** 2 + 1e-4)
    stamps, _ = repeated_rows._even(time, np.concatenate(parts), np.array([10]))
    assert np.diff(stamps).min() > 0.0


@pytest.mark.parametrize("torques", [True, False])
def test_rests_between_motions_are_kept_without_stamp_shift(torques: bool) -> None:
    """Positions of an encoder stand still at rest, whoever reads them; what is alike there may be no repeat."""
    source, step = np.arange(0.0, 60.0, 1.0 / 29.3), 2.0 * np.pi / 4096.0
    phase = np.minimum(source % 10.0, 5.0)  # five seconds of motion, five of rest
    way = 0.8 * (1.0 - np.cos(2.0 * np.pi * phase / 5.0))
    q = np.round(way[:, None] * np.linspace(0.5, 1.5, 8) / step) * step
    clock = np.arange(0.02, 59.9, 1.0 / 30.0)
    places = np.searchsorted(source, clock, side="right") - 1
    whole = rows(source, q) if torques else Rows(source, q)
    tau = None if whole.tau is None else whole.tau[places]
    found = without_repeats(Rows(clock, q[places], tau))
    moving = np.linalg.norm(np.gradient(q, source, axis=0), axis=1) > 0.5
    assert moving[places].sum() > 500
    kept = np.searchsorted(clock, found.time)  # a stamp moves by a row at most
    assert np.abs(found.time - clock[np.clip(kept, 0, len(clock) - 1)]).max() < 0.04
    assert len(clock) - len(found.time) <= len(clock) - len(np.unique(places))
    assert np.abs(found.q - np.stack([np.interp(found.time - 0.017, source, one) for one in q.T], axis=1)).max() < 0.06


@pytest.mark.parametrize("wrong", ["back", "equal", "missing"])
def test_wrong_stamps_are_left_to_the_stamp_correction(wrong: str) -> None:
    source, clock = np.arange(0.0, 30.0, 1.0 / 29.3), np.arange(0.02, 29.9, 1.0 / 30.0)
    places = np.searchsorted(source, clock, side="right") - 1
    clock[400] = {"back": clock[398], "equal": clock[399], "missing": np.nan}[wrong]
    recorded = taken(rows(source, at(source)), places, clock)
    assert without_repeats(recorded) is recorded
