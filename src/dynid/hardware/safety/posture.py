"""Kinematics of an arm under gravity, from its URDF and the direction of gravity, without masses.

The safety guard uses this kinematics to lower an arm. It computes the speeds of the tool and of the links' ends, and
finds joints whose links are above the joint's axis. Such a joint can be in unstable balance without current. Arrays
with n entries are in joint order; a decoupled joint, such as a gripper's, counts as moving no link.
"""

import numba
import numpy as np

from dynid.model.chain import SerialChain
from dynid.model.vectors import Vector, cross, dot, minus, plus, put, scaled, turned, turned_back, vector
from dynid.robot import FloatArray, Robot

UNREACHABLE_M = 1e9  # larger than any distance [m]
TABLE_ABSENT_M = 0.05  # a point this far below the table's given height shows that the table is not there [m]


@numba.njit(cache=True)
def place_chain(
    q: FloatArray,
    turns: FloatArray,
    steps: FloatArray,
    local_axes: FloatArray,
    slides: FloatArray,
    tool: FloatArray,
    axes: FloatArray,
    origins: FloatArray,
    ends: FloatArray,
) -> None:
    """Write joint axes, joint origins and far ends of the links in the base frame at joint positions q.

    Args:
        q: joint positions, (n,) [rad or m].
        turns: orientation of each joint frame in the previous joint frame at q = 0, (n, 3, 3).
        steps: origin of each joint frame in the previous joint frame at q = 0, (n, 3) [m].
        local_axes: unit vectors of the joint axes in their own frames, (n, 3).
        slides: 1 for a prismatic joint, else 0, (n,).
        tool: far end of the last link in its frame, (3,) [m].
        axes: output, joint axes, (n, 3) [-].
        origins: output, origins of the joints, (n, 3) [m].
        ends: output, far ends of the links, (n, 3) [m].
    """
    n = q.shape[0]
    rotation, position = np.zeros((3, 3)), (0.0, 0.0, 0.0)
    for b in range(3):
        rotation[b, b] = 1.0
    for j in range(n):
        position = plus(position, turned(rotation, vector(steps[j])))
        for b in range(3):
            put(rotation[b], turned_back(turns[j], vector(rotation[b])))
        own = vector(local_axes[j])
        axis = turned(rotation, own)
        put(axes[j], axis)
        put(origins[j], position)
        if slides[j] > 0.0:
            position = plus(position, scaled(axis, q[j]))
        else:
            sine, rest = np.sin(q[j]), 1.0 - np.cos(q[j])
            for b in range(3):  # Rodrigues' formula, applied to the rows of the rotation
                row = vector(rotation[b])
                once = cross(own, row)
                put(rotation[b], plus(row, plus(scaled(once, -sine), scaled(cross(own, once), rest))))
        if j > 0:
            put(ends[j - 1], position)
    put(ends[n - 1], plus(position, turned(rotation, vector(tool))))


@numba.njit(cache=True)
def balance_of(
    axes: FloatArray,
    origins: FloatArray,
    ends: FloatArray,
    slides: FloatArray,
    up: FloatArray,
    height: FloatArray,
    slope: FloatArray,
) -> None:
    """Write, for each joint, the mean height above its axis of the links that it moves, and the slope of this height.

    All links count equally, each at its middle. If the mean height is positive, the links are in unstable balance when
    the slope is zero: gravity turns them further once they lean. If it is negative, gravity turns them back. The slope
    is the first derivative of the mean height with respect to the joint angle; the second derivative is minus the mean
    height.

    Args:
        axes: unit vectors of the joint axes in the base frame, (n, 3).
        origins: origins of the joints in the base frame, (n, 3) [m].
        ends: far ends of the links in the base frame, (n, 3) [m].
        slides: 1 for a prismatic joint, else 0, (n,).
        up: unit vector against gravity, (3,).
        height: output, mean height of the links above the joint's axis, (n,) [m]; 0 for a prismatic joint.
        slope: output, change of the mean height per joint motion, (n,) [m/rad, or 1 if prismatic].
    """
    n, above = axes.shape[0], vector(up)
    for j in range(n):
        height[j] = slope[j] = 0.0
        axis, origin = vector(axes[j]), vector(origins[j])
        if slides[j] > 0.0:
            slope[j] = dot(axis, above)
            continue
        for k in range(j, n):
            middle = scaled(plus(vector(origins[k]), vector(ends[k])), 0.5)
            arm = minus(middle, origin)
            across = minus(arm, scaled(axis, dot(axis, arm)))
            height[j] += dot(across, above) / (n - j)
            slope[j] += dot(cross(axis, arm), above) / (n - j)


