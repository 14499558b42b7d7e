"""User-defined free space around an arm, and the proof that a motion stays inside it with all links.

Links are covered by spheres around the collision shapes of the URDF. At the middle of a time span of half length h the
joints are at q, with the time derivatives q^(k). Within the span no joint is farther from q than

    d_i = tube_i + sum_k |q_i^(k)| h^k / k!,

where tube_i is the largest deviation of joint i from its reference. The sum has no remainder, because the motion is a
polynomial within the span. By Taylor's theorem, no sphere's centre p then moves more than

    sum_i |dp/dq_i| d_i + 1/2 sum_ij r_max(i,j) d_i d_j,

because |d2p / dq_i dq_j| is at most r_max(i,j), the longest lever of the sphere about the later one of the joints i and
j. If that is at most the sphere's clearance minus the scene's `margin_m`, for every sphere and every border, it is
proven that the arm stays inside within the span. Otherwise the span is halved. Samples alone would prove nothing about
the motion between them.

A motion that begins outside is proven in the same way with an allowance for each border, see `SafeBox.prove_entry`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from dynid.control.self_collision import SelfCollision
from dynid.errors import ConfigurationError, SafetyError
from dynid.model.dynamics import ArmModel
from dynid.model.pinocchio_library import pinocchio
from dynid.resources import load_validated
from dynid.robot import FloatArray, NonNegative, Robot, Strict
from dynid.trajectory.motion import Motion
from dynid.trajectory.pieces import Pieces

FIRST_SPAN_S, SHORTEST_SPAN_S = 0.02, 2e-4  # initial span, and the span at which a proof has failed
BATCH = 2048  # spans per batch
NO_SCENE = "none"  # scene setting that means no scene
LONGEST_RATIO = 1.2  # largest ratio of length to width covered by one sphere
ENTRY_M = 1e-3  # distance by which a motion that begins outside may go farther out, and cross back on its way in [m]
Point = tuple[float, float, float]
LinkNumber = Annotated[int, Field(ge=1)]
Spans = tuple[NDArray[np.int64], FloatArray, FloatArray]  # piece of each time span, its begin and its end [s], (N,)


class Border(Strict):
    """Border of the free space around an arm.

    Attributes:
        name: name for messages.
        from_link: number of the first link that must respect this border, counted from 1; all later links must, too.
    """

    name: str
    from_link: LinkNumber = 1


class SceneBox(Border):
    """Box as a border of the free space, with edges parallel to the axes of the base link.

    Attributes:
        lower_m: corner with the smallest coordinates in the base link.
        upper_m: corner with the largest coordinates in the base link.
    """

    lower_m: Point
    upper_m: Point

    @model_validator(mode="after")
    def _has_room(self) -> "SceneBox":
        if not all(low < high for low, high in zip(self.lower_m, self.upper_m, strict=True)):
            raise ValueError(f"lower_m {self.lower_m} must lie below upper_m {self.upper_m}")
        return self


class HalfSpace(Border):
    """Half-space that is free at points x with normal . x >= offset_m, in coordinates of the base link [m].

    The normal points to the free side, and need not have unit length.
    """

    normal: Point
    offset_m: float

    @model_validator(mode="after")
    def _has_direction(self) -> "HalfSpace":
        if not np.linalg.norm(self.normal) > 0.0:
            raise ValueError("normal is zero; it must point to the free side")
        return self


class SceneFile(Strict):
    """Schema of a scene file, which describes the free space around an arm in coordinates of the base link.

    Links stay inside every box of `inside`, on the free side of every half-space, and outside every box of `outside`.
    They keep a distance of `margin_m` from all borders.
    """

    schema_version: Literal[1]
    margin_m: NonNegative = 0.01
    inside: tuple[SceneBox, ...] = ()
    outside: tuple[SceneBox, ...] = ()
    half_spaces: tuple[HalfSpace, ...] = ()


def load_scene(path: Path) -> SceneFile:
    """Return the description of the free space from a scene file.

    Raises:
        InputNotFoundError: the file does not exist.
        ConfigurationError: the file is not valid.
    """
    return load_validated(path, SceneFile)


def scene_of(robot: Robot) -> SceneFile | None:
    """Return the description of the free space from scene.yaml in the robot's folder, or None without this file."""
    path = robot.folder / "scene.yaml"
    return load_scene(path) if path.is_file() else None


