"""Independent check whether links stay in a scene, by pinocchio's kinematics instead of `dynid.control.safe_box`."""

import numpy as np
import pinocchio

from dynid.control.safe_box import SceneFile
from dynid.control.self_collision import SelfCollision
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, Robot

CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])


class SceneJudge:
    """Corners of the boxes around all moving collision shapes, or of the links' masses if a link has no shape."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        shapes, self._model = SelfCollision(robot).shapes
        self._data = self._model.createData()
        self._rows: list[tuple[int, int, FloatArray]] = []
        chain = [self._model.getJointId(name) for name in robot.joint_names[: robot.chain_size]]
        self._free = [j for j in range(1, self._model.njoints) if j not in chain]
        for shape in shapes.geometryObjects:
            shape.geometry.computeLocalAABB()
            lower, upper = (np.asarray(one) for one in (shape.geometry.aabb_local.min_, shape.geometry.aabb_local.max_))
            points = (shape.placement.rotation @ (lower + CORNERS * (upper - lower)).T).T + shape.placement.translation
            if shape.parentJoint:
                above = shape.parentJoint
                while above not in chain:
                    above = self._model.parents[above]
                self._rows.append((shape.parentJoint, chain.index(above) + 1, points))
        if not self._rows:
            for j, link in enumerate(ArmModel.of(robot).limits(robot.file.physical_bounds).links):
                self._rows.append((chain[j], j + 1, np.where(CORNERS, link.box[1], link.box[0])))

    def beyond(self, scene: SceneFile, q: FloatArray, random: np.random.Generator | None = None) -> FloatArray:
        """Return how far corners exceed the borders, moved inward by the margin, at postures q (N, n), (N,) [m].

        `random` turns joints outside the chain, such as fingers, anywhere; None leaves them at zero.
        """
        places = [self._model.joints[self._model.getJointId(name)].idx_q for name in self.robot.joint_names]
        found = np.full(len(q), -np.inf)
        for k, row in enumerate(q):
            full = pinocchio.neutral(self._model)
            full[places] = row
            for joint in self._free if random is not None else ():
                assert random is not None
                full[self._model.joints[joint].idx_q] = random.uniform(-1.5, 1.5)
            pinocchio.forwardKinematics(self._model, self._data, full)
            for joint, link, points in self._rows:
                at = self._data.oMi[joint]
                found[k] = max(found[k], outside(scene, (at.rotation @ points.T).T + at.translation, link))
        return found


def outside(scene: SceneFile, points: FloatArray, link: int) -> float:
    """Return how far points (P, 3) of a link, counted from 1, exceed the borders moved inward by the margin [m]."""
    found = [-np.inf]
    for box in scene.inside:
        if link >= box.from_link:
            found += [(np.array(box.lower_m) - points).max(), (points - np.array(box.upper_m)).max()]
    for half in scene.half_spaces:
        if link >= half.from_link:
            normal = np.array(half.normal) / np.linalg.norm(half.normal)
            found.append((half.offset_m / np.linalg.norm(half.normal) - points @ normal).max())
    for box in scene.outside:
        if link >= box.from_link:
            found.append(np.minimum(points - np.array(box.lower_m), np.array(box.upper_m) - points).min(axis=1).max())
    return float(max(found)) + scene.margin_m
