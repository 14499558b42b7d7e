"""Detection of validation motions that repeat the fitted motion.

The torque error on a repeated motion does not show how well the model predicts other motions.
"""

import numpy as np
from scipy.spatial import cKDTree

from dynid.identification.data.preprocessing import Samples
from dynid.robot import FloatArray

# Largest distance of near states, in standard deviations of each joint's q and dq; tracking differs between runs.
NEAR_DEVIATIONS = 0.2
REPEATED_SHARE = 0.7  # smallest fraction of near states in a repeat: repeats had 0.87 or more, other motions 0.39


def repeated_share(fitted: Samples, held_out: Samples) -> float:
    """Return the fraction of held-out states (q, dq) that are near a fitted state in all moving joints at once.

    A state is near another one if q and dq of every moving joint differ by less than `NEAR_DEVIATIONS` standard
    deviations of the fitted samples. The fraction is large for a repeated motion, even if it starts elsewhere or its
    parts have another order. In a different motion, states are rarely near a fitted state in all joints at once.
    """
    spread = np.concatenate([fitted.q.std(axis=0), fitted.dq.std(axis=0)])
    moving = spread > 1e-6 * spread.max()
    if not moving.any():
        return 0.0

    def states(samples: Samples) -> FloatArray:
        return np.asarray(np.hstack([samples.q, samples.dq])[:, moving] / spread[moving])

    distance, _ = cKDTree(states(fitted)).query(states(held_out), p=np.inf)
    return float(np.mean(distance < NEAR_DEVIATIONS))


def repeat_note(name: str, fitted: Samples, held_out: Samples) -> list[str]:
    """Return one sentence if a held-out recording repeats the fitted motion, else an empty list.

    Args:
        name: name of the held-out recording.
        fitted: the fitted samples.
        held_out: samples of the held-out recording.
    """
    share = repeated_share(fitted, held_out)
    if share < REPEATED_SHARE:
        return []
    return [
        f"{name} repeats the motion that was fitted ({100 * share:.0f} % of its states): its error says nothing about "
        "other motions; hold another motion out"
    ]
