"""Preprocessing: exact for known answers, and a message or failed check for every kind of bad data."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.errors import ConfigurationError, DataError
from dynid.identification.checks import DATA, judge
from dynid.identification.data.preprocessing import (
    LowPass,
    Samples,
    central_differences,
    preprocess,
    preprocess_recording,
    signals_of,
)
from dynid.identification.data.signals import Signals, TimeAxis, held_over_gaps
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.recording.driver_recording import DriverRecording, TorqueSeries
from dynid.recording.settings import ExperimentSettings, HardwareSettings, Phase
from dynid.resources import load_validated
from dynid.robot import FloatArray, load_robot, read_only

ROBOT = load_robot("crane_x7")
SETTINGS = load_identification(ROBOT)
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


def failed(samples: Samples) -> list[str]:
    """Ids of the checks of the data that do not pass."""
    return [check.id for check in judge(DATA, samples.quality, SETTINGS).failed]


def missed_cycles(samples: Samples) -> str:
    """What the failed check of missed cycles adds to its value."""
    (found,) = (check for check in judge(DATA, samples.quality, SETTINGS).failed if check.id == "missed_cycles")
    return found.detail


@pytest.mark.parametrize("interval", [0.01, 0.02, 0.04, 0.08])
def test_a_slow_motion_comes_through_unchanged(interval: float) -> None:
    samples = preprocess(signals(window=(1.2, 10.8)), SETTINGS, interval)
    np.testing.assert_allclose(np.diff(samples.time), interval, atol=1e-9)
    q, dq, ddq = motion(samples.time)
    np.testing.assert_allclose(samples.q, q, atol=1e-4)
    np.testing.assert_allclose(samples.dq, dq, atol=3e-4)
    np.testing.assert_allclose(samples.ddq, ddq, atol=1e-3)
    np.testing.assert_allclose(samples.tau, 2.0 * q, atol=2e-4)
    assert samples.time[0] == 1.2 and samples.time[-1] == pytest.approx(10.8, abs=interval + 1e-9)
    assert failed(samples) == []
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


def test_recordings_faster_than_a_kilohertz_are_filtered_as_fast() -> None:
    """At 5 kHz a torque ripple of 999 Hz folds to 1 Hz on a grid of 1 kHz, which no filter takes out again."""
    time = np.arange(0.0, 12.0, 0.0002)
    raw = signals(time)
    samples = preprocess(replace(raw, tau=raw.tau + np.sin(2 * np.pi * 999.0 * time)[:, None]), SETTINGS, 0.04)
    np.testing.assert_allclose(samples.tau, 2.0 * samples.q, atol=2e-3)
    assert samples.settings.grid_s == pytest.approx(0.0002)


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
    assert whole.settings.state_cutoff_hz is not None  # what both filters need to settle
    periods = 1.0 / whole.settings.cutoff_hz + 1.0 / whole.settings.state_cutoff_hz
    settling = SETTINGS.filter.settling_periods * periods
    assert whole.time[0] >= settling and whole.time[-1] <= 11.999 - settling + 1e-9
    assert whole.settings.trimmed_s == pytest.approx((settling, settling), abs=0.005)
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
    assert failed(samples) == []


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
    single = np.delete(time, np.arange(50, 12000, 50))
    axis = TimeAxis.of(single)
    assert axis.missed == 239 and len(axis.gaps) == 239
    samples = preprocess(signals(single), SETTINGS)
    assert failed(samples) == ["missed_cycles"]
    assert samples.settings.dropped_samples == 0
    torn = preprocess(signals(np.delete(time, np.arange(6000, 6200))), SETTINGS)
    assert not ((torn.time > 6.0) & (torn.time < 6.2)).any()
    assert torn.settings.dropped_samples >= 5 and torn.settings.missed_cycles == 200
    assert "missed_cycles" in failed(torn)


def test_gaps_with_the_period_of_the_kernels_limit_are_named() -> None:
    time = np.arange(0.0, 12.0, 0.001)
    throttled = preprocess(signals(time[time % 1.0 < 0.95]), SETTINGS)
    assert "sched_rt_runtime_us" in missed_cycles(throttled)
    elsewhere = time[~np.isin((time * 1000).astype(int) // 50, [20, 51, 70, 111, 160, 190])]
    assert "longest gap" in missed_cycles(preprocess(signals(elsewhere), SETTINGS))
    assert "sched_rt_runtime_us" not in missed_cycles(preprocess(signals(elsewhere), SETTINGS))


def test_a_late_cycle_does_not_count_as_missed() -> None:
    time = np.arange(0.0, 1.0, 0.001)
    late = time.copy()
    late[500] += 0.0007
    assert TimeAxis.of(late).missed == 0
    assert TimeAxis.of(np.delete(late, 300)).missed == 1


def test_cycles_caught_up_in_quick_succession_are_late_not_missed() -> None:
    late = np.arange(0.0, 4.0, 0.001)
    late[1000:1100] = late[1000] + 0.04 + 0.0006 * np.arange(100)  # 40 ms of standstill, caught up 100 cycles later
    axis = TimeAxis.of(late)
    assert axis.missed == 0 and len(axis.gaps) == 1
    assert TimeAxis.of(np.delete(late, np.arange(2000, 2040))).missed == 40


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
        ({"q": np.rad2deg(RAW.q)}, "at most 6.283 rad"),
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


@pytest.mark.parametrize("interval", [0.0, -1.0, np.nan, np.inf])
def test_a_sampling_interval_that_is_not_positive_is_refused(interval: float) -> None:
    with pytest.raises(DataError, match=r"the sampling interval is .* s, expected a time above 0 s"):
        preprocess(RAW, SETTINGS, interval)


def test_filter_refuses_data_slower_than_the_target() -> None:
    wide = SETTINGS.model_copy(update={"filter": SETTINGS.filter.model_copy(update={"maximum_cutoff_hz": None})})
    wide = wide.model_copy(update={"rows": "filtered"})
    with pytest.raises(DataError, match="record faster"):
        preprocess(signals(np.arange(0.0, 12.0, 0.05)), wide, 0.02)


def test_torque_is_held_over_a_gap_not_joined_by_a_line() -> None:
    time = np.array([0.0, 0.001, 0.002, 0.012, 0.013])
    tau = np.array([[1.0], [1.0], [1.0], [5.0], [1.0]])
    for source, during in (("present", 5.0), ("goal", 1.0)):
        held_time, held = held_over_gaps(time, tau, source)
        assert np.interp(0.008, held_time, held[:, 0]) == during
    assert len(held_over_gaps(time[:3], tau[:3], "present")[0]) == 3


def test_an_interval_without_enough_samples_is_refused() -> None:
    with pytest.raises(DataError, match="at least 100"):
        preprocess(signals(window=(1.0, 5.0)), SETTINGS, 0.08)


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"q": RAW.q * [1.0, 0.01]}, "joint_motion"),
        ({"tau": np.clip(RAW.tau * 10, -6.0, 6.0)}, "saturated_current"),
        ({"tau": RAW.tau * 1e-3}, "peak_torque"),
        ({"dq": None if RAW.dq is None else RAW.dq * 60 / (2 * np.pi)}, "velocity_ratio"),
        ({"time": RAW.time + 0.0004 * (np.arange(12000) % 2)}, "stamp_jitter"),
    ],
)
def test_doubtful_data_fail_a_named_check(changes: dict[str, object], check: str) -> None:
    filtered = SETTINGS.model_copy(update={"rows": "filtered"})  # rows by choice would be averaged where stamps jitter
    assert check in failed(preprocess(signals(**changes), filtered))


def recording(**changes: object) -> DriverRecording:
    """Twelve seconds of all joints, columns in another order than the robot's, the motion from 1 s to 11 s."""
    names = ROBOT.joint_names[::-1]
    time = read_only(np.arange(0.0, 12.0, 0.001))
    speeds = np.linspace(2.0, 3.0, ROBOT.size)[::-1]
    q, dq = 0.5 * np.sin(np.outer(time, speeds)), 0.5 * speeds * np.cos(np.outer(time, speeds))
    hardware = HardwareSettings(
        robot=ROBOT.name,
        joint_names=names,
        torque_constants_nm_per_a=tuple(ROBOT.torque_constants[::-1]),
        mount="upright",
        gravity_m_s2=(0, 0, -9.80665),
        current_unit_a=0.00269,
        cycle_s=0.001,
        simulated=True,
        port="none",
        dynid_version="0",
    )
    experiment = ExperimentSettings(
        trajectory="T",
        profile="limited",
        controller="ff_pd",
        gains={},
        duration_s=10.0,
        phases=(Phase(name="approach", stamp_ns=0), Phase(name="trajectory", stamp_ns=10**9)),
    )
    made = DriverRecording(
        robot_name=ROBOT.name,
        joint_names=names,
        time=time,
        stamp0_ns=0,
        q=q,
        dq=dq,
        tau_present=0.2 * q,
        commands=None,
        applied=TorqueSeries(time, 0.3 * q),
        reference=None,
        hardware=hardware,
        experiments=(experiment,),
        robot_description=None,
        source=Path("a_bag"),
        sha256="",
        counts={},
        notes=(),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_recording_comes_in_the_robots_order() -> None:
    samples = preprocess_recording(recording(), ROBOT, SETTINGS, interval_s=0.02)
    assert samples.joint_names == ROBOT.joint_names and samples.time[0] == 1.0
    expected = 0.5 * np.sin(np.outer(samples.time, np.linspace(2.0, 3.0, ROBOT.size)))
    np.testing.assert_allclose(samples.q, expected, atol=1e-4)
    np.testing.assert_allclose(samples.tau, 0.2 * expected, atol=1e-4)
    assert failed(samples) == []
    assert samples.torque_limits is not None  # by the recorded constants of each joint, not of each column
    np.testing.assert_allclose(samples.torque_limits, ROBOT.torque_constants * ROBOT.current_limits)


def test_the_goal_current_is_taken_when_asked_for() -> None:
    """Later by what the line takes, and on a simulated one by half the hold alone."""
    goal, own = SETTINGS.model_copy(update={"torque_source": "goal"}), recording()
    real = replace(own, hardware=own.hardware.model_copy(update={"simulated": False}))
    assert signals_of(real, ROBOT, goal).torque_delay_s == SETTINGS.goal_delay_s == 0.0009
    signals_goal = signals_of(own, ROBOT, goal)
    assert own.hardware.simulated and signals_goal.torque_delay_s == 0.5 * own.hardware.cycle_s
    assert signals_goal.torque_source == "goal"
    np.testing.assert_allclose(signals_goal.tau, 0.3 * recording().q[:, ::-1])
    with pytest.raises(DataError, match="no applied torques"):
        signals_of(recording(applied=None), ROBOT, goal)


def test_a_recording_that_lacks_a_joint_is_refused() -> None:
    names = tuple(f"other_{name}" if name == ROBOT.joint_names[2] else name for name in ROBOT.joint_names)
    with pytest.raises(DataError, match=f"lacks the joint {ROBOT.joint_names[2]}"):
        signals_of(recording(joint_names=names), ROBOT, SETTINGS)


def test_invalid_settings_are_named(tmp_path: Path) -> None:
    path = tmp_path / "identification.yaml"
    path.write_text("schema_version: 1\nfilter: {order: 4, cutoff_of_nyquist: 1.5}\ncutoff: 3\n")
    with pytest.raises(ConfigurationError, match=r"filter\.cutoff_of_nyquist.*cutoff"):
        load_validated(path, IdentificationSettings)
