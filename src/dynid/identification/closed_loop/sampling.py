"""Sampling of signals that are given on a fine time grid, with interpolation and the filter of the measured torques.

A sample is a weighted sum of grid values. The weights are those of linear interpolation, convolved with the impulse
response of the anti-alias filter. Simulated torques and their Jacobian are thus band-limited like the measured torques,
without filtering every column of the Jacobian over the whole motion.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.robot import FloatArray, read_only

PHASE_DECIMALS = 6  # decimals of a sample's position between nodes; samples at equal positions use equal weights


def impulse_response(filtered: Callable[[FloatArray], FloatArray], longest: int, tolerance: float = 1e-7) -> FloatArray:
    """Return the impulse response of a zero-phase filter on its grid, (2 h + 1,), with a sum of 1.

    The ends of the response, where all weights are below `tolerance` times the largest weight, are cut off.

    Args:
        filtered: function that filters a signal (N, 1), any unit.
        longest: largest permitted half length h.
        tolerance: largest weight that is cut off, relative to the largest weight of all.

    Raises:
        DataError: if the response is not symmetric, so the filter is not zero-phase.
    """
    impulse = np.zeros((4 * longest + 1, 1))
    impulse[2 * longest] = 1.0
    response = filtered(impulse)[longest : 3 * longest + 1, 0]
    largest = float(np.abs(response).max())
    if not np.allclose(response, response[::-1], atol=1e-6 * largest):
        raise DataError("the filter of the measured torques is not symmetric in time; a zero-phase filter is needed")
    symmetric = 0.5 * (response + response[::-1])
    return shortened(symmetric / symmetric.sum(), tolerance)


def shortened(response: FloatArray, tolerance: float) -> FloatArray:
    """Return an impulse response (K,) without its ends below `tolerance` times the largest value.

    The remaining values are scaled so that their sum equals that of the whole response.
    """
    half = len(response) // 2
    keep = int(np.max(np.abs(np.flatnonzero(np.abs(response) >= tolerance * np.abs(response).max()) - half)))
    kept = response[half - keep : half + keep + 1]
    return read_only(kept * (response.sum() / kept.sum()))


@dataclass(frozen=True, eq=False)
class Sampling:
    """Weights that give samples as weighted sums of a signal on a time grid.

    The instants of the grid are called nodes. With the value y[k] of the signal at node k, sample s is the sum over j
    of weights[which[s], j] y[first[s] + j].

    Attributes:
        first: index of the first node that each sample uses, (S,).
        which: row of `weights` that each sample uses, (S,); samples at equal positions between nodes use the same row.
        weights: weights of the nodes, (rows, taps).
        nodes: number of nodes.
    """

    first: NDArray[np.int64]
    which: NDArray[np.int64]
    weights: FloatArray
    nodes: int

    @classmethod
    def of(cls, times: FloatArray, nodes: int, spacing: float, response: FloatArray, cycle: float) -> "Sampling":
        """Return the weights of the nodes for samples at given times.

        The nodes are at 0, spacing, 2 spacing, ... Before the first and after the last node, the signal is assumed
        constant.

        Args:
            times: times of the samples, (S,) [s].
            nodes: number of nodes.
            spacing: time between nodes [s].
            response: impulse response of the filter at intervals of `cycle`, (taps,); (1,) for no filter.
            cycle: time between values of the response [s].
        """
        half = len(response) // 2
        reach = half * cycle / spacing
        position = np.asarray(times) / spacing
        whole = np.floor(position + 10.0**-PHASE_DECIMALS)
        phase = np.round(position - whole, PHASE_DECIMALS)
        inside = (position - reach >= 0) & (position + reach <= nodes - 2)
        # a sample near an end has clipped weights of its own; other samples with the same phase use the same weights
        keys = np.where(inside, phase, 2.0 + np.arange(len(position)))
        _, chosen, which = np.unique(keys, return_index=True, return_inverse=True)
        offsets = np.arange(-half, half + 1) * (cycle / spacing)
        rows, starts = [], np.empty(len(chosen), dtype=np.int64)
        for k, sample in enumerate(chosen):
            at = np.clip(whole[sample] + phase[sample] + offsets, 0.0, nodes - 1.0)
            node = np.minimum(at.astype(np.int64), max(nodes - 2, 0))
            starts[k] = node[0]
            size = int(node[-1] - node[0]) + 2
            share = at - node
            row = np.bincount(node - node[0], (1 - share) * response, minlength=size)
            rows.append(row + np.bincount(node - node[0] + 1, share * response, minlength=size))
        taps = max(map(len, rows))
        # a row may not reach beyond the last node: shift it back and pad in front
        shift = np.maximum(starts + taps - nodes, 0)
        weights = np.zeros((len(rows), taps))
        for k, row in enumerate(rows):
            room = weights[k, shift[k] :]
            room[: len(row)] = row[: len(room)]
        first = whole.astype(np.int64) + (starts - shift - whole[chosen].astype(np.int64))[which]
        return cls(first, which.astype(np.int64), weights, nodes)
