"""Functions of poses for audit and projection: fast compiled kernels and exact symbolic functions.

M(q; phi) is the inertia matrix of the arm. The kernels, for millions of poses, measure the distance of M - eps I from
singularity, and its slope, by m = 1 / trace((M - eps I)^-1). For a positive definite M - eps I of size n with smallest
eigenvalue l, m lies between l / n and l. Unlike l, m is smooth and needs no iteration. If M - eps I is not positive
definite (a pivot of its factors U D U' is not positive), m is that pivot, so its sign is always right. The symbolic
functions serve hundreds of poses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from scipy.optimize import minimize

from dynid.codegen.block_loops import count_outside, fill_lanes
from dynid.codegen.compile import refuse_outside
from dynid.codegen.emit import RANGE, emit
from dynid.codegen.kernels import Generated, load_programs
from dynid.codegen.vector_ir import LANES, compiled, run_program
from dynid.model.dynamics import ArmModel
from dynid.model.symbolic import Factors, SymbolicArm
from dynid.robot import FloatArray


@compiled
def keep_sign(pivots: Any, margin: Any) -> None:
    """Make the margin m not positive, in place, at poses where M - eps I is not positive definite.

    M is the inertia matrix, and m = 1 / trace((M - eps I)^-1). At such poses m alone may be positive, so the last pivot
    that is not positive replaces it.

    Args:
        pivots: pivots of the factors U D U' of M - eps I for LANES poses at once, (n, LANES).
        margin: m of these poses, (LANES,).
    """
    for j in range(len(pivots)):
        for lane in range(LANES):
            margin[lane] = margin[lane] if pivots[j, lane] > 0.0 else pivots[j, lane]


@compiled
def margins(program: int, chain: int, q: Any, phi: Any, eps: Any, margin: Any) -> int:
    """Compute m = 1 / trace((M - eps I)^-1) at each pose, and return the number of joint positions out of range.

    M is the inertia matrix. If M - eps I is not positive definite, one of the pivots of its factors U D U' is not
    positive, and m is such a pivot. A position is out of range if the compiled function is inaccurate there.

    Args:
        program: pointer (address) of the compiled function that computes pivots and m.
        chain: number c of joints of the kinematic chain, which come first in a pose.
        q: poses, (N, n) [rad].
        phi: base parameters, (p,).
        eps: eps as an array (1,) [kg m^2].
        margin: result m, (N,) [kg m^2].
    """
    positions, pivots, value = np.empty((chain, LANES)), np.empty((q.shape[1], LANES)), np.empty((1, LANES))
    outside = 0
    for first in range(0, len(q), LANES):
        fill_lanes(q, first, positions)
        outside += count_outside(positions, RANGE)
        run_program(program, (positions, phi, eps, pivots, value))
        keep_sign(pivots, value[0])
        for lane in range(min(LANES, len(q) - first)):
            margin[first + lane] = value[0, lane]
    return outside


@compiled
def slopes(program: int, chain: int, q: Any, phi: Any, eps: Any, margin: Any, slope: Any) -> int:
    """Compute m = 1 / trace((M - eps I)^-1) and its derivatives; return the number of joint positions out of range.

    M is the inertia matrix at each pose. If M - eps I is not positive definite, one of the pivots of its factors U D U'
    is not positive; m is such a pivot, and the derivatives are meaningless. A position is out of range if the compiled
    function is inaccurate there.

    Args:
        program: pointer (address) of the compiled function that computes pivots, m and its derivatives.
        chain: number c of joints of the kinematic chain, which come first in a pose.
        q: poses, (N, n) [rad].
        phi: base parameters, (p,).
        eps: eps as an array (1,) [kg m^2].
        margin: result m, (N,) [kg m^2].
        slope: result, derivatives of m by the chain's positions, (N, c) [kg m^2 / rad].
    """
    positions, pivots, value = np.empty((chain, LANES)), np.empty((q.shape[1], LANES)), np.empty((1, LANES))
    derivatives = np.empty((chain, LANES))
    outside = 0
    for first in range(0, len(q), LANES):
        fill_lanes(q, first, positions)
        outside += count_outside(positions, RANGE)
        run_program(program, (positions, phi, eps, pivots, value, derivatives))
        keep_sign(pivots, value[0])
        for lane in range(min(LANES, len(q) - first)):
            margin[first + lane] = value[0, lane]
            for j in range(chain):
                slope[first + lane, j] = derivatives[j, lane]
    return outside


def _inverse_trace(factors: Factors) -> ca.SX:
    """Return the trace of the inverse of a factored matrix U D U', as the sum over i, j of (U^-1)_ij^2 / d_i."""
    n = len(factors.pivots)
    inverse = ca.SX.eye(n)
    for j in range(n):
        for i in reversed(range(j)):
            inverse[i, j] = -sum((factors.U[i, k] * inverse[k, j] for k in range(i + 1, j + 1)), ca.SX(0))
    rows = [sum((inverse[i, j] ** 2 for j in range(i, n)), ca.SX(0)) for i in range(n)]
    return ca.SX(sum((row / d for row, d in zip(rows, factors.pivots, strict=True)), ca.SX(0)))


