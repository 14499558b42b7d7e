"""All terms of the equation of motion at one state from one kernel, for laws that need M and C dq + g in each cycle."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

from dynid.codegen.emit import emit
from dynid.codegen.kernels import Generated, load_kernels
from dynid.control.dynamics_kernel import SingleState, positions_outside, refuse_outside
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.model.symbolic import SymbolicArm
from dynid.robot import FloatArray

if TYPE_CHECKING:

    def terms_program(lane: int, arrays: Any) -> None:
        """Compute inertia matrix, links' torques and bias from q, dq and phi; a placeholder for the generated code."""


EquationTerms = Callable[[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray], None]


def equation_terms(q: Any, dq: Any, phi: Any, inertia: Any, rigid: Any, bias: Any) -> int:
    """Write M(q), C dq + g and the bias into the last three arguments; return the number of joints out of range.

    Nothing is written if a joint is out of range.
    """
    beyond = positions_outside(q)
    if beyond == 0:
        terms_program(0, (q, dq, phi, inertia, rigid, bias))
    return beyond


def _generate(model: ArmModel) -> Generated:
    arm, still = SymbolicArm(model), ca.SX.zeros(model.axes)
    bias = arm.inverse_dynamics(still)
    links = of_kinds(BaseParameters(model.names, np.ones(len(model.names))), KINDS, others=True).values
    outputs = {
        "inertia": ca.densify(arm.inertia_matrix()),
        "rigid": ca.densify(ca.substitute(bias, arm.phi, arm.phi * ca.DM(links))),
        "bias": ca.densify(bias),
    }
    program = emit({"q": arm.q, "dq": arm.dq}, {"phi": arm.phi}, outputs, row=1)
    return Generated({"terms_program": replace(program, width=1)})


def compile_terms(dynamics: SingleState) -> EquationTerms:
    """Return a function `(q, dq, phi values, inertia, rigid, bias)` that fills its last three arguments.

    `inertia` (n, n) [kg m^2] is M(q). `rigid` (n,) [N m] is C dq + g of the links. `bias` (n,) [N m] is the torque that
    `dynamics` gives at zero acceleration, including drive-side terms that are among the base parameters. All arrays are
    contiguous; phi is read-only. The function raises SafetyError for the same states as `dynamics`, and then fills
    nothing.

    Args:
        dynamics: inverse dynamics of the same arm.
    """
    model = dynamics.arm
    kernel = load_kernels("terms", model, lambda: _generate(model), [positions_outside, equation_terms]).equation_terms

    def terms(
        q: FloatArray, dq: FloatArray, phi: FloatArray, inertia: FloatArray, rigid: FloatArray, bias: FloatArray
    ) -> None:
        if kernel(q, dq, phi, inertia, rigid, bias):
            refuse_outside(model, q)
        if model.dry_places:
            bias += dynamics.dry(dq, phi)

    return terms
