"""Correlation of residuals: biases persist, unmodelled friction changes with velocity, noise is uncorrelated."""

import numpy as np
from arms import RECORD, arm, nominal
from scipy.signal import butter, sosfiltfilt

from dynid.identification.bands import CLASSES
from dynid.identification.break_away import beyond_budget
from dynid.identification.data.preprocessing import Samples
from dynid.identification.residual_memory import LEAST_SHARE, lasting_variance, passing_shares
from dynid.model.friction import FrictionLaw
from dynid.robot import FloatArray

SIGMA, SLOW_RAD_S, CUTOFF_HZ, EVERY = 0.05, 0.05, 10.0, 20  # samples of a grid of 1 ms
TIME = 0.001 * np.arange(60_000)
SLOW_TURNS, FAST_TURNS = (0.15, 0.1), (0.5, 0.3)  # amplitude [rad], frequency [Hz]


def shares(fine: FloatArray, amplitude: float, frequency_hz: float) -> FloatArray:
    """By class, of a residual (N,) on the fine grid of a joint that follows a sine; low-passed as samples are."""
    low_pass = butter(4, CUTOFF_HZ, fs=1000.0, output="sos")
    residual = sosfiltfilt(low_pass, fine)[::EVERY, None]
    dq = velocity(amplitude, frequency_hz)[::EVERY, None]
    classes = np.searchsorted(np.array(CLASSES) * SLOW_RAD_S, np.abs(dq))
    return passing_shares(TIME[::EVERY], residual, dq, classes, 0.001 * EVERY, CUTOFF_HZ, len(CLASSES) + 1)[:, 0]


def velocity(amplitude: float, frequency_hz: float) -> FloatArray:
    w = 2.0 * np.pi * frequency_hz
    return amplitude * w * np.cos(w * TIME)


def test_lasting_error_is_separated_from_noise() -> None:
    rng, time = np.random.default_rng(5), 0.04 * np.arange(3000)
    dq = np.sign(np.sin(0.5 * np.pi * time))[:, None] * np.ones(2)  # two seconds each way
    slides = np.ones(dq.shape, dtype=bool)
    noise, bias = SIGMA * rng.normal(size=dq.shape), 0.02 * dq
    lasting = np.sqrt(lasting_variance(time, noise + bias, dq, slides, 0.04))
    np.testing.assert_allclose(lasting, 0.02, rtol=0.15)
    assert (np.sqrt(lasting_variance(time, noise, dq, slides, 0.04)) < 0.006).all()
    turned = bias * np.sign(dq) * np.sign(rng.normal(size=(3000, 1)))  # another sign at every sample
    assert (np.sqrt(lasting_variance(time, turned, dq, slides, 0.04)) < 0.006).all()
    np.testing.assert_array_equal(lasting_variance(time, bias, dq, ~slides, 0.04), 0.0)


def test_noise_behind_a_low_pass_does_not_pass_with_the_speed() -> None:
    noise = np.random.default_rng(3).normal(size=len(TIME))
    for turns in (SLOW_TURNS, FAST_TURNS):
        np.testing.assert_array_equal(shares(noise, *turns)[1:], 0.0)


def test_a_dip_of_friction_passes_with_the_speed_however_fast_joints_turn() -> None:
    for turns in (SLOW_TURNS, FAST_TURNS):
        dq = velocity(*turns)
        found = shares(np.sign(dq) * np.exp(-np.abs(dq) / 0.1), *turns)
        assert found[1] > LEAST_SHARE and found[2] > 0.7, turns


def test_late_detected_reversal_is_not_counted_as_friction() -> None:
    dq = velocity(*FAST_TURNS)
    late = np.sign(dq) - np.sign(np.roll(dq, 10))
    np.testing.assert_array_equal(shares(late, *FAST_TURNS)[1:3], 0.0)


def test_breakaway_torque_beyond_the_budget_is_reported_without_noise() -> None:
    model, base, rng = arm("planar_3r"), nominal("planar_3r"), np.random.default_rng(4)
    q, dq, held = rng.uniform(-1.0, 1.0, (3, 2000, model.axes))
    dq *= 0.02
    dry, offset = np.array([0.5, 0.3, 0.1]), np.array([0.1, -0.1, 0.0])
    law = FrictionLaw.of(model.axes, {"fb": dry, "of": offset})
    links = model.inverse_dynamics(q, dq, 0.0 * q, base)
    slow = np.ones(q.shape, dtype=bool)

    def beyond(factor: float, noise: FloatArray) -> FloatArray:
        tau = links + offset + factor * dry * held
        own = Samples(tuple("abc"), 0.02 * np.arange(2000), q, dq, 0.0 * q, tau, RECORD)
        return beyond_budget(model, own, base, law, slow, noise)

    none = np.zeros(model.axes)
    np.testing.assert_allclose(beyond(1.6, none), 0.6 * dry, rtol=0.1)
    np.testing.assert_array_equal(beyond(0.9, none), 0.0)
    np.testing.assert_array_equal(beyond(1.6, 0.3 * dry), 0.0)
    slow[:] = False
    np.testing.assert_array_equal(beyond(1.6, none), 0.0)
