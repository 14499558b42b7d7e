"""Whether links of the arm touch each other, from the collision shapes of its URDF (pinocchio and coal)."""

from dataclasses import dataclass

import numpy as np

from dynid.errors import ConfigurationError
from dynid.model.meshes import tree_with_meshes
from dynid.model.pinocchio_library import pinocchio
from dynid.model.urdf_tree import with_limited_turns
from dynid.robot import FloatArray, Robot

STEP_RAD = 0.03  # of all joints together between two postures that are looked at


@dataclass(frozen=True)
class Contact:
    """Two links that touch, and the row of the posture at which they do."""

    row: int
    links: tuple[str, str]


class SelfCollision:
    """Looks for contact between links of a robot; joints that are no axes stay at zero.

    Not looked at: shapes of one link, of neighbouring links, and links that touch at the rest posture already.

    Raises:
        ConfigurationError: the URDF is not valid, lacks a joint, or names a shape that cannot be loaded.
    """

    def __init__(self, robot: Robot) -> None:
        text = with_limited_turns(tree_with_meshes(robot.urdf_path))
        try:
            self._model = pinocchio.buildModelFromXML(text)
            self._shapes = pinocchio.buildGeomFromUrdfString(self._model, text, pinocchio.GeometryType.COLLISION)
        except (ValueError, RuntimeError, MemoryError) as error:
            raise ConfigurationError(f"{robot.urdf_path}: its collision shapes cannot be loaded: {error}") from error
        missing = [name for name in robot.joint_names if not self._model.existJointName(name)]
        if missing:
            raise ConfigurationError(f"{robot.urdf_path} has no joint {', '.join(missing)}")
        self._places = [self._model.joints[self._model.getJointId(name)].idx_q for name in robot.joint_names]
        self._data = self._model.createData()
        self._neutral = pinocchio.neutral(self._model)
        self._add_pairs()
        resting = set(self._touching(robot.rest_posture))
        for pair in list(self._shapes.collisionPairs):
            if self._links(pair) in resting:
                self._shapes.removeCollisionPair(pair)
        self._results = self._shapes.createData()

    @property
    def pairs(self) -> int:
        """How many pairs of shapes are looked at; 0 where the URDF has no collision shapes."""
        return len(self._shapes.collisionPairs)

    @property
    def shapes(self) -> tuple[pinocchio.GeometryModel, pinocchio.Model]:
        """The collision shapes of the URDF, and the model on whose joints they are."""
        return self._shapes, self._model

    def _add_pairs(self) -> None:
        shapes, parents = self._shapes.geometryObjects, self._model.parents
        for second in range(len(shapes)):
            for first in range(second):
                low, high = sorted((shapes[first].parentJoint, shapes[second].parentJoint))
                siblings = low > 0 and parents[low] == parents[high]  # the two fingers of a hand
                if low != high and parents[high] != low and not siblings:
                    self._shapes.addCollisionPair(pinocchio.CollisionPair(first, second))
        self._results = self._shapes.createData()

    def _links(self, pair: pinocchio.CollisionPair) -> tuple[str, str]:
        shapes, frames = self._shapes.geometryObjects, self._model.frames
        first, second = (frames[shapes[k].parentFrame].name for k in (pair.first, pair.second))
        return first, second

    def _collides(self, q: FloatArray, stop_at_first: bool) -> bool:
        full = self._neutral.copy()
        full[self._places] = q
        return bool(
            pinocchio.computeCollisions(self._model, self._data, self._shapes, self._results, full, stop_at_first)
        )

    def _touching(self, q: FloatArray) -> list[tuple[str, str]]:
        """All pairs of links that touch at q (n,) [rad]."""
        self._collides(q, stop_at_first=False)
        results = zip(self._shapes.collisionPairs, self._results.collisionResults, strict=True)
        return [self._links(pair) for pair, result in results if result.isCollision()]

    def first_contact(self, q: FloatArray) -> Contact | None:
        """The first posture of a path q (N, n) [rad] at which links touch; None where none does.

        Only as many rows are looked at as keep the joints' way between two of them below `STEP_RAD`; the path must be
        sampled at least so densely.
        """
        if not self.pairs:
            return None
        way = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(q, axis=0)).sum(axis=1))])
        rows = np.unique(np.searchsorted(way, np.arange(0.0, way[-1] + STEP_RAD, STEP_RAD)).clip(max=len(q) - 1))
        for row in rows.tolist():
            if self._collides(q[row], stop_at_first=True):
                return Contact(row, self._touching(q[row])[0])
        return None
