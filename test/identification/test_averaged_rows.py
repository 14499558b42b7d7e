"""Rows averaged under test functions, for recordings that are too slow or too irregular for a filter."""

from dataclasses import replace

import numpy as np
import pytest

from dynid.errors import ConfigurationError, DataError
from dynid.identification import prepared
from dynid.identification.data import preprocessing
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.data.recordings import Recording, rows_of, span_of
from dynid.identification.data.row_choice import row_choice
from dynid.identification.data.sample_sets import hold_out
from dynid.identification.data.signals import TimeAxis, Torques
from dynid.identification.data.weak_form import CUTOFF_OF_SUPPORT, averaged, cubic_spline
from dynid.identification.estimators.table import estimator
from dynid.identification.methods import identify
from dynid.identification.prepared import sources_in_memory
from dynid.identification.settings import load_identification
from dynid.identification.setup import estimate_setup
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("puma560")
SETTINGS = load_identification(ROBOT)
MODEL = ArmModel.of(ROBOT)
RATE_HZ, SECONDS = 15.0, 40.0


def true_parameters() -> FloatArray:
    """The nominal base parameters without Coulomb friction, which no spline follows through a reversal, (p,)."""
    standard = load_standard(ROBOT.folder / "models/nominal.yaml", MODEL.mdh, MODEL.regrouping.standard)
    phi = MODEL.base_parameters(standard).values
    return np.where([name.startswith("FC") for name in MODEL.names], 0.0, phi)


def recording(time: FloatArray, name: str = "log", late_s: float = 0.0) -> Recording:
    """Sums of sines up to 0.5 Hz with the torques that belong to them, at these stamps; torques are read late."""
    rng = np.random.default_rng(0)
    omega, phase = rng.uniform(0.3, 3.0, (2, ROBOT.size, 3))

    def states(at: FloatArray) -> list[FloatArray]:
        angle = omega * at[:, None, None] + phase
        q, dq, ddq = 0.3 * np.sin(angle), 0.3 * omega * np.cos(angle), -0.3 * omega**2 * np.sin(angle)
        return [one.sum(axis=2) for one in (q, dq, ddq)]

    tau = MODEL.regressor(*states(time - late_s)) @ true_parameters()
    return recording_from_arrays(ROBOT, time, states(time)[0], tau, name=name)


def even(rate_hz: float = RATE_HZ) -> FloatArray:
    return np.arange(0.0, SECONDS, 1.0 / rate_hz)


def error_of(source: Recording) -> float:
    """Relative error of the torques that the estimate predicts for the samples that it is from."""
    samples = source.samples(SETTINGS)
    assert samples.settings.rows == "averaged"
    W = samples.low_passed(MODEL.regressor).reshape(-1, len(MODEL.names))
    phi = np.linalg.lstsq(W, samples.tau.ravel(), rcond=None)[0]
    return float(np.linalg.norm(W @ (phi - true_parameters())) / np.linalg.norm(samples.tau))


def test_test_function_halves_its_cutoff_frequency() -> None:
    hop = 100
    kernel = cubic_spline(hop)
    time = np.arange(len(kernel)) - len(kernel) // 2
    assert kernel.sum() == pytest.approx(1.0)
    passed = kernel @ np.cos(2.0 * np.pi * CUTOFF_OF_SUPPORT / (4 * hop) * time)
    assert passed == pytest.approx(0.5, abs=2e-3)
    line = averaged(np.arange(1000.0)[:, None], kernel, np.array([300, 500]))
    np.testing.assert_allclose(line[:, 0], [300.0, 500.0])


@pytest.mark.parametrize(("rate_hz", "expected"), [(250.0, "filtered"), (RATE_HZ, "averaged")])
def test_rate_decides_between_filter_and_averages(rate_hz: float, expected: str) -> None:
    choice = rows_of([recording(even(rate_hz))], SETTINGS)
    assert choice.kind == expected
    assert ("rows per second are too few" in choice.sentence) == (expected == "averaged")


