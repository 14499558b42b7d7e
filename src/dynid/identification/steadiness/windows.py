"""Products of a regression's columns in each window of time, for the search for changes of the arm.

The matrix A of the regression has the weighted columns of all parameters, the columns of properties that are tested for
changes, and the residual. Each window's product A'A is computed once. A change over time is a property's column times a
function of time that is constant in each window. So the change and its standard deviation are estimated from these
products alone, without the rows of A.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dynid.identification.data.samples import Samples
from dynid.identification.estimators.uncertainty import MEMORY_S
from dynid.identification.steadiness.fit import LAGS
from dynid.robot import FloatArray

FEWEST, MOST = 24, 120  # number of windows of all recordings together


@dataclass(frozen=True, eq=False)
class Windows:
    """Consecutive windows of time that together cover all samples.

    Attributes:
        first: index of the first sample of each window, (w,).
        count: number of samples.
        begin: start time of each window on its recording's axis, (w,) [s].
        middle: middle of each window on its recording's axis, (w,) [s].
        recording: index of each window's recording, (w,).
        share: position of each window's middle among the samples of all recordings, (w,), from 0 for the first sample
            to 1 for the last.
        lags: largest number of windows between two windows whose residuals are correlated.
    """

    first: NDArray[np.int64]
    count: int
    begin: FloatArray
    middle: FloatArray
    recording: NDArray[np.int64]
    share: FloatArray
    lags: int

    def __len__(self) -> int:
        return len(self.first)

    @classmethod
    def of(cls, samples: Samples) -> "Windows":
        """Return windows that last about `MEMORY_S`, longer in long recordings; each lies within one recording."""
        time, interval, count = samples.time, samples.settings.interval_s, len(samples)
        width = max(MEMORY_S / interval, count / MOST, 1.0)
        width = min(width, max(count / FEWEST, 2.0))
        starts = [0, *(np.flatnonzero(np.diff(time) <= 0.0) + 1).tolist(), count]
        first: list[int] = []
        recording: list[int] = []
        for k, (a, b) in enumerate(pairwise(starts)):
            own = np.unique(np.rint(np.linspace(a, b, max(1, round((b - a) / width)) + 1)).astype(int))[:-1]
            first += own.tolist()
            recording += [k] * len(own)
        begins = np.array(first)
        ends = np.append(begins[1:], count)
        middle = 0.5 * (begins + ends - 1)
        return cls(
            begins,
            count,
            time[begins],
            0.5 * (time[begins] + time[ends - 1]),
            np.array(recording),
            middle / max(count - 1, 1),
            max(LAGS, math.ceil(MEMORY_S / (width * interval))),
        )

    def products(self, rows: FloatArray, axes: int) -> FloatArray:
        """Return the product A'A of the rows A of each window of time, (w, k, k), any unit.

        Args:
            rows: matrix A of all windows, (N n, k).
            axes: number n of rows per sample.
        """
        parts = np.split(rows, axes * self.first[1:])
        return np.stack([part.T @ part for part in parts])
