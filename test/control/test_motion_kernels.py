"""Compiled functions of a motion's cycle against numpy, bit for bit."""

import numpy as np
import pytest

from dynid.control.motion_kernels import add_error, differentiate, pd_torque, reduce_yielding, stands, tracking_error

SIZE, CASES = 8, 500


def drawn(seed: int) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).normal(size=(6, SIZE)))


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    return found.tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize("largest", [0.5, 3.0])
def test_tracking_error_states_whether_the_arm_is_near(largest: float) -> None:
    near = []
    for seed in range(CASES):
        q, q_ref, *_ = drawn(seed)
        error, kept = tracking_error(q, q_ref, largest)
        assert same(error, q - q_ref)
        assert kept == (np.abs(q - q_ref).max() <= largest)
        near.append(kept)
    assert any(near) == (largest > 1.0) and not all(near)


def test_tracking_error_that_is_no_number_is_not_near() -> None:
    q = np.zeros(SIZE)
    q[3] = np.nan
    assert not tracking_error(q, np.zeros(SIZE), np.inf)[1]
    assert tracking_error(np.zeros(SIZE), np.zeros(SIZE), 0.0)[1]


def test_statistics_of_errors_are_those_of_numpy() -> None:
    squares, largest, sums, most = np.zeros((4, SIZE))
    found = []
    for seed in range(CASES):
        error, tolerance, *_ = drawn(seed)
        tolerance = np.abs(tolerance) + 2.0
        found.append(add_error(error, tolerance, squares, largest))
        sums += error * error
        most = np.maximum(most, np.abs(error))
        assert found[-1] == bool((np.abs(error) > tolerance).any())
        assert same(squares, sums) and same(largest, most)
    assert any(found) and not all(found)


def test_yielding_is_taken_back_to_zero_at_a_limited_rate() -> None:
    given, q_ref, *_ = drawn(1)
    expected, held = given.copy(), np.zeros(SIZE)
    for _ in range(100):
        reduce_yielding(given, 0.05, q_ref, held)
        expected -= np.clip(expected, -0.05, 0.05)
        assert same(given, expected) and same(held, q_ref + expected)
    assert not given.any()


def test_derivative_is_that_of_numpy_and_a_new_array() -> None:
    before, output, *_ = drawn(2)
    last, expected, kept = before.copy(), output.copy(), []
    for seed in range(CASES):
        x = drawn(seed)[0]
        found = differentiate(x, before, output, 0.7, 300.0)
        expected = 0.7 * expected + (x - last) * 300.0
        last = x
        kept.append((found, expected))
        assert same(before, x)
    assert all(same(*one) for one in kept)


def test_reference_stands_only_without_velocity_and_acceleration() -> None:
    zero, moving = np.zeros(SIZE), np.zeros(SIZE)
    moving[-1] = 1e-300
    assert stands(zero, zero) and stands(-zero, zero)
    assert not stands(moving, zero) and not stands(zero, moving) and not stands(zero, zero + np.nan)


def test_pd_torque_is_that_of_numpy() -> None:
    for seed in range(CASES):
        q, dq, q_ref, dq_ref, ddq_ref, _ = drawn(seed)
        gains = np.array(drawn(seed + 1)[:4])
        expected = gains[0] * (dq_ref - dq)
        expected += gains[1] * (q_ref - q)
        expected += gains[2] * ddq_ref
        expected += gains[3] * dq_ref
        assert same(pd_torque(q, dq, q_ref, dq_ref, ddq_ref, gains), expected)
