"""States on a fine grid, and what the torques' low-pass lets through of any function of them.

The low-pass F that torques pass does not commute with W: W(F q) phi is not F (W(q) phi), for W is not linear in q, and
Coulomb friction, tanh(dq / v), least of all. So W is computed from states that keep more of the motion, on a grid fine
enough for it, and each of its columns passes the filter of the torques, both sides being decimated alike:

    F tau = F[W(q, dq, ddq)] phi

q and tau having passed the wider filter of the states alike. It is the parallel filter of identification by inverse
dynamics (Gautier). F is a Butterworth filter, or the average under test functions (`averaging`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dynid.identification.data.weak_form import HOPS, averaged
from dynid.identification.data.zero_phase import filtered_both_ways
from dynid.robot import FloatArray, read_only

Function = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
GRID_OF_CUTOFF = 32  # steps per period of the low-pass's cut-off frequency, at least


@dataclass(frozen=True, eq=False)
class FineStates:
    """States of one recording on a grid that is finer than its samples'; states are read-only.

    Attributes:
        q, dq, ddq: (M, n) [rad, rad/s, rad/s^2].
        sections: the torques' low-pass for this grid, as second-order sections.
        nodes: (N,) places of the samples in the grid.
        wide: the filter of the states for this grid, as second-order sections; None where nothing has passed it.
        tau: torques behind the filter of the states, (M, n) [N m]; () in tests that need none.
        raw: torques that have passed no filter, as means over the times from node to node, (M, n) [N m].
        other_raw: the same of the current that was not chosen; None without it.
        kernel: test function (2 r + 1,) about every node, in place of `sections`; None where those are the low-pass.
        later_s: by how much the middle of this block lies behind that of its recording [s].
        ripple: what that filter has taken off the torques, at R instants about every node, (M, R, n) [N m].
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

    def __post_init__(self) -> None:
        for name in ("q", "dq", "ddq", "tau", "ripple"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def low_pass(self, values: FloatArray) -> FloatArray:
        """Values on the grid, (M, ...), as they are at the samples behind the low-pass, (N, ...)."""
        columns = values.reshape(len(values), -1)
        if self.kernel is not None:
            averages = averaged(columns, self.kernel, self.nodes)
            return averages.reshape((len(self.nodes), *values.shape[1:]))
        filtered = filtered_both_ways(self.sections, columns)
        return np.asarray(filtered[self.nodes].reshape(-1, *values.shape[1:]))

    def low_pass_sharp(self, values: FloatArray) -> FloatArray:
        """`low_pass` of what changes faster than the states' filter lets through, such as friction at a reversal.

        The torques have passed that filter, too. What is nearly linear in the states has passed it with them.
        """
        return self.low_pass(self.wide_pass(values))

    def wide_pass(self, values: FloatArray) -> FloatArray:
        """Values (M, k) behind the filter of the states, (M, k); as they are where nothing has passed one."""
        return values if self.wide is None else filtered_both_ways(self.wide, values)

    def seen(self, function: Function) -> FloatArray:
        """A function of (q, dq, ddq), giving (M, ...), as it is at the samples behind the low-pass, (N, ...)."""
        return self.low_pass(function(self.q, self.dq, self.ddq))


def decimation(steps: int, grid_s: float, cutoff_hz: float) -> int:
    """The largest divisor of `steps`, a target interval in steps of `grid_s`, that is fine enough for a cut-off."""
    finest = 1.0 / (GRID_OF_CUTOFF * cutoff_hz) + 1e-9
    return max(d for d in range(1, steps + 1) if steps % d == 0 and (d == 1 or d * grid_s <= finest))


def grid_step_s(interval_s: float, states: FineStates) -> float:
    """Time from one state on the grid to the next [s], for samples `interval_s` apart."""
    if states.kernel is not None:
        return interval_s * HOPS / (len(states.kernel) + 1)
    steps = int(np.diff(states.nodes).min()) if len(states.nodes) > 1 else 1
    return interval_s / steps


def chosen(parts: Sequence[FineStates], which: NDArray[np.bool_]) -> tuple[FineStates, ...]:
    """The same states with some of their samples; which (N,) is of the samples of all parts in order."""
    found, begin = [], 0
    for part in parts:
        end = begin + len(part.nodes)
        if which[begin:end].any():
            found.append(replace(part, nodes=part.nodes[which[begin:end]]))
        begin = end
    return tuple(found)
