"""Generated programs of the simulated loop and its sensitivities: accelerations, and linearised equations of motion."""

from typing import Literal

import casadi as ca

from dynid.codegen.emit import Program, emit
from dynid.model.dynamics import ArmModel
from dynid.model.symbolic import Factors, SymbolicArm


def forward_program(model: ArmModel) -> Program:
    """Generate the program of the forward dynamics, which computes joint accelerations from torques.

    The inputs of the program are q, dq and tau (n each) and the base parameters phi. The outputs are the accelerations
    `ddq` (n) and `pivot`, the smallest pivot of the LDL decomposition of the inertia matrix M.
    """
    arm = SymbolicArm(model)
    factors = Factors.of(arm.inertia_matrix())
    ddq = factors.solve(arm.tau - arm.inverse_dynamics(ca.SX(model.axes, 1)))
    smallest = factors.pivots[0]
    for pivot in factors.pivots[1:]:
        smallest = ca.fmin(smallest, pivot)
    return emit({"q": arm.q, "dq": arm.dq, "tau": arm.tau}, {"phi": arm.phi}, {"ddq": ddq, "pivot": smallest})


def inverse_dynamics_sparsity(model: ArmModel, variable: Literal["q", "dq"]) -> ca.Sparsity:
    """Return the sparsity pattern (n, n) of the derivatives of the torques with respect to positions or velocities.

    Args:
        model: the arm.
        variable: "q" for positions, "dq" for velocities.
    """
    arm = SymbolicArm(model)
    n, tau = model.axes, arm.inverse_dynamics(arm.ddq)
    if variable == "dq":
        return ca.jacobian_sparsity(tau, arm.dq)
    return ca.horzcat(ca.jacobian_sparsity(tau, arm.q), ca.Sparsity(n, n - model.chain_size))


def linearised_program(model: ArmModel) -> tuple[Program, dict[str, object]]:
    """Generate the program that computes the inertia matrix M and the derivatives of the inverse dynamics.

    The derivatives of the torques are C with respect to dq, K with respect to q, and Y with respect to the base
    parameters phi. C and K are dense and in column order. Y contains only the nonzeros.

    Returns:
        The program, and a dictionary of constants: number, rows and columns of the nonzeros of Y.
    """
    arm = SymbolicArm(model)
    n = model.axes
    tau = arm.inverse_dynamics(arm.ddq)
    reverse = {"helper_options": {"enable_forward": False}}  # fewer operations here than forward differentiation
    C = ca.jacobian(tau, arm.dq, reverse)
    K = ca.horzcat(ca.jacobian(tau, arm.q, reverse), ca.SX(n, n - model.chain_size))
    Y = ca.jacobian(tau, arm.phi)
    outputs = {"M": ca.densify(arm.inertia_matrix()), "C": ca.densify(C), "K": ca.densify(K), "Y": Y}
    rows, columns = Y.sparsity().get_triplet()
    places = {"Y_SIZE": Y.nnz(), "Y_ROWS": tuple(rows), "Y_COLUMNS": tuple(columns)}
    return emit({"q": arm.q, "dq": arm.dq, "ddq": arm.ddq}, {"phi": arm.phi}, outputs), places
