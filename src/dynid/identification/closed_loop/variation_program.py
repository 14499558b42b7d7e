"""Program of one step of the variational equations, without branches, for all base parameters, one per column.

Symbols per axis are the variations of position q, velocity v, pseudo-differentiated velocity f, command u, and state z
of the delay. A trailing minus sign denotes a mean over the step. With acceleration a, the implicit midpoint rule over h
is

    v- = v + h/2 a,   q- = q + h/2 v + h^2/4 a,   f- = keep_f f + add_f v-,   u- = -(stiffness q- + damping f-),
    z- = keep_z z + add_z u-,   M a + C v- + K q- + Y = 2 z- - u-,

M is the inertia matrix; C, K and Y are the derivatives of the inverse dynamics with respect to velocities, positions
and the parameter. `stiffness` and `damping` are the gains of the PD law. keep_f, add_f, keep_z and add_z are factors of
the midpoint rule, from `sensitivity_kernels.coefficients`. The right-hand side 2 z- - u- is the delayed command: the
delay d is approximated by (1 - s d/2) / (1 + s d/2). The terms that contain a are moved to the left-hand side. So one
matrix E, factorised before the step, is used for all parameters.
"""

import casadi as ca

from dynid.codegen.emit import Program, emit
from dynid.identification.closed_loop.programs import inverse_dynamics_sparsity
from dynid.model.dynamics import ArmModel


def _masked(name: str, sparsity: ca.Sparsity) -> tuple[ca.SX, ca.SX]:
    """Return n n symbols, (n n, 1), and a sparse matrix (n, n) whose nonzeros are these symbols in column order.

    Symbols at places outside the sparsity pattern are not used in the matrix.

    Args:
        name: name of the symbol.
        sparsity: sparsity pattern of the matrix.
    """
    n = sparsity.shape[0]
    symbol = ca.SX.sym(name, n * n)
    matrix = ca.SX(sparsity)
    for i, j in zip(*sparsity.get_triplet(), strict=True):
        matrix[i, j] = symbol[j * n + i]
    return symbol, matrix


def _solve(factors: ca.SX, right: ca.SX, n: int) -> ca.SX:
    """Return the solution x (n,) of L U x = right.

    Args:
        factors: entries of L and U in column order, (n n,). The unit diagonal of L is omitted, and the diagonal of U is
            inverted.
        right: right-hand side, (n,).
        n: number of unknowns.
    """
    x = ca.SX(right)
    for i in range(n):
        for j in range(i):
            x[i] = x[i] - factors[j * n + i] * x[j]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] = x[i] - factors[j * n + i] * x[j]
        x[i] = x[i] * factors[i * n + i]
    return x


def variation_program(model: ArmModel, columns: int) -> Program:
    """Generate the program of one step of the variational equations, with one column per base parameter.

    The outputs of the program are the new states x (4 n), and the variation `varied` (n) of the command. x contains the
    variations of position, velocity, filtered velocity and state of the delay.

    The inputs are x, the derivative y (n) of the inverse dynamics with respect to the parameter, and values that are
    common to all parameters. These are `law` (2 n, stiffness and damping), `gains` (5, result of
    `sensitivity_kernels.coefficients`), and three matrices in column order, (n n) each: the derivatives C and K of the
    inverse dynamics with respect to velocities and positions, and the factors E from
    `sensitivity_kernels.step_matrices`.

    Args:
        model: the arm.
        columns: number of base parameters, rounded up to a multiple of the SIMD vector width.
    """
    n = model.axes
    x, y = ca.SX.sym("x", 4 * n), ca.SX.sym("y", n)
    q, v, f, z = (x[k * n : (k + 1) * n] for k in range(4))
    law, gains, E = ca.SX.sym("law", 2 * n), ca.SX.sym("gains", 5), ca.SX.sym("E", n * n)
    stiffness, damping = law[:n], law[n:]
    h, keep_f, add_f, keep_z, add_z = (gains[k] for k in range(5))
    C, C_matrix = _masked("C", inverse_dynamics_sparsity(model, "dq"))
    K, K_matrix = _masked("K", inverse_dynamics_sparsity(model, "q"))
    along = q + 0.5 * h * v
    u = -(stiffness * along + damping * (keep_f * f + add_f * v))
    right = 2 * keep_z * z + (2 * add_z - 1) * u - y - C_matrix @ v - K_matrix @ along
    a = _solve(E, right, n)
    mean_v = v + 0.5 * h * a
    mean_f = keep_f * f + add_f * mean_v
    mean_u = -(stiffness * (along + 0.25 * h * h * a) + damping * mean_f)
    mean_z = keep_z * z + add_z * mean_u
    new_q, new_f = q + h * mean_v, 2 * mean_f - f
    new = ca.vertcat(new_q, v + h * a, new_f, 2 * mean_z - z)
    varied = -(stiffness * new_q + damping * new_f)
    shared = {"law": law, "gains": gains, "C": C, "K": K, "E": E}
    return emit({"x": x, "y": y}, shared, {"new": new, "varied": varied}, columns)
