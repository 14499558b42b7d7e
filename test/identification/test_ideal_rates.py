"""Rigid arms without noise, recorded at several rates: errors caused by preprocessing alone."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from arms import arm, nominal

from dynid.identification.data.preprocessing import preprocess
from dynid.identification.data.resampling import band_interpolated, decimated
from dynid.identification.data.signals import Signals
from dynid.identification.estimators.table import estimator
from dynid.identification.settings import load_identification
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, load_robot

NAME = "aloha_class"
ROBOT = load_robot(NAME)
SETTINGS = load_identification(ROBOT)
MODEL = arm(NAME)
RUBBING = nominal(NAME)
# without the jumps of Coulomb friction, the content of which has no end
SMOOTH = RUBBING.with_values(np.where([name.startswith("FC") for name in RUBBING.names], 0.0, RUBBING.values))
SECONDS = 30.0
UNIT_OF = {
    **dict.fromkeys(("XX", "XY", "XZ", "YY", "YZ", "ZZ"), "kg m^2"),
    **dict.fromkeys(("MX", "MY", "MZ"), "kg m"),
    **{kind: kind for kind in ("IA", "FV", "FC", "OF")},
}


def multisine(time: FloatArray, fastest_hz: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Joint motions of seven sines each, whose accelerations are of one size up to the fastest frequency."""
    random = np.random.default_rng(5)
    q, dq, ddq = np.zeros((3, len(time), ROBOT.size))
    for j in range(ROBOT.size):
        w = 2.0 * np.pi * np.append(random.uniform(0.1, fastest_hz, 6), fastest_hz)
        phase = random.uniform(0.0, 2.0 * np.pi, 7) + w * time[:, None]
        size = np.minimum(0.15, 4.0 / w**2)
        q[:, j] += (size * np.sin(phase)).sum(axis=1)
        dq[:, j] += (size * w * np.cos(phase)).sum(axis=1)
        ddq[:, j] -= (size * w**2 * np.sin(phase)).sum(axis=1)
    return q, dq, ddq


def recorded(truth: BaseParameters, rate_hz: float, fastest_hz: float, first_s: float = 0.0) -> Signals:
    time = first_s + np.arange(0.0, SECONDS, 1.0 / rate_hz)
    q, dq, ddq = multisine(time, fastest_hz)
    tau = MODEL.inverse_dynamics(q, dq, ddq, truth)
    limits = 10.0 * np.abs(tau).max(axis=0) + 1.0
    return Signals(ROBOT.joint_names, time, q, time, tau, limits, (2.0, SECONDS - 2.0), dq)


def off(signals: Signals, truth: BaseParameters) -> dict[str, float]:
    """Errors of the base parameters: of rotors over their own size, of others over the largest of their kind."""
    found = estimator("wls").estimate(MODEL, preprocess(signals, SETTINGS), SETTINGS.coulomb_friction).base
    errors, by_kind = {}, defaultdict(list)
    for name, value in zip(RUBBING.names, RUBBING.values.tolist(), strict=True):
        by_kind[UNIT_OF[name.rstrip("0123456789R")]].append(abs(value))
    for name, value, true in zip(truth.names, found.values.tolist(), truth.values.tolist(), strict=True):
        size = abs(true) if name.startswith("IA") else max(by_kind[UNIT_OF[name.rstrip("0123456789R")]])
        errors[name] = abs(value - true) / size
    return errors


def off_rotors(signals: Signals, truth: BaseParameters) -> float:
    return max(error for name, error in off(signals, truth).items() if name.startswith("IA"))


@pytest.mark.slow
def test_rotors_are_exact_where_every_second_instant_is_kept() -> None:
    signals = recorded(RUBBING, 1000.0, 2.0)
    assert SETTINGS.sampling_interval_s == 0.02  # its grid keeps every second millisecond
    assert off_rotors(signals, RUBBING) < 1e-4
    late = replace(signals, torque_time=signals.torque_time + 0.0005)
    assert off_rotors(late, RUBBING) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("rate_hz", [30.0, 50.0, 100.0, 200.0])
@pytest.mark.parametrize("first_s", [0.0, 0.0071])
def test_slow_recordings_give_the_parameters_of_fast_ones(rate_hz: float, first_s: float) -> None:
    errors = off(recorded(SMOOTH, rate_hz, 5.0, first_s), SMOOTH)
    assert max(error for name, error in errors.items() if not name.startswith("FC")) < 5e-3


@pytest.mark.parametrize("rate_hz", [30.0, 50.0])
def test_content_within_the_band_passes_a_slow_recording(rate_hz: float) -> None:
    time, fine = np.arange(0.0, 4.0, 1.0 / rate_hz), np.arange(1.0, 3.0, 0.0013)
    found = band_interpolated(fine, time, np.sin(2.0 * np.pi * 5.0 * time)[:, None], 9.0)[:, 0]
    wave = np.column_stack([np.sin(2.0 * np.pi * 5.0 * fine), np.cos(2.0 * np.pi * 5.0 * fine)])
    part = np.linalg.lstsq(wave, found, rcond=None)[0]
    np.testing.assert_allclose(part, [1.0, 0.0], atol=2e-3)


def test_a_gap_of_a_second_is_crossed_by_a_straight_line() -> None:
    time = np.arange(0.0, 6.0, 0.02)
    kept = (time < 2.0) | (time > 3.0)
    values = np.sin(2.0 * np.pi * time)[:, None] + 3.0 * time[:, None]
    fine = np.arange(2.05, 2.95, 0.001)
    found = band_interpolated(fine, time[kept], values[kept], 9.0)
    line = np.interp(fine, time[kept], values[kept][:, 0])[:, None]
    assert np.abs(found - line).max() < 0.2


def test_stamps_next_to_each_other_do_not_make_values_swing() -> None:
    time = np.arange(0.0, 4.0, 0.02)
    double = np.sort(np.append(time, time[50:60] + 1e-5))
    values = np.sin(double)[:, None] + 0.01 * np.random.default_rng(0).normal(size=(len(double), 1))
    assert np.abs(band_interpolated(np.arange(0.9, 1.4, 0.001), double, values, 9.0)).max() < 1.1


@pytest.mark.parametrize("skip", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("frequency_hz", [2.0, 8.0])
def test_decimated_torques_are_neither_early_nor_smaller(skip: int, frequency_hz: float) -> None:
    time = np.arange(0.0, 2.0, 0.001)
    w = 2.0 * np.pi * frequency_hz
    found = decimated(np.sin(w * time)[:, None], skip)[10:-10, 0]
    np.testing.assert_allclose(found, np.sin(w * time[::skip])[10:-10], atol=3.0 * (w * 0.001 * skip) ** 4 / 100 + 1e-9)