def _generate(model: ArmModel) -> Generated:
    arm, eps = SymbolicArm(model), ca.SX.sym("eps")
    factors = Factors.of(arm.inertia_matrix() - eps * ca.SX.eye(model.axes))
    pivots, margin = ca.vertcat(*factors.pivots), 1 / _inverse_trace(factors)
    slope = ca.densify(ca.gradient(margin, arm.q))
    inputs, shared = {"q": arm.q}, {"phi": arm.phi, "eps": eps}
    return Generated(
        {
            "margin_program": emit(inputs, shared, {"pivot": pivots, "margin": margin}),
            "slope_program": emit(inputs, shared, {"pivot": pivots, "margin": margin, "slope": slope}),
        }
    )


class InertiaFunctions:
    """Exact symbolic functions of the inertia matrix M(q; phi) for batches of poses.

    They give M, its smallest eigenvalue, the derivative of this eigenvalue by the pose, and quadratic forms v' M v as
    linear functions of the base parameters phi. Columns of q that belong to axes outside the kinematic chain are
    ignored.
    """

    def __init__(self, model: ArmModel) -> None:
        self.model = model
        arm = SymbolicArm(model)
        q, v = arm.q, ca.SX.sym("v", model.axes)
        M = arm.inertia_matrix()
        form = ca.dot(v, M @ v)
        self._matrix = ca.Function("matrix", [q, arm.phi], [ca.vec(M)])
        self._slope = ca.Function("slope", [q, arm.phi, v], [ca.gradient(form, q)])
        self._cut = ca.Function("cut", [q, v], [ca.gradient(form, arm.phi)])

    def matrices(self, q: FloatArray, phi: FloatArray) -> FloatArray:
        """Return the inertia matrices (N, n, n) [kg m^2] at poses q (N, n) [rad] with base parameters phi (p,)."""
        n = self.model.axes
        return np.asarray(self._matrix(self._chain(q), phi)).T.reshape(-1, n, n)

    def smallest(self, q: FloatArray, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the inertia matrix's smallest eigenvalue at each pose, (N,) [kg m^2], and its unit eigenvector (N, n).

        Args:
            q: poses, (N, n) [rad].
            phi: base parameters, (p,).
        """
        values, vectors = np.linalg.eigh(self.matrices(q, phi))
        return values[:, 0], vectors[:, :, 0]

    def slopes(self, q: FloatArray, phi: FloatArray, v: FloatArray) -> FloatArray:
        """Return derivatives of v' M(q; phi) v by the positions of the c chain joints, (N, c) [kg m^2 / rad].

        M is the inertia matrix. If v is a unit eigenvector of M, this is the derivative of the eigenvalue.

        Args:
            q: poses, (N, n) [rad].
            phi: base parameters, (p,).
            v: vector of each pose, (N, n).
        """
        return np.asarray(self._slope(self._chain(q), phi, v.T)).T

    def cuts(self, q: FloatArray, v: FloatArray) -> FloatArray:
        """Return at each pose the row, (N, p), whose product with the base parameters phi is v' M(q; phi) v.

        The inertia matrix M is linear in phi, so a row holds the derivatives of v' M v by phi (p,). The condition
        row phi >= eps is a cutting plane: it excludes all phi whose M has a v' M v below eps.

        Args:
            q: poses, (N, n) [rad].
            v: vector of each pose, (N, n).
        """
        return np.asarray(self._cut(self._chain(q), v.T)).T

    def local_minimum(
        self, pose: FloatArray, phi: FloatArray, joints: Sequence[int], lower: FloatArray, upper: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the local minimum of lambda_min, the smallest eigenvalue of the inertia matrix, near a pose.

        It is found by L-BFGS with the exact slope.

        Args:
            pose: initial pose, (n,) [rad].
            phi: base parameters, (p,).
            joints: indices of the k joints that may move, all in the kinematic chain.
            lower: lower limits of these joints, (k,) [rad].
            upper: upper limits of these joints, (k,) [rad].

        Returns:
            The pose (n,) and its lambda_min [kg m^2], never more than that of the initial pose.
        """
        moved, q = list(joints), np.array(pose)[None]

        def smallest(x: FloatArray) -> tuple[float, FloatArray]:
            q[0, moved] = x
            values, vectors = self.smallest(q, phi)
            return float(values[0]), self.slopes(q, phi, vectors)[0, moved]

        start, bounds = pose[moved], list(zip(lower, upper, strict=True))
        found = minimize(smallest, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14})
        value, _ = smallest(start)
        if found.fun < value:
            value, _ = smallest(found.x)
        return q[0], value

    def _chain(self, q: FloatArray) -> FloatArray:
        return q[:, : self.model.chain_size].T


