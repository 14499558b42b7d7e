"""Inverse-dynamics regressor in the modified DH frames, batched over samples (arXiv:2605.15949, eq. 4).

By the principle of virtual power, link j loads joint i <= j with

    tau_i = Jw_ij . (I dw + w x I w + MS x a) + Jv_ij . (M a + dw x MS + w x (w x MS)),

where Jw_ij = z_i and Jv_ij = z_i x (o_j - o_i) for a revolute joint i, and Jw_ij = 0 and Jv_ij = z_i for a prismatic
joint i. All vectors are in frame j. Inertia I and first moments MS are about the origin o_j of this frame, and a is the
acceleration of o_j minus gravity. Every term is linear in the ten standard parameters of link j.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.model import chain_kernels as kernels
from dynid.model.mdh import Geometry, MdhChain
from dynid.robot import FloatArray

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
    shape = (*np.shape(q), 3)
    w, dw, a = (np.empty(shape) for _ in range(3))
    Jw, Jv = (np.empty((*shape[:2], *shape[1:])) for _ in range(2))
    kernels.motions(*_arguments(mdh, q, dq, ddq, gravity), w, dw, a, Jw, Jv)
    return [LinkMotion(w[:, j], dw[:, j], a[:, j], Jw[:, j, : j + 1], Jv[:, j, : j + 1]) for j in range(mdh.size)]


def link_columns(
    mdh: MdhChain, q: FloatArray, dq: FloatArray, ddq: FloatArray, gravity: FloatArray, which: NDArray[np.int64]
) -> FloatArray:
    """Return regressor columns of some standard link parameters, (N, n, p) [N m per SI unit].

    Args:
        mdh: geometry of the chain.
        q: positions, (N, n) [rad; m if prismatic].
        dq: velocities, (N, n) [rad/s; m/s].
        ddq: accelerations, (N, n) [rad/s^2; m/s^2].
        gravity: gravity vector in the URDF base, (3,) [m/s^2].
        which: indices of the parameters, (p,): ten per link, in the order of `LINK_PARAMETERS`. Indices of one link
            should be adjacent. Otherwise the link's moments and forces are computed repeatedly.
    """
    W = np.zeros((*np.shape(q), len(which)))
    fill_link_columns(mdh, q, dq, ddq, gravity, which, W)
    return W


def fill_link_columns(
    mdh: MdhChain,
    q: FloatArray,
    dq: FloatArray,
    ddq: FloatArray,
    gravity: FloatArray,
    which: NDArray[np.int64],
    W: FloatArray,
) -> None:
    """Write regressor columns of some standard link parameters into the array W, from its first column on.

    Args:
        mdh: geometry of the chain.
        q: positions, (N, n) [rad; m if prismatic].
        dq: velocities, (N, n) [rad/s; m/s].
        ddq: accelerations, (N, n) [rad/s^2; m/s^2].
        gravity: gravity vector in the URDF base, (3,) [m/s^2].
        which: indices of the parameters, (p,): ten per link, in the order of `LINK_PARAMETERS`.
        W: contiguous array for N samples, at least n joints and at least p parameters [N m per SI unit]; zero on entry.

    Raises:
        DataError: a shape or an index does not fit the chain. The compiled code would not detect this.
    """
    states, which = _arguments(mdh, q, dq, ddq, gravity), np.array(which, dtype=np.int64)
    if W.shape[0] != len(q) or W.shape[1] < mdh.size or W.shape[2] < len(which):
        raise DataError(f"the regressor must have {len(q)} samples, {mdh.size} joints, {len(which)} columns: {W.shape}")
    if which.size and not 0 <= which.min() <= which.max() < 10 * mdh.size:
        raise DataError(f"the chain has parameters 0 to {10 * mdh.size - 1}, got {which.min()} to {which.max()}")
    kernels.columns(*states, which, W)


def columns_of_last_link(
    mdh: MdhChain, q: FloatArray, dq: FloatArray, ddq: FloatArray, gravity: FloatArray
) -> FloatArray:
    """Return regressor columns of the last link's ten standard parameters, (N, n, 10) [N m per SI unit].

    A payload that is fixed to the last link has the same columns.

    Args:
        mdh: geometry of the chain.
        q: positions, (N, n) [rad; m if prismatic].
        dq: velocities, (N, n) [rad/s; m/s].
        ddq: accelerations, (N, n) [rad/s^2; m/s^2].
        gravity: gravity vector in the URDF base, (3,) [m/s^2].
    """
    return link_columns(mdh, q, dq, ddq, gravity, np.arange(10 * (mdh.size - 1), 10 * mdh.size))


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

    Raises:
        DataError: states or parameters have another shape. The compiled code would not detect this.
    """
    tau = np.empty(np.shape(q))
    if np.shape(parameters) != (mdh.size, 10):
        raise DataError(f"link parameters must be ({mdh.size}, 10), got {np.shape(parameters)}")
    kernels.torques(*_arguments(mdh, q, dq, ddq, gravity), np.array(parameters, dtype=np.float64, order="C"), tau)
    return tau


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
    return link_columns(mdh, q, dq, ddq, gravity, np.arange(10 * mdh.size))


def _arguments(
    mdh: MdhChain, q: FloatArray, dq: FloatArray, ddq: FloatArray, gravity: FloatArray
) -> tuple[Geometry, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the arguments that all functions of `chain_kernels` have in common.

    The arrays are copies, since numba would compile more versions for other layouts and read-only arrays.

    Raises:
        DataError: the states have another shape than (N, n) with n joints of the chain. The compiled code would not
            detect this.
    """
    states = [np.array(one, dtype=np.float64, order="C") for one in (q, dq, ddq)]
    if any(one.shape != (len(states[0]), mdh.size) for one in states):
        shapes = ", ".join(str(one.shape) for one in states)
        raise DataError(f"states of the chain must be (N, {mdh.size}) each, got {shapes}")
    return mdh.geometry, np.ascontiguousarray(-mdh.base[:3, :3].T @ gravity), states[0], states[1], states[2]
