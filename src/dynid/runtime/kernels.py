"""Compiled loops that compute torques, accelerations, inertia matrices or Jacobians of an arm for many states.

For each state, a loop calls the arm's compiled program with the angles of revolute axes wrapped into +-pi. If
needed, it adds the terms that the program does not contain: the torques of springs, sign-dependent friction, and the
additional friction law.

The loops do not depend on the arm. An arm's program computes one state, and is passed as the address of its machine
code, see `dynid.codegen.kernels.load_programs`. An arm's constants are arrays, see `dynid.runtime.calls.Constants`.
"""

import math
from typing import Any

import numpy as np

from dynid.codegen.vector_ir import compiled, run_program
from dynid.model.friction import direction, motor_torque_of, torque_of

TURN = 2.0 * math.pi
JOINT, POWER, ABOUT, COEFFICIENT = range(4)  # columns of the array of springs


@compiled
def wrap(turns: Any, q: Any, out: Any) -> None:
    """Copy positions q (n,) to `out` (n,), and wrap the positions of revolute axes into +-pi [rad].

    `turns` (n,) is 1 for revolute axes and 0 for prismatic ones.
    """
    for j in range(len(q)):
        out[j] = q[j] - turns[j] * TURN * np.floor(q[j] / TURN + 0.5)


@compiled
def add_springs(springs: Any, q: Any, out: Any) -> None:
    """Add the torques of springs at positions q (n,) [rad] to `out` (n,) [N m].

    `springs` (k, 4) has the columns joint, power, zero position and coefficient, one row for each spring term.
    """
    for k in range(len(springs)):
        joint = int(springs[k, JOINT])
        out[joint] += springs[k, COEFFICIENT] * (q[joint] - springs[k, ABOUT]) ** int(springs[k, POWER])


@compiled
def rigid(program: int, turns: Any, springs: Any, q: Any, dq: Any, ddq: Any, phi: Any, at: Any, out: Any) -> None:
    """Compute the torques of links, rotors, viscous friction and springs in one state into `out` (n,) [N m].

    Args:
        program: address of the compiled function that computes inverse dynamics.
        turns: 1 for revolute axes, 0 for prismatic ones, (n,).
        springs: joint, power, zero position and coefficient of each spring term, (k, 4).
        q: positions, (n,) [rad].
        dq: velocities, (n,) [rad/s].
        ddq: accelerations, (n,) [rad/s^2].
        phi: base parameters with spring parameters set to zero, (p,).
        at: scratch array, (n,).
        out: result, (n,) [N m].
    """
    wrap(turns, q, at)
    run_program(program, (at, dq, ddq, phi, out))
    add_springs(springs, q, out)


@compiled
def resting(program: int, turns: Any, springs: Any, q: Any, phi: Any, at: Any, out: Any) -> None:
    """Compute the torques that hold an arm at rest against gravity and springs into `out` (n,) [N m].

    Args:
        program: address of the compiled function that computes gravity torques.
        turns: 1 for revolute axes, 0 for prismatic ones, (n,).
        springs: joint, power, zero position and coefficient of each spring term, (k, 4).
        q: positions, (n,) [rad].
        phi: base parameters with spring parameters set to zero, (p,).
        at: scratch array, (n,).
        out: result, (n,) [N m].
    """
    wrap(turns, q, at)
    run_program(program, (at, phi, out))
    add_springs(springs, q, out)


@compiled
def add_dry(dry: Any, motors: Any, coupling: Any, transition: float, dq: Any, out: Any) -> None:
    """Add the sign-dependent friction that is given by base parameters to the torques `out` (n,) [N m].

    Args:
        dry: friction parameters of the joints, with one row per term of a friction law, (terms, n).
        motors: Coulomb friction of motors that move several joints, (m,) [N m].
        coupling: rotation of these motors per rotation of the joints, (m, n).
        transition: velocity below which the sign of the velocity is smoothed [rad/s]; 0 for an exact sign.
        dq: joint velocities, (n,) [rad/s].
        out: torques to which friction is added, (n,) [N m].
    """
    for i in range(dry.shape[1]):
        out[i] += torque_of(dry, i, transition, dq[i], 0.0, 0.0)
    for k in range(len(motors)):
        rate = 0.0
        for i in range(len(dq)):
            rate += coupling[k, i] * dq[i]
        torque = motors[k] * direction(rate, transition)
        for i in range(len(dq)):
            out[i] += coupling[k, i] * torque


@compiled
def torques_of_states(
    program: int, loaded: bool, transition: float, states: Any, turns: Any, springs: Any, phi: Any, links: Any,
    dry: Any, motors: Any, coupling: Any, law: Any, out: Any,
) -> None:  # fmt: skip
    """Compute the motor torques of N states, including all friction, into `out` (N, n), in SI units.

    `states` (3, N, n) are positions, velocities and accelerations. `program` is the address of the compiled function
    for inverse dynamics, and `loaded` is whether friction depends on motor torque or load. All other arguments are
    constants of the arm, see `dynid.runtime.calls.Constants`.
    """
    n = states.shape[2]
    at, still, load = np.empty(n), np.zeros(n), np.zeros(n)
    for k in range(states.shape[1]):
        q, dq = states[0, k], states[1, k]
        rigid(program, turns, springs, q, dq, states[2, k], phi, at, out[k])
        add_dry(dry, motors, coupling, 0.0, dq, out[k])
        if loaded:
            rigid(program, turns, springs, q, dq, still, links, at, load)
        for i in range(law.shape[1]):
            out[k, i] = motor_torque_of(law, i, transition, dq[i], -load[i], out[k, i])


