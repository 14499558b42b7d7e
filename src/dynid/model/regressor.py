"""The inverse-dynamics regressor in the modified DH frames, batched over samples (paper eq. 4).

By the principle of virtual power, link j loads joint i <= j with

    tau_i = Jw_ij . (I dw + w x I w + MS x a) + Jv_ij . (M a + dw x MS + w x (w x MS)),

where Jw_ij = z_i and Jv_ij = z_i x (o_j - o_i) for a revolute joint i, 0 and z_i for a prismatic one, all in frame
j, I and MS about the origin o_j, and a is the acceleration of o_j minus gravity. Every term is linear in the ten
standard parameters of link j.
"""

from dataclasses import dataclass

import numpy as np

from dynid.model.mdh import MdhChain
from dynid.robot import FloatArray

LINK_PARAMETERS = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")


def inertia_product(v: FloatArray) -> FloatArray:
    """The (N, 3, 6) matrices A with I v = A [XX XY XZ YY YZ ZZ]' for vectors v (N, 3) of any unit."""
    a = np.zeros((*v.shape[:-1], 3, 6))
    x, y, z = v[..., 0], v[..., 1], v[..., 2]
    a[..., 0, 0], a[..., 0, 1], a[..., 0, 2] = x, y, z
    a[..., 1, 1], a[..., 1, 3], a[..., 1, 4] = x, y, z
    a[..., 2, 2], a[..., 2, 4], a[..., 2, 5] = x, y, z
    return a


def skew(v: FloatArray) -> FloatArray:
    """Cross-product matrices (N, 3, 3) of vectors v (N, 3), in the same unit: any unit."""
    s = np.zeros((*v.shape, 3))
    s[..., 0, 1], s[..., 0, 2] = -v[..., 2], v[..., 1]
    s[..., 1, 0], s[..., 1, 2] = v[..., 2], -v[..., 0]
    s[..., 2, 0], s[..., 2, 1] = -v[..., 1], v[..., 0]
    return s


@dataclass
class LinkMotion:
    """Motion of one link in its own frame: w, dw, a are (N, 3); the Jacobians Jw, Jv of joints 1..j are (N, j, 3)."""

    w: FloatArray
    dw: FloatArray
    a: FloatArray
    Jw: FloatArray
    Jv: FloatArray


def link_motions(
    mdh: MdhChain, q: FloatArray, dq: FloatArray, ddq: FloatArray, gravity: FloatArray
) -> list[LinkMotion]:
    """Outward recursion over the links for N samples; q, dq, ddq are (N, n), gravity (3,) in the URDF base [m/s^2]."""
    count = len(q)
    rotations, positions, along = mdh.relative_rotations(q), mdh.relative_positions(), mdh.prismatic_axes()
    w, dw = np.zeros((count, 3)), np.zeros((count, 3))
    a = np.tile(-mdh.base[:3, :3].T @ gravity, (count, 1))
    Jw, Jv = np.zeros((count, 0, 3)), np.zeros((count, 0, 3))
    z = np.array([0.0, 0.0, 1.0])
    motions = []
    for j in range(mdh.size):
        R = rotations[:, j]  # maps frame j to frame j-1, so v @ R maps back
        p = positions[j] + q[:, j, None] * along[j] if mdh.prismatic[j] else positions[j]
        a = np.einsum("na,nab->nb", a + np.cross(dw, p) + np.cross(w, np.cross(w, p)), R)
        w, dw = np.einsum("na,nab->nb", w, R), np.einsum("na,nab->nb", dw, R)
        Jv = np.einsum("nia,nab->nib", Jv + np.cross(Jw, p[..., None, :]), R)
        Jw = np.einsum("nia,nab->nib", Jw, R)
        rate, own, none = dq[:, j, None] * z, np.tile(z, (count, 1, 1)), np.zeros((count, 1, 3))
        if mdh.prismatic[j]:
            a = a + ddq[:, j, None] * z + 2.0 * np.cross(w, rate)
            Jw, Jv = np.concatenate([Jw, none], axis=1), np.concatenate([Jv, own], axis=1)
        else:
            dw = dw + ddq[:, j, None] * z + np.cross(w, rate)
            w = w + rate
            Jw, Jv = np.concatenate([Jw, own], axis=1), np.concatenate([Jv, none], axis=1)
        motions.append(LinkMotion(w, dw, a, Jw, Jv))
    return motions


def link_columns(motion: LinkMotion) -> FloatArray:
    """Torques [N m] of joints 1..j per SI unit of link j's parameters, (N, j, 10), columns as in LINK_PARAMETERS."""
    w, dw, a = motion.w, motion.dw, motion.a
    tensor = inertia_product(dw) + skew(w) @ inertia_product(w)
    first = skew(dw) + skew(w) @ skew(w)
    return np.concatenate(
        [motion.Jw @ tensor, motion.Jv @ first - motion.Jw @ skew(a), motion.Jv @ a[..., None]], axis=-1
    )


def standard_regressor(
    mdh: MdhChain, q: FloatArray, dq: FloatArray, ddq: FloatArray, gravity: FloatArray
) -> FloatArray:
    """Regressor of the 10 n standard link parameters, (N, n, 10 n) [N m per SI unit].

    States are (N, n) [rad, rad/s, rad/s^2], or of metres where a joint slides; gravity (3,) in the URDF base [m/s^2].
    The torques it gives are those of the rigid links alone, without rotors and friction.
    """
    n = mdh.size
    W = np.zeros((len(q), n, 10 * n))
    for j, motion in enumerate(link_motions(mdh, q, dq, ddq, gravity)):
        W[:, : j + 1, 10 * j : 10 * (j + 1)] = link_columns(motion)
    return W
