"""Compiled parts of the lock-step control cycle: encoders, current commands and the feedforward plus PD control law.

Without compilation, numpy calls on vectors of eight numbers would take as long as the physics.

The arithmetic and its order are those of `nuisances.Play`, `nuisances.quantise` and `control.ff_pd.FeedforwardPd`, so
the results agree bit for bit.
"""

import math

import numba
import numpy as np

from dynid.control.controller import Controller
from dynid.control.ff_pd import FeedforwardPd, FeedforwardPdLaw
from dynid.robot import FloatArray
from dynid.simulation.plant.nuisances import crossed


@numba.njit(cache=True)
def sense(
    k: int,
    q: FloatArray,
    dq: FloatArray,
    seen: FloatArray,
    half_play: float,
    step: float,
    position: FloatArray,
    velocity: FloatArray,
    q_true: FloatArray,
    dq_true: FloatArray,
) -> None:
    """Record the encoder readings and the true motion of cycle k in row k of four arrays, (N, n) each.

    Args:
        k: index of the cycle.
        q: joint angles now, (n,) [rad].
        dq: joint velocities now, (n,) [rad/s].
        seen: encoder positions before quantisation, the state of the backlash model, (n,) [rad]; updated.
        half_play: half the width of the backlash [rad].
        step: encoder resolution [rad], 0 for none.
        position: record of encoder positions with quantisation, (N, n) [rad].
        velocity: record of encoder velocities without quantisation, (N, n) [rad/s].
        q_true: record of true joint positions, (N, n) [rad].
        dq_true: record of true joint velocities, (N, n) [rad/s].
    """
    for i in range(q.shape[0]):
        angle = min(max(seen[i], q[i] - half_play), q[i] + half_play) if half_play > 0.0 else q[i]
        seen[i] = angle
        position[k, i] = nearest(angle, step)
        velocity[k, i] = dq[i] if crossed(q[i] - angle, dq[i], half_play) else 0.0
        q_true[k, i] = q[i]
        dq_true[k, i] = dq[i]


@numba.njit(cache=True)
def actuate(
    k: int,
    late: int,
    wanted: FloatArray,
    constants: FloatArray,
    limits: FloatArray,
    steps: FloatArray,
    noise: FloatArray,
    command: FloatArray,
    goal: FloatArray,
    in_force: FloatArray,
    motor: FloatArray,
) -> None:
    """Record the torques and goal currents of cycle k, and the currents and motor torques that take effect in it.

    The currents that take effect are the goal currents of cycle k - `late`, and 0 in the first `late` cycles.

    Args:
        k: index of the cycle.
        late: delay of a command [cycles].
        wanted: the controller's torques, (n,) [N m].
        constants: torque at each joint per ampere, (n,) [N m/A].
        limits: current limits, (n,) [A].
        steps: current resolution of each axis, (n,) [A]; 0 for none.
        noise: torque noise, (N, n) [N m].
        command: record of the controller's torques, (N, n) [N m].
        goal: record of limited and quantised goal currents, (N, n) [A].
        in_force: record of currents in effect from cycle k to k + 1, (N, n) [A].
        motor: record of motor torques with noise, (N, n) [N m].
    """
    for i in range(wanted.shape[0]):
        command[k, i] = wanted[i]
        goal[k, i] = nearest(min(max(wanted[i] / constants[i], -limits[i]), limits[i]), steps[i])
        current = goal[k - late, i] if k >= late else 0.0
        in_force[k, i] = current
        motor[k, i] = current * constants[i] + noise[k, i]


@numba.njit(cache=True, inline="always")
def nearest(value: float, step: float) -> float:
    """Return the nearest multiple of `step`; the value itself if step is 0."""
    return float(np.rint(value * (1.0 / step)) * step) if step > 0.0 else value


@numba.njit(cache=True)
def feedforward_pd(
    decay: float,
    rate: float,
    q: FloatArray,
    q_ref: FloatArray,
    dq_ref: FloatArray,
    ddq_ref: FloatArray,
    gains: FloatArray,
    state: FloatArray,
    torque: FloatArray,
) -> None:
    """Write the torque of the feedforward plus PD law (arXiv:2605.15949, eq. 2) into `torque`, (n,) [N m].

    The velocity is estimated from positions by pseudo-differentiation, a difference with a first-order low-pass filter.

    Args:
        decay: exp(-T / time constant) for a cycle of length T [-]; weight of the last velocity estimate in the new one.
        rate: (1 - decay) / T [1/s].
        q: measured positions, (n,) [rad].
        q_ref: reference position, (n,) [rad].
        dq_ref: reference velocity, (n,) [rad/s].
        ddq_ref: reference acceleration, (n,) [rad/s^2].
        gains: velocity gain, position gain, and inertia and viscous damping of the feedforward, in rows, (4, n) in SI.
        state: last position [rad] and last velocity estimate [rad/s], (2, n); updated.
        torque: result, (n,) [N m].
    """
    for i in range(q.shape[0]):
        velocity = decay * state[1, i] + (q[i] - state[0, i]) * rate
        state[0, i], state[1, i] = q[i], velocity
        wanted = gains[0, i] * (dq_ref[i] - velocity)
        wanted += gains[1, i] * (q_ref[i] - q[i])
        wanted += gains[2, i] * ddq_ref[i]
        wanted += gains[3, i] * dq_ref[i]
        torque[i] = wanted


class CompiledFeedforwardPd:
    """Compiled copy of the controller `FeedforwardPd` for the lock-step loop, with its own state."""

    def __init__(self, law: FeedforwardPdLaw) -> None:
        settings = law.settings
        self._gains = np.array(
            [law.damping_gain, law.stiffness_gain, settings.inertia_kg_m2, settings.damping_nm_s_rad]
        )
        self._time_constant = settings.pseudo_differentiation_s
        self._state, self._torque = np.zeros((2, settings.size)), np.zeros(settings.size)

    def reset(self, q: FloatArray) -> None:
        """Reset the velocity estimate to zero at the measured posture q, (n,) [rad]."""
        self._state[:] = q, np.zeros_like(q)

    def update(
        self, dt: float, q: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Return the feedforward plus PD torque (n,) [N m], in a buffer that the next call overwrites.

        Args:
            dt: time since the last call [s], above 0.
            q: measured positions, (n,) [rad].
            q_ref: reference positions, (n,) [rad].
            dq_ref: reference velocities, (n,) [rad/s].
            ddq_ref: reference accelerations, (n,) [rad/s^2].
        """
        decay = math.exp(-dt / self._time_constant)
        feedforward_pd(decay, (1.0 - decay) / dt, q, q_ref, dq_ref, ddq_ref, self._gains, self._state, self._torque)
        return self._torque


def compiled_law(controller: Controller) -> Controller:
    """Return a compiled copy of a `FeedforwardPd`; return any other controller unchanged.

    A subclass of `FeedforwardPd` counts as another controller, and so does a `FeedforwardPd` whose control law was
    replaced.
    """
    # a subclass, or an instance with a replaced law, may compute something else
    if type(controller) is FeedforwardPd and type(controller.law) is FeedforwardPdLaw:
        return CompiledFeedforwardPd(controller.law)
    return controller
