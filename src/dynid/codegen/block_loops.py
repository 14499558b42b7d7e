"""Loops around generated programs, for arrays of states of any length.

`dynid.codegen.kernels` writes the source of these functions into a generated module, where the programs are functions
and the sizes are constants; numba then compiles them as one unit. Nothing here is called as it stands.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.codegen.emit import RANGE
from dynid.codegen.vector_ir import LANES, WIDTH

CHAIN = AXES = 0  # sizes of the arm; every generated module has its own

if TYPE_CHECKING:

    def pivots(lane: int, arrays: Any) -> None:
        """Program: the chain's LDL pivots of M(q; phi) - eps I."""

    def states_program(lane: int, arrays: Any) -> None:
        """Program: any function of q, dq, a third vector and phi."""


def fill_lanes(source: Any, first: int, target: Any) -> None:
    """Copy rows first .. first + LANES - 1 of `source` (N, k) into the columns of `target`; the last row repeats."""
    for lane in range(LANES):
        row = min(first + lane, len(source) - 1)
        for j in range(len(target)):
            target[j, lane] = source[row, j]


def count_outside(block: Any, limit: float) -> int:
    """How many entries are not within +-limit; NaN is not."""
    count = 0
    for j in range(len(block)):
        for lane in range(LANES):
            count += 0 if abs(block[j, lane]) <= limit else 1
    return count


def smallest_pivots(q: Any, phi: Any, eps: Any, smallest: Any) -> int:
    """Smallest LDL pivot of M(q; phi) - eps I per pose; once a pivot is not positive, later ones do not count.

    Returns how many positions were out of range.
    """
    positions, values = np.empty((CHAIN, LANES)), np.empty((AXES, LANES))
    outside = 0
    for first in range(0, len(q), LANES):
        fill_lanes(q, first, positions)
        outside += count_outside(positions, RANGE)
        for lane in range(0, LANES, WIDTH):
            pivots(lane, (positions, phi, eps, values))
        for lane in range(min(LANES, len(q) - first)):
            low = values[AXES - 1, lane]
            for i in range(AXES - 2, -1, -1):
                if low > 0.0 and not values[i, lane] >= low:
                    low = values[i, lane]
            smallest[first + lane] = low
    return outside


def evaluate_states(q: Any, dq: Any, third: Any, phi: Any, result: Any) -> int:
    """A program's outputs, (N, k), for states and a third vector, (N, n) each; returns how many q were out of range."""
    lanes, values = np.empty((3, AXES, LANES)), np.empty((result.shape[1], LANES))
    a, b, c = lanes[0], lanes[1], lanes[2]
    outside = 0
    for first in range(0, len(q), LANES):
        fill_lanes(q, first, a)
        fill_lanes(dq, first, b)
        fill_lanes(third, first, c)
        outside += count_outside(a[:CHAIN], RANGE)
        for lane in range(0, LANES, WIDTH):
            states_program(lane, (a, b, c, phi, values))
        for lane in range(min(LANES, len(q) - first)):
            for k in range(len(values)):
                result[first + lane, k] = values[k, lane]
    return outside
