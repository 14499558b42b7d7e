"""Regressor by screw theory and Kronecker products, and the minimal set of its parameters.

This module is independent of the modified DH frames and of the recursion in `regressor`. Twists are [angular; linear],
and link frames have their z along the joint's axis at q = 0. In block matrices of all links, with twists V and joint
screws A,

    V = Gamma A dq,   dV = Gamma (A ddq - [ad_(A dq)] V + base),   tau = A' Gamma' (G dV - [ad_V]' G V).

Block Gamma_ji transforms twists from frame i to frame j, and is zero if i > j. The first block of `base` is the
acceleration of the base minus gravity, in frame 1; its other blocks are zero. tau is linear in the spatial inertias
G = diag(G_1 .. G_n). G_j has ten parameters lambda_j, so vec G_j = K lambda_j with a constant K. As
vec(A X B) = (B' (x) A) vec X, the blocks of the regressor Y are Kronecker products:

    Y_ij = (dV_j' (x) J_ij - V_j' (x) J_ij ad_Vj') K,   J_ij = (Gamma_ji xi_i)',

with the screw xi_i of joint i. The entry (m, i) of M(q) is the sum over the links j of (J_mj (x) J_ij) K lambda_j.

The minimal set of parameters follows from a factorisation. Let H be Y at random states, R the reduced row echelon form
of H without zero rows, and H0 the pivot columns of H. Then H = H0 R. So torques depend only on lambda_0 = R lambda, and
M(q) and the forward dynamics follow from lambda_0 alone.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.errors import DataError
from dynid.model.chain import SerialChain
from dynid.model.numerical_regrouping import grouping, independent_columns
from dynid.model.regressor import skew
from dynid.robot import FloatArray, Robot, read_only

RANDOM_STATES = 60  # number of random states from which the minimal set is computed
PARALLEL_SINE = 1e-9


def _inertia_vector() -> FloatArray:
    """Return the matrix K (36, 10) from ten parameters lambda of a link to its spatial inertia: vec G = K lambda.

    lambda is in the order of `regressor.LINK_PARAMETERS`. G is (6, 6), angular part first; vec stacks its columns.
    """
    columns = []
    for k in range(10):
        G = np.zeros((6, 6))
        if k < 6:
            i, j = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))[k]
            G[i, j] = G[j, i] = 1.0
        elif k < 9:
            moment = skew(np.eye(3)[k - 6])
            G[:3, 3:], G[3:, :3] = moment, -moment
        else:
            G[3:, 3:] = np.eye(3)
        columns.append(G.ravel(order="F"))
    return read_only(np.array(columns).T)


INERTIA_VECTOR = _inertia_vector()


def turned_onto(axis: FloatArray) -> FloatArray:
    """Return the shortest rotation (3, 3) that maps z to a unit vector `axis` (3,) [-], by Rodrigues' formula."""
    turn = np.cross([0.0, 0.0, 1.0], axis)
    sine = np.linalg.norm(turn)
    if sine < PARALLEL_SINE:
        return np.eye(3) if axis[2] > 0.0 else np.diag([1.0, -1.0, -1.0])
    K = skew(turn / sine)
    return np.asarray(np.eye(3) + sine * K + (1.0 - axis[2]) * K @ K)


def adjoint(T: FloatArray) -> FloatArray:
    """Return the adjoint matrices Ad_T (..., 6, 6) of placements T (..., 4, 4) [-, m].

    These matrices transform twists, which have the angular part first.
    """
    R, Ad = T[..., :3, :3], np.zeros((*T.shape[:-2], 6, 6))
    Ad[..., :3, :3] = Ad[..., 3:, 3:] = R
    Ad[..., 3:, :3] = skew(T[..., :3, 3]) @ R
    return Ad


def lie_bracket(V: FloatArray) -> FloatArray:
    """Return the matrices ad_V (..., 6, 6) with ad_V U = [V, U] for twists V (..., 6) [rad/s, m/s].

    Twists have the angular part first.
    """
    ad = np.zeros((*V.shape, 6))
    ad[..., :3, :3] = ad[..., 3:, 3:] = skew(V[..., :3])
    ad[..., 3:, :3] = skew(V[..., 3:])
    return ad


def _inverse(T: FloatArray) -> FloatArray:
    out = np.zeros_like(T)
    Rt = np.swapaxes(T[..., :3, :3], -1, -2)
    out[..., :3, :3] = Rt
    out[..., :3, 3] = -np.einsum("...ab,...b->...a", Rt, T[..., :3, 3])
    out[..., 3, 3] = 1.0
    return out