@dataclass(frozen=True)
class PoseKernels:
    """Compiled functions of poses q (N, n) [rad], base parameters phi (p,) and eps [kg m^2].

    M(q; phi) is the inertia matrix of the arm.

    Attributes:
        margins: returns m = 1 / trace((M - eps I)^-1), (N,) [kg m^2], or a value of at most 0 if M - eps I is not
            positive definite.
        slopes: returns m, (N,), and its derivatives by the positions of the c chain joints, (N, c) [kg m^2 / rad]. The
            derivatives are meaningless if m is not positive.

    Both raise DataError for positions out of the kernels' range.
    """

    margins: Callable[[FloatArray, FloatArray, float], FloatArray]
    slopes: Callable[[FloatArray, FloatArray, float], tuple[FloatArray, FloatArray]]


def compile_pose_kernels(model: ArmModel) -> PoseKernels:
    """Return the compiled functions by which an audit measures the inertia matrix of this arm at many poses."""
    programs, chain = load_programs("poses", model, lambda: _generate(model)).addresses, model.chain_size

    def all_margins(q: FloatArray, phi: FloatArray, eps: float) -> FloatArray:
        (states,) = model.states(q)
        margin = np.empty(len(states))
        given = np.ascontiguousarray(phi), np.array([float(eps)])
        refuse_outside(margins(programs["margin_program"], chain, states, *given, margin), states, chain)
        return margin

    def all_slopes(q: FloatArray, phi: FloatArray, eps: float) -> tuple[FloatArray, FloatArray]:
        (states,) = model.states(q)
        margin, slope = np.empty(len(states)), np.empty((len(states), chain))
        given = np.ascontiguousarray(phi), np.array([float(eps)])
        refuse_outside(slopes(programs["slope_program"], chain, states, *given, margin, slope), states, chain)
        return margin, slope

    return PoseKernels(all_margins, all_slopes)
