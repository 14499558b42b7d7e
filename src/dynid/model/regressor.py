"""Inverse-dynamics regressor in the modified DH frames, batched over samples (arXiv:2605.15949, eq. 4).

By the principle of virtual power, link j loads joint i <= j with

    tau_i = Jw_ij . (I dw + w x I w + MS x a) + Jv_ij . (M a + dw x MS + w x (w x MS)),

where Jw_ij = z_i and Jv_ij = z_i x (o_j - o_i) for a revolute joint i, 0 and z_i for a prismatic one, all in frame
j, I and MS about the origin o_j, and a is the acceleration of o_j minus gravity. Every term is linear in the ten
standard parameters of link j.
"""

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from dynid.model.mdh import MdhChain
from dynid.robot import FloatArray

Vector = FloatArray | tuple[float, float, float]
LINK_PARAMETERS = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")


def skew(v: FloatArray) -> FloatArray:
    """Return the cross-product matrices (N, 3, 3) of vectors v (N, 3) in any unit; the matrices have the same unit."""
    s = np.zeros((*v.shape, 3))
    s[..., 0, 1], s[..., 0, 2] = -v[..., 2], v[..., 1]
    s[..., 1, 0], s[..., 1, 2] = v[..., 2], -v[..., 0]
    s[..., 2, 0], s[..., 2, 1] = -v[..., 1], v[..., 0]
    return s


@dataclass
class LinkMotion:
    """Motion of one link j at N samples, in the modified DH frame of this link.

    Attributes:
        w: angular velocity, (N, 3) [rad/s].
        dw: angular acceleration, (N, 3) [rad/s^2].
        a: acceleration of the frame's origin minus gravity, (N, 3) [m/s^2].
        Jw: angular velocity per unit rate of each of the joints 1..j, (N, j, 3).
        Jv: velocity of the frame's origin per unit rate of each of the joints 1..j, (N, j, 3).
    """

    w: FloatArray
    dw: FloatArray
    a: FloatArray
    Jw: FloatArray
    Jv: FloatArray


def link_motions(
    mdh: MdhChain, q: FloatArray, dq: FloatArray, ddq: FloatArray, gravity: FloatArray
) -> list[LinkMotion]:
    """Return the motion of each link at N samples, by a recursion from the base outwards.

    Args:
        mdh: geometry of the chain.
        q: positions, (N, n) [rad; m if prismatic].
        dq: velocities, (N, n) [rad/s; m/s].
        ddq: accelerations, (N, n) [rad/s^2; m/s^2].
        gravity: gravity vector in the URDF base, (3,) [m/s^2].
    """
    count = len(q)
    positions, along = mdh.relative_positions(), mdh.prismatic_axes()
    # copies by joint, since numba would compile more versions for other layouts and read-only arrays
    rotations = np.array(mdh.relative_rotations(q).swapaxes(0, 1), order="C")
    rates, accelerations = np.array(dq.T, order="C"), np.array(ddq.T, order="C")
    link = LinkMotion(
        np.zeros((count, 3)),
        np.zeros((count, 3)),
        np.tile(-mdh.base[:3, :3].T @ gravity, (count, 1)),
        np.zeros((count, 0, 3)),
        np.zeros((count, 0, 3)),
    )
    motions = []
    for j in range(mdh.size):
        p = positions[j] + q[:, j, None] * (along[j] if mdh.prismatic[j] else np.zeros(3))
        before = (link.w, link.dw, link.a, link.Jw, link.Jv)
        link = LinkMotion(*(np.empty((count, 3)) for _ in range(3)), *(np.zeros((count, j + 1, 3)) for _ in range(2)))
        after = (link.w, link.dw, link.a, link.Jw, link.Jv)
        # R maps frame j to frame j-1
        _next_link(rotations[j], p, rates[j], accelerations[j], mdh.prismatic[j], before, after)
        motions.append(link)
    return motions