@dataclass(frozen=True, eq=False)
class ScrewChain:
    """Serial arm described by screws.

    Attributes:
        placements: placements of the link frames in the base at q = 0, (n, 4, 4).
        prismatic: whether each joint is prismatic, (n,).
        gravity: gravity vector in the base, (3,) [m/s^2].
    """

    placements: FloatArray
    prismatic: tuple[bool, ...]
    gravity: FloatArray

    @classmethod
    def of(cls, robot: Robot, mount: str | None = None) -> "ScrewChain":
        """Return the serial chain of a robot at a mount; None is the default mount of robot.yaml.

        Raises:
            UnknownNameError: the robot has no such mount.
            ConfigurationError: the URDF is not valid, or its joints are not one serial chain.
        """
        chain = SerialChain.from_robot(robot)
        placements = np.array(chain.joint_placements)
        placements[:, :3, :3] = [turned_onto(axis) for axis in chain.axes]
        return cls(read_only(placements), chain.prismatic, read_only(robot.gravity(mount)))

    @property
    def size(self) -> int:
        """Number of joints n."""
        return len(self.prismatic)

    @cached_property
    def screws(self) -> FloatArray:
        """Screw xi of every joint in its own link frame, (n, 6)."""
        return read_only([[0, 0, 0, 0, 0, 1] if slides else [0, 0, 1, 0, 0, 0] for slides in self.prismatic])

    @cached_property
    def _between(self) -> FloatArray:
        before = np.concatenate([np.eye(4)[None], self.placements[:-1]])
        return _inverse(before) @ self.placements

    def _relative(self, q: FloatArray) -> FloatArray:
        """Return the placements of frame i in frame i - 1, (N, n, 4, 4), at joint positions q (N, n).

        They are M_(i-1,i) exp([xi_i] q_i), with M_(i-1,i) the placement at q = 0 and xi_i the screw of joint i.
        """
        moved = np.tile(np.eye(4), (*q.shape, 1, 1))
        for i, slides in enumerate(self.prismatic):
            if slides:
                moved[:, i, 2, 3] = q[:, i]
                continue
            c, s = np.cos(q[:, i]), np.sin(q[:, i])
            moved[:, i, 0, 0], moved[:, i, 0, 1], moved[:, i, 1, 0], moved[:, i, 1, 1] = c, -s, s, c
        return np.asarray(self._between @ moved)

    def _jacobians(self, steps: FloatArray) -> FloatArray:
        """Return the Jacobians J (N, n, n, 6): entry (i, j) is the twist of link j, in its frame, per rate of joint i.

        `steps` (N, n, 6, 6) are the matrices that map twists from frame j - 1 to frame j.
        """
        J = np.zeros((len(steps), self.size, self.size, 6))
        for j in range(self.size):
            if j:
                J[:, :j, j] = np.einsum("nab,nib->nia", steps[:, j], J[:, :j, j - 1])
            J[:, j, j] = self.screws[j]
        return J

    def _outward(self, q: FloatArray) -> FloatArray:
        """Return the matrices that map twists from frame i - 1 to frame i, Ad of T_(i-1,i)^-1, (N, n, 6, 6).

        q are joint positions, (N, n).
        """
        return adjoint(_inverse(self._relative(q)))

    def regressor(self, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Return the regressor Y (N, n, 10 n) of the rigid links, with tau = Y lambda.

        lambda holds ten parameters per link, in the order of `regressor.LINK_PARAMETERS`, in the link frames of this
        chain. The arguments are (N, n) each [rad, rad/s, rad/s^2].

        Raises:
            DataError: states of other shapes.
        """
        q, dq, ddq = (np.atleast_2d(np.asarray(one, dtype=float)) for one in (q, dq, ddq))
        if not q.shape == dq.shape == ddq.shape or q.shape[1] != self.size:
            raise DataError(f"states must be (N, {self.size}) each, got {q.shape}, {dq.shape}, {ddq.shape}")
        steps = self._outward(q)
        J = self._jacobians(steps)
        V = np.einsum("nija,ni->nja", J, dq)
        dV = self._accelerations(steps, V, dq, ddq)
        Y = np.zeros((len(q), self.size, 10 * self.size))
        for j in range(self.size):
            ad = lie_bracket(V[:, j])
            ahead = J[:, : j + 1, j]
            turned = np.einsum("nia,nba->nib", ahead, ad)
            whole = _kronecker(dV[:, j, None], ahead) - _kronecker(V[:, j, None], turned)
            Y[:, : j + 1, 10 * j : 10 * (j + 1)] = whole @ INERTIA_VECTOR
        return Y

    def _accelerations(self, steps: FloatArray, V: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Return the spatial accelerations dV of all links in their frames, (N, n, 6).

        Gravity is included as an acceleration of the base.

        Args:
            steps: matrices that map twists from frame i - 1 to frame i, (N, n, 6, 6).
            V: twists of the links in their frames, (N, n, 6).
            dq: joint velocities, (N, n).
            ddq: joint accelerations, (N, n).
        """
        last = np.tile(np.concatenate([np.zeros(3), -self.gravity]), (len(dq), 1))
        out = []
        for j in range(self.size):
            bracket = lie_bracket(dq[:, j, None] * self.screws[j])
            last = np.einsum("nab,nb->na", steps[:, j], last) - np.einsum("nab,nb->na", bracket, V[:, j])
            last = last + ddq[:, j, None] * self.screws[j]
            out.append(last)
        return np.stack(out, axis=1)

    def inertia_regressor(self, q: FloatArray) -> FloatArray:
        """Return the tensor Z (N, n, n, 10 n) with the inertia matrix M(q) = Z lambda, at joint positions q (N, n).

        lambda holds ten parameters per link, in the order of `regressor.LINK_PARAMETERS`.
        """
        J = self._jacobians(self._outward(np.atleast_2d(q)))
        Z = np.zeros((len(J), self.size, self.size, 10 * self.size))
        for j in range(self.size):
            ahead = J[:, : j + 1, j]
            Z[:, : j + 1, : j + 1, 10 * j : 10 * (j + 1)] = (
                _kronecker(ahead[:, None], ahead[:, :, None]) @ INERTIA_VECTOR
            )
        return Z

    def minimal_set(self, seed: int = 0) -> "MinimalSet":
        """Return the minimal parameters of the chain, computed from the regressor at random states.

        The result does not depend on the choice of these states.

        Args:
            seed: seed of the random states.
        """
        rng = np.random.default_rng(seed)
        q, dq, ddq = rng.uniform(-1.0, 1.0, (3, RANDOM_STATES, self.size))
        H = self.regressor(np.pi * q, 2.0 * dq, 5.0 * ddq).reshape(-1, 10 * self.size)
        pivots = independent_columns(H, range(H.shape[1]))
        return MinimalSet(self, tuple(pivots), read_only(grouping(H[:, pivots], H)))


def _kronecker(row: FloatArray, other: FloatArray) -> FloatArray:
    """Return the Kronecker products of the vectors `row` and `other`, (..., 6) each, as (..., 36)."""
    product = row[..., :, None] * other[..., None, :]
    return product.reshape(*product.shape[:-2], 36)


@dataclass(frozen=True, eq=False)
class MinimalSet:
    """Minimal parameters lambda_0 = R lambda of a chain, which determine its torques.

    lambda are ten parameters per link, see `ScrewChain.regressor`. States are (N, n) [rad, rad/s, rad/s^2], torques are
    in [N m], and parameters are in SI units.

    Attributes:
        chain: the arm.
        pivots: indices of the independent columns of the chain's regressor Y, (r,).
        R: matrix of lambda_0 = R lambda, (r, 10 n): the reduced row echelon form of Y at random states.
    """

    chain: ScrewChain
    pivots: tuple[int, ...]
    R: FloatArray

    def regressor(self, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Return the regressor Y_0 (N, n, r) of the minimal parameters lambda_0, with tau = Y_0 lambda_0.

        Raises:
            DataError: the states have other shapes than (N, n).
        """
        return self.chain.regressor(q, dq, ddq)[..., list(self.pivots)]

    def inertia(self, q: FloatArray, values: FloatArray) -> FloatArray:
        """Return the inertia matrices M(q), (N, n, n), at joint positions q (N, n).

        `values` are those of the minimal parameters lambda_0, (r,).
        """
        return np.asarray(self.chain.inertia_regressor(q)[..., list(self.pivots)] @ values)

    def forward_dynamics(self, q: FloatArray, dq: FloatArray, tau: FloatArray, values: FloatArray) -> FloatArray:
        """Return the accelerations (N, n) of the rigid links: ddq = M(q)^-1 (tau - Y_0(q, dq, 0) lambda_0).

        Args:
            q: positions, (N, n).
            dq: velocities, (N, n).
            tau: torques on the rigid links, without torques that overcome friction, (N, n).
            values: minimal parameters lambda_0, (r,).

        Raises:
            DataError: the states have other shapes than (N, n).
        """
        q, dq = np.atleast_2d(q), np.atleast_2d(dq)
        bias = self.regressor(q, dq, np.zeros_like(q)) @ values
        return np.asarray(np.linalg.solve(self.inertia(q, values), (tau - bias)[..., None])[..., 0])


def same(one: MinimalSet, other: MinimalSet, tolerance: float = 1e-8) -> bool:
    """Return whether two minimal sets have the same pivots, and matrices R that agree within `tolerance`."""
    return one.pivots == other.pivots and bool(np.abs(one.R - other.R).max(initial=0.0) <= tolerance)