def box_of(robot: Robot, scene: str) -> "SafeBox | None":
    """Return the free space that a setting names, or None if motions need not stay in a free space.

    Args:
        robot: the robot.
        scene: path of a scene file; "" for scene.yaml in the robot's folder, if it exists; "none" for no free space.

    Raises:
        InputNotFoundError: the file is missing.
        ConfigurationError: the file is not valid, or the robot is not a serial chain.
    """
    if scene == NO_SCENE:
        return None
    free = load_scene(Path(scene)) if scene else scene_of(robot)
    return None if free is None else SafeBox(robot, free)


@dataclass(frozen=True, eq=False)
class Spheres:
    """Spheres that cover all links of an arm.

    Attributes:
        links: index of each sphere's link, counted from 0, (S,).
        centres: centres in the link's URDF frame, (S, 3) [m].
        radii: radii, (S,) [m].
    """

    links: FloatArray
    centres: FloatArray
    radii: FloatArray

    @classmethod
    def of(cls, robot: Robot) -> "Spheres":
        """Return spheres that cover the collision shapes of a robot.

        Parts that turn at a joint outside the chain, such as fingers, are covered in all their positions. If the URDF
        has no collision shapes, the spheres cover the boxes that contain all mass of the links, see `link_limits`.

        Raises:
            ConfigurationError: the robot has neither shapes nor such boxes.
        """
        shapes, model = SelfCollision(robot).shapes
        chain = [model.getJointId(name) for name in robot.joint_names[: robot.chain_size]]
        found = []
        for shape in shapes.geometryObjects:
            shape.geometry.computeLocalAABB()
            box, joint = shape.geometry.aabb_local, shape.parentJoint
            lower, upper = np.asarray(box.min_), np.asarray(box.max_)
            corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
            points = shape.placement.rotation @ (lower + corners * (upper - lower)).T
            points = points.T + shape.placement.translation
            if joint in chain:
                found += [(chain.index(joint), c, r) for c, r in _cover(lower, upper, shape.placement)]
            elif joint > 0:
                found.append(_around_joint(model, joint, points, chain))
        if not found:
            limits, here = ArmModel.of(robot).limits(robot.file.physical_bounds), pinocchio.SE3.Identity()
            found = [(j, c, r) for j, one in enumerate(limits.links) for c, r in _cover(*one.box, here)]
        links, centres, radii = zip(*found, strict=True)
        return cls(np.array(links), np.array(centres), np.array(radii))


def _cover(lower: FloatArray, upper: FloatArray, placement: pinocchio.SE3) -> list[tuple[FloatArray, float]]:
    """Return spheres that cover a box, in a row along its longest side, as pairs of centre (3,) [m] and radius [m].

    Args:
        lower: smallest coordinates of the box in its own frame, (3,) [m].
        upper: largest coordinates of the box in its own frame, (3,) [m].
        placement: placement of the box in the frame of the centres.
    """
    size = upper - lower
    axis = int(np.argmax(size))
    width = float(np.linalg.norm(np.delete(size, axis)))
    count = max(1, int(np.ceil(size[axis] / max(LONGEST_RATIO * width, 1e-6))))
    step = size[axis] / count
    radius = 0.5 * float(np.hypot(width, step))
    found = []
    for k in range(count):
        centre = 0.5 * (lower + upper)
        centre[axis] = lower[axis] + (k + 0.5) * step
        found.append((placement.rotation @ centre + placement.translation, radius))
    return found


def _around_joint(
    model: pinocchio.Model, joint: int, points: FloatArray, chain: list[int]
) -> tuple[int, FloatArray, float]:
    """Return a sphere that contains the link of a joint outside the chain, such as a finger, at any joint position.

    Args:
        model: pinocchio model of the robot.
        joint: index of the joint in this model.
        points: corner points of the link's shape in the frame of the joint, (8, 3) [m].
        chain: indices of the joints of the serial chain in this model.

    Returns:
        Index of the chain link to which the sphere is attached, its centre in this link, (3,) [m], and radius [m].
    """
    radius, placement = float(np.linalg.norm(points, axis=1).max()), model.jointPlacements[joint]
    radius += _travel(model, joint)
    centre, above = np.asarray(placement.translation), model.parents[joint]
    while above not in chain:
        if above == 0:
            raise ConfigurationError(
                f"joint {model.names[joint]} is attached to the base: scenes support serial chains only"
            )
        placement, radius = model.jointPlacements[above], radius + float(np.linalg.norm(centre)) + _travel(model, above)
        centre, above = np.asarray(placement.translation), model.parents[above]
    return chain.index(above), centre, radius


