"""Motions as polynomials: the same states as sampled, and extrema between samples."""

import numpy as np
import pytest

from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.pieces import MOST_BISECTIONS, Pieces, first_beyond, from_thirds
from dynid.trajectory.polynomial import through_points
from dynid.trajectory.trajectory import approach, through

ROBOT = load_robot("crane_x7")
JOINTS = ("a", "b")


def drawn(seed):
    rng = np.random.default_rng(seed)
    times = np.concatenate([[0.0], np.cumsum(10.0 ** rng.uniform(-2.5, 0.0, 12))])
    rows = rng.normal(size=(3, 13, 2))
    rows[1, [0, -1]] = 0.0
    return through_points("drawn", JOINTS, times, *rows[: 1 + seed % 3])


@pytest.mark.parametrize("seed", range(6))
def test_pieces_have_the_states_and_peaks_of_the_motion(seed):
    motion = drawn(seed) if seed < 3 else load_excitation(ROBOT).trajectory(("V01", "PB01", "AP01")[seed - 3])
    pieces = motion.pieces()
    times = np.sort(np.random.default_rng(seed).uniform(1e-6, motion.duration, 3000))
    piece = np.searchsorted(pieces.begins, times, side="right") - 1
    found = pieces.derivatives(piece, times - pieces.begins[piece], 3)
    for ours, sampled in zip(found, motion.sample_all(times), strict=True):
        np.testing.assert_allclose(ours, sampled, atol=1e-8)
    dense = pieces.derivatives(
        *np.divmod(np.arange(len(pieces.begins) * 2000), 2000)[:1],
        np.outer(pieces.durations, np.linspace(0.0, 1.0, 2000)).ravel(),
        3,
    )
    for order, values in enumerate(dense):
        most = np.abs(values).max(axis=0)
        peaks = pieces.peaks(order)
        assert (peaks >= most * (1.0 - 1e-9) - 1e-12).all()
        np.testing.assert_allclose(peaks, most, rtol=1e-4, atol=1e-9)
        assert pieces.first_beyond(order, -peaks * (1.0 + 1e-6), peaks * (1.0 + 1e-6)) is None
        beyond = pieces.first_beyond(order, -0.999 * peaks, 0.999 * peaks)
        assert beyond is not None
        where, since, joint, value = beyond
        assert abs(value) > 0.999 * peaks[joint]
        state = pieces.derivatives(np.array([where]), np.array([since]), 3)[order][0, joint]
        assert value == pytest.approx(state, rel=1e-6, abs=1e-9)


def test_a_peak_between_two_samples_is_found():
    """A step of 0.3 rad in 0.8 ms, between two moments of a grid of 2 ms."""
    times, q = [0.0, 0.5001, 0.5009, 1.0], np.array([[0.0, 0.0], [0.0, 0.0], [0.3, 0.0], [0.3, 0.0]])
    pieces = through_points("step", JOINTS, times, q, np.zeros((4, 2)), np.zeros((4, 2))).pieces()
    assert pieces.peaks(1)[0] == pytest.approx(15.0 / 8.0 * 0.3 / 0.0008, rel=1e-6)
    found = pieces.first_beyond(1, -np.ones(2), np.ones(2))
    assert found is not None and found[0] == 1 and found[2] == 0


def test_how_far_joints_move_within_a_span_is_bounded():
    pieces, rng = drawn(2).pieces(), np.random.default_rng(0)
    piece = rng.integers(len(pieces.begins), size=200)
    begin, end = np.sort(rng.uniform(size=(2, 200)), axis=0) * pieces.durations[piece]
    middle, away = pieces.around(piece, begin, end)
    for share in np.linspace(0.0, 1.0, 21):
        q = pieces.derivatives(piece, begin + share * (end - begin), 1)[0]
        assert (np.abs(q - middle) <= away + 1e-12).all()


@pytest.mark.parametrize(
    "motion",
    [
        through_points("point", JOINTS, [0.0], np.array([[0.3, -0.2]])),
        approach(np.array([0.3, -0.2]), np.array([0.3, -0.2]), JOINTS),
        through("still", JOINTS, np.array([[0.3, -0.2]]), np.ones(2), np.ones(2)),
    ],
)
def test_a_motion_that_stands_is_one_piece(motion):
    pieces = motion.pieces()
    assert pieces.begins.tolist() == [0.0] and pieces.durations.tolist() == [0.0]
    q, dq, ddq = pieces.derivatives(np.zeros(1, dtype=int), np.zeros(1), 3)
    assert q[0].tolist() == [0.3, -0.2] and not dq.any() and not ddq.any()
    assert pieces.first_beyond(0, np.zeros(2) - 0.25, np.ones(2)) is None
    assert pieces.first_beyond(0, np.zeros(2), np.ones(2)) == (0, 0.0, 1, -0.2)


def test_nan_counts_as_beyond_a_limit():
    one = np.zeros((1, 4))
    assert first_beyond(one, -np.ones(1), np.ones(1)) is None
    assert first_beyond(one, np.full(1, np.nan), np.ones(1)) is not None
    one[0, 2] = np.nan
    assert first_beyond(one, -np.ones(1), np.ones(1)) is not None


def test_a_curve_that_touches_its_limit_ends_the_search():
    """1 - (x - 1/3)^2 is nowhere beyond 1, and no number of halvings decides about less."""
    control = from_thirds() @ (1.0 - (np.arange(4) / 3.0 - 1.0 / 3.0) ** 2)
    found = first_beyond(control[None], np.array([-9.0]), np.array([1.0]))
    assert found is None or abs(found[1] - 1.0 / 3.0) < 2.0 ** (1 - MOST_BISECTIONS // 2)
    assert first_beyond(control[None], np.array([-9.0]), np.array([1.0 + 1e-9])) is None
    assert first_beyond(control[None], np.array([-9.0]), np.array([1.0 - 1e-9])) is not None


def test_pieces_without_duration_are_left_out():
    knots = np.array([0.0, 0.0, 1.0, 1.0])
    coefficients = np.arange(18.0).reshape(3, 6, 1)
    pieces = Pieces.of(knots, coefficients, np.zeros(1))
    assert pieces.begins.tolist() == [0.0] and np.array_equal(pieces.coefficients[0], coefficients[1])
