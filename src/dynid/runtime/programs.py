"""Generated programs of an arm for one state: torques, gravity, inertia matrix, Coriolis matrix and tool Jacobian.

The programs are straight-line scalar code for one state at a time, so that a control loop can call them. They exclude
springs, whose torque depends on the unwrapped position, while all other terms repeat after a turn. The loops in
`dynid.runtime.kernels` add the springs.
"""

import hashlib
from dataclasses import replace

import casadi as ca
import numpy as np

from dynid.codegen.emit import Program, emit
from dynid.codegen.kernels import Generated, Programs, load_programs
from dynid.model.dynamics import ArmModel
from dynid.model.symbolic import SymbolicArm
from dynid.robot import FloatArray

STATE = ("torques", "gravity", "inertia")


def state_programs(model: ArmModel) -> dict[str, Program]:
    """Return generated code for an arm's torques, gravity torques and inertia matrix, as programs by name.

    A program is straight-line code that computes one state. Its inputs and its result are arrays in SI units, in this
    order:
        torques: q, dq, ddq, phi, result tau (n,).
        gravity: q, phi, result tau (n,).
        inertia: q, phi, result M (n, n).
    """
    arm = SymbolicArm(model)
    still = ca.SX.zeros(model.axes)
    tau = arm.inverse_dynamics(arm.ddq)
    at_rest = ca.substitute(arm.inverse_dynamics(still), arm.dq, still)
    shared = {"phi": arm.phi}
    return {
        "torques": _scalar(emit({"q": arm.q, "dq": arm.dq, "ddq": arm.ddq}, shared, {"tau": ca.densify(tau)}, row=1)),
        "gravity": _scalar(emit({"q": arm.q}, shared, {"tau": ca.densify(at_rest)}, row=1)),
        "inertia": _scalar(emit({"q": arm.q}, shared, {"M": ca.densify(arm.inertia_matrix())}, row=1)),
    }


def coriolis_program(model: ArmModel) -> Program:
    """Return generated code that computes the Coriolis matrix C (n, n) [N m s/rad] by Christoffel symbols.

    Its arrays are the inputs q, dq and phi, and the result C.
    With the momentum p = M dq, C = (dM/dt + dp/dq - (dp/dq)') / 2, so that dM/dt - 2 C is skew-symmetric.
    """
    arm, n, c = SymbolicArm(model), model.axes, model.chain_size
    still = ca.SX.zeros(n)
    momentum = ca.substitute(arm.inverse_dynamics(arm.ddq, gravity=False), arm.dq, still)
    momentum = ca.substitute(momentum - ca.substitute(momentum, arm.ddq, still), arm.ddq, arm.dq)
    by_position = ca.horzcat(ca.jacobian(momentum, arm.q), ca.SX(n, n - c))
    rate = ca.jtimes(ca.vec(ca.densify(arm.inertia_matrix())), arm.q, arm.dq[:c])
    C = 0.5 * (ca.reshape(rate, n, n) + by_position - by_position.T)
    return _scalar(emit({"q": arm.q, "dq": arm.dq}, {"phi": arm.phi}, {"C": ca.densify(C.T)}, row=1))


def jacobian_program(model: ArmModel, tool: FloatArray) -> Program:
    """Return generated code that computes the tool's Jacobian J (6, n), linear part first, in the base link's frame.

    Its arrays are the input q and the result J.

    Args:
        model: the arm.
        tool: point in the URDF frame of the last chain joint, (3,) [m].
    """
    arm, base = SymbolicArm(model), model.mdh.base
    rotation, position = ca.SX(ca.DM(base[:3, :3])), ca.SX(ca.DM(base[:3, 3]))
    axes, origins = [], []
    for step, turn in zip(arm.positions, arm.rotations, strict=True):
        position = position + rotation @ step
        rotation = rotation @ turn
        axes.append(rotation[:, 2])
        origins.append(position)
    in_frame = np.linalg.inv(model.mdh.in_link[-1]) @ [*tool, 1.0]
    end, J = position + rotation @ ca.DM(in_frame[:3]), ca.SX(6, model.axes)
    for j, (axis, origin) in enumerate(zip(axes, origins, strict=True)):
        slides = model.mdh.prismatic[j]
        J[:3, j] = axis if slides else ca.cross(axis, end - origin)
        J[3:, j] = ca.SX(3, 1) if slides else axis
    return _scalar(emit({"q": arm.q}, {}, {"J": ca.densify(J.T)}, row=1))


def load_state_programs(model: ArmModel) -> Programs:
    """Return an arm's compiled functions "torques", "gravity" and "inertia", newly compiled or from the cache."""
    return load_programs("state", model, lambda: Generated(state_programs(model)))


def load_coriolis(model: ArmModel) -> Programs:
    """Return an arm's compiled function "coriolis" for the Coriolis matrix, newly compiled or from the cache."""
    return load_programs("coriolis", model, lambda: Generated({"coriolis": coriolis_program(model)}))


def load_jacobian(model: ArmModel, tool: FloatArray) -> Programs:
    """Return an arm's compiled function "jacobian" for the tool's Jacobian, newly compiled or from the cache.

    `tool` is the tool's point in the URDF frame of the last chain joint, (3,) [m].
    """
    place = np.concatenate([np.asarray(tool, dtype=float), model.mdh.in_link[-1].ravel()])  # in no other key
    where = hashlib.sha256(place.tobytes()).hexdigest()[:20]
    return load_programs(f"tool_{where}", model, lambda: Generated({"jacobian": jacobian_program(model, tool)}))


def _scalar(program: Program) -> Program:
    return replace(program, width=1)
