"""Compiled control cycle without MuJoCo; calls of numpy on rows of eight numbers would take as long as the physics.

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
    """Read the encoders of cycle k into row k of `position`, `velocity`, `q_true` and `dq_true`, (N, n) each.

    Args:
        k: index of the cycle.
        q: joint angles now, (n,) [rad].
        dq: joint velocities now, (n,) [rad/s].
        seen: state of the play operator, (n,) [rad]; updated.
        half_play: half the width of the backlash [rad].
        step: encoder resolution [rad], 0 for none.
        position: record of encoder positions.
        velocity: record of velocities without quantisation.
        q_true: record of true positions.
        dq_true: record of true velocities.
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
    """Send the torques of cycle k; the goal of `late` cycles before takes effect.

    Args:
        k: index of the cycle.
        late: delay in cycles.
        wanted: the controller's torques, (n,) [N m].
        constants: torque constants, (n,) [N m/A].
        limits: current limits, (n,) [A].
        steps: current resolution of each axis, (n,) [A], 0 for none.
        noise: torque noise, (N, n) [N m].
        command: record of wanted torques, (N, n) [N m].
        goal: record of the currents for them, (N, n) [A].
        in_force: record of the effective currents from now on, (N, n) [A].
        motor: record of the motors' torques, (N, n) [N m].
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
    """Write the torque of the FF+PD law (arXiv:2605.15949, eq. 2) into `torque`, (n,) [N m].

    Args:
        decay: e of the pseudo-differentiation over this cycle.
        rate: (1 - e)/T [1/s].
        q: measured positions, (n,) [rad].
        q_ref: reference position, (n,).
        dq_ref: reference velocity, (n,).
        ddq_ref: reference acceleration, (n,).
        gains: rows of damping gain, stiffness gain, inertia and damping, (4, n).
        state: last position and velocity estimate, (2, n); updated.
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
    """`FeedforwardPd` for the lock-step loop, with its own state; `update` returns a buffer that it reuses."""

    def __init__(self, law: FeedforwardPdLaw) -> None:
        settings = law.settings
        self._gains = np.array(
            [law.damping_gain, law.stiffness_gain, settings.inertia_kg_m2, settings.damping_nm_s_rad]
        )
        self._time_constant = settings.pseudo_differentiation_s
        self._state, self._torque = np.zeros((2, settings.size)), np.zeros(settings.size)

    def reset(self, q: FloatArray) -> None:
        """Start at rest at the measured posture q, (n,) [rad]."""
        self._state[:] = q, np.zeros_like(q)

    def update(
        self, dt: float, q: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Return the torque (n,) [N m], as `FeedforwardPd.update` does; the lock-step loop's dt is always positive."""
        decay = math.exp(-dt / self._time_constant)
        feedforward_pd(decay, (1.0 - decay) / dt, q, q_ref, dq_ref, ddq_ref, self._gains, self._state, self._torque)
        return self._torque


def compiled_law(controller: Controller) -> Controller:
    """Return a compiled version of the law if there is a kernel for it, else the controller itself."""
    # a subclass, or an instance with a replaced law, may compute something else
    if type(controller) is FeedforwardPd and type(controller.law) is FeedforwardPdLaw:
        return CompiledFeedforwardPd(controller.law)
    return controller
