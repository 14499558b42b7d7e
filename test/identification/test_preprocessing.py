"""Preprocessing: exact where the answer is known, and a sentence or a failed check for every kind of bad data."""

from dataclasses import replace

import numpy as np
import pytest

from dynid.errors import DataError
from dynid.identification.preprocessing import LowPass, central_differences, preprocess
from dynid.identification.settings import load_identification
from dynid.identification.signals import Signals, TimeAxis
from dynid.robot import FloatArray, load_robot

SETTINGS = load_identification(load_robot("crane_x7"))
JOINTS = ("shoulder", "elbow")
ENCODER_STEP = 2 * np.pi / 4096
FREQUENCIES = np.array([2.0, 3.3])  # rad/s


def motion(time: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    phase = np.outer(time, FREQUENCIES)
    return np.sin(phase), np.cos(phase) * FREQUENCIES, -np.sin(phase) * FREQUENCIES**2


def signals(time: FloatArray | None = None, **changes: object) -> Signals:
    time = np.arange(0.0, 12.0, 0.001) if time is None else time
    q, dq, _ = motion(time)
    raw = Signals(JOINTS, time, q, time, 2.0 * q, np.array([6.0, 6.0]), (1.0, 11.0), dq)
    return replace(raw, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("interval", [0.01, 0.02, 0.04, 0.08])
def test_a_slow_motion_comes_through_unchanged(interval: float) -> None:
    samples = preprocess(signals(), SETTINGS, interval)
    np.testing.assert_allclose(np.diff(samples.time), interval, atol=1e-9)
    q, dq, ddq = motion(samples.time)
    np.testing.assert_allclose(samples.q, q, atol=1e-4)
    np.testing.assert_allclose(samples.dq, dq, atol=3e-4)
    np.testing.assert_allclose(samples.ddq, ddq, atol=1e-3)
    np.testing.assert_allclose(samples.tau, 2.0 * q, atol=2e-4)
    assert samples.time[0] == 1.0 and samples.time[-1] == pytest.approx(11.0, abs=interval)
    assert samples.quality.accepted, samples.quality.failed
    assert samples.settings.samples == len(samples) and samples.settings.trimmed_s == (0.0, 0.0)


def test_results_are_read_only() -> None:
    samples = preprocess(signals(), SETTINGS)
    for values in (samples.time, samples.q, samples.dq, samples.ddq, samples.tau):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0.0


def test_content_above_the_new_nyquist_frequency_does_not_fold_back() -> None:
    raw = signals()
    disturbed = raw.tau + np.sin(2 * np.pi * 26.0 * raw.time)[:, None]  # folds to 1 Hz when every 40th is kept
    clean, samples = (preprocess(signals(tau=tau), SETTINGS, 0.04) for tau in (raw.tau, disturbed))
    assert np.abs(samples.tau - clean.tau).max() < 2e-3
    kept = disturbed[1000:11001:40]
    assert np.abs(kept - raw.tau[1000:11001:40]).max() > 0.9


def test_positions_and_torques_pass_the_same_filter_without_phase() -> None:
    low_pass = LowPass(SETTINGS.filter, 0.04, 0.001)
    time = np.arange(0.0, 8.0, 0.001)
    wave = np.sin(2 * np.pi * low_pass.cutoff_hz * time)
    passed = low_pass.apply(wave)
    middle = slice(2000, 6000)
    gain = float(passed[middle] @ wave[middle] / (wave[middle] @ wave[middle]))
    assert gain == pytest.approx(0.5, abs=1e-3)  # -3 dB twice, and in phase: nothing is left of the projection
    np.testing.assert_allclose(passed[middle], 0.5 * wave[middle], atol=2e-3)


def test_differences_are_exact_for_quartics() -> None:
    time = np.linspace(-1.0, 1.0, 201)
    coefficients = np.array([0.3, -1.1, 0.4, 2.0, -0.7])
    q = np.polyval(coefficients, time)[:, None]
    dq, ddq = central_differences(q, time[1] - time[0])
    np.testing.assert_allclose(dq[2:-2, 0], np.polyval(np.polyder(coefficients), time)[2:-2], atol=1e-10)
    np.testing.assert_allclose(ddq[2:-2, 0], np.polyval(np.polyder(coefficients, 2), time)[2:-2], atol=1e-8)


def test_edges_are_trimmed_only_where_the_data_end() -> None:
    whole = preprocess(signals(window=None), SETTINGS)
    settling = SETTINGS.filter.settling_periods / whole.settings.cutoff_hz
    assert whole.time[0] >= settling and whole.time[-1] <= 11.999 - settling + 1e-9
    assert whole.settings.trimmed_s == pytest.approx((settling, settling), abs=1e-6)
    _, _, ddq = motion(whole.time)
    np.testing.assert_allclose(whole.ddq, ddq, atol=0.02)


def test_jittery_stamps_are_corrected() -> None:
    rng = np.random.default_rng(4)
    time = np.arange(0.0, 12.0, 0.001)
    stamps = time + np.clip(rng.normal(0.0, 5e-5, len(time)), -4e-4, 4e-4)
    q, dq, _ = motion(stamps)  # the sample really is taken when it is stamped
    samples = preprocess(signals(stamps, q=q, dq=dq, tau=2 * q), SETTINGS)
    np.testing.assert_allclose(np.diff(samples.time), SETTINGS.sampling_interval_s, atol=1e-9)
    expected = motion(samples.time)
    np.testing.assert_allclose(samples.q, expected[0], atol=1e-4)
    np.testing.assert_allclose(samples.ddq, expected[2], atol=5e-3)
    assert samples.settings.missed_cycles == 0
    assert samples.quality.accepted, samples.quality.failed


def test_encoder_steps_are_averaged_out() -> None:
    raw = signals()
    samples = preprocess(signals(q=np.round(raw.q / ENCODER_STEP) * ENCODER_STEP), SETTINGS)
    q, _, ddq = motion(samples.time)
    assert np.abs(samples.q - q).std() < ENCODER_STEP / np.sqrt(12)
    assert (samples.ddq - ddq).std() < 0.15  # one step over one raw cycle would be 1500 rad/s^2


def test_a_goal_torque_is_moved_by_its_delay() -> None:
    delayed = preprocess(signals(torque_delay_s=0.0015, torque_source="goal"), SETTINGS)
    np.testing.assert_allclose(delayed.tau, 2.0 * motion(delayed.time - 0.0015)[0], atol=2e-4)
    assert delayed.settings.torque_source == "goal"


def test_missing_cycles_are_counted_and_long_gaps_are_not_bridged() -> None:
    time = np.arange(0.0, 12.0, 0.001)
    single = np.delete(time, np.arange(500, 12000, 500))
    axis = TimeAxis.of(single)
    assert axis.missed == 23 and len(axis.gaps) == 23
    samples = preprocess(signals(single), SETTINGS)
    assert [check.name for check in samples.quality.failed] == ["missed cycles"]
    assert samples.settings.dropped_samples == 0
    torn = preprocess(signals(np.delete(time, np.arange(6000, 6200))), SETTINGS)
    assert not ((torn.time > 6.0) & (torn.time < 6.2)).any()
    assert torn.settings.dropped_samples >= 5 and torn.settings.missed_cycles == 200
    assert "missed cycles" in [check.name for check in torn.quality.failed]


def test_a_late_cycle_is_not_a_missed_one() -> None:
    time = np.arange(0.0, 1.0, 0.001)
    late = time.copy()
    late[500] += 0.0007
    assert TimeAxis.of(late).missed == 0
    assert TimeAxis.of(np.delete(late, 300)).missed == 1


def _with(values: FloatArray, row: int, value: float) -> FloatArray:
    changed = values.copy()
    changed[row, 1] = value
    return changed


RAW = signals()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": _with(RAW.q, 5000, np.nan)}, "position of elbow is nan at 5.000 s"),
        ({"tau": _with(RAW.tau, 5000, np.inf)}, "torque of elbow is inf"),
        ({"time": RAW.time[::-1]}, "position stamps are not sorted"),
        ({"torque_time": RAW.time[::-1]}, "torque stamps are not sorted"),
        ({"time": np.r_[RAW.time[:-1], np.nan]}, "not sorted"),
        ({"q": RAW.q[:, :1]}, "expected \\(12000, 2\\)"),
        ({"q": np.rad2deg(RAW.q)}, "more than a turn"),
        ({"tau": 1000 * RAW.tau}, "mA or raw counts"),
        ({"q": np.full_like(RAW.q, 0.3)}, "no joint moves"),
        ({"window": (1.0, 1.2)}, "usable samples"),
        ({"window": (20.0, 21.0)}, "too short"),
        ({"time": RAW.time[:5], "q": RAW.q[:5]}, "only 5 position samples"),
    ],
)
def test_unusable_data_are_refused_with_a_sentence(changes: dict[str, object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        preprocess(signals(**changes), SETTINGS)


def test_data_slower_than_the_target_are_refused() -> None:
    with pytest.raises(DataError, match="record faster"):
        preprocess(signals(np.arange(0.0, 12.0, 0.05)), SETTINGS, 0.02)


def test_an_interval_without_enough_samples_is_refused() -> None:
    with pytest.raises(DataError, match="at least 100"):
        preprocess(signals(window=(1.0, 5.0)), SETTINGS, 0.08)


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"q": RAW.q * [1.0, 0.01]}, "smallest joint motion"),
        ({"tau": np.clip(RAW.tau * 10, -6.0, 6.0)}, "saturated current"),
        ({"tau": RAW.tau * 1e-3}, "largest torque of its limit"),
        ({"dq": None if RAW.dq is None else RAW.dq * 60 / (2 * np.pi)}, "recorded over derived velocity"),
        ({"time": RAW.time + 0.0004 * (np.arange(12000) % 2)}, "stamp jitter"),
    ],
)
def test_doubtful_data_fail_a_named_check(changes: dict[str, object], check: str) -> None:
    assert check in [failed.name for failed in preprocess(signals(**changes), SETTINGS).quality.failed]
