"""Compiled function that computes all terms of the equation of motion at one state.

Some control laws need the inertia matrix M and the torque C dq + g of Coriolis forces and gravity in each cycle.
"""

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
        """Compute the terms of the equation of motion at one state; stub of a function that is generated for each arm.

        Args:
            lane: index of the state in the arrays; 0 if they hold a single state.
            arrays: inputs q, dq and phi, and outputs inertia, rigid and bias, as in `equation_terms`.
        """


EquationTerms = Callable[[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray], None]


def equation_terms(q: Any, dq: Any, phi: Any, inertia: Any, rigid: Any, bias: Any) -> int:
    """Write the terms of the equation of motion at one state into the last three arguments.

    Args:
        q: positions, (n,) [rad].
        dq: velocities, (n,) [rad/s].
        phi: values of the base parameters, (p,) [SI].
        inertia: inertia matrix M(q), (n, n) [kg m^2].
        rigid: torque C dq + g of the links, springs included, (n,) [N m].
        bias: torque of the base parameters at zero acceleration, (n,) [N m]. Dry friction and torque offsets are not
            included; the function from `compile_terms` adds them.

    Returns:
        Number of joints of the serial chain beyond +-RANGE, where the dynamics are not valid. If it is not 0, nothing
        is written.
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
    """Return a function `(q, dq, phi values, inertia, rigid, bias)` that computes the terms of the equation of motion.

    It fills its last three arguments. `inertia` (n, n) [kg m^2] is M(q). `rigid` (n,) [N m] is C dq + g of the links,
    springs included. `bias` (n,) [N m] is the torque that `dynamics` gives at zero acceleration; it also contains
    friction and torque offsets that are among the base parameters. All arrays are contiguous; phi is read-only. The
    function raises SafetyError for the same states as `dynamics`, and then fills nothing.

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
