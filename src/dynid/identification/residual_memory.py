"""Autocorrelation of torque residuals while a joint moves in one direction.

The residuals have passed a low-pass filter, so their noise is uncorrelated after half a period of the cut-off
frequency. Friction that the fitted friction law does not contain, such as Stribeck friction, bristles or load-dependent
friction, remains correlated for longer.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray

FEWEST = 30  # least number of samples or pairs for a mean
LASTING_S = (0.2, 0.6)  # shortest and longest lag [s]: joints often still slide in the same direction
PASSING_PERIODS = (0.5, 1.0)  # shortest and longest lag for `passing_shares`, in periods of the cut-off frequency
NEAR_REVERSAL = (1, 4)  # first speed class whose joints do not stick, and first class away from reversals
LEAST_SHARE = 0.25
TINY = 1e-300


def _pairs(time: FloatArray, interval_s: float, first: int, last: int) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield each lag from `first` to `last`, with a mask (N - lag, 1) of pairs of samples that are this lag apart.

    Element i belongs to the samples i and i + lag. It is True if both lie in one recording, without a long gap between
    them.

    Args:
        time: times of the samples, (N,) [s], increasing within a recording.
        interval_s: time between samples [s].
        first: smallest lag, in samples.
        last: largest lag, in samples.
    """
    for steps in range(first, last + 1):
        apart = time[steps:] - time[:-steps]
        yield steps, ((apart > 0.0) & (apart < 1.5 * steps * interval_s))[:, None]


def lasting_variance(
    time: FloatArray, residual: FloatArray, dq: FloatArray, slides: NDArray[np.bool_], interval_s: float
) -> FloatArray:
    """Return the autocovariance of each joint's residuals at lags in the interval `LASTING_S`, (n,) [N^2 m^2].

    The autocovariance is the mean product of the residuals of two samples with such a lag between them. Only
    those pairs count at both of whose samples the joint moves, without sticking, in the same direction.

    Args:
        time: times of the samples, (N,) [s], increasing within a recording.
        residual: torque residuals, (N, n) [N m].
        dq: joint velocities, (N, n) [rad/s].
        slides: mask of the samples in which a joint moves without sticking, (N, n).
        interval_s: time between samples [s].

    Returns:
        Autocovariances; 0 instead of a negative mean, and for joints with fewer than `FEWEST` pairs.
    """
    total, count = np.zeros((2, residual.shape[1]))
    first, last = max(1, round(LASTING_S[0] / interval_s)), round(LASTING_S[1] / interval_s)
    for steps, near in _pairs(time, interval_s, first, last):
        pairs = slides[steps:] & slides[:-steps] & (dq[steps:] * dq[:-steps] > 0.0) & near
        total += (residual[steps:] * residual[:-steps] * pairs).sum(axis=0)
        count += pairs.sum(axis=0)
    return np.where(count >= FEWEST, np.maximum(total, 0.0) / np.maximum(count, 1.0), 0.0)


def passing_shares(
    time: FloatArray,
    residual: FloatArray,
    dq: FloatArray,
    classes: NDArray[np.int64],
    interval_s: float,
    cutoff_hz: float,
    count: int,
) -> FloatArray:
    """Return the share of the residual's mean square that noise does not explain, by speed class and axis.

    The share is estimated from products of the residuals of two samples (a pair). The lag between the samples is half a
    period to one period of the low-pass's cut-off frequency (`PASSING_PERIODS`). Noise is uncorrelated at such lags. A
    correlation of the residuals is therefore attributed to friction that the friction law does not model.

    There are three kinds of classes: class 0, in which joints may stick; the slow classes, in which joints are often
    near a reversal; and the fast classes. `NEAR_REVERSAL` states the first slow and the first fast class. A slow or
    fast class with fewer than `FEWEST` pairs gets the share of all classes of its kind. If these have too few pairs,
    too, it gets the share of all slow and fast classes together.

    A first estimate uses pairs of samples in the same speed class and direction. Slow joints often reverse before the
    lag has passed. So for slow classes, a second estimate uses pairs of slow samples across a reversal, and the larger
    of the two estimates is returned. Missing friction gives residuals of opposite sign before and after a reversal. An
    error in the time of the reversal gives residuals of the same sign, which lower the second estimate.

    Args:
        time: times of the samples, (N,) [s], increasing within a recording.
        residual: torque residuals, (N, n) [N m].
        dq: joint velocities, (N, n) [rad/s].
        classes: speed classes from 0, (N, n).
        interval_s: time between samples [s].
        cutoff_hz: cut-off frequency of the low-pass that the residuals have passed [Hz].
        count: number of classes.

    Returns:
        Shares, (count, n), from `LEAST_SHARE` to 1. Smaller shares are set to 0, because they may be due to chance or
        to low-passed noise.
    """
    own = classes == np.arange(count)[:, None, None]  # (classes, N, n)
    squares = (residual**2 * own).sum(axis=1) / np.maximum(own.sum(axis=1), 1)
    lags = [max(1, int(periods / (cutoff_hz * interval_s) + 0.5)) for periods in PASSING_PERIODS]
    turns, slow = residual * np.sign(dq), own[slice(*NEAR_REVERSAL)].any(axis=0)
    products, pairs, expected = np.zeros((3, 2, *squares.shape))  # one direction; across a reversal
    level = np.take_along_axis(squares, classes, axis=0)
    for steps, near in _pairs(time, interval_s, *lags):
        product, expects = turns[steps:] * turns[:-steps], np.sqrt(level[steps:] * level[:-steps])
        same, both_slow = dq[steps:] * dq[:-steps] > 0.0, slow[steps:] & slow[:-steps]
        for ends in (own[:, steps:], own[:, :-steps]):
            one_way = own[:, steps:] & own[:, :-steps] & same & near
            for kind, counts in enumerate((one_way, ends & both_slow & ~same & near)):
                products[kind] += (product * counts).sum(axis=1)
                expected[kind] += (expects * counts).sum(axis=1)
                pairs[kind] += 0.5 * counts.sum(axis=1)
    shares = [_of_groups(*one) for one in zip(products, pairs, expected, strict=True)]
    shares[1][NEAR_REVERSAL[1] :] = 0.0  # fast joints are not near a reversal
    larger = np.maximum(shares[0], shares[1])
    return np.where(larger >= LEAST_SHARE, np.minimum(larger, 1.0), 0.0)


def _of_groups(products: FloatArray, pairs: FloatArray, expected: FloatArray) -> FloatArray:
    """Return the share of the mean square residual that is correlated in time, (count, n), by speed class and axis.

    `count` is the number of speed classes. The share of class 0 is 0, because joints may stick in it. All other classes
    form two groups, slow and fast ones; `NEAR_REVERSAL` states the first class of each group. A class with fewer than
    `FEWEST` pairs gets the share of its group. A group with too few pairs gets the share of both groups together, or 0
    if both together have too few pairs.

    Args:
        products: sums of the products of the residuals of two samples, over all pairs of samples, (count, n) [N^2 m^2].
        pairs: number of pairs of samples, (count, n).
        expected: sums of the products if the residuals were fully correlated, (count, n) [N^2 m^2].
    """
    first, fast = NEAR_REVERSAL
    count, shares = len(pairs), np.zeros_like(products)
    for group in (slice(first, fast), slice(fast, count)):
        for several in (slice(first, count), group, None):
            a, b, c = (
                one[group] if several is None else one[several].sum(axis=0) for one in (products, pairs, expected)
            )
            shares[group] = np.where(b >= FEWEST, a / np.maximum(c, TINY), shares[group])
    return shares
