"""The regression of a plain pinocchio script: filtered states, pinocchio's regressor, and columns of the drives."""

from typing import Any

import numpy as np
from scipy import signal

from benchmarks.peers.exchange import Array, Found, Given

CUTOFF_HZ, ORDER, ROWS_HZ = 5.0, 4, 25.0
DRIVES = 4  # rotor inertia, viscous, Coulomb, offset


def filtered(given: Given, values: Array) -> Array:
    """Return values (N, n) after a zero-phase low-pass filter."""
    sections = signal.butter(ORDER, CUTOFF_HZ * 2.0 * given.step_s, output="sos")
    return np.asarray(signal.sosfiltfilt(sections, values, axis=0))


def states(given: Given) -> tuple[Array, Array, Array, Array]:
    """Return q, dq, ddq and torques (M, n), filtered and decimated, without half a second at both ends."""
    q, tau = filtered(given, given.q), filtered(given, given.tau)
    dq = np.gradient(q, given.step_s, axis=0)
    ddq = np.gradient(dq, given.step_s, axis=0)
    hop, edge = round(1.0 / (ROWS_HZ * given.step_s)), round(0.5 / given.step_s)
    kept = slice(edge, -edge, hop)
    return q[kept], dq[kept], ddq[kept], tau[kept]


def chain_model(given: Given) -> Any:
    """Return pinocchio's model of the arm under its gravity."""
    import pinocchio

    model = pinocchio.buildModelFromUrdf(str(given.urdf))
    if tuple(model.names)[1:] != given.joints:
        raise ValueError(f"pinocchio reads the joints {tuple(model.names)[1:]}, expected {given.joints}")
    model.gravity.linear = given.gravity
    return model


def regressor(given: Given, q: Array, dq: Array, ddq: Array) -> Array:
    """Return the regressor (M, n, 10 n + 4 n): links, then rotor inertia, viscous, Coulomb and offset of every axis."""
    import pinocchio

    model, n = chain_model(given), len(given.joints)
    data, W = model.createData(), np.zeros((len(q), n, (10 + DRIVES) * n))
    diagonal = np.arange(n)
    for k, state in enumerate(zip(q, dq, ddq, strict=True)):
        W[k, :, : 10 * n] = pinocchio.computeJointTorqueRegressor(model, data, *state)
    for block, column in enumerate((ddq, dq, np.sign(dq), np.ones_like(dq))):
        W[:, diagonal, (10 + block) * n + diagonal] = column
    return W


def prior(given: Given) -> Array:
    """Return the URDF's parameters (10 n,) in pinocchio's order."""
    model = chain_model(given)
    return np.concatenate([np.asarray(one.toDynamicParameters()) for one in model.inertias[1:]])


def found_of(x: Array, n: int, note: str = "") -> Found:
    """Return the result of a parameter vector in the order of `regressor`."""
    drives = x[10 * n :].reshape(DRIVES, n)
    return Found(x[: 10 * n].reshape(n, 10), drives[0], drives[1], drives[2], drives[3], note)
