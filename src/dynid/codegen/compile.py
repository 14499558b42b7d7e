"""Compiled functions of an arm with the same mathematics as `ArmModel`, for millions of states.

The functions work for any serial chain. Further axes, such as a gripper, may be decoupled: they have rotor inertia and
friction only. Every function checks its arguments once, then runs in SIMD machine code.
"""

from collections.abc import Callable
from typing import NoReturn

import casadi as ca
import numpy as np

from dynid.codegen import block_loops
from dynid.codegen.emit import RANGE, emit
from dynid.codegen.kernels import Generated, load_programs
from dynid.errors import DataError
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.model.symbolic import Factors, SymbolicArm
from dynid.robot import FloatArray

PivotFunction = Callable[[FloatArray, BaseParameters, float], FloatArray]


def refuse_outside(count: int, q: FloatArray, chain_size: int) -> None:
    """Raise DataError if a compiled loop found positions beyond +-RANGE [rad], where its results are inaccurate.

    Args:
        count: what the loop returned; 0 if all positions are within the range, then no error is raised.
        q: positions, (N, n) [rad]; the error names the first one beyond the range.
        chain_size: number of joints of the serial chain, which come first in q; only they are checked.
    """
    if count:
        inside = np.abs(q[:, :chain_size]) <= RANGE
        row, joint = (int(k) for k in np.argwhere(~inside)[0])
        raise DataError(
            f"joint {joint + 1} is at {q[row, joint]} rad in state {row}; expected a value within +-{RANGE} rad"
        )


def _generate_pivots(model: ArmModel) -> Generated:
    arm = SymbolicArm(model)
    eps = ca.SX.sym("eps")
    factors = Factors.of(arm.inertia_matrix() - eps * ca.SX.eye(model.axes))
    pivots = emit({"q": arm.q}, {"phi": arm.phi, "eps": eps}, {"pivot": ca.vertcat(*factors.pivots)})
    return Generated({"pivots": pivots})


def compile_pivots(model: ArmModel) -> PivotFunction:
    """Return a function that computes the smallest LDL pivot of M(q; phi) - eps I at each pose.

    M(q; phi) is the inertia matrix. The function takes q (N, n) [rad], phi and eps [kg m^2], and returns the pivots
    (N,) [kg m^2].

    M(q; phi) > eps I holds at a pose if and only if the smallest pivot is positive (Sylvester's law of inertia); at 0
    the pose is on the boundary. A pivot is not an eigenvalue: its sign is exact, but its size only indicates the
    distance to the boundary.
    """
    program = load_programs("pivots", model, lambda: _generate_pivots(model)).addresses["pivots"]

    def pivots(q: FloatArray, phi: BaseParameters, eps: float = 0.0) -> FloatArray:
        (states,) = model.states(q)
        smallest = np.empty(len(states))
        values = model.values_of(phi)
        outside = block_loops.smallest_pivots(program, model.chain_size, states, values, np.array([eps]), smallest)
        refuse_outside(outside, states, model.chain_size)
        return smallest

    return pivots


class StatesKernel:
    """Compiled function of q, dq, phi and a third vector (accelerations or torques), evaluated for N states at once.

    Args:
        model: the arm.
        name: prefix of the generated module's name.
        third: name of the third vector, an attribute of `SymbolicArm` such as "ddq".
        output: function that takes the arm as a `SymbolicArm` and returns the outputs as a CasADi expression.
    """

    def __init__(self, model: ArmModel, name: str, third: str, output: Callable[[SymbolicArm], ca.SX]) -> None:
        def generate() -> Generated:
            arm = SymbolicArm(model)
            inputs = {"q": arm.q, "dq": arm.dq, third: getattr(arm, third)}
            return Generated({"states_program": emit(inputs, {"phi": arm.phi}, {name: output(arm)})})

        self.model = model
        self._program = load_programs(name, model, generate).addresses["states_program"]

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a compiled kernel exists only in its own process: let the other process create one from the arm"
        )

    def __call__(self, outputs: int, phi: FloatArray, *states: FloatArray) -> FloatArray:
        """Return the outputs of the function for N states, (N, outputs).

        Args:
            outputs: number of outputs per state.
            phi: base parameters, (p,), SI.
            states: q, dq and the third vector of this kernel (such as accelerations or torques), (N, n) each.
        """
        q, dq, third = self.model.states(*states)
        result, chain = np.empty((len(q), outputs)), self.model.chain_size
        refuse_outside(block_loops.evaluate_states(self._program, chain, q, dq, third, phi, result), q, chain)
        return result


def compile_inverse_dynamics(
    model: ArmModel,
) -> Callable[[FloatArray, FloatArray, FloatArray, BaseParameters], FloatArray]:
    """Return a function `(q, dq, ddq, phi) -> tau` with arrays (N, n), equal to `ArmModel.inverse_dynamics`."""
    kernel = StatesKernel(model, "inverse", "ddq", lambda arm: arm.inverse_dynamics(arm.ddq))

    def inverse_dynamics(q: FloatArray, dq: FloatArray, ddq: FloatArray, phi: BaseParameters) -> FloatArray:
        values = model.values_of(phi)
        return kernel(model.axes, values, q, dq, ddq) + model.dry_torque(np.atleast_2d(dq), phi)

    return inverse_dynamics


def compile_regressor(model: ArmModel) -> Callable[[FloatArray, FloatArray, FloatArray], FloatArray]:
    """Return a function `(q, dq, ddq) -> W (N, n, p)` of states (N, n), equal to `ArmModel.regressor`."""
    n, p = model.axes, len(model.names)
    kernel = StatesKernel(
        model, "regressor", "ddq", lambda arm: ca.densify(ca.jacobian(arm.inverse_dynamics(arm.ddq), arm.phi)).T
    )

    def regressor(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        W = kernel(n * p, np.zeros(p), q, dq, ddq).reshape(-1, n, p)
        rates, dry = np.atleast_2d(dq), [model.names[k] for k in model.dry_places]
        W[:, :, model.dry_places] = model.drive.columns(dry, np.atleast_2d(q), rates, np.zeros_like(rates))
        return W

    return regressor
