"""Compiled step of the computed-torque controller in `dynid.runtime.controller`."""

from typing import Any

import numpy as np

from dynid.codegen.vector_ir import compiled
from dynid.model.friction import motor_torque_of
from dynid.runtime.kernels import add_dry, resting, rigid


@compiled
def first_not_finite(rows: Any) -> int:
    """Return the number, from 1, of the first column of `rows` (k, n) with a value that is not finite; 0 if none."""
    for i in range(rows.shape[1]):
        for k in range(len(rows)):
            if not np.isfinite(rows[k, i]):
                return i + 1
    return 0


@compiled
def controller_step(
    torques: int, gravity: int, loaded: bool, estimated: bool, inputs: Any, memory: Any, gains: Any, scalars: Any,
    turns: Any, springs: Any, phi: Any, links: Any, dry: Any, motors: Any, coupling: Any, law: Any,
    work: Any, tau: Any, limited: Any,
) -> int:  # fmt: skip
    """Compute one cycle of the computed-torque law; write the limited torques into `tau` (n,) [N m].

    Args:
        torques: address of the compiled function that computes inverse dynamics.
        gravity: address of the compiled function that computes gravity torques.
        loaded: whether friction depends on motor torque or load.
        estimated: whether the velocity is estimated instead of taken from `inputs`.
        inputs: q, dq, q_ref, dq_ref, ddq_ref, (5, n), SI units.
        memory: last position and velocity estimate, (2, n); updated.
        gains: proportional gains K_P, velocity gains K_V and torque limits, (3, n).
        scalars: four numbers. The first two give the new velocity estimate: the weight of the last estimate [-], and
            the factor on the change of position [1/s]. The third is the fraction of the gravity torque that is fed
            forward. The fourth is the velocity below which the sign of a velocity is smoothed [rad/s].
        turns: 1 for revolute axes, 0 for prismatic ones, (n,).
        springs: joint, power, zero position and coefficient of every spring term, (k, 4).
        phi: base parameters with spring parameters set to zero, (p,).
        links: base parameters of links, with drive parameters set to zero, (p,).
        dry: sign-dependent friction of the joints that is given by base parameters, (terms, n), with one row per term
            of a friction law.
        motors: Coulomb friction of motors that move several joints, (m,).
        coupling: rotation of these motors per rotation of the joints, (m, n).
        law: values of the additional friction law, (terms, n).
        work: scratch array, (4, n).
        tau: torques, (n,) [N m]; overwritten.
        limited: 1 for joints whose torque was limited, else 0, (n,); overwritten.

    Returns:
        0, or the number from 1 of a joint whose input or torque is not finite; `tau` is then unchanged.
    """
    n = inputs.shape[1]
    q, q_ref, dq_ref = inputs[0], inputs[2], inputs[3]
    bad = first_not_finite(inputs)
    if bad > 0:
        return bad
    at, wanted, other, ddq = work[0], work[1], work[2], work[3]
    for i in range(n):
        if estimated:
            memory[1, i] = scalars[0] * memory[1, i] + scalars[1] * (q[i] - memory[0, i])
        else:
            memory[1, i] = inputs[1, i]
        memory[0, i] = q[i]
        error = gains[0, i] * (q_ref[i] - q[i])
        ddq[i] = inputs[4, i] + gains[1, i] * (dq_ref[i] - memory[1, i]) + error
    rigid(torques, turns, springs, q, dq_ref, ddq, phi, at, wanted)
    add_dry(dry, motors, coupling, scalars[3], dq_ref, wanted)
    if scalars[2] < 1.0:
        resting(gravity, turns, springs, q, links, at, other)
        for i in range(n):
            wanted[i] -= (1.0 - scalars[2]) * other[i]
    other[:] = 0.0
    if loaded:
        ddq[:] = 0.0
        rigid(torques, turns, springs, q_ref, dq_ref, ddq, links, at, other)
    for i in range(law.shape[1]):
        wanted[i] = motor_torque_of(law, i, scalars[3], dq_ref[i], -other[i], wanted[i])
    bad = first_not_finite(work[1:2])
    if bad > 0:
        return bad
    for i in range(n):
        cut = min(max(wanted[i], -gains[2, i]), gains[2, i])
        limited[i] = 1.0 if cut != wanted[i] else 0.0
        tau[i] = cut
    return 0
