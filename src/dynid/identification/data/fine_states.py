"""States on a fine time grid, and functions of these states, low-pass filtered in the same way as the torques.

The low-pass F of the torques does not commute with the regressor W: W(F q) phi is not F (W(q) phi), because W is not
linear in q. Coulomb friction, tanh(dq / v), is the least linear part. So W is computed from states of higher bandwidth,
on a correspondingly fine grid. Then each column of W passes the low-pass of the torques. Both sides are resampled
equally:

    F tau = F[W(q, dq, ddq)] phi

Before this, a filter of higher bandwidth, the states' filter, has been applied to both q and tau. F is known as the
parallel filter in identification by inverse dynamics (Gautier). F is a Butterworth filter, or the average under test
functions (`weak_form`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dynid.identification.data.weak_form import HOPS, averaged
from dynid.identification.data.zero_phase import PaddedRows, filtered_both_ways
from dynid.robot import FloatArray, read_only

Function = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
GRID_OF_CUTOFF = 32  # smallest number of grid steps per period of the low-pass's cut-off frequency


@dataclass(frozen=True, eq=False)
class FineStates:
    """States of one recording on a grid that is finer than the sampling interval; state arrays are read-only.

    The grid has M instants, N of which are the instants of the samples.

    Attributes:
        q: positions (M, n) [rad].
        dq: velocities (M, n) [rad/s].
        ddq: accelerations (M, n) [rad/s^2].
        sections: low-pass of the torques on this grid, as second-order sections (s, 6).
        nodes: indices (N,) of the samples in the grid.
        wide: filter of the states on this grid, as second-order sections (s, 6); None if the states were not filtered.
        tau: torques after the states' filter, (M, n) [N m]; empty in tests that do not need torques.
        raw: unfiltered torques, averaged around each grid instant, (M, n) [N m].
        other_raw: like `raw`, from the current (present or goal) that `tau` does not come from; None if it was not
            recorded.
        kernel: weights of a test function, (2 r + 1,), if averages under it are used as low-pass instead of `sections`;
            else None.
        later_s: middle of the time span of these states minus the middle of the recording [s]; 0 if they cover the
            whole recording.
        ripple: part of the torques that the low-pass removes, at R instants around each grid instant, (M, R, n) [N m].
        slowest: smallest recorded velocity near each state, (M, n) [rad/s]; positive if it has the direction of `dq`. A
            value near 0 or below shows a short stop, see `slowest_velocities`. None if no velocity was recorded.
    """

    q: FloatArray
    dq: FloatArray
    ddq: FloatArray
    sections: FloatArray
    nodes: NDArray[np.int64]
    tau: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    ripple: FloatArray = field(default_factory=lambda: np.zeros((0, 1, 0)))
    wide: FloatArray | None = None
    raw: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    other_raw: FloatArray | None = None
    later_s: float = 0.0
    kernel: FloatArray | None = None
    slowest: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("q", "dq", "ddq", "tau", "ripple"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def low_pass(self, values: FloatArray) -> FloatArray:
        """Apply the torques' low-pass to values (M, ...) on the grid; return the result at the samples only, (N, ...).

        The values may have any unit.
        """
        columns = values.reshape(len(values), -1)
        if self.kernel is not None:
            averages = averaged(columns, self.kernel, self.nodes)
            return averages.reshape((len(self.nodes), *values.shape[1:]))
        filtered = filtered_both_ways(self.sections, columns)
        return np.asarray(filtered[self.nodes].reshape(-1, *values.shape[1:]))

    def low_pass_filled(self, columns: int, fill: Callable[[FloatArray], None], space: PaddedRows) -> FloatArray:
        """Apply the torques' low-pass to values that a function computes, and return them at the samples, (N, columns).

        The values may have any unit. The function writes into reused memory, which saves time.

        Args:
            columns: number of columns.
            fill: function that writes its values at all grid instants into the array (M, columns) that it receives.
            space: memory for this array, which successive calls reuse.
        """
        if self.kernel is not None:
            values = np.empty((len(self.q), columns))
            fill(values)
            return self.low_pass(values)
        fill(space.rows(self.sections, len(self.q), columns))
        return np.asarray(space.filtered(self.sections)[self.nodes])

    def low_pass_sharp(self, values: FloatArray) -> FloatArray:
        """Apply the states' filter and the torques' low-pass to values (M, k), and return them at the samples, (N, k).

        The measured torques have passed both filters. Values that change abruptly, such as friction at a reversal, must
        pass both as well. Values that are nearly linear in the states need only `low_pass`, because the states have
        already passed the states' filter. The values may have any unit.
        """
        return self.low_pass(self.wide_pass(values))

    def wide_pass(self, values: FloatArray) -> FloatArray:
        """Apply the states' filter to values on the grid, and return the result, (M, k), any unit.

        The values are returned unchanged if the states were not filtered.

        Args:
            values: values on the grid, (M, k).
        """
        return values if self.wide is None else filtered_both_ways(self.wide, values)

    def low_passed(self, function: Function) -> FloatArray:
        """Return a function of q, dq and ddq at the samples, (N, ...), low-pass filtered like the torques.

        Args:
            function: maps q, dq and ddq, (M, n) each in SI units, to values (M, ...).
        """
        return self.low_pass(function(self.q, self.dq, self.ddq))


def decimation(steps: int, grid_s: float, cutoff_hz: float) -> int:
    """Return the largest factor by which a time grid can be coarsened and still resolve a cut-off frequency.

    The factor divides `steps`, so that the sampling interval is a multiple of the coarser step.

    Args:
        steps: number of grid steps per target sampling interval.
        grid_s: step of the grid [s].
        cutoff_hz: cut-off frequency that the coarser grid must resolve [Hz].
    """
    finest = 1.0 / (GRID_OF_CUTOFF * cutoff_hz) + 1e-9
    return max(d for d in range(1, steps + 1) if steps % d == 0 and (d == 1 or d * grid_s <= finest))


def grid_step_s(interval_s: float, states: FineStates) -> float:
    """Return the time step of the fine grid on which states are given [s].

    Args:
        interval_s: time between samples [s].
        states: the states on the fine grid.
    """
    if states.kernel is not None:
        return interval_s * HOPS / (len(states.kernel) + 1)
    steps = int(np.diff(states.nodes).min()) if len(states.nodes) > 1 else 1
    return interval_s / steps


def chosen(parts: Sequence[FineStates], which: NDArray[np.bool_]) -> tuple[FineStates, ...]:
    """Return copies of states in which only selected samples remain; an entry without selected samples is omitted.

    The fine grids are unchanged.

    Args:
        parts: states of one or more recordings, one entry per recording or part of it.
        which: mask of the selected samples, (N,), for the samples of all entries in sequence.
    """
    found, begin = [], 0
    for part in parts:
        end = begin + len(part.nodes)
        if which[begin:end].any():
            found.append(replace(part, nodes=part.nodes[which[begin:end]]))
        begin = end
    return tuple(found)
