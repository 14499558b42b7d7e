"""Polynomial motions through given points: derivatives, continuity, and refusals."""

import tracemalloc

import numpy as np
import pytest
from scipy.interpolate import BPoly, PPoly

from dynid.control.path_time_scaling import PathTimeScaling
from dynid.control.plan import Brake, HoldPath
from dynid.errors import ConfigurationError, DataError
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.polynomial import through_points
from dynid.trajectory.trajectory import through

JOINTS = ("a", "b")
TIMES = np.array([0.5, 1.0, 1.8, 3.0])
Q = np.array([[0.0, 1.0], [0.4, 0.5], [-0.2, 0.7], [0.3, 0.3]])
DQ = np.array([[0.0, 0.0], [0.1, -0.3], [0.5, 0.2], [0.0, 0.0]])
DDQ = np.array([[1.0, 0.0], [0.2, -0.1], [-0.5, 0.3], [-1.0, 2.0]])
ROWS = {"positions": (Q,), "velocities": (Q, DQ), "accelerations": (Q, DQ, DDQ)}


@pytest.mark.parametrize("kind", ROWS)
def test_passes_every_point_as_given_and_its_derivatives_are_exact(kind):
    rows = ROWS[kind]
    motion = through_points("p", JOINTS, TIMES, *rows)
    assert motion.duration == 2.5
    for given, found in zip(rows, motion.sample_all(TIMES - 0.5), strict=False):
        np.testing.assert_allclose(found[1:-1], given[1:-1], atol=1e-12)
    inside = np.random.default_rng(0).uniform(0.01, 2.49, 300)
    inside = inside[np.abs(inside[:, None] - (TIMES - 0.5)).min(axis=1) > 1e-3]
    h = 1e-6
    ahead, behind, here = (motion.sample_all(inside + d) for d in (h, -h, 0.0))
    np.testing.assert_allclose((ahead[0] - behind[0]) / (2 * h), here[1], atol=1e-7)
    np.testing.assert_allclose((ahead[1] - behind[1]) / (2 * h), here[2], atol=1e-6)


@pytest.mark.parametrize("kind", ROWS)
def test_position_and_velocity_never_jump_and_it_rests_outside(kind):
    motion = through_points("p", JOINTS, TIMES, *ROWS[kind])
    times = np.arange(-0.2, 2.8, 1e-4)
    q, dq, ddq = motion.sample_all(times)
    assert np.abs(np.diff(q, axis=0)).max() < 2e-4 * np.abs(dq).max()
    assert np.abs(np.diff(dq, axis=0)).max() < 2e-4 * np.abs(ddq).max()
    for outside, end in ((times <= 0.0, Q[0]), (times >= 2.5, Q[-1])):
        np.testing.assert_array_equal(q[outside], np.broadcast_to(end, q[outside].shape))
        assert not dq[outside].any() and not ddq[outside].any()
    np.testing.assert_allclose(motion.peak_velocities, np.abs(dq).max(axis=0), rtol=0.01)
    if kind != "velocities":
        assert np.abs(np.diff(ddq[(times > 1e-3) & (times < 2.499)], axis=0)).max() < 0.1


@pytest.mark.parametrize("derivatives", [1, 2])
def test_the_pieces_equal_those_of_scipy(derivatives):
    rng = np.random.default_rng(derivatives)
    times = np.concatenate([[0.0], np.cumsum(rng.uniform(0.01, 1.0, 40))])
    rows = rng.standard_normal((1 + derivatives, 41, 2))
    rows[1, [0, -1]] = 0.0
    found = through_points("m", ("a", "b"), times, *rows).coefficients
    pieces = np.moveaxis(PPoly.from_bernstein_basis(BPoly.from_derivatives(times, rows.swapaxes(0, 1))).c[::-1], 0, 1)
    np.testing.assert_allclose(found[:, : pieces.shape[1]], pieces, rtol=1e-9, atol=1e-12 * np.abs(pieces).max())
    assert not found[:, pieces.shape[1] :].any()


