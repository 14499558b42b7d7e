"""Trajectories through waypoints: rest, derivatives, limits and concatenation."""

import numpy as np
import pytest

from dynid.errors import ConfigurationError, DataError, SafetyError
from dynid.trajectory.interpolation import rest
from dynid.trajectory.trajectory import Trajectory, approach, concatenate, through

JOINTS = ("shoulder", "elbow", "wrist")
POINTS = np.array([[0.0, 0.1, -0.2], [0.5, -0.4, 0.3], [0.5, -0.4, 0.3], [-0.9, 0.2, 0.0], [0.1, 0.1, 0.1]])
VELOCITY, ACCELERATION = np.array([1.0, 1.2, 2.0]), np.array([3.0, 4.0, 5.0])


def make(name="sweep", points=POINTS, factors=1.0, dwell=0.0):
    return through(name, JOINTS, points, VELOCITY, ACCELERATION, factors, dwell)


def test_passes_the_waypoints_at_rest_and_holds_outside():
    trajectory = make(dwell=0.2)
    q, dq, ddq = trajectory.sample_all(trajectory.knots)
    np.testing.assert_allclose(q, trajectory.waypoints, atol=1e-9)
    np.testing.assert_allclose(dq, 0.0, atol=1e-9)
    np.testing.assert_allclose(ddq, 0.0, atol=1e-9)
    assert len(trajectory.laws) == 3 + 2  # equal neighbours count once; two dwells at inner waypoints
    for t, point in ((-1.0, POINTS[0]), (trajectory.duration + 9.0, POINTS[-1])):
        q, dq, ddq = (rows[0] for rows in trajectory.sample_all(np.array([t])))
        np.testing.assert_array_equal(q, point)
        assert not dq.any() and not ddq.any()
    np.testing.assert_array_equal(trajectory.start, POINTS[0])
    np.testing.assert_array_equal(trajectory.end, POINTS[-1])


def test_derivatives_are_exact_everywhere():
    trajectory = make(dwell=0.1)
    h = 1e-5
    times = np.random.default_rng(7).uniform(0.0, trajectory.duration, 400)
    _, dq, ddq = trajectory.sample_all(times)
    ahead, behind = trajectory.sample_all(times + h), trajectory.sample_all(times - h)
    np.testing.assert_allclose((ahead[0] - behind[0]) / (2 * h), dq, atol=1e-8)
    np.testing.assert_allclose((ahead[1] - behind[1]) / (2 * h), ddq, atol=2e-3)


def test_acceleration_has_no_steps():
    trajectory = make()
    h = 1e-4
    times = np.arange(-0.1, trajectory.duration + 0.1, h)
    ddq = trajectory.sample_all(times)[2]
    longest = np.max(np.abs(np.diff(trajectory.waypoints, axis=0)))
    jerk = longest * max(6 * law.rate / law.ramp**2 for law in trajectory.laws)
    assert np.max(np.abs(np.diff(ddq, axis=0))) <= 1.01 * jerk * h


def test_single_samples_equal_the_batch():
    trajectory = make(dwell=0.1)
    times = np.linspace(-0.2, trajectory.duration + 0.2, 777)
    single = np.empty((3, len(times), len(JOINTS)))
    for k, t in enumerate(times.tolist()):
        trajectory.sample_into(t, *single[:, k])
    for one, many in zip(single, trajectory.sample_all(times), strict=True):
        np.testing.assert_allclose(one, many, atol=1e-10)


def test_peaks_are_those_of_the_samples_and_within_the_limits():
    trajectory = make(factors=[0.5, 0.5, 1.0, 0.3])
    _, dq, ddq = trajectory.sample_all(np.arange(0.0, trajectory.duration, 1e-4))
    np.testing.assert_allclose(np.max(np.abs(dq), axis=0), trajectory.peak_velocities, rtol=1e-4)
    np.testing.assert_allclose(np.max(np.abs(ddq), axis=0), trajectory.peak_accelerations, rtol=1e-3)
    assert np.all(trajectory.peak_velocities <= VELOCITY + 1e-12)
    assert np.all(trajectory.peak_accelerations <= ACCELERATION + 1e-12)


def test_speed_factor_scales_both_limits():
    slow, fast = make(factors=0.25), make()
    assert np.all(slow.peak_velocities <= 0.25 * VELOCITY + 1e-12)
    assert np.all(slow.peak_accelerations <= 0.25 * ACCELERATION + 1e-12)
    assert slow.duration > fast.duration


