"""Detection of contact between links of the arm, from the collision shapes of its URDF (pinocchio and coal)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.model.link_shapes import LinkShapes
from dynid.model.pinocchio_library import pinocchio
from dynid.robot import FloatArray, Robot
from dynid.trajectory.pieces import Pieces

STEP_RAD = 0.03  # total joint travel between two checked postures
FINER = 8  # factor by which steps shrink if links are close
HULL_TOLERANCE_M = 1e-5  # largest error of the distance of two hulls; measured: 1.3e-6
FINEST_RAD = 1e-4  # step at which close links count as touching: some hundredths of a millimetre


@dataclass(frozen=True, eq=False)
class Contact:
    """Contact of two links in a motion.

    Attributes:
        time_s: time since the start of the motion.
        q: posture at this time, (n,) [rad].
        links: names of the two links.
    """

    time_s: float
    q: FloatArray
    links: tuple[str, str]


@dataclass(frozen=True, eq=False)
class _Spans:
    """N time spans of a motion, each within one piece (polynomial) of the motion.

    Attributes:
        piece: index of the piece that contains the span, (N,).
        begin: start of the span since the start of its piece, (N,) [s].
        end: end of the span since the start of its piece, (N,) [s].
        q: posture in the middle of the span, (N, n) [rad].
        away: largest deviation of each joint from this posture within the span, (N, n) [rad].
    """

    piece: NDArray[np.int64]
    begin: FloatArray
    end: FloatArray
    q: FloatArray
    away: FloatArray

    @classmethod
    def whole(cls, pieces: Pieces, step: float) -> "_Spans":
        """Return time spans that cover a motion; in each of them all joints together travel at most `step` / 4 [rad].

        Args:
            pieces: the motion as piecewise polynomials.
            step: travel of all joints together between two postures that are checked for contact [rad]; there are
                several spans for each checked posture.
        """
        fastest = np.abs(pieces.bernstein(1)).max(axis=1).sum(axis=1) * pieces.durations
        counts = np.maximum(1, np.ceil(4.0 * fastest / step)).astype(np.int64)
        piece = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
        share = pieces.durations[piece] / counts[piece]
        return cls._of(pieces, piece, place * share, (place + 1) * share)

    @classmethod
    def _of(cls, pieces: Pieces, piece: NDArray[np.int64], begin: FloatArray, end: FloatArray) -> "_Spans":
        return cls(piece, begin, end, *pieces.around(piece, begin, end))

    def finer(self, pieces: Pieces, where: slice) -> "_Spans":
        """Return the time spans of a slice, each divided into `FINER` spans.

        Args:
            pieces: the motion as piecewise polynomials.
            where: slice of the spans to divide.
        """
        piece = np.repeat(self.piece[where], FINER)
        step = np.repeat((self.end - self.begin)[where] / FINER, FINER)
        begin = np.repeat(self.begin[where], FINER) + step * np.tile(np.arange(FINER), len(self.begin[where]))
        return self._of(pieces, piece, begin, begin + step)

    def groups(self, step: float) -> Iterator[slice]:
        """Yield groups of neighbouring time spans as slices; each group has a joint travel of about `step` [rad].

        The joint travel is summed over all joints and over the spans of the group.
        """
        way = np.cumsum(2.0 * self.away.sum(axis=1))
        begins = np.flatnonzero(np.diff(np.floor(way / step), prepend=-1.0))
        for begin, end in zip(begins.tolist(), [*begins.tolist()[1:], len(way)], strict=True):
            yield slice(begin, end)


class SelfCollision(LinkShapes):
    """Check of a robot's postures and motions for contact between its links.

    URDF joints that are not axes of the robot stay at zero. Some pairs are not checked: shapes of the same link, of
    neighbouring links, and of links on the same parent, such as two fingers; and links that touch at the rest posture.

    Raises:
        ConfigurationError: the URDF is not valid, lacks a joint, or names a shape that cannot be loaded.
    """

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot.urdf_path, robot.joint_names)
        resting = set(self.touching(robot.rest_posture))
        for pair in list(self._shapes.collisionPairs):
            if self._links(pair) in resting:
                self._shapes.removeCollisionPair(pair)
        self._results = self._shapes.createData()
        self._hulls, self._meshed = self.convex_hulls(), self.meshed_pairs()
        self._hull_results = self._hulls.createData()
        self._joints = [int(self._model.getJointId(name)) for name in robot.joint_names]
        far = np.maximum(np.abs(robot.lower), np.abs(robot.upper))
        sliding = zip(self._joints, robot.prismatic, far, strict=True)
        slides = {joint: float(most) for joint, prismatic, most in sliding if prismatic}
        self._sliding = [joint in slides for joint in range(self._model.njoints)]
        self._travel = [slides.get(joint, 0.0) for joint in range(self._model.njoints)]
        self._levers = self._longest_levers()

    @property
    def shapes(self) -> tuple[pinocchio.GeometryModel, pinocchio.Model]:
        """The collision shapes of the URDF, and the pinocchio model to whose joints they are attached."""
        return self._shapes, self._model

    def contact_at(self, q: FloatArray) -> tuple[str, str] | None:
        """Return the names of two links that touch at a posture q (n,) [rad], or None if no links touch."""
        if not self.pairs or not self._collides(q, stop_at_first=True):
            return None
        return self.touching(q)[0]

    def first_contact_along(self, pieces: Pieces) -> Contact | None:
        """Return the first contact of links along a motion, at samples or between them; None if there is no contact.

        Within a part of the motion, the distance of two links can change only by a limited amount: joint travel times
        longest lever, summed over the joints between the links. If the distance is not larger than this amount, the
        part is divided into finer parts.

        Args:
            pieces: the motion as piecewise polynomials.
        """
        if not self.pairs:
            return None
        every = np.arange(self.pairs)
        return self._contact(pieces, _Spans.whole(pieces, STEP_RAD), every, STEP_RAD)

    def _contact(self, pieces: Pieces, spans: _Spans, pairs: NDArray[np.int64], step: float) -> Contact | None:
        """Return the first contact of some pairs of links within time spans of a motion, or None.

        A pair cannot touch before the joints have travelled far enough to use up its distance. So the distance is
        computed again only when the joints may have travelled that far since the last computation.

        Args:
            pieces: the motion as piecewise polynomials.
            spans: time spans of the motion.
            pairs: indices of the pairs of links, (k,).
            step: travel, summed over all joints, between two checked postures [rad].
        """
        levers, last = self._levers[pairs], np.zeros((len(pairs), len(self._joints)))
        room = np.full(len(pairs), -np.inf)
        for group in spans.groups(step):
            row = group.start + (group.stop - group.start) // 2
            here = spans.q[row]
            away = (np.abs(spans.q[group] - here) + spans.away[group]).max(axis=0)
            due = np.flatnonzero(~((levers * (np.abs(here - last) + away)).sum(axis=1) < room))  # also if room is NaN
            if not len(due):
                continue
            travel = levers[due] @ away
            distances = self._distances_at(here, pairs[due], travel)
            last[due], room[due] = here, distances
            near = ~(distances > travel)
            if not near.any():
                continue
            if distances.min() <= 0.0 or step < FINEST_RAD:
                time_s = float(pieces.begins[spans.piece[row]] + 0.5 * (spans.begin[row] + spans.end[row]))
                pair = self._shapes.collisionPairs[int(pairs[due[int(np.argmin(np.where(near, distances, np.inf)))]])]
                return Contact(time_s, here, self._links(pair))
            contact = self._contact(pieces, spans.finer(pieces, group), pairs[due[near]], step / FINER)
            if contact is not None:
                return contact
        return None

    def _distances_at(self, q: FloatArray, pairs: NDArray[np.int64], travel: FloatArray) -> FloatArray:
        """Return distances of pairs of links at a posture, (k,) [m]; zero or negative if the links overlap.

        A mesh lies within its convex hull, and the distance of two hulls is computed a hundred times faster than that
        of two meshes. So the distance of the meshes is computed only for pairs whose hulls may meet. For other pairs of
        meshes the result is a lower bound: the distance of the hulls minus `HULL_TOLERANCE_M`.

        Args:
            q: posture, (n,) [rad].
            pairs: indices of the pairs, (k,).
            travel: upper bounds of the change of each distance near this posture, (k,) [m]. Hulls that are farther
                apart than this do not meet.
        """
        full = self._neutral.copy()
        full[self._places] = q
        distances = self._computed(self._hulls, self._hull_results, full, pairs)
        distances[self._meshed[pairs]] -= HULL_TOLERANCE_M
        close = np.flatnonzero(self._meshed[pairs] & ~(distances > travel))  # also where no distance was found
        if len(close):
            distances[close] = self._computed(self._shapes, self._results, full, pairs[close])
        return distances

    def _computed(
        self,
        shapes: pinocchio.GeometryModel,
        results: pinocchio.GeometryData,
        full: FloatArray,
        pairs: NDArray[np.int64],
    ) -> FloatArray:
        """Return the distances of pairs of shapes at a configuration of the pinocchio model, (k,) [m].

        Args:
            shapes: collision shapes of the links, or their convex hulls.
            results: pinocchio's data for `shapes`, which are overwritten.
            full: configuration of all joints of the pinocchio model, including those that are not axes of the robot.
            pairs: indices of the pairs, (k,).
        """
        pinocchio.updateGeometryPlacements(self._model, self._data, shapes, results, full)
        return np.array([pinocchio.computeDistance(shapes, results, pair).min_distance for pair in pairs.tolist()])

    def _longest_levers(self) -> FloatArray:
        """Return the largest change of each pair's distance per motion of each joint, (pairs, n) [m/rad, m/m]."""
        found = np.zeros((self.pairs, len(self._joints)))
        for row, pair in enumerate(self._shapes.collisionPairs):
            shapes = [self._shapes.geometryObjects[k] for k in (pair.first, pair.second)]
            above = [self._above(shape.parentJoint) for shape in shapes]
            for shape, own, other in zip(shapes, above, reversed(above), strict=True):
                length = _radius(shape)
                for joint in own:
                    if joint in other:
                        break
                    length += self._travel[joint]
                    if joint in self._joints:
                        found[row, self._joints.index(joint)] = 1.0 if self._sliding[joint] else length
                    length += float(np.linalg.norm(self._model.jointPlacements[joint].translation))
        return found

    def _above(self, joint: int) -> list[int]:
        """Return the indices of a joint and of all joints between it and the base, in the pinocchio model."""
        found = []
        while joint > 0:
            found.append(joint)
            joint = self._model.parents[joint]
        return found


def _radius(shape: pinocchio.GeometryObject) -> float:
    """Return an upper bound of the distance between a shape's points and the origin of its joint [m]."""
    shape.geometry.computeLocalAABB()
    box = shape.geometry.aabb_local
    lower, upper = np.asarray(box.min_), np.asarray(box.max_)
    corners = lower + np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]) * (upper - lower)
    points = corners @ shape.placement.rotation.T + shape.placement.translation
    return float(np.linalg.norm(points, axis=1).max())