@numba.njit(cache=True)
def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@numba.njit(cache=True)
def _plus(a: FloatArray, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@numba.njit(cache=True)
def _rotate_back(v: Vector, R: FloatArray, out: FloatArray) -> None:
    """Write R' v of a vector v (3,) and a rotation R (3, 3) into `out` (3,)."""
    for b in range(3):
        out[b] = v[0] * R[0, b] + v[1] * R[1, b] + v[2] * R[2, b]


@numba.njit(cache=True)
def _next_link(
    R: FloatArray,
    p: FloatArray,
    dq: FloatArray,
    ddq: FloatArray,
    prismatic: bool,
    before: tuple[FloatArray, ...],
    after: tuple[FloatArray, ...],
) -> None:
    """Compute the motion of a link from the motion of the link before it, at N samples.

    Args:
        R: rotations of the link's frame in the frame before, (N, 3, 3).
        p: origins of the link's frame in the frame before, (N, 3) [m].
        dq: velocities of the link's joint, (N,) [rad/s; m/s].
        ddq: accelerations of the link's joint, (N,) [rad/s^2; m/s^2].
        prismatic: whether the joint is prismatic.
        before: w, dw, a, Jw and Jv of the `LinkMotion` of the link before.
        after: the same quantities of this link, written in place; the Jacobians are zero on entry.
    """
    w, dw, a, Jw, Jv = before
    w1, dw1, a1, Jw1, Jv1 = after
    own = Jw.shape[1]
    for k in range(len(R)):
        centripetal = _cross(w[k], _cross(w[k], p[k]))
        _rotate_back(_plus(a[k], _plus(centripetal, _cross(dw[k], p[k]))), R[k], a1[k])
        _rotate_back(w[k], R[k], w1[k])
        _rotate_back(dw[k], R[k], dw1[k])
        for i in range(own):
            _rotate_back(_plus(Jv[k, i], _cross(Jw[k, i], p[k])), R[k], Jv1[k, i])
            _rotate_back(Jw[k, i], R[k], Jw1[k, i])
        turning = w1[k, 1] * dq[k], -w1[k, 0] * dq[k]  # w x rate, the rate being dq z
        if prismatic:
            a1[k, 0] += 2.0 * turning[0]
            a1[k, 1] += 2.0 * turning[1]
            a1[k, 2] += ddq[k]
            Jv1[k, own, 2] = 1.0
        else:
            dw1[k, 0] += turning[0]
            dw1[k, 1] += turning[1]
            dw1[k, 2] += ddq[k]
            w1[k, 2] += dq[k]
            Jw1[k, own, 2] = 1.0


def link_columns(motion: LinkMotion) -> FloatArray:
    """Return the torques of joints 1..j per unit of each parameter of link j, (N, j, 10) [N m per SI unit].

    The parameters are in the order of `LINK_PARAMETERS`.
    """
    columns = np.empty((*motion.Jw.shape[:2], 10))
    fill_columns(motion, np.arange(10), columns, np.arange(10))
    return columns


def fill_columns(motion: LinkMotion, which: NDArray[np.int64], W: FloatArray, places: NDArray[np.int64]) -> None:
    """Write regressor columns of one link's parameters into W.

    Args:
        motion: motion of the link at N samples.
        which: indices of the parameters in `LINK_PARAMETERS`, (k,).
        W: regressor, (N, n, p) [N m per SI unit]; rows of joints after the link stay unchanged.
        places: indices of the columns of W to write, (k,).
    """
    _fill_columns(motion.w, motion.dw, motion.a, motion.Jw, motion.Jv, which, W, places)


@numba.njit(cache=True)
def _fill_columns(
    w: FloatArray,
    dw: FloatArray,
    a: FloatArray,
    Jw: FloatArray,
    Jv: FloatArray,
    which: NDArray[np.int64],
    W: FloatArray,
    places: NDArray[np.int64],
) -> None:
    """Write regressor columns of one link's parameters into W.

    The column of a parameter is Jw' moment + Jv' force, the joint torques of a link in which this parameter is 1 and
    all others are 0. An inertia A requires the moment A dw + w x A w. A first moment e requires the moment e x a and
    the force dw x e + w x (w x e). A unit mass requires the force a.

    Args:
        w: angular velocity of the link, (N, 3) [rad/s].
        dw: its angular acceleration, (N, 3) [rad/s^2].
        a: acceleration of its frame's origin minus gravity, (N, 3) [m/s^2].
        Jw: angular velocity of the link per unit joint rate, (N, j, 3).
        Jv: velocity of its frame's origin per unit joint rate, (N, j, 3).
        which: indices of the parameters in `LINK_PARAMETERS`, (k,).
        W: regressor, (N, n, p) [N m per SI unit].
        places: indices of the columns of W to write, (k,).
    """
    moments, forces, units = np.zeros((10, 3)), np.zeros((10, 3)), np.eye(3)
    spin = np.zeros(3)
    for k in range(len(w)):
        column = 0
        for i in range(3):
            for j in range(i, 3):
                for b in range(3):
                    spin[b] = moments[column, b] = 0.0
                spin[i], moments[column, i] = w[k, j], dw[k, j]
                spin[j], moments[column, j] = w[k, i], dw[k, i]
                gyroscopic = _cross(w[k], spin)
                for b in range(3):
                    moments[column, b] += gyroscopic[b]
                column += 1
        for i in range(3):
            weight, turned = _cross(units[i], a[k]), _cross(dw[k], units[i])
            centripetal = _cross(w[k], _cross(w[k], units[i]))
            for b in range(3):
                moments[6 + i, b] = weight[b]
                forces[6 + i, b] = turned[b] + centripetal[b]
            forces[9, i] = a[k, i]
        for i in range(Jw.shape[1]):
            for one in range(len(which)):
                c, total = which[one], 0.0
                for b in range(3):
                    total += Jw[k, i, b] * moments[c, b] + Jv[k, i, b] * forces[c, b]
                W[k, i, places[one]] = total


def link_torques(
    mdh: MdhChain, q: FloatArray, dq: FloatArray, ddq: FloatArray, gravity: FloatArray, parameters: FloatArray
) -> FloatArray:
    """Return the torques (N, n) [N m] of rigid links, without computing a regressor.

    The result equals `standard_regressor` times the parameters.

    Args:
        mdh: geometry of the chain.
        q: positions, (N, n) [rad; m if prismatic].
        dq: velocities, (N, n) [rad/s; m/s].
        ddq: accelerations, (N, n) [rad/s^2; m/s^2].
        gravity: gravity vector in the URDF base, (3,) [m/s^2].
        parameters: standard parameters of the links in the order of `LINK_PARAMETERS`, (n, 10), SI.
    """
    tau = np.zeros(q.shape)
    for motion, own in zip(link_motions(mdh, q, dq, ddq, gravity), np.ascontiguousarray(parameters), strict=True):
        if own.any():
            _add_link_torques(motion.w, motion.dw, motion.a, motion.Jw, motion.Jv, own, tau)
    return tau


@numba.njit(cache=True)
def _add_link_torques(
    w: FloatArray, dw: FloatArray, a: FloatArray, Jw: FloatArray, Jv: FloatArray, own: FloatArray, tau: FloatArray
) -> None:
    """Add the torques that one link requires, Jw' moment + Jv' force, to the joints' torques.

    Args:
        w: angular velocity of the link, (N, 3) [rad/s].
        dw: its angular acceleration, (N, 3) [rad/s^2].
        a: acceleration of its frame's origin minus gravity, (N, 3) [m/s^2].
        Jw: angular velocity of the link per unit joint rate, (N, j, 3).
        Jv: velocity of its frame's origin per unit joint rate, (N, j, 3).
        own: parameters of the link in the order of `LINK_PARAMETERS`, (10,), SI.
        tau: torques of all joints, (N, n) [N m].
    """
    xx, xy, xz, yy, yz, zz, mx, my, mz, mass = own
    for k in range(len(w)):
        x, y, z = w[k, 0], w[k, 1], w[k, 2]
        spin = xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z
        x, y, z = dw[k, 0], dw[k, 1], dw[k, 2]
        change = xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z
        lever = mx, my, mz
        gyroscopic, weight = _cross(w[k], spin), _cross(lever, a[k])
        turned, centripetal = _cross(dw[k], lever), _cross(w[k], _cross(w[k], lever))
        for i in range(Jw.shape[1]):
            total = 0.0
            for b in range(3):
                total += Jw[k, i, b] * (change[b] + gyroscopic[b] + weight[b])
                total += Jv[k, i, b] * (mass * a[k, b] + turned[b] + centripetal[b])
            tau[k, i] += total


def standard_regressor(
    mdh: MdhChain, q: FloatArray, dq: FloatArray, ddq: FloatArray, gravity: FloatArray
) -> FloatArray:
    """Return the regressor of the 10 n standard link parameters, (N, n, 10 n) [N m per SI unit].

    The torques are those of the rigid links alone, without rotors and friction.

    Args:
        mdh: geometry of the chain.
        q: positions, (N, n) [rad; m if prismatic].
        dq: velocities, (N, n) [rad/s; m/s].
        ddq: accelerations, (N, n) [rad/s^2; m/s^2].
        gravity: gravity vector in the URDF base, (3,) [m/s^2].
    """
    n = mdh.size
    W = np.zeros((len(q), n, 10 * n))
    for j, motion in enumerate(link_motions(mdh, q, dq, ddq, gravity)):
        fill_columns(motion, np.arange(10), W, 10 * j + np.arange(10))
    return W
