"""Precision check of an adaptive run: identification from the recording so far, and check of confidence intervals."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from dynid.adaptive.information import LEAST_TORQUE
from dynid.adaptive.outcome import Look
from dynid.adaptive.settings import AdaptiveSettings
from dynid.errors import DynidError
from dynid.identification.data.recordings import Recording
from dynid.identification.estimators.uncertainty import MEMORY_S
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.identification.settings import IdentificationSettings
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, Robot


@dataclass(frozen=True, eq=False)
class RecordingJudge:
    """Judge of an adaptive run's recording: identifies a model and compares its confidence intervals with their limits.

    Attributes:
        robot: the robot.
        model: geometry and structure of the arm.
        settings: settings of the identification.
        run: settings of the adaptive run.
        limits: largest permitted half widths of the base parameters' confidence intervals, (p,).
        free: mask of the base parameters whose intervals are not limited, (p,).
    """

    robot: Robot
    model: ArmModel
    settings: IdentificationSettings
    run: AdaptiveSettings
    limits: FloatArray
    free: NDArray[np.bool_]

    def quantile(self, motion_s: float) -> float:
        """Return the ratio of a confidence interval's half width to the standard deviation.

        `motion_s` is the time of motion in the recording [s].

        All intervals and all possible precision checks of a run share one confidence (Bonferroni correction). Standard
        deviations are estimated from residuals summed over time windows of `MEMORY_S`, see `estimators.uncertainty`.
        Estimates from few windows are uncertain, so the ratio is a quantile of Student's t distribution. Its degrees of
        freedom are the number of windows minus one, as is usual for clustered data (Cameron and Miller 2015).
        """
        tests = (int((~self.free).sum()) + self.model.axes) * self.run.looks
        return float(stdtrit(max(motion_s / MEMORY_S - 1.0, 1.0), 1.0 - 0.5 * (1.0 - self.run.confidence) / tests))

    def half_widths(self, result: Identification, motion_s: float) -> FloatArray:
        """Return the half widths of the base parameters' confidence intervals after `motion_s` [s] of motion, (p,).

        A half width is `quantile` times the standard deviation, plus the largest change of the parameter in fits with
        other friction structures that are about as good, since several may explain the data of a short motion.
        """
        joint_friction = result.estimate.regression.joint_friction
        rivals = (
            np.zeros((0, 0))
            if joint_friction is None or joint_friction.ladder is None
            else joint_friction.ladder.rivals
        )
        other = np.abs(rivals).max(axis=0) if rivals.size else 0.0
        return np.asarray(self.quantile(motion_s) * deviations(result) + other)

    def judge_recording(self, source: Recording, moved: float) -> tuple[Look, Identification | None]:
        """Identify a model from a recording, and compare its confidence intervals with their limits.

        Args:
            source: the recording.
            moved: time of motion that the recording contains [s].

        Returns:
            The result of this precision check, and the identification; None instead of the latter if it failed.
        """
        began = time.perf_counter()
        try:
            result = identify(self.robot, [source], settings=self.settings)
        except DynidError as error:
            return Look(moved, float("inf"), "", False, time.perf_counter() - began, str(error)), None
        torque = self.quantile(moved) * self._torque_share(result)
        shares = np.append(self.half_widths(result, moved) / self.limits, torque)
        shares[:-1][self.free] = 0.0
        worst = int(np.argmax(shares))
        seconds, names = time.perf_counter() - began, (*self.model.names, "torque")
        return Look(moved, float(shares[worst]), names[worst], result.verdict.accepted, seconds), result

    def _torque_share(self, result: Identification) -> float:
        """Return the largest relative standard deviation of a joint's predicted torque, divided by `torque_share` [-].

        `torque_share`, a setting of the run, is the limit of a predicted torque's confidence interval. The standard
        deviation is a root mean square over the recorded states, relative to the joint's root mean square torque. It
        includes the uncertainty of all friction parameters, so the limit also bounds the effect of viscous friction,
        whose own confidence interval has no limit.
        """
        regression = result.estimate.regression
        covariance = regression.whole_spread(regression.solve())
        if regression.joint_friction is None:
            x = regression.of_all_states
        else:
            x = regression.joint_friction.judged_columns()
        variance = np.einsum("knp,pq,knq->n", x, covariance, x, optimize=True) / len(x)
        size = np.sqrt(np.mean(regression.torques**2, axis=0))
        size = np.maximum(size, LEAST_TORQUE * self.robot.torque_limits)
        return float(np.max(np.sqrt(np.maximum(variance, 0.0)) / size)) / self.run.torque_share


def deviations(result: Identification) -> FloatArray:
    """Return the standard deviations of an identification's base parameters, (p,)."""
    found = result.estimate.base.standard_deviations
    assert found is not None
    return found
