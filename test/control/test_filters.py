"""Filters of the controllers."""

import numpy as np
import pytest
from scipy import signal

from dynid.control.filters import PseudoDifferentiator
from dynid.errors import ConfigurationError, DataError

TF = 0.002


def run(x, dt):
    filtered = PseudoDifferentiator(TF, x.shape[1])
    filtered.reset(x[0])
    steps = np.broadcast_to(dt, (len(x) - 1,))
    return np.array([filtered.update(float(step), row) for step, row in zip(steps, x[1:], strict=True)])


@pytest.mark.parametrize("dt", [0.00025, 0.001, 0.005])
def test_the_filter_equals_scipys_first_order_hold(dt):
    x = np.cumsum(np.random.default_rng(3).normal(size=(300, 8)), axis=0)
    numerator, denominator, _ = signal.cont2discrete(([1.0, 0.0], [TF, 1.0]), dt, method="foh")
    expected = signal.lfilter(numerator.ravel(), denominator, x - x[0], axis=0)
    np.testing.assert_allclose(run(x, dt), expected[1:], rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_variable_sample_times_follow_the_continuous_filter():
    rng = np.random.default_rng(5)
    steps = rng.uniform(0.0002, 0.006, 200)
    times = np.concatenate([[0.0], np.cumsum(steps)])
    x = rng.normal(size=(201, 1)).cumsum(axis=0)
    # Reference: the continuous system on the piecewise linear input, on a grid that holds every knot.
    fine = np.unique(np.concatenate([times, np.linspace(0.0, times[-1], 20001)]))
    low_pass, previous = [x[0, 0]], x[0, 0]
    inputs = np.interp(fine, times, x[:, 0])
    for h, a, b in zip(np.diff(fine), inputs[:-1], inputs[1:], strict=True):
        previous += h / TF * (0.5 * (a + b) - previous) / (1.0 + 0.5 * h / TF)  # trapezoidal rule
        low_pass.append(previous)
    expected = (inputs - np.array(low_pass)) / TF
    np.testing.assert_allclose(run(x, steps)[:, 0], np.interp(times[1:], fine, expected), atol=1e-3 * np.ptp(expected))


def test_a_ramp_is_differentiated_exactly_in_the_end():
    dt = 0.001
    x = np.outer(np.arange(100) * dt, [1.5, -0.5])
    np.testing.assert_allclose(run(x, dt)[-1], [1.5, -0.5], rtol=1e-9)


def test_a_reset_to_the_first_sample_avoids_an_initial_jump():
    filtered = PseudoDifferentiator(TF, 2)
    filtered.reset(np.array([2.0, -3.0]))
    np.testing.assert_array_equal(filtered.update(0.001, np.array([2.0, -3.0])), [0.0, 0.0])
    unlike = PseudoDifferentiator(TF, 2)
    unlike.reset(np.zeros(2))
    assert np.max(np.abs(unlike.update(0.001, np.array([2.0, -3.0])))) > 100.0


def test_a_late_sample_causes_no_oscillation():
    filtered = PseudoDifferentiator(TF, 1)
    filtered.reset(np.zeros(1))
    outputs = [filtered.update(0.02, np.array([x]))[0] for x in (1.0, 1.0, 1.0, 1.0)]
    assert np.all(np.diff(outputs) <= 0.0) and min(outputs) >= 0.0
    tustin = (2 * TF - 0.02) / (2 * TF + 0.02)
    assert tustin < 0.0  # what the bilinear rule would have multiplied the old output with


def test_buffers_of_the_caller_may_be_reused():
    filtered = PseudoDifferentiator(TF, 1)
    buffer = np.zeros(1)
    filtered.reset(buffer)
    buffer[0] = 1.0
    first = filtered.update(0.001, buffer)
    kept = first.copy()
    buffer[0] = 2.0
    filtered.update(0.001, buffer)
    np.testing.assert_array_equal(first, kept)
    assert first[0] > 0.0


@pytest.mark.parametrize("dt", [0.0, -0.001, np.nan, np.inf])
def test_stamps_that_do_not_increase_are_refused(dt):
    filtered = PseudoDifferentiator(TF, 1)
    filtered.reset(np.zeros(1))
    with pytest.raises(DataError, match="sample time"):
        filtered.update(dt, np.zeros(1))


def test_update_before_reset_and_bad_time_constant_are_refused():
    with pytest.raises(DataError, match="reset"):
        PseudoDifferentiator(TF, 1).update(0.001, np.zeros(1))
    with pytest.raises(ConfigurationError, match="time constant"):
        PseudoDifferentiator(0.0, 1)
