"""Artificial recordings from arrays: a smooth motion of a robot's joints, and its torques."""

from collections.abc import Callable

import numpy as np

from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.data.recordings import Recording
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.standard import load_standard
from dynid.robot import FloatArray, Robot

RATE_HZ = 100.0
Change = Callable[[FloatArray], FloatArray]


def unchanged(values: FloatArray) -> FloatArray:
    """Return the values unchanged."""
    return values


def motion(robot: Robot, seconds: float, seed: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Time (N,) and states (N, n): each joint's own sum of sines."""
    random = np.random.default_rng(seed)
    time = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    q, dq, ddq = np.zeros((3, len(time), robot.size))
    for _ in range(4):
        size, w, phase = (
            random.uniform(0.1, 0.35, robot.size),
            random.uniform(0.8, 5.0, robot.size),
            random.uniform(0, 6),
        )
        q += size * np.sin(time[:, None] * w + phase)
        dq += size * w * np.cos(time[:, None] * w + phase)
        ddq -= size * w**2 * np.sin(time[:, None] * w + phase)
    return time, q + random.uniform(-0.3, 0.3, robot.size), dq, ddq


def recorded(
    robot: Robot,
    *,
    seconds: float = 25.0,
    seed: int = 0,
    coulomb: float = 0.1,
    noise: float = 0.01,
    positions: Change = unchanged,
    torques: Change = unchanged,
    late_s: float = 0.0,
    mount: str | None = None,
    told: str | None = None,
    name: str = "made up",
) -> Recording:
    """A recording of the nominal arm with Coulomb friction [N m], noise of the torques [N m], and faults.

    Args:
        robot: that moves.
        seconds: length.
        seed: of motion and noise.
        coulomb: friction of every joint beside the nominal parameters.
        noise: deviation of the torques.
        positions, torques: what a fault makes of them.
        late_s: of torques against positions.
        mount, told: how the arm is mounted, and what the recording says; None is the default.
        name: of the recording.
    """
    model = ArmModel.of(robot, mount=mount)
    standard = load_standard(robot.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    time, q, dq, ddq = motion(robot, seconds, seed)
    tau = model.inverse_dynamics(q, dq, ddq, model.base_parameters(standard))
    tau = tau + FrictionLaw.of(robot.size, {"fb": np.full(robot.size, coulomb)}, 0.02).torque(dq)
    tau = tau + np.random.default_rng(seed + 1).normal(0.0, noise, tau.shape)
    if late_s:
        tau = np.stack([np.interp(time - late_s, time, one) for one in tau.T], axis=1)
    return recording_from_arrays(robot, time, positions(q), torques(tau), mount=told or mount, name=name)