@numba.njit(cache=True)
def _per_rate(j: int, point: Vector, axes: FloatArray, origins: FloatArray, slides: FloatArray) -> Vector:
    """Return the velocity of a point beyond joint j per unit rate of this joint, (3,) [m/rad, or 1 if prismatic].

    Args:
        j: index of the joint, from 0.
        point: the point in the base frame, (3,) [m].
        axes: unit vectors of the joint axes in the base frame, (n, 3).
        origins: origins of the joints in the base frame, (n, 3) [m].
        slides: 1 for a prismatic joint, else 0, (n,).
    """
    velocity: Vector = vector(axes[j])
    if slides[j] == 0.0:
        velocity = cross(velocity, minus(point, vector(origins[j])))
    return velocity


@numba.njit(cache=True)
def _velocity_of(
    k: int, rates: FloatArray, axes: FloatArray, origins: FloatArray, ends: FloatArray, slides: FloatArray
) -> Vector:
    """Return the velocity of the far end of link k, (3,) [m/s].

    Args:
        k: index of the link, from 0.
        rates: joint velocities, (n,) [rad/s].
        axes: unit vectors of the joint axes in the base frame, (n, 3).
        origins: origins of the joints in the base frame, (n, 3) [m].
        ends: far ends of the links in the base frame, (n, 3) [m].
        slides: 1 for a prismatic joint, else 0, (n,).
    """
    velocity, end = (0.0, 0.0, 0.0), vector(ends[k])
    for j in range(k + 1):
        velocity = plus(velocity, scaled(_per_rate(j, end, axes, origins, slides), rates[j]))
    return velocity


@numba.njit(cache=True)
def pace_of(
    rates: FloatArray,
    axes: FloatArray,
    origins: FloatArray,
    ends: FloatArray,
    slides: FloatArray,
    up: FloatArray,
    fastest: float,
    slow: float,
    table: float,
    near: float,
) -> float:
    """Return the factor, at most 1, by which joint velocities must be scaled to keep the links' ends at allowed speeds.

    Args:
        rates: joint velocities, (n,) [rad/s].
        axes: unit vectors of the joint axes in the base frame, (n, 3).
        origins: origins of the joints in the base frame, (n, 3) [m].
        ends: far ends of the links in the base frame, (n, 3) [m].
        slides: 1 for a prismatic joint, else 0, (n,).
        up: unit vector against gravity, (3,).
        fastest: allowed speed of the links' ends [m/s].
        slow: allowed speed of an end that moves down at the height of the table [m/s].
        table: height of the table above the base frame's origin [m]; NaN if it is unknown.
        near: height above the table [m] below which the allowed speed of an end that moves down is reduced: linearly
            with the height, from `fastest` at `near` to `slow` at the table.
    """
    factor = 1.0
    for k in range(ends.shape[0]):
        velocity = _velocity_of(k, rates, axes, origins, ends, slides)
        speed, allowed = np.sqrt(dot(velocity, velocity)), fastest
        above, against = dot(vector(ends[k]), vector(up)) - table, dot(velocity, vector(up))
        if against < 0.0 and above > -TABLE_ABSENT_M and above < near:  # false without a table (NaN)
            allowed = slow + (fastest - slow) * max(0.0, above) / near
        if speed * factor > allowed:
            factor = allowed / speed
    return factor


@numba.njit(cache=True)
def speed_of(rates: FloatArray, axes: FloatArray, origins: FloatArray, ends: FloatArray, slides: FloatArray) -> float:
    """Return the largest speed of all links' ends and the tool [m/s] at joint velocities `rates` (n,) [rad/s].

    Args:
        rates: joint velocities, (n,) [rad/s].
        axes: unit vectors of the joint axes in the base frame, (n, 3).
        origins: origins of the joints in the base frame, (n, 3) [m].
        ends: far ends of the links in the base frame, (n, 3) [m].
        slides: 1 for a prismatic joint, else 0, (n,).
    """
    fastest = 0.0
    for k in range(ends.shape[0]):
        velocity = _velocity_of(k, rates, axes, origins, ends, slides)
        speed = np.sqrt(dot(velocity, velocity))
        if speed > fastest or np.isnan(speed):  # `max` would drop a NaN, and the guard must see it
            fastest = speed
    return fastest


@numba.njit(cache=True)
def tool_jacobian(
    axes: FloatArray, origins: FloatArray, ends: FloatArray, slides: FloatArray, jacobian: FloatArray
) -> None:
    """Write the Jacobian of the tool's position in the base frame, (3, n) [m/rad], to `jacobian`.

    Args:
        axes: unit vectors of the joint axes in the base frame, (n, 3).
        origins: origins of the joints in the base frame, (n, 3) [m].
        ends: far ends of the links in the base frame, (n, 3) [m]; the last one is the tool.
        slides: 1 for a prismatic joint, else 0, (n,).
        jacobian: output, velocity of the tool per joint velocity, (3, n) [m/rad].
    """
    n = axes.shape[0]
    tool = vector(ends[n - 1])
    for j in range(n):
        jacobian[0, j], jacobian[1, j], jacobian[2, j] = _per_rate(j, tool, axes, origins, slides)


