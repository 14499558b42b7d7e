"""Interpolation between two postures at rest: time law, continuity and limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynid.errors import ConfigurationError
from dynid.trajectory.interpolation import point_to_point, rest
from dynid.trajectory.trajectory import Trajectory

LIMIT = st.floats(0.05, 20.0)
LENGTH = st.floats(1e-3, 6.0)


def sampled(law, count=4001):
    times = np.linspace(0.0, law.duration, count)
    way = Trajectory("way", ("j",), np.array([[0.0], [1.0]]), (law,))
    return times, np.column_stack(way.sample_all(times))


@given(LENGTH, LENGTH, LIMIT, LIMIT, LIMIT, LIMIT)
def test_reaches_the_end_at_rest_and_one_limit_is_met(d1, d2, v1, v2, a1, a2):
    d, v, a = np.array([d1, -d2]), np.array([v1, v2]), np.array([a1, a2])
    law = point_to_point(d, v, a)
    times, values = sampled(law)
    s, ds, dds = values.T
    np.testing.assert_allclose(values[[0, -1]], [[0, 0, 0], [1, 0, 0]], atol=1e-9)
    assert np.all(np.diff(s) >= -1e-12)
    used_velocity = np.max(np.abs(d) * np.max(ds) / v)
    used_acceleration = np.max(np.abs(d) * np.max(np.abs(dds)) / a)
    assert used_velocity <= 1 + 1e-9 and used_acceleration <= 1 + 1e-9
    assert max(used_velocity, np.max(np.abs(d) * 1.5 * law.rate / law.ramp / a)) == pytest.approx(1.0)
    assert times[-1] == pytest.approx(2 * law.ramp + law.cruise)


@pytest.mark.parametrize(("length", "cruises"), [(2.0, True), (0.05, False)])
def test_cruise_phase_exists_exactly_where_the_length_allows_it(length, cruises):
    law = point_to_point(np.array([length]), np.array([1.0]), np.array([3.0]))
    assert (law.cruise > 0.0) is cruises
    if cruises:
        assert law.rate * length == pytest.approx(1.0)
        assert law.duration == pytest.approx(length / 1.0 + 1.5 * 1.0 / 3.0)
    else:
        assert law.rate * length < 1.0
        assert law.duration == pytest.approx(2 * np.sqrt(1.5 * length / 3.0))


@pytest.mark.parametrize("length", [2.0, 0.05])
def test_derivatives_match_finite_differences_and_acceleration_is_continuous(length):
    law = point_to_point(np.array([length]), np.array([1.0]), np.array([3.0]))
    times, values = sampled(law, 20001)
    h = times[1] - times[0]
    s, ds, dds = values.T
    np.testing.assert_allclose((s[2:] - s[:-2]) / (2 * h), ds[1:-1], atol=1e-5)
    np.testing.assert_allclose((ds[2:] - ds[:-2]) / (2 * h), dds[1:-1], atol=2e-2)
    largest_jerk = 6 * law.rate / law.ramp**2
    assert np.max(np.abs(np.diff(dds))) <= 1.01 * largest_jerk * h
    assert dds[0] == 0.0 and abs(dds[-1]) < 1e-9


def test_a_trapezoidal_velocity_would_fail_the_continuity_check():
    law = point_to_point(np.array([2.0]), np.array([1.0]), np.array([3.0]))
    times, _ = sampled(law, 20001)
    h = times[1] - times[0]
    dds = np.where(times < law.ramp, law.rate / law.ramp, 0.0)
    assert np.max(np.abs(np.diff(dds))) > 1.01 * (6 * law.rate / law.ramp**2) * h


def test_nothing_to_move_takes_no_time_and_a_rest_does_not_move():
    assert point_to_point(np.zeros(3), np.ones(3), np.ones(3)).duration == 0.0
    assert rest(0.7).duration == pytest.approx(0.7)
    still = Trajectory("still", ("j",), np.zeros((2, 1)), (rest(0.7),))
    assert not np.any(still.sample_all(np.array([0.3, 0.5])))


@pytest.mark.parametrize(
    ("displacement", "velocity", "acceleration", "named"),
    [
        ([np.nan], [1.0], [1.0], "displacement"),
        ([1.0], [0.0], [1.0], "velocity"),
        ([1.0], [1.0], [-2.0], "acceleration"),
        ([1.0], [1.0], [np.inf], "acceleration"),
    ],
)
def test_bad_limits_are_named(displacement, velocity, acceleration, named):
    with pytest.raises(ConfigurationError, match=named):
        point_to_point(np.array(displacement), np.array(velocity), np.array(acceleration))


@pytest.mark.parametrize("duration", [-0.1, np.nan, np.inf])
def test_impossible_dwell_is_refused(duration):
    with pytest.raises(ConfigurationError, match="dwell"):
        rest(duration)
