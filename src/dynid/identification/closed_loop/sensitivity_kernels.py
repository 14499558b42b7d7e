"""Inner loops that compute the Jacobian of the closed loop, by its variational equations for all parameters at once.

For one base parameter the variation (dq, dv) of a simulated motion satisfies M a + C dv + K dq + Y = d tau, with the
acceleration a of the variation. M is the inertia matrix. C, K and Y are the derivatives of the inverse dynamics with
respect to velocities, positions and phi. d tau is the variation of the torque that acts, the delayed command of the
control law. In this law, the pseudo-differentiation of the positions, and the delay of the command (a first-order Pade
approximation), add one state each per axis. The implicit midpoint rule is stable for any step, and needs one
factorisation per step for all parameters.

The functions of this module are not called directly: `dynid.codegen.kernels` copies their source into a generated
module. Compiled programs of the arm are passed as addresses. `linearised` computes M, C and K in column order and the
nonzeros of Y; `variation` computes one implicit midpoint step of the variations. A program is evaluated for LANES
columns at once, such as successive time steps; a lane is one of these columns.
"""

from typing import Any

import numpy as np

from dynid.codegen.vector_ir import LANES, run_program

AXES = PARAMETERS = Y_SIZE = 0  # sizes of the arm; replaced by constants in every generated module
COLUMNS = 0  # PARAMETERS, rounded up to whole vectors


def midpoints(motion: Any, first: int, stride: int, step: float, q: Any, dq: Any, ddq: Any) -> None:
    """Compute the states in the middle of LANES consecutive steps of a simulated motion.

    If fewer than LANES steps remain, the last step is repeated.

    Args:
        motion: q, dq and command at every control cycle, (3, K, n) [SI].
        first: index of the first step.
        stride: cycles per step, even.
        step: cycle time [s].
        q: output, positions, (n, LANES) [rad].
        dq: output, velocities, (n, LANES) [rad/s].
        ddq: output, accelerations, (n, LANES) [rad/s^2].
    """
    last = (motion.shape[1] - 1) // stride - 1
    for lane in range(LANES):
        begin = min(first + lane, last) * stride
        middle, end = begin + stride // 2, begin + stride
        for i in range(AXES):
            q[i, lane], dq[i, lane] = motion[0, middle, i], motion[1, middle, i]
            ddq[i, lane] = (motion[1, end, i] - motion[1, begin, i]) / (stride * step)


def factorise(E: Any) -> None:
    """Factorise LANES matrices in place by LU without pivoting; the diagonal of U is stored inverted.

    Args:
        E: entries of the n x n matrices in column order, (n n, LANES), any unit.
    """
    for k in range(AXES):
        for lane in range(LANES):
            E[k * AXES + k, lane] = 1.0 / E[k * AXES + k, lane]
        for i in range(k + 1, AXES):
            for lane in range(LANES):
                E[k * AXES + i, lane] *= E[k * AXES + k, lane]
            for j in range(k + 1, AXES):
                for lane in range(LANES):
                    E[j * AXES + i, lane] -= E[k * AXES + i, lane] * E[j * AXES + k, lane]


def eliminate(factor: float, other: Any, row: Any) -> None:
    """Subtract a multiple of one row from another row: row -= factor * other, (COLUMNS,) each, any unit."""
    for c in range(COLUMNS):
        row[c] -= factor * other[c]


def solve(E: Any, right: Any) -> None:
    """Solve a linear system in place for all columns of its right-hand side.

    Args:
        E: factors from `factorise`, (n n, LANES), any unit; column 0 is used.
        right: right-hand side on entry, solution on return, (n, COLUMNS), any unit.
    """
    for i in range(AXES):
        for j in range(i):
            eliminate(E[j * AXES + i, 0], right[j], right[i])
    for i in range(AXES - 1, -1, -1):
        for j in range(i + 1, AXES):
            eliminate(E[j * AXES + i, 0], right[j], right[i])
        for c in range(COLUMNS):
            right[i, c] *= E[i * AXES + i, 0]


def load_regressor(Y: Any, rows: Any, columns: Any, lane: int, y: Any) -> None:
    """Copy the nonzeros of one regressor Y to their places in a matrix whose other entries are 0 already.

    Args:
        Y: nonzeros, (Y_SIZE, LANES) [SI].
        rows: row of each nonzero, (Y_SIZE,).
        columns: column of each nonzero, (Y_SIZE,).
        lane: column of `Y` that is copied.
        y: the matrix, (n, COLUMNS) [SI].
    """
    for k in range(Y_SIZE):
        y[rows[k], columns[k]] = Y[k, lane]


