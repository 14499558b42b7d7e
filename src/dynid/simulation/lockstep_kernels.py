"""The servos' side of one control cycle, compiled: on rows of eight numbers numpy's calls would cost more than MuJoCo.

The same arithmetic as `nuisances.Play` and `nuisances.quantise`, in the same order: the results agree bit for bit.
"""

import numba
import numpy as np

from dynid.robot import FloatArray


@numba.njit(cache=True)
def sense(
    k: int, q: FloatArray, dq: FloatArray, seen: FloatArray, half_play: float, step: float, position: FloatArray,
    q_true: FloatArray, dq_true: FloatArray,
) -> None:  # fmt: skip
    """Read the encoders of cycle k into row k of `position`, `q_true` and `dq_true`, (N, n) each.

    Args:
        k: cycle.
        q, dq: joint angles and velocities now, (n,) [rad, rad/s].
        seen: state of the play operator, (n,) [rad]; updated.
        half_play: half the width of the backlash [rad].
        step: encoder resolution [rad], 0 for none.
        position, q_true, dq_true: the records.
    """
    for i in range(q.shape[0]):
        angle = min(max(seen[i], q[i] - half_play), q[i] + half_play) if half_play > 0.0 else q[i]
        seen[i] = angle
        position[k, i] = nearest(angle, step)
        q_true[k, i] = q[i]
        dq_true[k, i] = dq[i]


@numba.njit(cache=True)
def actuate(
    k: int, late: int, wanted: FloatArray, constants: FloatArray, limits: FloatArray, step: float, noise: FloatArray,
    command: FloatArray, goal: FloatArray, in_force: FloatArray, motor: FloatArray,
) -> None:  # fmt: skip
    """Send the torques of cycle k; what is in force then is the goal of `late` cycles before.

    Args:
        k: cycle.
        late: delay in cycles.
        wanted: the controller's torques, (n,) [N m].
        constants: torque constants, (n,) [N m/A].
        limits: current limits, (n,) [A].
        step: current resolution [A], 0 for none.
        noise: torque noise, (N, n) [N m].
        command, goal, in_force, motor: records (N, n) of wanted torques [N m], the currents for them [A], the currents
            in force from now on [A] and the motors' torques [N m].
    """
    for i in range(wanted.shape[0]):
        command[k, i] = wanted[i]
        goal[k, i] = nearest(min(max(wanted[i] / constants[i], -limits[i]), limits[i]), step)
        current = goal[k - late, i] if k >= late else 0.0
        in_force[k, i] = current
        motor[k, i] = current * constants[i] + noise[k, i]


@numba.njit(cache=True, inline="always")
def nearest(value: float, step: float) -> float:
    """The nearest multiple of `step`; the value itself where step is 0."""
    return float(np.rint(value * (1.0 / step)) * step) if step > 0.0 else value