@compiled
def gravity_of_states(
    program: int, q: Any, turns: Any, springs: Any, phi: Any, dry: Any, motors: Any, coupling: Any, out: Any
) -> None:
    """Compute the torques that hold the arm at rest at positions q (N, n) into `out` (N, n), in SI units.

    `program` is the address of the compiled function that computes gravity torques of one state. All other arguments
    are constants of the arm, see `dynid.runtime.calls.Constants`.
    """
    n = q.shape[1]
    at, still = np.empty(n), np.zeros(n)
    for k in range(len(q)):
        resting(program, turns, springs, q[k], phi, at, out[k])
        add_dry(dry, motors, coupling, 0.0, still, out[k])


@compiled
def inertia_of_states(program: int, q: Any, turns: Any, phi: Any, out: Any) -> None:
    """Compute the inertia matrices at positions q (N, n) into `out` (N, n, n), in SI units.

    Args:
        program: address of the compiled function that computes the inertia matrix of one state.
        q: positions, (N, n).
        turns: 1 for revolute axes, 0 for prismatic ones, (n,).
        phi: base parameters with spring parameters set to zero, (p,).
        out: result, (N, n, n).
    """
    at = np.empty(q.shape[1])
    for k in range(len(q)):
        wrap(turns, q[k], at)
        run_program(program, (at, phi, out[k]))


@compiled
def coriolis_of_states(program: int, q: Any, dq: Any, turns: Any, phi: Any, out: Any) -> None:
    """Compute the Coriolis matrices of N states into `out` (N, n, n), in SI units.

    Args:
        program: address of the compiled function that computes the Coriolis matrix of one state.
        q: positions, (N, n).
        dq: velocities, (N, n).
        turns: 1 for revolute axes, 0 for prismatic ones, (n,).
        phi: base parameters with spring parameters set to zero, (p,).
        out: result, (N, n, n).
    """
    at = np.empty(q.shape[1])
    for k in range(len(q)):
        wrap(turns, q[k], at)
        run_program(program, (at, dq[k], phi, out[k]))


@compiled
def jacobian_of_states(program: int, q: Any, turns: Any, out: Any) -> None:
    """Compute the tool's Jacobians at positions q (N, n) into `out` (N, 6, n), in SI units.

    `program` is the address of the compiled function that computes the Jacobian of one state. `turns` (n,) is 1 for
    revolute axes and 0 for prismatic ones.
    """
    at = np.empty(q.shape[1])
    for k in range(len(q)):
        wrap(turns, q[k], at)
        run_program(program, (at, out[k]))


@compiled
def friction_of_states(
    program: int, transition: float, states: Any, drag: Any, dry: Any, motors: Any, coupling: Any, law: Any, out: Any
) -> None:
    """Compute the friction torques of N states into `out` (N, n), in SI units.

    `states` (2, N, n) are joint velocities, and the load torques that the motors deliver to the links. `program` is
    the address of the compiled function for inverse dynamics; with the parameters `drag` it returns viscous friction.
    All other arguments are constants of the arm, see `dynid.runtime.calls.Constants`.
    """
    n = states.shape[2]
    still = np.zeros(n)
    for k in range(states.shape[1]):
        dq, carried = states[0, k], states[1, k]
        run_program(program, (still, dq, still, drag, out[k]))
        add_dry(dry, motors, coupling, 0.0, dq, out[k])
        for i in range(law.shape[1]):
            wanted = carried[i] + out[k, i]
            out[k, i] = motor_torque_of(law, i, transition, dq[i], -carried[i], wanted) - carried[i]


@compiled
def eliminate(A: Any, b: Any) -> None:
    """Solve A x = b for A (n, n) and b (n,) by Gaussian elimination with pivoting; x replaces b, A is overwritten."""
    n = len(b)
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[best, k]):
                best = i
        if best != k:
            for j in range(n):
                A[k, j], A[best, j] = A[best, j], A[k, j]
            b[k], b[best] = b[best], b[k]
        for i in range(k + 1, n):
            factor = A[i, k] / A[k, k]
            for j in range(k, n):
                A[i, j] -= factor * A[k, j]
            b[i] -= factor * b[k]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            b[k] -= A[k, j] * b[j]
        b[k] /= A[k, k]


@compiled
def accelerations_of_states(
    program: int, inertia: int, transition: float, states: Any, turns: Any, springs: Any, phi: Any, links: Any,
    dry: Any, motors: Any, coupling: Any, law: Any, out: Any,
) -> None:  # fmt: skip
    """Compute the accelerations of N states under given motor torques into `out` (N, n), in SI units.

    `states` (3, N, n) are positions, velocities and motor torques. `program` and `inertia` are the addresses of the
    compiled functions for inverse dynamics and for the inertia matrix. All other arguments are constants of the arm,
    see `dynid.runtime.calls.Constants`.
    """
    n = states.shape[2]
    at, still, bias, load, M = np.empty(n), np.zeros(n), np.empty(n), np.zeros(n), np.empty((n, n))
    for k in range(states.shape[1]):
        q, dq, tau = states[0, k], states[1, k], states[2, k]
        rigid(program, turns, springs, q, dq, still, phi, at, bias)
        add_dry(dry, motors, coupling, 0.0, dq, bias)
        run_program(inertia, (at, phi, M))
        if law.shape[1]:
            rigid(program, turns, springs, q, dq, still, links, at, load)
        for i in range(n):
            out[k, i] = tau[i] - bias[i]
        for i in range(law.shape[1]):
            out[k, i] -= torque_of(law, i, transition, dq[i], tau[i], -load[i])
        eliminate(M, out[k])