@pytest.mark.parametrize(("more", "expected"), [(0.98, "filtered"), (1.02, "averaged")])
def test_averages_are_chosen_where_filters_lose_too_much_to_gaps(more: float, expected: str) -> None:
    """Around a gap the low-pass and the states' filter, of a higher cut-off, take off what they need to settle."""
    filters, period, gap_s, gaps = SETTINGS.filter, 0.004, 0.2, 5
    assert filters.state_cutoff_ratio is not None
    cutoff_hz = filters.cutoff_hz(SETTINGS.sampling_interval_s)
    margin_s = filters.settling_periods * (1.0 / cutoff_hz + 1.0 / (filters.state_cutoff_ratio * cutoff_hz))
    seconds = gaps * (gap_s + margin_s) / (more * SETTINGS.data.dropped_samples_share)
    time = np.arange(0.0, seconds, period)
    middles = seconds * (np.arange(gaps) + 0.5) / gaps
    kept = (np.abs(time[:, None] - middles) > 0.5 * gap_s).all(axis=1)
    choice = row_choice(TimeAxis.of(time[kept]), SETTINGS, SETTINGS.sampling_interval_s)
    assert choice.kind == expected and ("to gaps" in choice.sentence) == (expected == "averaged")


def test_slow_rows_give_the_parameters() -> None:
    assert error_of(recording(even())) < 2e-3


def test_uneven_rows_are_averaged_and_give_the_parameters() -> None:
    rng = np.random.default_rng(1)
    time = even(100.0) + 0.009 * rng.uniform(-0.5, 0.5, len(even(100.0)))
    assert TimeAxis.of(time).irregular > 0.15
    source = recording(time)
    assert "steps between rows are uneven" in rows_of([source], SETTINGS).sentence
    assert error_of(source) < 2e-3
    assert source.samples(SETTINGS).quality[0].jitter is None


def test_a_gap_costs_only_the_windows_that_it_touches() -> None:
    time = even()
    torn = recording(time[(time < 18.0) | (time > 20.0)])
    whole, left = (one.samples(SETTINGS) for one in (recording(time), torn))
    assert len(left.fine) == 2
    assert 2.0 < (len(whole) - len(left)) * whole.settings.interval_s < 3.0
    assert left.settings.dropped_samples == pytest.approx(len(whole) - len(left), abs=2)
    assert error_of(torn) < 2e-3


def test_recordings_of_several_rates_are_made_alike_as_the_slowest_needs_it() -> None:
    fast, slow = recording(even(250.0), "fast"), recording(even(), "slow")
    choice = rows_of([fast, slow], SETTINGS)
    settings = choice.settings(SETTINGS)
    assert choice == rows_of([slow], SETTINGS)
    intervals = {one.samples(settings).settings.interval_s for one in (fast, slow)}
    assert intervals == {choice.interval_s}


def test_forced_rows_are_those_of_the_settings() -> None:
    source = recording(even(250.0))
    for kind in ("filtered", "averaged"):
        forced = SETTINGS.model_copy(update={"rows": kind})
        assert rows_of([source], forced).kind == kind
        assert source.samples(forced).settings.rows == kind
    with pytest.raises(DataError, match="--rows averaged"):
        recording(even(5.0)).samples(SETTINGS.model_copy(update={"rows": "filtered"}))


def test_filter_and_averages_agree_on_a_fast_recording() -> None:
    source, found = recording(even(250.0)), []
    for kind in ("filtered", "averaged"):
        forced = SETTINGS.model_copy(update={"rows": kind})
        found.append(estimator("wls").estimate(MODEL, source.samples(forced), None).base.values)
    W = source.samples(SETTINGS).low_passed(MODEL.regressor)
    assert np.linalg.norm(W @ (found[0] - found[1])) < 5e-3 * np.linalg.norm(W @ found[0])


