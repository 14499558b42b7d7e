"""Force F at the tool by weighted least squares from external joint torques r = J(q)' F."""

import numpy as np

from dynid.model.mdh import MdhChain
from dynid.robot import FloatArray, Robot


class ToolForce:
    """Least-squares estimator of a force at the tool, without a moment, from external joint torques.

    The external torque of each chain joint is weighted by its inverse variance, so a sticking joint has little weight.
    A normal prior with mean zero and standard deviation `largest_n` limits the force. Some postures, such as a
    stretched arm, give no information about the force in some direction. In this direction only the prior limits the
    estimate, and the covariance is large.

    Args:
        robot: robot whose robot.yaml states the tool and the drives' torque limits.
        mdh: geometry of the chain.

    Attributes:
        largest_n: standard deviation of the prior [N], equal to the force that the strongest drive can hold at the full
            reach of the arm.
    """

    def __init__(self, robot: Robot, mdh: MdhChain) -> None:
        self._mdh, self._c = mdh, mdh.size
        # vector from the last modified DH frame to the tool
        last = np.linalg.inv(mdh.in_link[-1])
        self._tool = last[:3, :3] @ np.array(robot.file.tool_m) + last[:3, 3]
        reach = float(np.abs(mdh.d).sum() + np.abs(mdh.r).sum() + np.linalg.norm(self._tool))
        self.largest_n = float(robot.torque_limits[: self._c].max()) / reach

    def jacobian(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the tool's Jacobian (3, n) [m] and its position (3,) [m] in the URDF base link.

        The Jacobian maps joint velocities to the tool's linear velocity.

        Args:
            q: joint positions, (n,) [rad].
        """
        frames = self._mdh.placements(q[: self._c])
        place = frames[-1, :3, :3] @ self._tool + frames[-1, :3, 3]
        axes, arms = frames[:, :3, 2], place - frames[:, :3, 3]
        columns = np.where(np.array(self._mdh.prismatic)[:, None], axes, np.cross(axes, arms))
        jacobian = np.zeros((3, len(q)))
        jacobian[:, : self._c] = columns.T
        return jacobian, place

    def of(self, q: FloatArray, torque: FloatArray, deviation: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the force at the tool (3,) [N] in the URDF base link and its covariance (3, 3) [N^2].

        Args:
            q: joint positions, (n,) [rad].
            torque: external torques, (n,) [N m].
            deviation: their standard deviations, (n,) [N m].
        """
        J = self.jacobian(q)[0][:, : self._c]
        weighted = J / deviation[: self._c] ** 2
        covariance = np.linalg.inv(weighted @ J.T + np.eye(3) / self.largest_n**2)
        return np.asarray(covariance @ (weighted @ torque[: self._c])), np.asarray(covariance)
