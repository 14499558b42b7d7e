"""Compiled loops over samples for a chain of rigid links in modified DH frames: motions, regressor, torques.

The motion of each link follows from that of the link before it:

    w_j  = R' w + dq z,        dw_j = R' dw + ddq z + (R' w) x dq z
    a_j  = R' (a + dw x p + w x (w x p))

with R and p the rotation and origin of frame j in frame j - 1, z its axis, and a the acceleration of the frame's origin
minus gravity. This holds for a revolute joint. For a prismatic joint, w_j = R' w and dw_j = R' dw, and a_j has the
additional terms 2 (R' w) x dq z + ddq z. Arguments common to these functions:

    geometry  values of `Geometry`, which place each frame in the frame before it
    start     acceleration of the base minus gravity, in frame 0, (3,) [m/s^2]
    q         joint positions, (N, n) [rad; m if prismatic]
    dq        joint velocities, (N, n) [rad/s; m/s]
    ddq       joint accelerations, (N, n) [rad/s^2; m/s^2]

Functions of one sample take rows of these arrays, (n,). Every array is contiguous and writeable, so that the loops over
samples are compiled once. The functions do not check shapes; the module `regressor` does.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from dynid.model.mdh import Geometry
from dynid.model.vectors import Vector, cross, plus, put, scaled, turned, turned_back, vector
from dynid.robot import FloatArray


@numba.njit(cache=True)
def _place(geometry: Geometry, q: FloatArray, R: FloatArray, p: FloatArray) -> None:
    """Write rotations R (n, 3, 3) and origins p (n, 3) [m] of all frames, each in the frame before, for one sample."""
    cosines, sines, offset, slides, origins, along = geometry
    for j in range(len(q)):
        theta = offset[j] if slides[j] else offset[j] + q[j]
        c, s, ca, sa = np.cos(theta), np.sin(theta), cosines[j], sines[j]
        put(R[j, 0], (c, -s, 0.0))
        put(R[j, 1], (ca * s, ca * c, -sa))
        put(R[j, 2], (sa * s, sa * c, ca))
        for b in range(3):
            p[j, b] = origins[j, b] + q[j] * along[j, b]


@numba.njit(cache=True)
def _outward(
    geometry: Geometry,
    start: FloatArray,
    dq: FloatArray,
    ddq: FloatArray,
    R: FloatArray,
    p: FloatArray,
    w: FloatArray,
    dw: FloatArray,
    a: FloatArray,
) -> None:
    """Write the motion of all links at one sample, each in the link's frame.

    w are angular velocities [rad/s], dw angular accelerations [rad/s^2], and a accelerations of the frames' origins
    minus gravity [m/s^2], (n, 3) each. R and p are rotations (n, 3, 3) and origins (n, 3) of the frames, each in the
    frame before.
    """
    slides = geometry[3]
    spin, turn, push = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), vector(start)
    for j in range(len(dq)):
        arm = vector(p[j])
        push = plus(push, plus(cross(turn, arm), cross(spin, cross(spin, arm))))
        push, spin, turn = turned_back(R[j], push), turned_back(R[j], spin), turned_back(R[j], turn)
        across = spin[1] * dq[j], -spin[0] * dq[j], 0.0  # w x dq z
        if slides[j]:
            push = plus(push, (2.0 * across[0], 2.0 * across[1], ddq[j]))
        else:
            turn = plus(turn, (across[0], across[1], ddq[j]))
            spin = spin[0], spin[1], spin[2] + dq[j]
        put(w[j], spin)
        put(dw[j], turn)
        put(a[j], push)


@numba.njit(cache=True)
def _jacobians(geometry: Geometry, R: FloatArray, p: FloatArray, Jw: FloatArray, Jv: FloatArray) -> None:
    """Write the Jacobians of all links at one sample, (n, n, 3) each: velocities of link j per unit rate of joint i.

    Jw are angular velocities, Jv velocities of the frames' origins, both in frame j [SI unit per unit rate]. Entries
    (j, i) with i > j are not written. R and p are rotations (n, 3, 3) and origins (n, 3) of the frames, each in the
    frame before.
    """
    slides = geometry[3]
    for j in range(len(p)):
        arm = vector(p[j])
        for i in range(j):
            turn = vector(Jw[j - 1, i])
            put(Jv[j, i], turned_back(R[j], plus(vector(Jv[j - 1, i]), cross(turn, arm))))
            put(Jw[j, i], turned_back(R[j], turn))
        put(Jv[j, j], (0.0, 0.0, 1.0 if slides[j] else 0.0))
        put(Jw[j, j], (0.0, 0.0, 0.0 if slides[j] else 1.0))


@numba.njit(cache=True)
def motions(
    geometry: Geometry,
    start: FloatArray,
    q: FloatArray,
    dq: FloatArray,
    ddq: FloatArray,
    w: FloatArray,
    dw: FloatArray,
    a: FloatArray,
    Jw: FloatArray,
    Jv: FloatArray,
) -> None:
    """Write the motions of all links at N samples, each in the link's frame.

    w are angular velocities [rad/s], dw angular accelerations [rad/s^2], and a accelerations of the frames' origins
    minus gravity [m/s^2], (N, n, 3) each. Jw and Jv, (N, n, n, 3) each, are the angular velocity of link j and the
    velocity of its frame's origin per unit rate of joint i [SI unit]. Entries with i > j are not written.
    """
    n = q.shape[1]
    R, p = np.empty((n, 3, 3)), np.empty((n, 3))
    for k in range(len(q)):
        _place(geometry, q[k], R, p)
        _outward(geometry, start, dq[k], ddq[k], R, p, w[k], dw[k], a[k])
        _jacobians(geometry, R, p, Jw[k], Jv[k])


@numba.njit(cache=True)
def _wrenches(w: FloatArray, dw: FloatArray, a: FloatArray, moments: FloatArray, forces: FloatArray) -> None:
    """Write the moments and forces that a link's motion requires per unit of its ten parameters, (10, 3) each.

    An inertia matrix A requires the moment A dw + w x A w. First moments e, a vector, require the moment e x a and the
    force dw x e + w x (w x e). A unit mass requires the force a. The other entries of `forces` and `moments` stay
    unchanged.

    Args:
        w: angular velocity of the link, (3,) [rad/s].
        dw: angular acceleration of the link, (3,) [rad/s^2].
        a: acceleration of the origin of the link's frame minus gravity, (3,) [m/s^2].
        moments: the moments, (10, 3) [N m per SI unit].
        forces: the forces, (10, 3) [N per SI unit].
    """
    x, y, z = w[0], w[1], w[2]
    put(moments[0], plus((dw[0], 0.0, 0.0), (0.0, z * x, -y * x)))
    put(moments[1], plus((dw[1], dw[0], 0.0), (-z * x, z * y, x * x - y * y)))
    put(moments[2], plus((dw[2], 0.0, dw[0]), (y * x, z * z - x * x, -y * z)))
    put(moments[3], plus((0.0, dw[1], 0.0), (-z * y, 0.0, x * y)))
    put(moments[4], plus((0.0, dw[2], dw[1]), (y * y - z * z, -x * y, x * z)))
    put(moments[5], plus((0.0, 0.0, dw[2]), (y * z, -x * z, 0.0)))
    put(moments[6], (0.0, -a[2], a[1]))
    put(moments[7], (a[2], 0.0, -a[0]))
    put(moments[8], (-a[1], a[0], 0.0))
    put(forces[6], (-y * y - z * z, dw[2] + x * y, -dw[1] + x * z))
    put(forces[7], (-dw[2] + x * y, -x * x - z * z, dw[0] + y * z))
    put(forces[8], (dw[1] + x * z, -dw[0] + y * z, -x * x - y * y))
    put(forces[9], vector(a))


@numba.njit(cache=True)
def columns(
    geometry: Geometry,
    start: FloatArray,
    q: FloatArray,
    dq: FloatArray,
    ddq: FloatArray,
    which: NDArray[np.int64],
    W: FloatArray,
) -> None:
    """Write regressor columns of standard link parameters into the first n rows and p columns of each sample of W.

    The column of a parameter of link j contains the torques of joints 1..j if this parameter is 1 and all others are 0.
    These torques are Jw' moment + Jv' force, with the moment and force that the link's motion requires, and its angular
    and linear velocities Jw and Jv per unit rate of the joints.

    Args:
        geometry: placement of the frames. The top of the file describes the first five arguments.
        start: acceleration of the base minus gravity.
        q: joint positions.
        dq: joint velocities.
        ddq: joint accelerations.
        which: indices of the parameters, ten per link, (p,).
        W: regressor (N, at least n, at least p) [N m per SI unit]; zero on entry.
    """
    n = q.shape[1]
    R, p, w, dw, a = np.empty((n, 3, 3)), np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3))
    Jw, Jv, moments, forces = np.empty((n, n, 3)), np.empty((n, n, 3)), np.zeros((10, 3)), np.zeros((10, 3))
    for k in range(len(q)):
        _place(geometry, q[k], R, p)
        _outward(geometry, start, dq[k], ddq[k], R, p, w, dw, a)
        _jacobians(geometry, R, p, Jw, Jv)
        link = -1
        for one in range(len(which)):
            if which[one] // 10 != link:
                link = which[one] // 10
                _wrenches(w[link], dw[link], a[link], moments, forces)
            moment, force = moments[which[one] % 10], forces[which[one] % 10]
            for i in range(link + 1):
                total = 0.0
                for b in range(3):
                    total += Jw[link, i, b] * moment[b] + Jv[link, i, b] * force[b]
                W[k, i, one] = total


@numba.njit(cache=True)
def _required(own: FloatArray, w: FloatArray, dw: FloatArray, a: FloatArray) -> tuple[Vector, Vector]:
    """Return the moment (3,) [N m] about the frame's origin and the force (3,) [N] that a link's motion requires.

    Args:
        own: parameters of the link in the order of `LINK_PARAMETERS`, (10,), SI.
        w: angular velocity of the link, (3,) [rad/s].
        dw: angular acceleration of the link, (3,) [rad/s^2].
        a: acceleration of the origin of the link's frame minus gravity, (3,) [m/s^2].
    """
    xx, xy, xz, yy, yz, zz, mx, my, mz, mass = own
    lever, rate, turn, push = (mx, my, mz), vector(w), vector(dw), vector(a)
    x, y, z = rate
    spin = xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z
    x, y, z = turn
    change = xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z
    moment = plus(plus(change, cross(rate, spin)), cross(lever, push))
    force = plus(scaled(push, mass), plus(cross(turn, lever), cross(rate, cross(rate, lever))))
    return moment, force


@numba.njit(cache=True)
def torques(
    geometry: Geometry,
    start: FloatArray,
    q: FloatArray,
    dq: FloatArray,
    ddq: FloatArray,
    parameters: FloatArray,
    tau: FloatArray,
) -> None:
    """Write the torques that rigid links require, (N, n) [N m], by the recursive Newton-Euler algorithm.

    Moment and force of each link are passed inwards from the last one to the base; a joint's torque is their component
    along its axis (Luh, Walker and Paul 1980).

    Args:
        geometry: placement of the frames. The top of the file describes the first five arguments.
        start: acceleration of the base minus gravity.
        q: joint positions.
        dq: joint velocities.
        ddq: joint accelerations.
        parameters: standard parameters of the links, (n, 10), SI.
        tau: the torques, (N, n) [N m; N if prismatic].
    """
    n, slides = q.shape[1], geometry[3]
    R, p, w, dw, a = np.empty((n, 3, 3)), np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3))
    for k in range(len(q)):
        _place(geometry, q[k], R, p)
        _outward(geometry, start, dq[k], ddq[k], R, p, w, dw, a)
        moment, force = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        for j in range(n - 1, -1, -1):
            own_moment, own_force = _required(parameters[j], w[j], dw[j], a[j])
            moment, force = plus(moment, own_moment), plus(force, own_force)
            tau[k, j] = force[2] if slides[j] else moment[2]
            force = turned(R[j], force)
            moment = plus(turned(R[j], moment), cross(vector(p[j]), force))