def settled(K: Any, E: Any, law: Any, y: Any, x: Any) -> None:
    """Compute the sensitivities of an arm at rest to the base parameters phi, from (K + stiffness) dq/dphi = -Y.

    Args:
        K: derivatives of the inverse dynamics with respect to positions, in column order, (n n, LANES) [SI]; column 0
            is used.
        E: scratch memory, (n n, LANES).
        law: stiffness and damping gains of the PD law, (2, n) [SI].
        y: derivatives Y of the inverse dynamics with respect to the parameters, (n, COLUMNS) [SI].
        x: output, sensitivities of the four states per axis, (4 n, COLUMNS) [SI]. The first n rows are positions, the
            last n rows the state of the delay. The rows in between, of velocity and filtered velocity, stay 0.
    """
    for i in range(AXES):
        for j in range(AXES):
            for lane in range(LANES):
                E[j * AXES + i, lane] = K[j * AXES + i, lane] + (law[0, i] if i == j else 0.0)
    factorise(E)
    right = np.empty((AXES, COLUMNS))
    for i in range(AXES):
        for c in range(COLUMNS):
            right[i, c] = -y[i, c]
    solve(E, right)
    for i in range(AXES):
        for c in range(COLUMNS):
            x[i, c] = right[i, c]
            x[3 * AXES + i, c] = -law[0, i] * right[i, c]


def pack(varied: Any, packed: Any) -> None:
    """Copy derivatives with respect to the p parameters from an array whose rows are padded to whole SIMD vectors.

    Args:
        varied: derivatives of n axes' values, one column per parameter and then padding, (n, COLUMNS), any unit.
        packed: output, (n p,).
    """
    for i in range(AXES):
        for c in range(PARAMETERS):
            packed[i * PARAMETERS + c] = varied[i, c]


def add_node(packed: Any, node: int, cursor: int, first: Any, which: Any, weights: Any, J: Any) -> int:
    """Add the values at one instant of the integration (a node) to all samples that use it.

    Args:
        packed: values at the node, (n p,), any unit.
        node: index of the node.
        cursor: index of the first sample that may use this node or later nodes.
        first: first node that each sample uses, (S,).
        which: row of `weights` that each sample uses, (S,).
        weights: weights of the nodes from `first` on, (rows, taps).
        J: samples, (S, n p), to which the weighted values are added.

    Returns:
        Index of the first sample to which later nodes may contribute.
    """
    taps = weights.shape[1]
    while cursor < len(first) and first[cursor] + taps <= node:
        cursor += 1
    s = cursor
    while s < len(first) and first[s] <= node:
        weight = weights[which[s], node - first[s]]
        if weight != 0.0:
            for k in range(AXES * PARAMETERS):
                J[s, k] += weight * packed[k]
        s += 1
    return cursor


def coefficients(h: float, time_constant: float, half_delay: float) -> Any:
    """Return the coefficients (5,) of one implicit midpoint step of the velocity filter and of the delay.

    The filter is the pseudo-differentiation of the positions. The delay is a first-order Pade approximation, whose
    state is called the lag.

    Args:
        h: step of the integration [s].
        time_constant: time constant of the filter [s].
        half_delay: half of the delay from a state to its command [s].

    Returns:
        The step h, then two factors a, b of the filter, and two factors a, b of the lag. The mean state of the filter
        or of the lag during the step is a * (state before the step) + b * (input).
    """
    gains = np.empty(5)
    gains[0] = h
    gains[1] = 1.0 / (1.0 + 0.5 * h / time_constant)
    gains[2] = 1.0 - gains[1]
    gains[3] = half_delay / (half_delay + 0.5 * h)
    gains[4] = 1.0 - gains[3]
    return gains


def step_matrices(M: Any, C: Any, K: Any, law: Any, gains: Any, E: Any) -> None:
    """Compute the LU factors of the matrices that multiply the accelerations in implicit midpoint steps.

    LANES simulations are computed side by side, with one step each.

    Args:
        M: inertia matrices in column order, (n n, LANES) [SI].
        C: derivatives of the inverse dynamics with respect to velocities, (n n, LANES) [SI].
        K: derivatives of the inverse dynamics with respect to positions, (n n, LANES) [SI].
        law: stiffness and damping gains of the PD law, (2, n) [SI].
        gains: result of `coefficients`, (5,).
        E: output, the LU factors, (n n, LANES).
    """
    h = gains[0]
    for k in range(AXES * AXES):
        for lane in range(LANES):
            E[k, lane] = M[k, lane] + 0.5 * h * C[k, lane] + 0.25 * h * h * K[k, lane]
    for i in range(AXES):
        answer = (2.0 * gains[4] - 1.0) * (0.25 * h * h * law[0, i] + 0.5 * h * gains[2] * law[1, i])
        for lane in range(LANES):
            E[i * AXES + i, lane] += answer
    factorise(E)


