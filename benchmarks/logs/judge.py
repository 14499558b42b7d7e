"""Accuracy of a model's torques on a log, from averages under test functions of joints in motion."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dynid.identification.data.curves import curves_through
from dynid.identification.data.weak_form import HOPS, averaged, cubic_spline
from dynid.recording.log import SLOW_RAD_S, Log
from dynid.robot import FloatArray, read_only
from dynid.runtime.model import Model

BLOCK_S = 20.0  # length of the pieces in which a log is predicted: their states take memory
SLIDING_SHARE = 0.5  # minimum share of a test function in which the joint moves


@dataclass(frozen=True)
class JudgeSettings:
    """Grid and support of the test functions [s], and the speed below which a joint may stick [rad/s or m/s]."""

    grid_s: float = 0.01
    window_s: float = 0.4
    slow_rad_s: float = SLOW_RAD_S

    @property
    def hop(self) -> int:
        """Number of grid steps from one test function to the next."""
        return max(1, round(self.window_s / HOPS / self.grid_s))


@dataclass(frozen=True, eq=False)
class LogErrors:
    """Relative errors || tau - tau_hat || / || tau || of averaged torques, over all joints and of each joint, (n,)."""

    relative: float
    per_joint: FloatArray


def log_errors(model: Model, log: Log, settings: JudgeSettings | None = None, delay_s: float = 0.0) -> LogErrors:
    """Return the errors of a model's torques on a log, whose torques lag behind its positions by `delay_s`."""
    chosen, axes = settings or JudgeSettings(), model.robot.size
    kernel, left, whole = cubic_spline(chosen.hop), np.zeros(axes), np.zeros(axes)
    for piece in log.pieces():
        if piece.tau is None:
            continue
        motion, torques = curves_through(piece.time, piece.q), curves_through(piece.torque_time, piece.tau)
        for time in _blocks(motion.begin, motion.end - delay_s, chosen):
            states, tau = motion.states(time), torques.states(time + delay_s)[0]
            nodes = np.arange(2 * chosen.hop - 1, len(time) - 2 * chosen.hop + 1, chosen.hop)
            mask = (np.abs(states[1]) > chosen.slow_rad_s).astype(np.float64)
            used = averaged(mask, kernel, nodes) > SLIDING_SHARE
            left += (averaged((model.torques(*states) - tau) * mask, kernel, nodes) ** 2 * used).sum(axis=0)
            whole += (averaged(tau * mask, kernel, nodes) ** 2 * used).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return LogErrors(float(np.sqrt(left.sum() / whole.sum())), read_only(np.sqrt(left / whole)))


def _blocks(begin: float, end: float, settings: JudgeSettings) -> Iterator[FloatArray]:
    """Yield grids (M,) [s] that cover the time from begin to end [s]; no test function spans two of them."""
    edges = np.linspace(begin, end, max(1, round((end - begin) / BLOCK_S)) + 1)
    for a, b in pairwise(edges.tolist()):
        size = int((b - a) / settings.grid_s)
        if size >= HOPS * settings.hop:
            yield a + settings.grid_s * (np.arange(size) + 0.5)
