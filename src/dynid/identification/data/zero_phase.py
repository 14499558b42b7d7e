"""Zero-phase filtering of many columns at once: second-order sections run forward and backward.

The result equals `scipy.signal.sosfiltfilt` along the first axis. That function filters one column after the other.
Here the inner loop runs over columns, so that the processor can compute several columns at once. Speed matters, because
the friction fit filters some hundred columns in every iteration. The filter is also designed here, because importing
`scipy.signal` takes longer than the whole filtering.
"""

import numba
import numpy as np

from dynid.errors import DataError
from dynid.robot import FloatArray

PADDED_TAPS = 3  # padding on each side, in multiples of the filter's taps, as in scipy


def butterworth_sections(order: int, cutoff_hz: float, rate_hz: float) -> FloatArray:
    """Return a Butterworth low-pass as second-order sections [b0 b1 b2 1 a1 a2], (ceil(order / 2), 6).

    The analog filter's pairs of poles, 1 / (s^2 + 2 sin(psi) s + 1) with psi = (2 k + 1) pi / (2 order), are mapped by
    the bilinear transform with pre-warped cut-off: s = (z - 1) / (K (z + 1)), K = tan(pi cutoff / rate). The result
    equals `scipy.signal.butter` except for the order of the sections and the distribution of the gain.
    """
    K = np.tan(np.pi * cutoff_hz / rate_hz)
    sections = np.empty(((order + 1) // 2, 6))
    for k in range(order // 2):
        damping = 2.0 * np.sin(np.pi * (2 * k + 1) / (2 * order)) * K
        whole = 1.0 + damping + K**2
        gain = K**2 / whole
        sections[k] = gain, 2.0 * gain, gain, 1.0, 2.0 * (K**2 - 1.0) / whole, (1.0 - damping + K**2) / whole
    if order % 2:
        gain = K / (1.0 + K)
        sections[-1] = gain, gain, 0.0, 1.0, (K - 1.0) / (1.0 + K), 0.0
    return sections


def steady_states(sections: FloatArray) -> FloatArray:
    """Return the internal states (s, 2) of second-order sections in series, for a constant filter input of 1.

    Args:
        sections: the sections, (s, 6).
    """
    states, through = np.empty((len(sections), 2)), 1.0
    for state, (b0, b1, b2, _, a1, a2) in zip(states, sections, strict=True):
        before, through = through, through * (b0 + b1 + b2) / (1.0 + a1 + a2)
        state[1] = b2 * before - a2 * through
        state[0] = b1 * before - a1 * through + state[1]
    return states


def filtered_both_ways(sections: FloatArray, values: FloatArray) -> FloatArray:
    """Return values filtered forward and backward by second-order sections, (M, ...), any unit.

    Both ends of the values are extended by odd reflection before filtering.

    Args:
        sections: the filter, (s, 6).
        values: values, (M, ...), any unit.

    Raises:
        DataError: M is not larger than the length of each extension, `PADDED_TAPS` * (order of the filter + 1).
    """
    padded = PaddedRows()
    padded.rows(sections, len(values), values[0].size if len(values) else 0)[:] = values.reshape(len(values), -1)
    return padded.filtered(sections).reshape(values.shape)


class PaddedRows:
    """Reusable memory for an array that is filtered in place, with extended ends for the start-up of the filter.

    A fit filters some ten megabytes in every iteration. Allocating new memory each time would take longer than the
    filtering itself.
    """

    def __init__(self) -> None:
        self._memory, self._edge = np.zeros(0), 0
        self._padded = np.zeros((0, 0))

    def rows(self, sections: FloatArray, count: int, columns: int) -> FloatArray:
        """Return an array (count, columns) for the values to filter; it is valid until the next call of this method.

        Args:
            sections: the filter as second-order sections, (s, 6).
            count: number of rows.
            columns: number of columns.

        Raises:
            DataError: `count` is not larger than the number of rows that extend each end, `PADDED_TAPS` * (order of the
                filter + 1).
        """
        taps = 2 * len(sections) + 1 - min(int((sections[:, 2] == 0.0).sum()), int((sections[:, 5] == 0.0).sum()))
        edge = PADDED_TAPS * taps
        if count <= edge:
            raise DataError(f"{count} rows are too few for the low-pass, expected more than {edge}: record longer")
        size = (count + 2 * edge) * columns
        if len(self._memory) < size:
            self._memory = np.empty(size)
        self._edge, self._padded = edge, self._memory[:size].reshape(count + 2 * edge, columns)
        return self._padded[edge:-edge]

    def filtered(self, sections: FloatArray) -> FloatArray:
        """Filter the array that `rows` returned last, forward and backward, and return it, (count, columns).

        Args:
            sections: the filter as second-order sections, (s, 6).
        """
        edge, padded = self._edge, self._padded
        values = padded[edge:-edge]
        padded[:edge] = 2.0 * values[0] - values[edge:0:-1]
        padded[-edge:] = 2.0 * values[-1] - values[-2 : -edge - 2 : -1]
        begin = steady_states(sections)
        _filter(sections, begin, padded, False)
        _filter(sections, begin, padded, True)
        return values


@numba.njit(cache=True)
def _filter(sections: FloatArray, begin: FloatArray, values: FloatArray, backward: bool) -> None:
    """Filter values in place by second-order sections, in transposed direct form II.

    The filter starts in the steady state for a constant input equal to the row that it filters first.

    Args:
        sections: the filter, (s, 6).
        begin: internal states for a constant input of 1, (s, 2).
        values: values, (M, k), any unit.
        backward: whether the filter runs from the last row to the first.
    """
    rows, columns = values.shape
    first, second = np.empty((2, len(sections), columns))
    start = rows - 1 if backward else 0
    for s in range(len(sections)):
        for c in range(columns):  # a loop, because numba would take two seconds to compile an array expression
            first[s, c], second[s, c] = begin[s, 0] * values[start, c], begin[s, 1] * values[start, c]
    for step in range(rows):
        t = rows - 1 - step if backward else step
        for s in range(len(sections)):
            b0, b1, b2, _, a1, a2 = sections[s]
            for c in range(columns):
                x = values[t, c]
                y = b0 * x + first[s, c]
                first[s, c] = b1 * x - a1 * y + second[s, c]
                second[s, c] = b2 * x - a2 * y
                values[t, c] = y
