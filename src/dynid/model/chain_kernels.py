"""Compiled loops over samples for a chain of rigid links in modified DH frames: motions, regressor, torques.

The motion of each link follows from that of the link before it:

    w_j  = R' w + dq z,        dw_j = R' dw + ddq z + (R' w) x dq z
    a_j  = R' (a + dw x p + w x (w x p))

with R and p the rotation and origin of frame j in frame j - 1, z its axis, and a the acceleration of the frame's origin
minus gravity. This holds for a revolute joint; a prismatic one adds 2 (R' w) x dq z + ddq z to a_j instead. Arguments
common to these functions:

    geometry  values of `Geometry`, which place each frame in the frame before it
    start     acceleration of the base minus gravity, in frame 0, (3,) [m/s^2]
    q         joint positions, (N, n) [rad; m if prismatic]
    dq        joint velocities, (N, n) [rad/s; m/s]
    ddq       joint accelerations, (N, n) [rad/s^2; m/s^2]

Functions of one sample take rows of these arrays, (n,). Every array is contiguous and writeable, so that the loops over
samples are compiled once. They do not check shapes; `regressor` does.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from dynid.model.mdh import Geometry
from dynid.robot import FloatArray

Vector = FloatArray | tuple[float, float, float]


@numba.njit(cache=True)
def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@numba.njit(cache=True)
def _plus(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@numba.njit(cache=True)
def _turned(R: FloatArray, v: Vector) -> Vector:
    """Return R v of a rotation R (3, 3) and a vector v (3,)."""
    return (
        R[0, 0] * v[0] + R[0, 1] * v[1] + R[0, 2] * v[2],
        R[1, 0] * v[0] + R[1, 1] * v[1] + R[1, 2] * v[2],
        R[2, 0] * v[0] + R[2, 1] * v[1] + R[2, 2] * v[2],
    )


@numba.njit(cache=True)
def _turned_back(R: FloatArray, v: Vector) -> Vector:
    """Return R' v of a rotation R (3, 3) and a vector v (3,)."""
    return (
        R[0, 0] * v[0] + R[1, 0] * v[1] + R[2, 0] * v[2],
        R[0, 1] * v[0] + R[1, 1] * v[1] + R[2, 1] * v[2],
        R[0, 2] * v[0] + R[1, 2] * v[1] + R[2, 2] * v[2],
    )


@numba.njit(cache=True)
def _set(out: FloatArray, v: Vector) -> None:
    out[0], out[1], out[2] = v[0], v[1], v[2]


@numba.njit(cache=True)
def _place(geometry: Geometry, q: FloatArray, R: FloatArray, p: FloatArray) -> None:
    """Write rotations R (n, 3, 3) and origins p (n, 3) [m] of all frames, each in the frame before, for one sample."""
    cosines, sines, offset, slides, origins, along = geometry
    for j in range(len(q)):
        theta = offset[j] if slides[j] else offset[j] + q[j]
        c, s, ca, sa = np.cos(theta), np.sin(theta), cosines[j], sines[j]
        _set(R[j, 0], (c, -s, 0.0))
        _set(R[j, 1], (ca * s, ca * c, -sa))
        _set(R[j, 2], (sa * s, sa * c, ca))
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
    """Write the motion of all links at one sample: w [rad/s], dw [rad/s^2] and a [m/s^2], (n, 3) each.

    R and p are rotations (n, 3, 3) and origins (n, 3) of the frames, each in the frame before.
    """
    slides = geometry[3]
    spin, turn, push = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (start[0], start[1], start[2])
    for j in range(len(dq)):
        push = _plus(push, _plus(_cross(turn, p[j]), _cross(spin, _cross(spin, p[j]))))
        push, spin, turn = _turned_back(R[j], push), _turned_back(R[j], spin), _turned_back(R[j], turn)
        across = spin[1] * dq[j], -spin[0] * dq[j], 0.0  # w x dq z
        if slides[j]:
            push = _plus(push, (2.0 * across[0], 2.0 * across[1], ddq[j]))
        else:
            turn = _plus(turn, (across[0], across[1], ddq[j]))
            spin = spin[0], spin[1], spin[2] + dq[j]
        _set(w[j], spin)
        _set(dw[j], turn)
        _set(a[j], push)