def test_blocks_of_averages_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    source = recording(even())
    whole = source.samples(SETTINGS)
    monkeypatch.setattr(preprocessing, "BLOCK", 800)
    monkeypatch.setattr(preprocessing, "WHOLE", 800)
    monkeypatch.setattr(preprocessing, "MOST_BLOCKS", 100)
    blocks = source.samples(SETTINGS)
    assert len(blocks.fine) > 2
    kept = np.abs(whole.time - blocks.time[:, None]).argmin(axis=1)
    assert len(np.unique(kept)) == len(blocks.time) > 0.9 * len(whole)
    np.testing.assert_allclose(blocks.time, whole.time[kept], atol=1e-9)
    np.testing.assert_allclose(blocks.tau, whole.tau[kept], atol=2e-2 * np.abs(whole.tau).max())


def test_no_average_mixes_fitted_and_held_out_rows() -> None:
    samples = recording(even()).samples(SETTINGS)
    fitted, held = hold_out(samples, 0.3, SETTINGS.filter)
    support = 4.0 * samples.settings.interval_s
    assert held.time.min() - fitted.time.max() > support


def test_too_few_averages_are_refused() -> None:
    short = recording(np.arange(0.0, 1.2, 1.0 / RATE_HZ))
    with pytest.raises(DataError, match="at least 20 are needed"):
        short.samples(SETTINGS)


def test_stamps_in_another_unit_are_asked_for() -> None:
    with pytest.raises(DataError, match="are the stamps seconds"):
        recording(1000.0 * even()).samples(SETTINGS)


def test_methods_with_a_closed_loop_refuse_averages() -> None:
    forced = SETTINGS.model_copy(update={"rows": "averaged"})
    with pytest.raises(ConfigurationError, match="'closed-loop' compares filtered torques"):
        identify(ROBOT, [recording(even())], method="closed-loop", settings=forced)


def test_torques_of_another_current_stay_unknown_where_they_were_not_recorded() -> None:
    source = recording(even())
    signals = source.signals(SETTINGS)
    half = signals.torque_time < 20.0
    other = Torques(signals.torque_time[half], 1.1 * signals.tau[half], "goal")
    both = replace(source, signals=lambda _: replace(signals, other=other))
    samples = both.samples(SETTINGS)
    assert samples.other_tau is not None
    known = samples.time < 19.0  # but for the ends of the two splines
    assert np.isnan(samples.other_tau[samples.time > 21.0]).all()
    np.testing.assert_allclose(
        samples.other_tau[known], 1.1 * samples.tau[known], atol=0.01 * np.abs(samples.tau).max()
    )


@pytest.mark.slow
@pytest.mark.parametrize("late_s", [0.153, -0.04])
def test_late_torques_of_slow_rows_are_found_and_compensated(late_s: float) -> None:
    source = recording(even(), late_s=late_s)
    setup, (found,) = estimate_setup(ROBOT, [source], SETTINGS, (), delay=True)
    assert found.kind == "delay" and found.differs and not found.needs_correction
    assert found.value == pytest.approx(late_s, abs=1e-3)
    assert f"torques lag {1e3 * found.value:.1f} ms" in found.sentence and "compensated" in found.sentence
    assert error_of(setup.read(source)) < 5e-3
    assert error_of(source) > 0.02


def test_torques_without_delay_are_used_as_recorded() -> None:
    setup, (found,) = estimate_setup(ROBOT, [recording(even())], SETTINGS, (), delay=True)
    assert not found.differs and setup.delay_s == 0.0
    assert "used as recorded" in found.sentence


def test_a_sample_of_many_recordings_is_spread_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [recording(even(), f"log {k}") for k in range(10)]
    settings = rows_of(sources, SETTINGS).settings(SETTINGS)
    spans = [span_of(one, settings) for one in sources]
    whole = sum(len(part.q) for one in sources for part in one.samples(settings).fine)
    assert sources_in_memory(sources, spans, settings) == (sources, True)
    for name in ("MOST_INSTANTS", "SAMPLE_INSTANTS"):
        monkeypatch.setattr(prepared, name, 0.45 * whole)
    used, all_of_them = sources_in_memory(sources, spans, settings)
    assert [one.name for one in used] == ["log 0", "log 3", "log 6", "log 9"] and not all_of_them
    assert sum(len(part.q) for one in used for part in one.samples(settings).fine) <= 0.45 * whole