def test_limits_are_kept_or_the_joint_time_and_value_are_named():
    trajectory = make()
    lower, upper = POINTS.min(axis=0), POINTS.max(axis=0)
    trajectory.check_limits(lower, upper, trajectory.peak_velocities)
    with pytest.raises(SafetyError, match=r"elbow reaches -22\.92 deg at \d"):
        trajectory.check_limits(lower + np.array([0.0, 0.01, 0.0]), upper, VELOCITY)
    with pytest.raises(SafetyError, match=r"wrist reaches 17\.19 deg"):
        trajectory.check_limits(lower, upper - np.array([0.0, 0.0, 0.01]), VELOCITY)
    slower = trajectory.peak_velocities * [1.0, 0.9, 1.0]
    with pytest.raises(SafetyError, match=r"elbow moves at .* rad/s at .* s; allowed is"):
        trajectory.check_limits(lower, upper, slower)


def test_concatenation_keeps_the_parts_and_bridges_gaps_slowly():
    first, second = make(), make("other", POINTS[::-1] + 0.3)
    joined = concatenate("both", [first, first, second], 0.1 * VELOCITY, 0.1 * ACCELERATION)
    gaps = [first.start - first.end, second.start - first.end]
    assert len(joined.laws) == 2 * len(first.laws) + len(second.laws) + len(gaps)
    times = np.linspace(0.0, first.duration, 50)
    np.testing.assert_allclose(joined.sample_all(times)[0], first.sample_all(times)[0], atol=1e-12)
    offset = joined.duration - second.duration
    np.testing.assert_allclose(joined.sample_all(times + offset)[0], second.sample_all(times)[0], atol=1e-9)
    middle = joined.sample_all(np.array([first.duration + 0.5 * joined.laws[len(first.laws)].duration]))[1]
    assert np.all(np.abs(middle) <= 0.1 * VELOCITY + 1e-12)
    assert middle.any()


def test_touching_parts_are_joined_without_a_move():
    first = make()
    back = make("back", POINTS[::-1])
    joined = concatenate("both", [first, back], VELOCITY, ACCELERATION)
    assert joined.duration == pytest.approx(first.duration + back.duration)


def test_parts_of_other_joints_and_no_parts_are_refused():
    other = through("x", ("a", "b", "c"), POINTS, VELOCITY, ACCELERATION)
    with pytest.raises(ConfigurationError, match="different joints"):
        concatenate("both", [make(), other], VELOCITY, ACCELERATION)
    with pytest.raises(ConfigurationError, match="no parts"):
        concatenate("none", [], VELOCITY, ACCELERATION)


def test_approach_is_slow_and_may_be_of_zero_length():
    move = approach(POINTS[0], POINTS[1], JOINTS)
    np.testing.assert_allclose(move.sample_all(np.array([move.duration]))[0][0], POINTS[1])
    assert np.max(move.peak_velocities) <= 0.4 + 1e-12 and np.max(move.peak_accelerations) <= 0.8 + 1e-12
    still = approach(POINTS[0], POINTS[0], JOINTS)
    assert still.duration == 0.0
    np.testing.assert_array_equal(still.sample_all(np.zeros(1))[0][0], POINTS[0])
    np.testing.assert_array_equal(still.sample_all(np.array([0.0, 1.0]))[0], [POINTS[0]] * 2)


def test_results_cannot_be_changed():
    trajectory = make()
    with pytest.raises(ValueError, match="read-only"):
        trajectory.waypoints[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        trajectory.start[0] = 1.0
    with pytest.raises(AttributeError):
        trajectory.name = "other"


@pytest.mark.parametrize("points", [np.zeros((2, 2)), np.zeros((3, 3)), np.zeros(3), np.full((2, 3), np.nan)])
def test_misshapen_waypoints_are_refused(points):
    with pytest.raises(ConfigurationError, match="sweep"):
        Trajectory("sweep", JOINTS, points, (rest(1.0),))


def test_times_that_are_no_times_are_refused():
    with pytest.raises(DataError, match="finite"):
        make().sample_all(np.array([0.0, np.inf]))
    with pytest.raises(DataError, match="shape"):
        make().sample_all(np.zeros((2, 2)))