@numba.njit(cache=True)
def _jacobians(geometry: Geometry, R: FloatArray, p: FloatArray, Jw: FloatArray, Jv: FloatArray) -> None:
    """Write each link's velocity per unit rate of each joint from the first to its own, at one sample, (n, n, 3) each.

    Jw are the angular velocities, Jv the velocities of the frames' origins [SI unit per unit rate]. R and p are
    rotations (n, 3, 3) and origins (n, 3) of the frames, each in the frame before.
    """
    slides = geometry[3]
    for j in range(len(p)):
        for i in range(j):
            _set(Jv[j, i], _turned_back(R[j], _plus(Jv[j - 1, i], _cross(Jw[j - 1, i], p[j]))))
            _set(Jw[j, i], _turned_back(R[j], Jw[j - 1, i]))
        _set(Jv[j, j], (0.0, 0.0, 1.0 if slides[j] else 0.0))
        _set(Jw[j, j], (0.0, 0.0, 0.0 if slides[j] else 1.0))


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
    """Write the motions of all links at N samples, as in `LinkMotion`.

    w [rad/s], dw [rad/s^2] and a [m/s^2] are (N, n, 3) each. Jw and Jv, velocities per unit rate of a joint [SI unit],
    are (N, n, n, 3) each; joints after a link's own are not written.
    """
    n = q.shape[1]
    R, p = np.empty((n, 3, 3)), np.empty((n, 3))
    for k in range(len(q)):
        _place(geometry, q[k], R, p)
        _outward(geometry, start, dq[k], ddq[k], R, p, w[k], dw[k], a[k])
        _jacobians(geometry, R, p, Jw[k], Jv[k])


@numba.njit(cache=True)
def _wrenches(w: FloatArray, dw: FloatArray, a: FloatArray, moments: FloatArray, forces: FloatArray) -> None:
    """Write moments and forces that a link requires per unit of each of its ten parameters, (10, 3) each.

    An inertia A requires the moment A dw + w x A w. A first moment e requires the moment e x a and the force
    dw x e + w x (w x e). A unit mass requires the force a. The other entries of `forces` and `moments` stay unchanged.

    Args:
        w: angular velocity of the link, (3,) [rad/s].
        dw: its angular acceleration, (3,) [rad/s^2].
        a: acceleration of its frame's origin minus gravity, (3,) [m/s^2].
        moments: the moments, (10, 3) [N m per SI unit].
        forces: the forces, (10, 3) [N per SI unit].
    """
    x, y, z = w[0], w[1], w[2]
    _set(moments[0], _plus((dw[0], 0.0, 0.0), (0.0, z * x, -y * x)))
    _set(moments[1], _plus((dw[1], dw[0], 0.0), (-z * x, z * y, x * x - y * y)))
    _set(moments[2], _plus((dw[2], 0.0, dw[0]), (y * x, z * z - x * x, -y * z)))
    _set(moments[3], _plus((0.0, dw[1], 0.0), (-z * y, 0.0, x * y)))
    _set(moments[4], _plus((0.0, dw[2], dw[1]), (y * y - z * z, -x * y, x * z)))
    _set(moments[5], _plus((0.0, 0.0, dw[2]), (y * z, -x * z, 0.0)))
    _set(moments[6], (0.0, -a[2], a[1]))
    _set(moments[7], (a[2], 0.0, -a[0]))
    _set(moments[8], (-a[1], a[0], 0.0))
    _set(forces[6], (-y * y - z * z, dw[2] + x * y, -dw[1] + x * z))
    _set(forces[7], (-dw[2] + x * y, -x * x - z * z, dw[0] + y * z))
    _set(forces[8], (dw[1] + x * z, -dw[0] + y * z, -x * x - y * y))
    _set(forces[9], a)


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
    """Write regressor columns of standard link parameters into the first n rows and p columns of W, zero on entry.

    The column of a parameter of link j is Jw' moment + Jv' force: the torques of joints 1..j if this parameter is 1 and
    all others are 0.

    Args:
        geometry: placement of the frames; this and the next four are described at the top of the file.
        start: acceleration of the base minus gravity.
        q: joint positions.
        dq: joint velocities.
        ddq: joint accelerations.
        which: indices of the parameters, ten per link, (p,).
        W: regressor (N, at least n, at least p) [N m per SI unit].
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
    """Return moment (3,) [N m] and force (3,) [N] that one link requires, about the origin of its frame.

    Args:
        own: parameters of the link in the order of `LINK_PARAMETERS`, (10,), SI.
        w: angular velocity of the link, (3,) [rad/s].
        dw: its angular acceleration, (3,) [rad/s^2].
        a: acceleration of its frame's origin minus gravity, (3,) [m/s^2].
    """
    xx, xy, xz, yy, yz, zz, mx, my, mz, mass = own
    lever = mx, my, mz
    x, y, z = w[0], w[1], w[2]
    spin = xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z
    x, y, z = dw[0], dw[1], dw[2]
    change = xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z
    moment = _plus(_plus(change, _cross(w, spin)), _cross(lever, a))
    force = _plus((mass * a[0], mass * a[1], mass * a[2]), _plus(_cross(dw, lever), _cross(w, _cross(w, lever))))
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
        geometry: placement of the frames; this and the next four are described at the top of the file.
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
            moment, force = _plus(moment, own_moment), _plus(force, own_force)
            tau[k, j] = force[2] if slides[j] else moment[2]
            force = _turned(R[j], force)
            moment = _plus(_turned(R[j], moment), _cross(p[j], force))
