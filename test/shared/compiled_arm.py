"""Compiled kernels of many states that only tests need, made as those of `dynid.codegen.compile`."""

from collections.abc import Callable

import casadi as ca
import numpy as np

from dynid.codegen.compile import StatesKernel
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.model.symbolic import Factors, SymbolicArm
from dynid.robot import FloatArray


def compile_forward_dynamics(
    model: ArmModel,
) -> Callable[[FloatArray, FloatArray, FloatArray, BaseParameters], FloatArray]:
    """A function `(q, dq, tau, phi) -> ddq`, all (N, n): `ArmModel.forward_dynamics`; M(q; phi) must be definite."""

    def accelerations(arm: SymbolicArm) -> ca.SX:
        return Factors.of(arm.inertia_matrix()).solve(arm.tau - arm.inverse_dynamics(ca.SX(model.axes, 1)))

    kernel = StatesKernel(model, "forward", "tau", accelerations)

    def forward_dynamics(q: FloatArray, dq: FloatArray, tau: FloatArray, phi: BaseParameters) -> FloatArray:
        values = model.values_of(phi)
        return kernel(model.axes, values, q, dq, tau - model.dry_torque(np.atleast_2d(dq), phi))

    return forward_dynamics


def compile_inertia_matrix(model: ArmModel) -> Callable[[FloatArray, BaseParameters], FloatArray]:
    """A function `(q (N, n), phi) -> M (N, n, n)`: `ArmModel.inertia_matrix`."""
    n = model.axes
    kernel = StatesKernel(model, "inertia", "ddq", lambda arm: ca.densify(arm.inertia_matrix()))

    def inertia_matrix(q: FloatArray, phi: BaseParameters) -> FloatArray:
        return kernel(n * n, model.values_of(phi), q, q, q).reshape(-1, n, n)

    return inertia_matrix
