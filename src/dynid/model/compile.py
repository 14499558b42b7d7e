"""Compiled kernels of an arm: the same mathematics as `ArmModel`, for millions of states.

Any serial chain with decoupled axes. Every function checks its arguments once, then runs in SIMD machine code.
"""

from collections.abc import Callable, Mapping

import casadi as ca
import numpy as np

from dynid.errors import DataError
from dynid.model import block_loops
from dynid.model.dynamics import ArmModel
from dynid.model.emit import RANGE, Program, emit, sine_cosine
from dynid.model.kernels import Loops, load_kernels
from dynid.model.parameters import BaseParameters
from dynid.model.symbolic import SymbolicArm, ldl_pivots
from dynid.robot import FloatArray

PivotFunction = Callable[[FloatArray, BaseParameters, float], FloatArray]


def with_angles(arm: SymbolicArm, q: ca.SX, expression: ca.SX) -> ca.SX:
    """An expression in sines and cosines as one in the chain positions q (c, 1)."""
    sines, cosines = sine_cosine(q)
    return ca.substitute([expression], [arm.sines, arm.cosines], [sines, cosines])[0]


def state_arrays(model: ArmModel, *states: FloatArray) -> list[FloatArray]:
    """Contiguous (N, n) arrays.

    Raises:
        DataError: wrong shape.
    """
    arrays = [np.ascontiguousarray(np.atleast_2d(a), dtype=np.float64) for a in states]
    if any(a.shape != arrays[0].shape or a.shape[1] != model.axes for a in arrays):
        raise DataError(f"states must be (N, {model.axes}) each, got {', '.join(str(a.shape) for a in arrays)}")
    return arrays


def refuse_outside(count: int, q: FloatArray, chain_size: int) -> None:
    """Raise DataError where `count` chain positions were not within the polynomials' range."""
    if count:
        inside = np.abs(q[:, :chain_size]) <= RANGE
        row, joint = (int(k) for k in np.argwhere(~inside)[0])
        raise DataError(
            f"joint {joint + 1} is at {q[row, joint]} rad in state {row}; expected a value within +-{RANGE} rad"
        )


def _values(model: ArmModel, phi: BaseParameters) -> FloatArray:
    if phi.names != model.names:
        raise DataError(f"these parameters are of another model: {phi.names[:4]}..., expected {model.names[:4]}...")
    return np.ascontiguousarray(phi.values)


def _pivot_programs(model: ArmModel) -> Mapping[str, Program]:
    arm = SymbolicArm(model)
    q, eps = ca.SX.sym("q", model.chain_size), ca.SX.sym("eps")
    pivots, _ = ldl_pivots(arm.inertia_matrix() - eps * ca.SX.eye(model.axes))
    found = with_angles(arm, q, ca.vertcat(*pivots))
    return {"pivots": emit({"q": q}, {"phi": arm.phi, "eps": eps}, {"pivot": found})}


def compile_pivots(model: ArmModel) -> PivotFunction:
    """A function `(q (N, n) [rad], phi, eps) -> (N,)`: the smallest LDL pivot of M(q; phi) - eps I per pose [kg m^2].

    M(q; phi) >= eps I holds at a pose exactly if the pivot is positive (Sylvester's law of inertia; a pivot of exactly
    0 is on the boundary). The pivot is no eigenvalue: its sign is exact, its size only tells how near the boundary is.
    """
    loops: Loops = [block_loops.fill_lanes, block_loops.count_outside, block_loops.smallest_pivots]
    module = load_kernels("pivots", model, lambda: _pivot_programs(model), loops)

    def pivots(q: FloatArray, phi: BaseParameters, eps: float = 0.0) -> FloatArray:
        (states,) = state_arrays(model, q)
        smallest = np.empty(len(states))
        outside = module.smallest_pivots(states, _values(model, phi), np.array([eps]), smallest)
        refuse_outside(outside, states, model.chain_size)
        return smallest

    return pivots
