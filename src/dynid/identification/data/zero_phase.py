"""Second-order sections applied forward and backward to many columns at once: no phase is left.

The same as `scipy.signal.sosfiltfilt` along the first axis, which filters one column after the other. Here all columns
take a step together, so that the processor works on several at once: the friction fit filters some hundred columns in
every round.
"""

import numba
import numpy as np
from scipy.signal import sosfilt_zi

from dynid.errors import DataError
from dynid.robot import FloatArray

PADDED_TAPS = 3  # on both sides, times the filter's taps; as in scipy


def filtered_both_ways(sections: FloatArray, values: FloatArray) -> FloatArray:
    """Values (M, ...) behind the sections (s, 6), forward and backward, (M, ...); ends are extended by odd reflection.

    Raises:
        DataError: M is not larger than `PADDED_TAPS` times the filter's taps.
    """
    taps = 2 * len(sections) + 1 - min(int((sections[:, 2] == 0.0).sum()), int((sections[:, 5] == 0.0).sum()))
    edge = PADDED_TAPS * taps
    if len(values) <= edge:
        raise DataError(f"{len(values)} rows are too few for the low-pass, expected more than {edge}: record longer")
    before = 2.0 * values[:1] - values[edge:0:-1]
    after = 2.0 * values[-1:] - values[-2 : -edge - 2 : -1]
    padded = np.ascontiguousarray(np.concatenate([before, values, after]), dtype=np.float64)
    begin = sosfilt_zi(sections)
    columns = padded.reshape(len(padded), -1)  # the same memory
    _filter(sections, begin, columns)
    _filter(sections, begin, columns[::-1])
    return padded[edge:-edge]


@numba.njit(cache=True)
def _filter(sections: FloatArray, begin: FloatArray, values: FloatArray) -> None:
    """Filter values (M, k) in place, from the steady state of their first row; transposed direct form II."""
    rows, columns = values.shape
    first, second = np.empty((2, len(sections), columns))
    for s in range(len(sections)):
        first[s], second[s] = begin[s, 0] * values[0], begin[s, 1] * values[0]
    for t in range(rows):
        for s in range(len(sections)):
            b0, b1, b2, _, a1, a2 = sections[s]
            for c in range(columns):
                x = values[t, c]
                y = b0 * x + first[s, c]
                first[s, c] = b1 * x - a1 * y + second[s, c]
                second[s, c] = b2 * x - a2 * y
                values[t, c] = y
