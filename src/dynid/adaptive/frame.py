"""What a segment must keep, and what a planned segment is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dynid.control.motion_check import MotionLimits, Torques
from dynid.robot import FloatArray
from dynid.trajectory.motion import Sample
from dynid.trajectory.polynomial import PolynomialTrajectory

SURE = 2.0  # deviations of torques that count as possible
TRANSITION_RAD_S = 0.1  # of the sign of friction


@dataclass(frozen=True, eq=False)
class Doubt:
    """By how much torques may be beyond those of the model in hand.

    Attributes:
        spare: friction that nobody knows, (n,) [N m].
        root: of the covariance of friction and base parameters, root root' = cov, (m + p, k).
        columns: torques per unit of them, (N, n, m + p), from a regressor (N, n, p) and speeds (N, n).
    """

    spare: FloatArray
    root: FloatArray
    columns: Callable[[FloatArray, FloatArray], FloatArray]

    def added(self, tau: FloatArray, dq: FloatArray, W: FloatArray) -> FloatArray:
        """Torques (N, n) [N m] away from zero by so much, at speeds (N, n) and with the regressor W (N, n, p)."""
        # friction resists the motion: it adds to the load on the way up, and carries a part of it on the way down
        rubbed = tau + self.spare * np.tanh(dq / TRANSITION_RAD_S)
        tau = np.where(np.abs(rubbed) > np.abs(tau), rubbed, tau)
        return np.asarray(tau + np.sign(tau) * SURE * np.linalg.norm(self.columns(W, dq) @ self.root, axis=-1))


@dataclass(frozen=True, eq=False)
class Frame:
    """What one segment must keep.

    Attributes:
        limits: of positions, speeds, accelerations, torques.
        torques: that a motion takes at most, by what is known of the arm.
        expected: that it takes, friction with a soft sign: what is optimised needs slopes.
        tube: how far joints may be off their reference, (n,) [rad].
        load: what is used up of what makes servos switch themselves off, (n,).
        lasting: root mean square of the torques that servos bear, (n,) [N m].
        doubt: by how much torques may be beyond those expected; None: not at all.
    """

    limits: MotionLimits
    torques: Torques
    expected: Torques
    tube: FloatArray
    load: FloatArray
    lasting: FloatArray
    doubt: Doubt | None = None

    def most_expected(self, states: Sequence[FloatArray], W: FloatArray) -> FloatArray:
        """Torques (N, n) [N m] with the doubt about them, at states (N, n) whose regressor is W (N, n, p)."""
        q, dq, ddq = states
        tau = self.expected(q, dq, ddq)
        return tau if self.doubt is None else self.doubt.added(tau, dq, W)


@dataclass(frozen=True, eq=False)
class Segment:
    """A planned segment.

    Attributes:
        motion: from rest to rest.
        states: that were planned with, q, dq and ddq, (N, n) each.
        widest: the largest deviation over its limit that is expected after it.
        tube: within which of the motion the free space is proven, (n,) [rad].
        load: of what makes servos switch themselves off, how much they may use up before the arm stops, (n,).
        seconds: that planning took.
        work_s: the same of the processor alone.
        waited: whether the arm stood still meanwhile; else its predecessor ran.
    """

    motion: PolynomialTrajectory
    states: Sample
    widest: float
    tube: FloatArray
    load: FloatArray
    seconds: float
    work_s: float = 0.0
    waited: bool = False
