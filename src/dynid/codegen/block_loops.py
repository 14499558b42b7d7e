"""Compiled loops that run generated programs over arrays of states of any length.

The loops are the same for all arms and compiled once; each receives its program as an address, see
`dynid.codegen.kernels.load_programs`.
"""

from typing import Any

import numpy as np

from dynid.codegen.emit import RANGE
from dynid.codegen.vector_ir import LANES, compiled, run_program


@compiled
def fill_lanes(source: Any, first: int, target: Any) -> None:
    """Copy LANES rows of an array, from row `first` on, into the columns of a block.

    Programs process the LANES columns of a block together. If rows are missing at the end, the last row is repeated.

    Args:
        source: array of N states, (N, m) with m >= k; only its first k columns are copied.
        first: index of the first row.
        target: the block, (k, LANES).
    """
    for j in range(len(target)):
        for lane in range(LANES):
            target[j, lane] = source[min(first + lane, len(source) - 1), j]


@compiled
def count_outside(block: Any, limit: float) -> int:
    """Return the number of entries of a block (k, LANES) that are NaN or outside +-limit."""
    count = 0
    for j in range(len(block)):
        for lane in range(LANES):
            count += 0 if abs(block[j, lane]) <= limit else 1
    return count


@compiled
def smallest_pivots(program: int, chain: int, q: Any, phi: Any, eps: Any, smallest: Any) -> int:
    """Write the smallest LDL pivot of M(q; phi) - eps I at each of N poses to `smallest`; M is the inertia matrix.

    The search at a pose ends at the first pivot that is not positive, since later pivots have no meaning.

    Args:
        program: address of a compiled program that computes all pivots from the chain joints' positions, phi and eps.
        chain: number of chain joints, the joints of the serial chain, which come first in q; the other axes are
            decoupled, such as a gripper.
        q: poses, (N, n) [rad; m if prismatic].
        phi: base parameters, (p,), SI.
        eps: eps in an array (1,) [kg m^2].
        smallest: result, (N,) [kg m^2].

    Returns:
        0 if the positions of all chain joints are within +-RANGE [rad]; a positive number if any is beyond, where the
        program is inaccurate, or NaN.
    """
    positions, values = np.empty((chain, LANES)), np.empty((q.shape[1], LANES))
    outside = 0
    for first in range(0, len(q), LANES):
        fill_lanes(q, first, positions)
        outside += count_outside(positions, RANGE)
        run_program(program, (positions, phi, eps, values))
        low = values[-1]
        for row in values[-2::-1]:
            for lane in range(LANES):
                low[lane] = row[lane] if low[lane] > 0.0 and not row[lane] >= low[lane] else low[lane]
        for lane in range(min(LANES, len(q) - first)):
            smallest[first + lane] = low[lane]
    return outside


@compiled
def evaluate_states(program: int, chain: int, q: Any, dq: Any, third: Any, phi: Any, result: Any) -> int:
    """Run a compiled program for N states, and write its k outputs per state to `result`.

    Args:
        program: address of the program, see `dynid.codegen.kernels.load_programs`.
        chain: number of chain joints, the joints of the serial chain, which come first in q; the other axes are
            decoupled, such as a gripper.
        q: positions, (N, n) [rad; m if prismatic].
        dq: velocities, (N, n).
        third: further input of the program, such as accelerations or torques, (N, n).
        phi: base parameters, (p,), SI.
        result: outputs, (N, k).

    Returns:
        0 if the positions of all chain joints are within +-RANGE [rad]; a positive number if any is beyond, where the
        program is inaccurate, or NaN.
    """
    lanes, values = np.empty((3, q.shape[1], LANES)), np.empty((result.shape[1], LANES))
    a, b, c = lanes[0], lanes[1], lanes[2]
    outside = 0
    for first in range(0, len(q), LANES):
        fill_lanes(q, first, a)
        fill_lanes(dq, first, b)
        fill_lanes(third, first, c)
        outside += count_outside(a[:chain], RANGE)
        run_program(program, (a, b, c, phi, values))
        for lane in range(min(LANES, len(q) - first)):
            for k in range(len(values)):
                result[first + lane, k] = values[k, lane]
    return outside
