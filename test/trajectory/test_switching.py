"""Binary sequences and square waves."""

import numpy as np
import pytest

from dynid.errors import ConfigurationError
from dynid.trajectory.switching import binary_sequence, calm_sequence, excursion, square_wave

STEP = 0.001


@pytest.mark.parametrize("order", [4, 5, 6, 7, 8, 9, 10])
def test_binary_sequences_are_of_maximal_length(order):
    """The periodic autocorrelation of a maximal sequence has two values: its length, and -1 everywhere else."""
    bits = binary_sequence(order, STEP, STEP)
    length = 2**order - 1
    assert bits.shape == (length,) and set(bits.tolist()) == {-1.0, 1.0}
    correlation = np.rint([np.dot(bits, np.roll(bits, k)) for k in range(length)])
    assert correlation[0] == length and np.all(correlation[1:] == -1)


def test_another_start_shifts_the_sequence_and_bits_have_their_length():
    bits, shifted = (binary_sequence(5, STEP, STEP, start) for start in (1, 7))
    assert any(np.array_equal(np.roll(bits, k), shifted) for k in range(1, 31))
    np.testing.assert_array_equal(binary_sequence(5, 3 * STEP, STEP), np.repeat(bits, 3))


def test_square_wave_brings_a_mass_back_every_period():
    def path(wave):
        return np.cumsum(np.cumsum(wave)) * STEP**2

    wave = square_wave(0.4, 5, STEP)
    assert len(wave) == 2000 and abs(wave.sum()) < 1e-9
    position = path(wave)
    np.testing.assert_allclose(position[399::400], 0.0, atol=0.01 * np.ptp(position))
    drifting = path(np.sign(np.sin(2 * np.pi * (np.arange(2000) + 0.5) / 400)))
    assert abs(drifting[-1]) > 0.9 * np.ptp(drifting)


def test_the_calm_sequence_carries_a_joint_less_far_than_others():
    def furthest(signal):
        return np.abs(excursion(signal, STEP, 0.15)).max()

    calm = calm_sequence(7, 0.015, STEP, 0.15)
    others = [furthest(binary_sequence(7, 0.015, STEP, start)) for start in (1, 9, 33, 101)]
    assert furthest(calm) <= min(others) < max(others)


def test_excursion_is_that_of_a_first_order_lag():
    signal = np.ones(2000)
    expected = 2.0 - 0.15 * (1.0 - np.exp(-2.0 / 0.15))
    assert excursion(signal, STEP, 0.15)[-1] == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: square_wave(0.002, 3, STEP),
        lambda: square_wave(0.4, 0, STEP),
        lambda: binary_sequence(3, 0.01, STEP),
        lambda: binary_sequence(7, 0.0001, STEP),
        lambda: binary_sequence(7, 0.01, STEP, 0),
        lambda: binary_sequence(7, 0.01, STEP, 128),
    ],
)
def test_signals_that_cannot_be_made_are_refused(make):
    with pytest.raises(ConfigurationError, match="expected"):
        make()
