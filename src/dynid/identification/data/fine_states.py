"""States on a fine grid, and functions of these states after the torques' low-pass.

The low-pass F of the torques does not commute with the regressor W: W(F q) phi is not F (W(q) phi), because W is not
linear in q. Coulomb friction, tanh(dq / v), is the least linear part. So W is computed from states of higher bandwidth,
on a grid fine enough for it, and each of its columns passes the filter of the torques. Both sides are decimated
equally:

    F tau = F[W(q, dq, ddq)] phi

Before this, both q and tau have passed the wider filter of the states. This is the parallel filter of identification by
inverse dynamics (Gautier). F is a Butterworth filter, or the average under test functions (`weak_form`).
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
        sections: the torques' low-pass for this grid, as second-order sections (s, 6).
        nodes: indices (N,) of the samples in the grid.
        wide: the states' filter for this grid, as second-order sections; None if the states were not filtered.
        tau: torques after the states' filter, (M, n) [N m]; empty in tests that do not need torques.
        raw: unfiltered torques, averaged around each grid instant, (M, n) [N m].
        other_raw: like `raw`, from the current (present or goal) that `tau` does not come from; None if it was not
            recorded.
        kernel: weights of the test function around each sample, (2 r + 1,); the averages under it are the low-pass.
            None if `sections` are the low-pass.
        later_s: middle of the time that these states cover minus the middle of the recording [s]; 0 if they cover all
            of it.
        ripple: part of the torques that the low-pass removes, at R instants around each grid instant, (M, R, n) [N m].
        slowest: smallest recorded velocity near each state, positive in the direction of motion, (M, n) [rad/s]. It
            reveals short stops, see `slowest_velocities`; None if no velocity was recorded.
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
        """Return values at the samples (N, ...), low-passed like the torques from values on the grid (M, ...).

        The values may have any unit.
        """
        columns = values.reshape(len(values), -1)
        if self.kernel is not None:
            averages = averaged(columns, self.kernel, self.nodes)
            return averages.reshape((len(self.nodes), *values.shape[1:]))
        filtered = filtered_both_ways(self.sections, columns)
        return np.asarray(filtered[self.nodes].reshape(-1, *values.shape[1:]))

    def low_pass_filled(self, columns: int, fill: Callable[[FloatArray], None], space: PaddedRows) -> FloatArray:
        """Return values that a function computes, after the torques' low-pass, at the samples, (N, columns), any unit.

        Args:
            columns: number of columns.
            fill: function that writes the values at all grid instants into an array (M, columns).
            space: memory for this array, which successive calls share.
        """
        if self.kernel is not None:
            values = np.empty((len(self.q), columns))
            fill(values)
            return self.low_pass(values)
        fill(space.rows(self.sections, len(self.q), columns))
        return np.asarray(space.filtered(self.sections)[self.nodes])

    def low_pass_sharp(self, values: FloatArray) -> FloatArray:
        """Return values (M, k) after the states' filter and the torques' low-pass, at the samples, (N, k), any unit.

        The measured torques have passed both filters, so the values must pass both as well. Values that are nearly
        linear in the states do not need this method: the states' filter has smoothed them together with the states.
        Values that change abruptly, such as friction at a reversal, must pass the states' filter here.
        """
        return self.low_pass(self.wide_pass(values))

    def wide_pass(self, values: FloatArray) -> FloatArray:
        """Return values on the grid after the states' filter, (M, k), any unit.

        They are unchanged if the states were not filtered.

        Args:
            values: values on the grid, (M, k).
        """
        return values if self.wide is None else filtered_both_ways(self.wide, values)

    def low_passed(self, function: Function) -> FloatArray:
        """Return the values of a function of q, dq and ddq after the torques' low-pass, at the samples, (N, ...).

        Args:
            function: maps q, dq and ddq, (M, n) each in SI units, to values (M, ...).
        """
        return self.low_pass(function(self.q, self.dq, self.ddq))


def decimation(steps: int, grid_s: float, cutoff_hz: float) -> int:
    """Return the largest factor by which a grid can be coarsened and remain fine enough for a cut-off frequency.

    The factor divides `steps`, so that the target interval is a multiple of the coarser step.

    Args:
        steps: target interval in steps of the grid.
        grid_s: step of the grid [s].
        cutoff_hz: cut-off frequency up to which the coarser grid must be fine enough [Hz].
    """
    finest = 1.0 / (GRID_OF_CUTOFF * cutoff_hz) + 1e-9
    return max(d for d in range(1, steps + 1) if steps % d == 0 and (d == 1 or d * grid_s <= finest))


def grid_step_s(interval_s: float, states: FineStates) -> float:
    """Return the step of the fine grid of states [s].

    Args:
        interval_s: time between samples [s].
        states: the states on the fine grid.
    """
    if states.kernel is not None:
        return interval_s * HOPS / (len(states.kernel) + 1)
    steps = int(np.diff(states.nodes).min()) if len(states.nodes) > 1 else 1
    return interval_s / steps


def chosen(parts: Sequence[FineStates], which: NDArray[np.bool_]) -> tuple[FineStates, ...]:
    """Return states of which only selected samples remain; parts without a selected sample are omitted.

    Args:
        parts: states of one or more recordings.
        which: mask of the selected samples, (N,), over the samples of all parts in sequence.
    """
    found, begin = [], 0
    for part in parts:
        end = begin + len(part.nodes)
        if which[begin:end].any():
            found.append(replace(part, nodes=part.nodes[which[begin:end]]))
        begin = end
    return tuple(found)
