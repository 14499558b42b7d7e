"""How well a model predicts the torques of a log: averages under the test functions of joints in motion."""

from dataclasses import dataclass

import numpy as np

from dynid.identification.data.curves import curves_through
from dynid.identification.logs.rows import SLIDING_SHARE, Point, RowSettings, Stretch, averaged, stretches
from dynid.identification.logs.rows import test_functions as psi_of
from dynid.model.dynamics import ArmModel
from dynid.recording.log import Log
from dynid.robot import FloatArray, read_only


@dataclass(frozen=True, eq=False)
class LogErrors:
    """|| tau - tau_hat || / || tau || of averaged torques, over all joints and of each, (n,)."""

    relative: float
    per_joint: FloatArray


def log_errors(
    model: ArmModel, point: Point, log: Log, settings: RowSettings | None = None, delay_s: float = 0.0
) -> LogErrors:
    """What a model (phi and friction) leaves of a log's torques, which lag behind by a delay [s]."""
    chosen = settings or RowSettings()
    psi = psi_of(chosen.length)
    left, whole = np.zeros((2, model.axes))
    for piece in log.pieces():
        if piece.tau is None:
            continue
        motion, torques = curves_through(piece.time, piece.q), curves_through(piece.time, piece.tau)
        for time in stretches(motion.begin, motion.end - delay_s, chosen):
            states, tau = motion.states(time), torques.states(time + delay_s)[0]
            mask = (np.abs(states[1]) > chosen.slow_rad_s).astype(np.float64)
            used = averaged(mask, psi) > SLIDING_SHARE
            error = averaged((Stretch.of(model, states).torques(point)[1].tm - tau) * mask, psi)
            left += (error**2 * used).sum(axis=0)
            whole += (averaged(tau * mask, psi) ** 2 * used).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return LogErrors(float(np.sqrt(left.sum() / whole.sum())), read_only(np.sqrt(left / whole)))
