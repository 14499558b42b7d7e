"""Bounds on efforts, which are feed-forward torques that come with a motion.

The FF+PD control law itself adds M_hat ddq + D_hat dq, with an assumed inertia M_hat and damping D_hat. An effort
should equal the torque that the model predicts minus this term. An effort beyond this difference deflects the arm from
its reference by the excess divided by the law's stiffness. A large excess means that the effort is wrong, or that it
was computed for another arm.
"""

import numpy as np

from dynid.control.added_torque import TorqueCurve
from dynid.control.controller import ControllerSettings
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.motion_cells import Torques
from dynid.errors import SafetyError
from dynid.robot import FloatArray, Robot
from dynid.trajectory.motion import Motion

STEP_S = 0.01  # interval between checked times, in addition to the times of the points


class EffortBound:
    """Check of efforts (feed-forward torques of a motion), which may exceed predicted efforts by at most a bound.

    Args:
        robot: robot with the names and torque limits of the joints.
        settings: settings of the law that follows the motion. The bound is `effort_share` times the torque limit, or
            the torque that deflects the joint by `effort_deflection_rad` if this is smaller.
    """

    def __init__(self, robot: Robot, settings: ControllerSettings) -> None:
        self._robot, self._settings = robot, settings
        self._inertia, self._damping = np.array(settings.inertia_kg_m2), np.array(settings.damping_nm_s_rad)
        self._stiffness = FeedforwardPdLaw(settings).stiffness_gain

    @property
    def most(self) -> FloatArray:
        """Largest permitted excess of an effort over the predicted effort, (n,) [N m].

        It is the smaller one of `effort_share` times the torque limit and `effort_deflection_rad` times the stiffness
        of the FF+PD law.
        """
        settings = self._settings
        return np.minimum(
            settings.effort_share * self._robot.torque_limits, settings.effort_deflection_rad * self._stiffness
        )

    def refuse(self, motion: Motion, added: TorqueCurve, torques: Torques | None) -> None:
        """Raise SafetyError if a feed-forward torque (effort) along a motion deviates too much from the prediction.

        The predicted effort is the predicted torque minus (M_hat ddq + D_hat dq), the feed-forward that the FF+PD law
        gives itself with its inertia M_hat and damping D_hat. An effort may lie anywhere between zero and the predicted
        effort, and beyond that interval by at most `most`.

        Args:
            motion: the motion.
            added: efforts along the motion.
            torques: function `(q, dq, ddq) -> tau` that predicts torques; None means a predicted effort of zero.

        Raises:
            SafetyError: an effort is beyond the bound; the message names joint, time, effort, prediction and bound.
        """
        times = np.union1d(added.times, np.arange(0.0, motion.duration + STEP_S, STEP_S))
        q, dq, ddq = motion.sample_all(times)
        lacking = np.zeros_like(q)
        if torques is not None:
            lacking = torques(q, dq, ddq) - self._inertia * ddq - self._damping * dq
        efforts = np.array([np.interp(times, added.times, column) for column in added.torques.T]).T
        beyond = np.maximum(efforts - np.maximum(lacking, 0.0), np.minimum(lacking, 0.0) - efforts)
        over = ~(beyond <= self.most)
        if not over.any():
            return
        row, joint = (int(k) for k in np.argwhere(over)[0])
        raise SafetyError(
            f"trajectory '{motion.name}': effort of {self._robot.joint_names[joint]} is {efforts[row, joint]:.2f} N m "
            f"at {times[row]:.3f} s, expected {lacking[row, joint]:.2f} N m by the model and at most "
            f"{self.most[joint]:.2f} N m more: it would deflect the joint by "
            f"{np.rad2deg(beyond[row, joint] / self._stiffness[joint]):.0f} deg; correct the efforts, give the "
            "executor the model of this arm, or raise effort_share and effort_deflection_rad in controller.yaml"
        )