def _travel(model: pinocchio.Model, joint: int) -> float:
    """Return the largest distance by which a prismatic joint moves its link from its zero position [m]; else 0.

    Raises:
        ConfigurationError: the URDF gives the joint no limits.
    """
    if not model.joints[joint].shortname().startswith("JointModelP"):
        return 0.0
    place = model.idx_qs[joint]
    largest = max(abs(float(model.lowerPositionLimit[place])), abs(float(model.upperPositionLimit[place])))
    if not largest < 1e6:
        raise ConfigurationError(f"joint {model.names[joint]} has no limits in the URDF, so no space contains it")
    return largest


class SafeBox:
    """Check that proves for a motion that all links stay in the free space, or refuses the motion.

    Args:
        robot: robot whose links are checked, with the shapes of its URDF.
        scene: borders of the free space.
    """

    def __init__(self, robot: Robot, scene: SceneFile) -> None:
        self.scene, self._spheres, mdh = scene, Spheres.of(robot), ArmModel.of(robot).mdh
        self._mdh, self._names = mdh, robot.joint_names
        self._in_link = np.linalg.inv(mdh.in_link)
        self._sliding = np.array(mdh.prismatic)
        self._reach = self._longest_levers(robot)

    def _longest_levers(self, robot: Robot) -> FloatArray:
        """Return upper bounds of the distances of S sphere centres from the axes of c chain joints, (S, c) [m].

        Chain joints are the joints of the serial chain. The bound is 0 for a joint that does not move the sphere. For a
        prismatic joint it is 1, because the joint moves the sphere by 1 m per m.
        """
        mdh, spheres = self._mdh, self._spheres
        own = np.einsum("sij,sj->si", self._in_link[spheres.links], _homogeneous(spheres.centres))[:, :3]
        steps = np.linalg.norm(mdh.relative_positions(), axis=1)
        travel = np.maximum(np.abs(robot.lower), np.abs(robot.upper))[: mdh.size]
        steps = steps + np.where(self._sliding, np.where(np.isfinite(travel), travel, 0.0), 0.0)
        reach = np.zeros((len(own), mdh.size))
        for s, link in enumerate(spheres.links):
            length = float(np.linalg.norm(own[s]))
            for j in range(link, -1, -1):
                reach[s, j] = 1.0 if self._sliding[j] else length
                length += steps[j]
            if not self._sliding[link]:
                reach[s, link] = float(np.linalg.norm(own[s, :2]))
        return reach

    def _places(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the centres p of all S spheres at postures q (N, c), and their displacements per motion of each joint.

        Returns:
            Centres in the base link, (N, S, 3) [m], and |dp/dq| for c chain joints, (N, S, c) [m/rad, m/m]. The latter
                is the centre's distance from the axis of a revolute joint, 1 for a prismatic joint, and 0 for a joint
                that does not move the sphere.
        """
        mdh, spheres = self._mdh, self._spheres
        R, steps = mdh.relative_rotations(q), mdh.relative_positions()
        at = np.tile(mdh.base, (len(q), 1, 1))
        frames = np.empty((len(q), mdh.size, 4, 4))
        for j in range(mdh.size):
            step = np.tile(np.eye(4), (len(q), 1, 1))
            step[:, :3, :3], step[:, :3, 3] = R[:, j], steps[j] + q[:, j, None] * mdh.prismatic_axes()[j]
            at = at @ step
            frames[:, j] = at
        own = np.einsum("sij,sj->si", self._in_link[spheres.links], _homogeneous(spheres.centres))
        centres = np.einsum("nsij,sj->nsi", frames[:, spheres.links], own)[..., :3]
        (ax, ay, az), (x, y, z) = (
            np.moveaxis(frames[:, None, :, :3, 2], 3, 0),
            np.moveaxis(centres[:, :, None] - frames[:, None, :, :3, 3], 3, 0),
        )
        levers = np.sqrt((ay * z - az * y) ** 2 + (az * x - ax * z) ** 2 + (ax * y - ay * x) ** 2)
        levers = np.where(self._sliding, 1.0, levers)
        return centres, np.where(np.arange(mdh.size) <= spheres.links[:, None], levers, 0.0)

    def _clearances(self, p: FloatArray) -> tuple[FloatArray, list[str]]:
        """Return the clearance of every sphere from each border, (B, N, S) [m], and the names of the B borders.

        A clearance is negative if the sphere reaches beyond the border. It is infinite if the sphere's link need not
        respect this border, see `Border.from_link`.

        Args:
            p: centres of the spheres at N postures, (N, S, 3) [m].
        """
        scene = self.scene
        found: list[tuple[FloatArray, Border]] = []
        for box in scene.inside:
            faces = np.minimum(p - np.array(box.lower_m), np.array(box.upper_m) - p).min(axis=2)
            found.append((faces, box))
        for half in scene.half_spaces:
            normal = np.array(half.normal)
            found.append(((p @ normal - half.offset_m) / np.linalg.norm(normal), half))
        for box in scene.outside:
            beyond = np.maximum(np.array(box.lower_m) - p, p - np.array(box.upper_m))
            away = np.linalg.norm(np.maximum(beyond, 0.0), axis=2)
            found.append((np.where(away > 0.0, away, beyond.max(axis=2)), box))
        names = [border.name for _, border in found]
        kept = [border.from_link - 1 for _, border in found]
        distances = [
            np.where(self._spheres.links >= first, d - self._spheres.radii, np.inf)
            for (d, _), first in zip(found, kept, strict=True)
        ]
        return np.array(distances).reshape(len(found), *p.shape[:2]), names

    def shortfall(self, q: FloatArray, tube: FloatArray) -> FloatArray:
        """Return the missing clearance of the arm from the borders of the free space at N postures, (N,) [m].

        It is the maximum, over all borders and all spheres around the links, of required minus present clearance. The
        value is positive if a clearance is too small, and -inf without borders.

        Args:
            q: postures, (N, n) [rad].
            tube: largest deviation of each joint from these postures, (n,) [rad].
        """
        return np.asarray(self._shortfalls(q, tube).max(axis=1, initial=-np.inf))

    def _shortfalls(self, q: FloatArray, tube: FloatArray) -> FloatArray:
        """Return the missing clearance of N postures from each of the B borders, (N, B) [m].

        Each value is the maximum over all spheres around the links, and positive if a clearance is too small. The
        required clearance of a sphere is the scene's `margin_m` plus the largest displacement of the sphere by
        deviations of the joints.

        Args:
            q: postures, (N, n) [rad].
            tube: largest deviation of each joint from these postures, (n,) [rad].
        """
        c = self._mdh.size
        centres, levers = self._places(q[:, :c])
        moved = levers @ tube[:c] + 0.5 * self._second_order(np.tile(tube[:c], (len(q), 1)))
        clearances, _ = self._clearances(centres)
        return np.asarray((self.scene.margin_m + moved - clearances).max(axis=2, initial=-np.inf).T)

    def _second_order(self, d: FloatArray) -> FloatArray:
        """Return the sum over all joints i and j of r_max(i,j) d_i d_j for every sphere, (N, S) [m].

        Half of the sum bounds the second-order part of the sphere's displacement by joint deviations d. r_max(i,j) is
        the longest lever of the sphere about the later one of the joints i and j.

        Args:
            d: largest deviations of the c joints of the serial chain at N postures, (N, c) [rad].
        """
        before = np.cumsum(d, axis=1) - d
        return np.asarray((d**2 + 2.0 * d * before) @ self._reach.T)

    def prove(self, motion: Motion, tube: FloatArray) -> None:
        """Raise SafetyError unless it is proven that the arm stays in the free space throughout a motion.

        Args:
            motion: the motion.
            tube: largest deviation of each joint from the motion, (n,) [rad].

        Raises:
            SafetyError: the motion leaves the free space, or the proof fails; the message names link, border, time and
                distance.
        """
        pieces = motion.pieces()
        spans = _first_spans(pieces)
        self._prove_spans(motion, pieces, spans, np.zeros((len(spans[0]), 1)), tube)

    def prove_entry(self, motion: Motion, tube: FloatArray) -> None:
        """Raise SafetyError unless it is proven that a motion from outside enters the free space directly and stays in.

        The permitted distance outside a border decreases in three stages, for each border separately. Until the arm is
        first inside, it is the distance at the start plus `ENTRY_M`. From then on it is `ENTRY_M`. Once the arm was
        inside by `ENTRY_M`, it is zero.

        Args:
            motion: the motion, which begins outside the free space.
            tube: largest deviation of each joint from the motion, (n,) [rad].

        Raises:
            SafetyError: the motion ends outside, is farther outside than permitted, comes out again, or the proof
                fails.
        """
        pieces = motion.pieces()
        spans = piece, begin, _ = _first_spans(pieces)
        missing = self._shortfalls(np.vstack([pieces.derivatives(piece, begin, 1)[0], motion.end]), tube)
        least = np.minimum.accumulate(missing, axis=0)
        allowed = np.where(least > 0.0, np.maximum(missing[0], 0.0) + ENTRY_M, np.where(least > -ENTRY_M, ENTRY_M, 0.0))
        if (missing[-1] > 0.0).any():
            allowed[:] = 0.0  # a motion that ends outside is always refused
        self._prove_spans(motion, pieces, spans, allowed[:-1], tube)

    def _prove_spans(self, motion: Motion, pieces: Pieces, spans: Spans, allowed: FloatArray, tube: FloatArray) -> None:
        """Raise SafetyError unless it is proven that the arm keeps its clearance from all borders in all time spans.

        A span that is not proven is halved, until the proof succeeds or the span is too short.

        Args:
            motion: the motion.
            pieces: the motion as piecewise polynomials.
            spans: piece, start and end of N time spans, which cover the motion.
            allowed: distance by which the arm may be outside each border in each span, (N, B) [m]; a single column
                counts for all borders.
            tube: largest deviation of each joint from the motion, (n,) [rad].
        """
        piece, begin, end = spans
        while len(piece):
            parts = [slice(first, first + BATCH) for first in range(0, len(piece), BATCH)]
            left = [
                self._unproven(motion, pieces, (piece[part], begin[part], end[part]), allowed[part], tube)
                for part in parts
            ]
            unproven = np.concatenate(left)
            piece, begin, end, allowed = piece[unproven], begin[unproven], end[unproven], allowed[unproven]
            middle = 0.5 * (begin + end)
            if (end - begin < 2.0 * SHORTEST_SPAN_S).any():
                k = int(np.argmin(end - begin))
                self._refuse(motion, pieces, int(piece[k]), float(middle[k]), allowed[k], tube)
            piece, begin, end = np.tile(piece, 2), np.append(begin, middle), np.append(middle, end)
            allowed = np.tile(allowed, (2, 1))

    def _unproven(
        self, motion: Motion, pieces: Pieces, spans: Spans, allowed: FloatArray, tube: FloatArray
    ) -> NDArray[np.bool_]:
        """Return a mask (N,) of the time spans for which it is not proven that the arm keeps its clearance.

        Args:
            motion: the motion.
            pieces: the motion as piecewise polynomials.
            spans: piece, start and end of N time spans.
            allowed: distance by which the arm may be outside each border in each span, (N, B) [m]; a single column
                counts for all borders.
            tube: largest deviation of each joint from the motion, (n,) [rad].

        Raises:
            SafetyError: the clearance is too small even at the middle of a span, so that halving the span is useless.
        """
        c = self._mdh.size
        piece, begin, end = spans
        q, away = (one[:, :c] for one in pieces.around(piece, begin, end))
        d = away + tube[:c]
        centres, levers = self._places(q)
        clearances, _ = self._clearances(centres)
        free = (clearances + allowed.T[:, :, None]).min(axis=0, initial=np.inf) - self.scene.margin_m
        still = levers @ tube[:c]
        lost = np.flatnonzero((free - still < 0.0).any(axis=1))
        if len(lost):
            k = int(lost[0])
            self._refuse(motion, pieces, int(piece[k]), float(0.5 * (begin + end)[k]), allowed[k], tube)
        moved = np.einsum("nsc,nc->ns", levers, d) + 0.5 * self._second_order(d)
        return np.asarray((moved > free).any(axis=1))

    def _refuse(
        self, motion: Motion, pieces: Pieces, piece: int, time: float, allowed: FloatArray, tube: FloatArray
    ) -> None:
        q = pieces.derivatives(np.array([piece]), np.array([time]), 1)[0][:, : self._mdh.size]
        centres, levers = self._places(q)
        clearances, names = self._clearances(centres)
        off, allowed = levers[0] @ tube[: self._mdh.size], np.broadcast_to(allowed, len(names))
        room = clearances[:, 0] + allowed[:, None] - off
        border, sphere = (int(k) for k in np.unravel_index(np.argmin(room), room.shape))
        outside = f", less {allowed[border]:.3f} m since the motion begins outside" if allowed[border] > 0.0 else ""
        raise SafetyError(
            f"motion '{motion.name}' refused: link {int(self._spheres.links[sphere]) + 1} comes within "
            f"{clearances[border, 0, sphere]:.3f} m of the border '{names[border]}' at "
            f"{pieces.begins[piece] + time:.3f} s; expected at least the margin of {self.scene.margin_m} m and "
            f"{off[sphere]:.3f} m by which the joints may be off their reference{outside}"
        )


def _first_spans(pieces: Pieces) -> Spans:
    """Return N time spans of at most `FIRST_SPAN_S` that cover a motion.

    Returns:
        Index of the piece (polynomial) that contains each span, and start and end of the span since the start of this
        piece, (N,) each [s].
    """
    counts = np.maximum(1, np.ceil(pieces.durations / FIRST_SPAN_S)).astype(np.int64)
    piece = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
    width = (pieces.durations / counts)[piece]
    return piece, place * width, (place + 1) * width


def _homogeneous(points: FloatArray) -> FloatArray:
    return np.column_stack([points, np.ones(len(points))])
