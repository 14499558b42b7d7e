"""Compiled closed loop on one scalar lane, like a careful port of the plain baseline.

`dynid.codegen.kernels` writes the source of these functions into a generated module, where `forward` is the arm's
forward dynamics in scalar code; the functions here are not called directly.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

AXES = 0  # number of axes; every generated module sets its own

if TYPE_CHECKING:

    def forward(lane: int, arrays: Any) -> None:
        """Compute accelerations and the smallest pivot of M from q, dq, tau and phi; generated modules replace this."""


def simulate_scalar(
    drive: Any,
    external: Any,
    initial: Any,
    law: Any,
    decay: float,
    step: float,
    late: int,
    phi: Any,
    substeps: int,
    command: Any,
) -> None:
    """Write the commands (K, n) of one motion from its initial state (2, n), by the trapezoidal rule.

    Arguments are those of `simulate_lanes`.
    """
    state, trial, pending = np.empty((2, AXES, 1)), np.empty((2, AXES, 1)), np.empty((late + 1, AXES, 1))
    force = np.empty((AXES, 1))
    first, second, pivot = np.empty((AXES, 1)), np.empty((AXES, 1)), np.empty((1, 1))
    last, velocity, h, gain = np.empty(AXES), np.empty(AXES), step / substeps, (1.0 - decay) / step
    for i in range(AXES):
        q, dq = initial[0, i], initial[1, i]
        state[0, i, 0], state[1, i, 0], last[i], velocity[i] = q, dq, q - step * dq, dq
        for k in range(late + 1):
            pending[k, i, 0] = drive[0, i] - law[0, i] * q - law[1, i] * dq
    for k in range(len(command)):
        for i in range(AXES):
            velocity[i] = decay * velocity[i] + gain * (state[0, i, 0] - last[i])
            last[i] = state[0, i, 0]
            for j in range(late):
                pending[j, i, 0] = pending[j + 1, i, 0]
            pending[late, i, 0] = drive[k, i] - law[0, i] * state[0, i, 0] - law[1, i] * velocity[i]
            command[k, i] = pending[late, i, 0]
            force[i, 0] = pending[0, i, 0] + external[k, i]
        for _ in range(substeps):
            forward(0, (state[0], state[1], force, phi, first, pivot))
            for i in range(AXES):
                trial[0, i, 0] = state[0, i, 0] + h * state[1, i, 0]
                trial[1, i, 0] = state[1, i, 0] + h * first[i, 0]
            forward(0, (trial[0], trial[1], force, phi, second, pivot))
            for i in range(AXES):
                state[0, i, 0] += 0.5 * h * (state[1, i, 0] + trial[1, i, 0])
                state[1, i, 0] += 0.5 * h * (first[i, 0] + second[i, 0])
