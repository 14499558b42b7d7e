"""Constraints of a segment (a motion from rest to rest), and the planned segment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dynid.control.motion_check import MotionLimits, Torques
from dynid.robot import FloatArray
from dynid.trajectory.motion import Sample
from dynid.trajectory.polynomial import PolynomialTrajectory

TORQUE_SIGMAS = 2.0  # number of standard deviations that are added to predicted torques
TRANSITION_RAD_S = 0.1  # transition velocity of friction's sign [rad/s]


@dataclass(frozen=True, eq=False)
class TorqueUncertainty:
    """Uncertainty of the torques that the current model predicts.

    Attributes:
        unknown_friction: bound of the friction that the model does not contain, (n,) [N m].
        root: matrix square root of the covariance of m friction and p base parameters, (m + p, k); root root' is the
            covariance.
        columns: function that returns the torques per unit of friction and base parameters, (N, n, m + p), from a
            regressor (N, n, p) and velocities (N, n).
    """

    unknown_friction: FloatArray
    root: FloatArray
    columns: Callable[[FloatArray, FloatArray], FloatArray]

    def added(self, tau: FloatArray, dq: FloatArray, W: FloatArray) -> FloatArray:
        """Return predicted torques (N, n) [N m], increased in magnitude by their uncertainty.

        Args:
            tau: predicted torques, (N, n) [N m].
            dq: velocities, (N, n) [rad/s].
            W: regressor of the base parameters, (N, n, p).
        """
        # friction opposes motion: it adds to the load when lifting, and carries a part of it when lowering
        rubbed = tau + self.unknown_friction * np.tanh(dq / TRANSITION_RAD_S)
        tau = np.where(np.abs(rubbed) > np.abs(tau), rubbed, tau)
        return np.asarray(tau + np.sign(tau) * TORQUE_SIGMAS * np.linalg.norm(self.columns(W, dq) @ self.root, axis=-1))


@dataclass(frozen=True, eq=False)
class SegmentConstraints:
    """Constraints of one segment.

    Attributes:
        limits: limits of positions, velocities, accelerations and torques.
        torques: function from states q, dq, ddq (N, n) to the largest possible torques (N, n) [N m].
        expected: function from states to the expected torques, with friction smoothed for the optimiser's derivatives.
        tube: maximum tracking errors, (n,) [rad].
        load: used fraction of each servo's overload capacity at the start, (n,) [-].
        lasting: largest root mean square torque that each servo sustains permanently, (n,) [N m].
        uncertainty: uncertainty of the expected torques; None adds no uncertainty.
    """

    limits: MotionLimits
    torques: Torques
    expected: Torques
    tube: FloatArray
    load: FloatArray
    lasting: FloatArray
    uncertainty: TorqueUncertainty | None = None

    def most_expected(self, states: Sequence[FloatArray], W: FloatArray) -> FloatArray:
        """Return expected torques (N, n) [N m], increased in magnitude by their uncertainty.

        Args:
            states: q, dq and ddq, (N, n) each.
            W: regressor of these states, (N, n, p).
        """
        q, dq, ddq = states
        tau = self.expected(q, dq, ddq)
        return tau if self.uncertainty is None else self.uncertainty.added(tau, dq, W)


@dataclass(frozen=True, eq=False)
class Segment:
    """Planned segment of an adaptive run.

    Attributes:
        motion: motion from rest to rest.
        states: planned q, dq and ddq, (N, n) each.
        widest: largest ratio of a base parameter's standard deviation, as expected after the segment, to its limit.
        tube: tracking errors up to which the motion is proven to stay in free space, (n,) [rad].
        load: used fraction of each servo's overload capacity at which the arm stops, (n,) [-].
        seconds: wall time of planning [s].
        work_s: processor time of planning [s].
        waited: whether the arm stood still during planning, instead of executing the previous segment.
    """

    motion: PolynomialTrajectory
    states: Sample
    widest: float
    tube: FloatArray
    load: FloatArray
    seconds: float
    work_s: float = 0.0
    waited: bool = False
