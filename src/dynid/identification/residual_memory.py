"""How long what a model leaves of torques stays alike, while a joint slides one way.

Residuals have passed a low-pass. Noise has forgotten itself half a period of the cut-off later; friction that the law
does not have is still there: the dip at low speed, bristles, a share of the load.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray

FEWEST = 30  # samples or pairs; fewer say nothing
LASTING_S = (0.2, 0.6)  # apart: a joint often still slides the same way
PASSING_PERIODS = (0.5, 1.0)  # of the cut-off, apart
NEAR_REVERSAL = (1, 4)  # the first class whose joints do not stick, and the first that is not near a reversal
LEAST_SHARE = 0.25
TINY = 1e-300


def _pairs(time: FloatArray, interval_s: float, first: int, last: int) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Steps apart, and which samples (N - steps, 1) are of the same recording so many steps later."""
    for steps in range(first, last + 1):
        apart = time[steps:] - time[:-steps]
        yield steps, ((apart > 0.0) & (apart < 1.5 * steps * interval_s))[:, None]


def lasting_variance(
    time: FloatArray, residual: FloatArray, dq: FloatArray, slides: NDArray[np.bool_], interval_s: float
) -> FloatArray:
    """Mean product (n,) [N^2 m^2] of residuals `LASTING_S` apart, of joints that slide the same way at both times.

    Args:
        time: (N,) [s], rising within a recording.
        residual, dq: (N, n) [N m, rad/s].
        slides: whether a joint slides, (N, n).
        interval_s: from sample to sample [s].

    Returns:
        At least 0; 0 where fewer than `FEWEST` pairs were seen.
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
    """What share of the residual's mean square is still there `PASSING_PERIODS` later, by class of speed and axis.

    A pair counts where its speeds are of one class at both ends: what friction leaves changes with speed. Across a
    reversal, which joints pass sooner than that, other pairs count, with both ends in `NEAR_REVERSAL`. There friction
    that is missing turns with the motion, while a reversal that is seen too late or too soon leaves the same on both
    sides. The larger share of the two is taken. A class with fewer than `FEWEST` pairs has the share of all of
    `NEAR_REVERSAL` or of all that are faster, and these, of all that slide.

    Args:
        time: (N,) [s], rising within a recording.
        residual, dq: (N, n) [N m, rad/s].
        classes: of speed, from 0, (N, n).
        interval_s: from sample to sample [s].
        cutoff_hz: of the low-pass that residuals have passed.
        count: of classes.

    Returns:
        0, or from `LEAST_SHARE` to 1, (count, n): less is chance, and what a low-pass leaves of noise.
    """
    own = classes == np.arange(count)[:, None, None]  # (classes, N, n)
    squares = (residual**2 * own).sum(axis=1) / np.maximum(own.sum(axis=1), 1)
    lags = [max(1, int(periods / (cutoff_hz * interval_s) + 0.5)) for periods in PASSING_PERIODS]
    turns, slow = residual * np.sign(dq), own[slice(*NEAR_REVERSAL)].any(axis=0)
    products, pairs, expected = np.zeros((3, 2, *squares.shape))  # of one way, and across a reversal
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
    shares[1][NEAR_REVERSAL[1] :] = 0.0  # reversals say nothing of joints that are fast
    larger = np.maximum(shares[0], shares[1])
    return np.where(larger >= LEAST_SHARE, np.minimum(larger, 1.0), 0.0)


def _of_groups(products: FloatArray, pairs: FloatArray, expected: FloatArray) -> FloatArray:
    """Shares (count, n) of the mean square; of several classes together where one has too few pairs, else 0."""
    first, fast = NEAR_REVERSAL
    count, shares = len(pairs), np.zeros_like(products)
    for group in (slice(first, fast), slice(fast, count)):
        for several in (slice(first, count), group, None):
            a, b, c = (
                one[group] if several is None else one[several].sum(axis=0) for one in (products, pairs, expected)
            )
            shares[group] = np.where(b >= FEWEST, a / np.maximum(c, TINY), shares[group])
    return shares