class Posture:
    """Kinematics of one arm under gravity, at the joint positions of the last call of `place`.

    Args:
        robot: robot with URDF and tool.
        mount: a mount of robot.yaml; None for the default mount.
        table_m: height of the table above the base link's origin, against gravity [m]; None if it is not known.

    Attributes:
        height: mean height, above each joint's axis, of the links that the joint moves, (n,) [m]; see `balance_of`.
        slope: change of this mean height per motion of the joint, (n,) [m/rad].
    """

    def __init__(self, robot: Robot, mount: str | None = None, table_m: float | None = None) -> None:
        chain = SerialChain.from_robot(robot)
        zero, n = np.array(chain.joint_placements), chain.size
        before = np.concatenate([np.eye(4)[None], zero[:-1]])
        steps = np.linalg.solve(before, zero)
        self._turns, self._steps = (np.ascontiguousarray(one) for one in (steps[:, :3, :3], steps[:, :3, 3]))
        self._local = np.ascontiguousarray(np.einsum("jba,jb->ja", zero[:, :3, :3], chain.axes))
        self._slides, self._tool = np.array(chain.prismatic, dtype=np.float64), np.array(robot.file.tool_m)
        gravity = np.array(robot.gravity(mount))
        self._up = -gravity / max(float(np.linalg.norm(gravity)), 1e-9)
        self._table = np.nan if table_m is None else table_m
        self._axes, self._origins, self._ends = np.zeros((3, n, 3))
        self._count = n
        self.height, self.slope = np.zeros((2, robot.size))
        self._jacobian = np.zeros((3, robot.size))
        self.place(np.zeros(robot.size))  # compile now, not in a control cycle
        self.speed(np.zeros(robot.size))
        self.jacobian()
        self.pace(np.zeros(robot.size), 1.0, 1.0, 1.0)

    @property
    def tool(self) -> FloatArray:
        """Position of the tool in the base frame, (3,) [m]."""
        return np.array(self._ends[-1])

    def place(self, q: FloatArray) -> None:
        """Update the kinematics to joint positions q, (n,) [rad or m]."""
        n = self._count
        fixed = (self._turns, self._steps, self._local, self._slides, self._tool)
        place_chain(q[:n], *fixed, self._axes, self._origins, self._ends)
        links = (self._axes, self._origins, self._ends, self._slides)
        balance_of(*links, self._up, self.height[:n], self.slope[:n])

    def pace(self, rates: FloatArray, fastest_m_s: float, slow_m_s: float, near_m: float) -> float:
        """Return the factor, at most 1, by which joint velocities must be scaled to keep links' ends at allowed speeds.

        Args:
            rates: joint velocities, (n,) [rad/s].
            fastest_m_s: allowed speed of the links' ends [m/s].
            slow_m_s: allowed speed of an end that moves down at the height of the table [m/s].
            near_m: height above the table [m] below which the allowed speed of an end that moves down is reduced:
                linearly with the height, from `fastest_m_s` at `near_m` to `slow_m_s` at the table.
        """
        links = (self._axes, self._origins, self._ends, self._slides)
        limits = (fastest_m_s, slow_m_s, self._table, near_m)
        return float(pace_of(rates[: self._count], *links, self._up, *limits))

    def speed(self, rates: FloatArray) -> float:
        """Return the largest speed of all links' ends and the tool [m/s] at joint velocities `rates` (n,) [rad/s]."""
        return float(speed_of(rates[: self._count], self._axes, self._origins, self._ends, self._slides))

    def jacobian(self) -> FloatArray:
        """Return the Jacobian of the tool's position in the base frame, (3, n) [m/rad]; the next call overwrites it."""
        tool_jacobian(self._axes, self._origins, self._ends, self._slides, self._jacobian[:, : self._count])
        return self._jacobian

    def reach(self) -> FloatArray:
        """Return, for each joint, an upper bound of the links' speed per velocity of this joint, (n,) [m/rad].

        The bound holds for the far ends of all links, in all postures. It is 1 for a prismatic joint. It is at least
        `UNREACHABLE_M`, which means unbounded, for a revolute joint that comes before a prismatic one. It is 0 for
        decoupled joints, which move no link of the chain.
        """
        lengths = np.append(np.linalg.norm(self._steps[1:], axis=1), np.linalg.norm(self._tool))
        slides = np.append(self._slides[1:], 0.0) > 0.0
        longest = np.cumsum(np.where(slides, UNREACHABLE_M, lengths)[::-1])[
            ::-1
        ]  # a prismatic joint makes the reach of the joints before it unbounded
        found = np.zeros(len(self.height))
        found[: self._count] = np.where(self._slides > 0.0, 1.0, longest)
        return found

    @property
    def up(self) -> FloatArray:
        """Unit vector against gravity in the base frame, (3,)."""
        return self._up
