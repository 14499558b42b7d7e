"""The force at the tool that external torques mean: r = J(q)' F, by the deviations of every joint."""

import numpy as np

from dynid.model.mdh import MdhChain
from dynid.robot import FloatArray, Robot


class ToolForce:
    """Forces at a point of the last chain link, without a moment there.

    Three forces make torques in all chain joints, so each joint counts by its deviation: one that sticks says little.
    Forces that no drive could hold at arm's length are not looked for: a prior of that size decides where an arm that
    is stretched out shows nothing, and the deviation then says so.

    Args:
        robot: where its tool is, and what its drives give.
        mdh: geometry of the chain.
    """

    def __init__(self, robot: Robot, mdh: MdhChain) -> None:
        self._mdh, self._c = mdh, mdh.size
        # from the last modified DH frame to the tool
        last = np.linalg.inv(mdh.in_link[-1])
        self._tool = last[:3, :3] @ np.array(robot.file.tool_m) + last[:3, 3]
        reach = float(np.abs(mdh.d).sum() + np.abs(mdh.r).sum() + np.linalg.norm(self._tool))
        self.largest_n = float(robot.torque_limits[: self._c].max()) / reach

    def jacobian(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The tool's velocity per joint velocity in the URDF base link, (3, n), and its place there, (3,) [m]."""
        frames = self._mdh.placements(q[: self._c])
        place = frames[-1, :3, :3] @ self._tool + frames[-1, :3, 3]
        axes, arms = frames[:, :3, 2], place - frames[:, :3, 3]
        columns = np.where(np.array(self._mdh.prismatic)[:, None], axes, np.cross(axes, arms))
        jacobian = np.zeros((3, len(q)))
        jacobian[:, : self._c] = columns.T
        return jacobian, place

    def of(self, q: FloatArray, torque: FloatArray, deviation: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The force (3,) [N] in the URDF base link and its covariance (3, 3) [N^2], of external torques (n,) [N m].

        Args:
            q: joint positions, (n,) [rad].
            torque: external torques, (n,) [N m].
            deviation: theirs, (n,) [N m].
        """
        J = self.jacobian(q)[0][:, : self._c]
        weighted = J / deviation[: self._c] ** 2
        covariance = np.linalg.inv(weighted @ J.T + np.eye(3) / self.largest_n**2)
        return np.asarray(covariance @ (weighted @ torque[: self._c])), np.asarray(covariance)