def test_a_single_point_gives_a_constant_posture():
    motion = through_points("p", JOINTS, [0.0], Q[:1])
    assert motion.duration == 0.0
    np.testing.assert_array_equal(motion.sample_all(np.array([-1.0, 0.0, 1.0]))[0], np.tile(Q[0], (3, 1)))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([], np.zeros((0, 2))), "expected at least one, increasing"),
        (([0.0, 1.0, 1.0, 2.0], Q), "increasing from 0"),
        (([-1.0, 1.0, 1.5, 2.0], Q), "increasing from 0"),
        ((TIMES, Q[:, :1]), r"positions of shape \(4, 1\); expected \(4, 2\)"),
        ((TIMES, Q * np.nan), "positions of a are nan at point 1; expected finite"),
        ((TIMES, Q, None, DDQ), "accelerations but no velocities"),
        ((TIMES, Q, DQ + 0.1), "begins at 0.1 rad/s; it must start and end at rest"),
        ((TIMES, Q, DQ * [[1], [1], [1], [0]] + [[0], [0], [0], [0.2]]), "ends at 0.2 rad/s"),
    ],
)
def test_points_that_make_no_motion_are_refused(arguments, words):
    with pytest.raises(ConfigurationError, match=words):
        through_points("p", JOINTS, *arguments)
    with pytest.raises(DataError, match="finite"):
        through_points("p", JOINTS, TIMES, Q).sample_all(np.array([np.nan]))


def largest_allocation(step, times):
    """Bytes that were in use at once beyond those before, while `step` ran for every time."""
    step(float(times[0]))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for t in times:
            step(t)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_sampling_into_buffers_allocates_no_array():
    """With a thousand axes: what Python itself needs for a call does not grow with them, an array does."""
    size = 1000
    names = tuple(f"j{k}" for k in range(size))
    points = np.random.default_rng(0).normal(size=(3, size))
    limits = np.ones(size)
    motions = (through_points("p", names, [0.0, 1.0, 2.0], points), through("t", names, points, limits, limits))
    stops = (Brake(points[0], points[1]), HoldPath(points[0].copy()))
    scaling = PathTimeScaling(size)
    scaling.slowed(0.5)
    for path in (*motions, *stops):
        q, dq, ddq = np.empty((3, size))

        def paced(t, path=path, q=q, dq=dq, ddq=ddq):
            path.sample_into(t, q, dq, ddq)
            scaling.scale(0.1, dq, ddq)

        times = np.linspace(0.0, path.duration + 0.1, 100).tolist()
        path.sample_into(path.duration + 0.1, q, dq, ddq)
        assert largest_allocation(paced, times) < 8 * size
    for motion in motions:
        assert largest_allocation(lambda t: motion.sample_all(np.array([t])), [0.0, 0.5]) > 8 * size  # noqa: B023


def test_sampling_into_buffers_equals_sampling_of_all_times():
    motion = load_excitation(load_robot("crane_x7")).trajectory("demo_identification")
    times = np.random.default_rng(1).uniform(-0.5, motion.duration + 0.5, 2000)
    rows = np.empty((len(times), 3, 8))
    for row, t in zip(rows, times.tolist(), strict=True):
        motion.sample_into(t, *row)
    for k, expected in enumerate(motion.sample_all(times)):
        np.testing.assert_allclose(rows[:, k], expected, atol=1e-11)


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(("large", "gap"), [(1e308, 0.5), (1.0, 1e-300)], ids=["large", "close"])
def test_points_whose_motion_overflows_are_refused(kind, large, gap):
    rows = [row.copy() for row in ROWS[kind]]
    rows[0][1] *= large
    times = TIMES.copy() if gap == 0.5 else np.array([0.0, gap, 1.0, 2.0])
    with pytest.raises(ConfigurationError, match="s apart: too far for a motion") as caught:
        through_points("p", JOINTS, times, *rows)
    assert "trajectory 'p'" in str(caught.value)
