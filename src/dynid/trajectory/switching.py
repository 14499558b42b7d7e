"""Signals that switch between -1 and +1 for open-loop excitation of one joint (arXiv:2605.15949, section III-B)."""

import math

import numpy as np
import scipy  # `scipy.signal` is loaded at first use: importing it doubles a node's start time

from dynid.errors import ConfigurationError
from dynid.robot import FloatArray, read_only

ORDERS = range(4, 11)


def square_wave(period_s: float, periods: int, step_s: float) -> FloatArray:
    """Return a square wave of -1 and +1, shifted by a quarter of a period.

    Because of the shift, a mass that is accelerated by this signal returns to its start after every period.

    Args:
        period_s: period [s].
        periods: number of periods.
        step_s: time between two samples [s].

    Returns:
        -1 and +1 at every sample, (N,).

    Raises:
        ConfigurationError: there are no periods, or a period is shorter than four samples.
    """
    quarter = round(period_s / 4.0 / step_s)
    if quarter < 1 or periods < 1:
        raise ConfigurationError(
            f"a square wave of {periods} periods of {period_s} s; expected at least one, of at least {4 * step_s} s"
        )
    half = np.repeat([-1.0, 1.0], 2 * quarter)
    wave = np.concatenate([np.ones(quarter), np.tile(half, periods)])[: 4 * quarter * periods]
    return read_only(wave)


def binary_sequence(order: int, bit_s: float, step_s: float, start: int = 1) -> FloatArray:
    """Return a pseudo-random binary sequence of maximal length, 2^order - 1 bits.

    The spectrum is flat up to 0.4 / bit_s [Hz].

    Args:
        order: number of bits of the shift register, 4 to 10.
        bit_s: shortest time between two switches [s].
        step_s: time between two samples [s].
        start: initial state of the register, 1 to 2^order - 1; another state shifts the sequence.

    Returns:
        -1 and +1 at every sample, (N,).

    Raises:
        ConfigurationError: order or state is outside these bounds, or a bit is shorter than a sample.
    """
    if order not in ORDERS or not 1 <= start < 2**order:
        raise ConfigurationError(
            f"a binary sequence of order {order} from state {start}; expected an order of {ORDERS[0]} to {ORDERS[-1]} "
            "and a state from 1 to 2^order - 1"
        )
    length = round(bit_s / step_s)
    if length < 1:
        raise ConfigurationError(f"a binary sequence with bits of {bit_s} s; expected at least {step_s} s")
    bits, _ = scipy.signal.max_len_seq(order, state=[start >> k & 1 for k in range(order)])
    return read_only(np.repeat(2.0 * bits - 1.0, length))


def excursion(signal: FloatArray, step_s: float, time_constant_s: float) -> FloatArray:
    """Return the displacement (N,) [s] of a joint whose velocity follows a signal as a first-order lag.

    This is the joint model of arXiv:2605.15949, eq. 1. The lag has a gain of 1 without unit, so a displacement has the
    unit of time.

    Args:
        signal: the signal, (N,) [-].
        step_s: time between two samples [s].
        time_constant_s: time constant of the lag [s].
    """
    decay = math.exp(-step_s / time_constant_s)
    return np.asarray(np.cumsum(scipy.signal.lfilter([1.0 - decay], [1.0, -decay], signal)) * step_s)


def calm_sequence(order: int, bit_s: float, step_s: float, time_constant_s: float) -> FloatArray:
    """Return the pseudo-random binary sequence (N,) [-] with the smallest excursion of a joint that it drives.

    Candidates are sequences with different initial states of the shift register. The result has the smallest maximum
    of the joint's absolute displacement, as computed by `excursion`.

    Args:
        order: number of bits of the shift register, 4 to 10.
        bit_s: shortest time between two switches [s].
        step_s: time between two samples [s].
        time_constant_s: time constant of the joint's velocity [s].
    """
    candidates = [binary_sequence(order, bit_s, step_s, start) for start in range(1, 2**order, 2)]
    return min(candidates, key=lambda one: float(np.abs(excursion(one, step_s, time_constant_s)).max()))
