"""All terms of the equation of motion at one state, from one kernel: what a law that needs M, C dq + g can afford."""

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
        """Program: inertia matrix, rigid links' torques and bias from q, dq and phi."""


EquationTerms = Callable[[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray], None]


def equation_terms(q: Any, dq: Any, phi: Any, inertia: Any, rigid: Any, bias: Any) -> int:
    """M(q), C dq + g and the bias of one state into the last three; returns how many positions were out of range.

    Where any is, nothing is written.
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
    """A function `(q, dq, phi values, inertia, rigid, bias)` that fills the last three, of the same arm.

    `inertia` (n, n) [kg m^2] is M(q), `rigid` (n,) [N m] is C dq + g of the links, `bias` (n,) [N m] is what `dynamics`
    gives at accelerations of 0, so with those drive-side parameters that are among the base parameters. All arrays are
    contiguous, phi is read-only. It raises SafetyError where `dynamics` does, and then fills nothing.
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
