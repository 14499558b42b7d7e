"""Modified Denavit-Hartenberg parameters (Khalil and Kleinfinger 1986) from the joint axes of a URDF.

Frame j is fixed to link j: z_j lies along joint axis j, x_j along the common normal of z_j and z_{j+1}. Then

    T(j-1, j) = Rot(x, alpha_j) Trans(x, d_j) Rot(z, theta_j) Trans(z, r_j),   theta_j = q_j + offset_j.

The convention does not determine frame 0 and the signs of the axes x_j. Here frame 0 equals frame 1 at q = 0, and x_j
points like x_{j-1} if the two are parallel, so that as many offsets as possible are zero. Otherwise x_j points from z_j
to z_{j+1} or, if these axes intersect, in the direction that makes alpha_{j+1} negative.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.errors import UnknownNameError
from dynid.model.chain import SerialChain
from dynid.robot import FloatArray, read_only

PARALLEL_SINE = 1e-9  # sine of the angle below which two axes count as parallel
ZERO_DISTANCE_M = 1e-9  # distances below this count as zero


class Geometry(NamedTuple):
    """Placement of n frames, each in the frame before it.

    Attributes:
        cosines: cosines of the angles alpha between successive joint axes, (n,).
        sines: sines of these angles, (n,).
        offset: angles about the joint axes at position 0, (n,) [rad].
        slides: whether the joint is prismatic, (n,).
        origins: origins of the frames at position 0, (n, 3) [m].
        along: displacement of the origin per unit of a prismatic joint's position, (n, 3); zero for a revolute joint.
    """

    cosines: FloatArray
    sines: FloatArray
    offset: FloatArray
    slides: NDArray[np.bool_]
    origins: FloatArray
    along: FloatArray


@dataclass(frozen=True, eq=False)
class MdhChain:
    """Modified DH parameters of n revolute or prismatic joints, and the placement of the frames in the URDF.

    Attributes:
        alpha: angles from z_{j-1} to z_j about x_{j-1}, (n,) [rad].
        d: distances from z_{j-1} to z_j along x_{j-1}, (n,) [m].
        r: distances from x_{j-1} to x_j along z_j at q = 0, (n,) [m].
        offset: angles theta_j from x_{j-1} to x_j about z_j at q = 0, (n,) [rad].
        base: placement of frame 0 in the URDF base link, (4, 4).
        in_link: placement of frame j in the URDF joint frame j, (n, 4, 4).
        prismatic: whether each joint is prismatic, so that r_j varies instead of theta_j, (n,). The argument () makes
            all joints revolute.
    """

    alpha: FloatArray
    d: FloatArray
    r: FloatArray
    offset: FloatArray
    base: FloatArray
    in_link: FloatArray
    prismatic: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if not self.prismatic:
            object.__setattr__(self, "prismatic", (False,) * len(self.alpha))

    @property
    def size(self) -> int:
        """Number of joints."""
        return len(self.alpha)

    def with_lengths(self, overrides_m: Mapping[str, float]) -> "MdhChain":
        """Return a copy of this chain with some lengths replaced, such as {"r3": 0.24} [m].

        Raises:
            UnknownNameError: a name other than d1..dn, r1..rn.
        """
        d, r = np.array(self.d), np.array(self.r)
        known = tuple(f"{kind}{j + 1}" for kind in "dr" for j in range(self.size))
        for name, value in overrides_m.items():
            if name not in known:
                raise UnknownNameError("modified DH length", name, known)
            (d if name[0] == "d" else r)[int(name[1:]) - 1] = value
        return replace(self, d=read_only(d), r=read_only(r))

    def relative_rotations(self, q: FloatArray) -> FloatArray:
        """Return the rotations of frame j in frame j-1 at joint positions q (N, n) [rad], (N, n, 3, 3)."""
        theta = np.where(self.prismatic, 0.0, np.atleast_2d(q)) + self.offset
        ct, st = np.cos(theta), np.sin(theta)
        ca, sa = np.cos(self.alpha), np.sin(self.alpha)
        zero = np.zeros_like(theta)
        rows = [[ct, -st, zero], [ca * st, ca * ct, zero - sa], [sa * st, sa * ct, zero + ca]]
        return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)

    @cached_property
    def geometry(self) -> Geometry:
        """Placement of each frame in the frame before it, as writeable arrays for the loops of `chain_kernels`."""
        return Geometry(
            np.cos(self.alpha),
            np.sin(self.alpha),
            np.array(self.offset),
            np.array(self.prismatic),
            self.relative_positions(),
            self.prismatic_axes(),
        )

    def relative_positions(self) -> FloatArray:
        """Return the origins of frames j in frames j-1 at q = 0, (n, 3) [m].

        The origin of a prismatic joint's frame moves by `prismatic_axes` times q.
        """
        return np.stack([self.d, -np.sin(self.alpha) * self.r, np.cos(self.alpha) * self.r], axis=-1)

    def prismatic_axes(self) -> FloatArray:
        """Return the displacement of frame j's origin in frame j-1 per unit of q_j, (n, 3) [-].

        For a prismatic joint the result is the unit vector of its axis, for a revolute joint zero.
        """
        axes = np.stack([np.zeros(self.size), -np.sin(self.alpha), np.cos(self.alpha)], axis=-1)
        return np.where(np.array(self.prismatic)[:, None], axes, 0.0)

    def placements(self, q: FloatArray) -> FloatArray:
        """Return the placements of frames 1..n in the URDF base link at q (n,) [rad], (n, 4, 4)."""
        rotations = self.relative_rotations(q)[0]
        positions = self.relative_positions() + q[:, None] * self.prismatic_axes()
        placement, out = np.array(self.base), []
        for rotation, position in zip(rotations, positions, strict=True):
            step = np.eye(4)
            step[:3, :3], step[:3, 3] = rotation, position
            placement = placement @ step
            out.append(placement)
        return np.array(out)


def common_normal(
    p1: FloatArray, z1: FloatArray, p2: FloatArray, z2: FloatArray
) -> tuple[FloatArray, float, FloatArray | None]:
    """Return the common normal of two axes: its foot on axis 1, its length, and its direction.

    Args:
        p1: point on axis 1, (3,) [m].
        z1: unit direction of axis 1, (3,).
        p2: point on axis 2, (3,) [m].
        z2: unit direction of axis 2, (3,).

    Returns:
        Foot on axis 1 (3,) [m], distance of the axes [m], and unit direction from axis 1 to axis 2 (3,), which is None
        for coincident axes. For parallel axes the foot is p1; for intersecting ones the direction is that of z1 x z2.
    """
    cross, between = np.cross(z1, z2), p2 - p1
    sine = np.linalg.norm(cross)
    if sine < PARALLEL_SINE:
        across = between - (between @ z1) * z1
        distance = float(np.linalg.norm(across))
        return p1, distance, across / distance if distance > ZERO_DISTANCE_M else None
    direction = cross / sine
    along = np.linalg.det(np.stack([between, z2, cross])) / sine**2
    distance = float(between @ direction)
    if distance < 0 and -distance > ZERO_DISTANCE_M:
        direction, distance = -direction, -distance
    return p1 + along * z1, abs(distance), direction


def _x_axis(
    previous: FloatArray | None, z: FloatArray, z_next: FloatArray, normal: FloatArray | None, distance: float
) -> FloatArray:
    """Return the axis x_j of frame j, (3,): the direction of the common normal of the axes z_j and z_{j+1}.

    The common normal has two directions. If x_{j-1} is parallel to it, x_j points like x_{j-1}. Otherwise x_j points
    from z_j to z_{j+1}; if these axes intersect, x_j makes the angle alpha_{j+1} negative. If the common normal is not
    unique, x_j is the projection of x_{j-1} onto the plane perpendicular to z_j.

    Args:
        previous: x_{j-1}, (3,); None for the first frame.
        z: z_j, (3,).
        z_next: z_{j+1}, (3,).
        normal: direction of the common normal of z_j and z_{j+1}, (3,); None if it is not unique.
        distance: distance of z_j and z_{j+1} [m].
    """
    if normal is None:
        seed = previous if previous is not None else np.eye(3)[int(np.argmin(np.abs(z)))]
        along = seed - (seed @ z) * z
        return np.asarray(along / np.linalg.norm(along))
    if previous is not None and abs(abs(normal @ previous) - 1) < PARALLEL_SINE:
        return normal * np.sign(normal @ previous)
    if distance > ZERO_DISTANCE_M:
        return normal
    return normal if np.cross(z, z_next) @ normal < 0 else -normal  # alpha_{j+1} < 0


def _frames(points: FloatArray, axes: FloatArray) -> FloatArray:
    """Return the placements of the MDH frames at q = 0 in the base, (n, 4, 4).

    Args:
        points: points on the axes, (n, 3).
        axes: directions of the axes, (n, 3).
    """
    count = len(axes)
    frames = np.tile(np.eye(4), (count, 1, 1))
    x: FloatArray | None = None
    origin = points[0]
    for j in range(count):
        z = axes[j]
        if j + 1 < count:
            # if axes j and j+1 are parallel, their common normal is not unique: choose the one that makes r_j = 0
            start = points[j] + ((origin - points[j]) @ z) * z
            origin, distance, normal = common_normal(start, z, points[j + 1], axes[j + 1])
            x = _x_axis(x, z, axes[j + 1], normal, distance)
        else:
            origin = points[j] + ((origin - points[j]) @ z) * z  # minimal |r_n|
            x = _x_axis(x, z, z, None, 0.0)
        frames[j, :3, :3] = np.stack([x, np.cross(z, x), z], axis=-1)
        frames[j, :3, 3] = origin
    return frames


def derive_mdh(chain: SerialChain) -> MdhChain:
    """Return the modified DH parameters of a serial chain of revolute and prismatic joints.

    Raises:
        ConfigurationError: a joint that is neither revolute nor prismatic.
    """
    urdf = np.asarray(chain.joint_placements)
    frames = _frames(urdf[:, :3, 3], np.asarray(chain.axes))
    alpha, d, r, offset = (np.zeros(chain.size) for _ in range(4))
    for j in range(1, chain.size):
        step = np.linalg.inv(frames[j - 1]) @ frames[j]
        alpha[j] = np.arctan2(-step[1, 2], step[2, 2])
        offset[j] = np.arctan2(-step[0, 1], step[0, 0])
        d[j] = step[0, 3]
        r[j] = step[:3, 3] @ step[:3, 2]
    clean = [read_only(np.where(np.abs(v) < 1e-12, 0.0, v)) for v in (alpha, d, r, offset)]
    in_link = read_only(np.round(np.linalg.inv(urdf) @ frames, 12) + 0.0)
    return MdhChain(clean[0], clean[1], clean[2], clean[3], read_only(frames[0]), in_link, chain.prismatic)