def vary_lanes(
    linearised: int,
    variation: int,
    motion: Any,
    stride: int,
    step: float,
    phi: Any,
    law: Any,
    time_constant: float,
    delay: float,
    at_rest: bool,
    rows: Any,
    columns: Any,
    first: Any,
    which: Any,
    weights: Any,
    J: Any,
) -> None:
    """Compute the Jacobian of the sampled commands of a simulated loop with respect to the base parameters phi.

    The variational equations of the loop are integrated in steps of `stride` control cycles. The ends of these steps
    are called nodes. A sample of the commands is a weighted sum of the commands at nodes.

    Args:
        linearised: function pointer (address) of the compiled program that computes the inertia matrix M and the
            derivatives C, K and Y of the inverse dynamics with respect to velocities, positions and phi.
        variation: function pointer (address) of the compiled program that computes one step of the variational
            equations.
        motion: q, dq and command at every cycle, (3, K, n) [SI].
        stride: cycles per step, even.
        step: cycle time [s].
        phi: base parameters, (p,) [SI].
        law: stiffness and damping gains of the PD law, (2, n) [SI].
        time_constant: time constant of the pseudo-differentiation [s].
        delay: mean time from a measured state to the effect of its command, including half of the cycle for which the
            command acts [s].
        at_rest: whether the motion starts from an equilibrium, which depends on phi; if not, the first state is fixed.
        rows: rows of the nonzeros of Y, (Y_SIZE,).
        columns: columns of the nonzeros of Y, (Y_SIZE,).
        first: first node that each sample uses, (S,).
        which: row of `weights` that each sample uses, (S,).
        weights: weights of the nodes from `first` on, (rows, taps).
        J: output, the Jacobian, (S, n p) [SI]; must be zero on entry.
    """
    matrices, states, Y = np.empty((4, AXES * AXES, LANES)), np.empty((3, AXES, LANES)), np.empty((Y_SIZE, LANES))
    M, C, K, E = matrices[0], matrices[1], matrices[2], matrices[3]
    q, dq, ddq, still = states[0], states[1], states[2], np.zeros((AXES, LANES))
    x, y, varied = np.zeros((4 * AXES, COLUMNS)), np.zeros((AXES, COLUMNS)), np.zeros((AXES, COLUMNS))
    one, packed = np.empty((3, AXES * AXES)), np.empty(AXES * PARAMETERS)
    gains, law_list = coefficients(stride * step, time_constant, 0.5 * delay), law.ravel()
    C1, K1, E1 = one[0], one[1], one[2]
    cursor, steps = 0, (motion.shape[1] - 1) // stride
    for block in range(0, steps, LANES):
        midpoints(motion, block, stride, step, q, dq, ddq)
        if block == 0:
            if at_rest:
                run_program(linearised, (q, still, still, phi, M, C, K, Y))
                load_regressor(Y, rows, columns, 0, y)
                settled(K, E, law, y, x)
                for i in range(AXES):
                    for c in range(COLUMNS):
                        varied[i, c] = x[3 * AXES + i, c]
            pack(varied, packed)
            cursor = add_node(packed, 0, cursor, first, which, weights, J)
        run_program(linearised, (q, dq, ddq, phi, M, C, K, Y))
        step_matrices(M, C, K, law, gains, E)
        for lane in range(min(LANES, steps - block)):
            load_regressor(Y, rows, columns, lane, y)
            for k in range(AXES * AXES):
                C1[k], K1[k], E1[k] = C[k, lane], K[k, lane], E[k, lane]
            run_program(variation, (x, y, law_list, gains, C1, K1, E1, x, varied))
            pack(varied, packed)
            cursor = add_node(packed, block + lane + 1, cursor, first, which, weights, J)


def normal_equations(J: Any, residual: Any, hessian: Any, gradient: Any) -> None:
    """Add J_i' J_i to `hessian` and J_i' r_i to `gradient`, for the Jacobian J_i and the residuals r_i of every axis i.

    Args:
        J: Jacobian of the samples, (S, n p) [SI].
        residual: residuals r, (S, n) [N m].
        hessian: sums of J_i' J_i, (n, p, p) [SI]; updated in place.
        gradient: sums of J_i' r_i, (n, p) [SI]; updated in place.
    """
    block = np.zeros((4, PARAMETERS))  # four samples at a time: fewer loads and stores of the sums
    for s in range(0, len(J), 4):
        count = min(4, len(J) - s)
        for i in range(AXES):
            for k in range(4):
                for c in range(PARAMETERS):
                    block[k, c] = J[s + k, i * PARAMETERS + c] if k < count else 0.0
                if k < count:
                    for c in range(PARAMETERS):
                        gradient[i, c] += block[k, c] * residual[s + k, i]
            for a in range(PARAMETERS):
                w0, w1, w2, w3 = block[0, a], block[1, a], block[2, a], block[3, a]
                for c in range(PARAMETERS):
                    late = w2 * block[2, c] + w3 * block[3, c]
                    hessian[i, a, c] += w0 * block[0, c] + w1 * block[1, c] + late
