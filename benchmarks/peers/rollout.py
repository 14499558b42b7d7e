"""Position errors of a simulated model after a second: under the recorded torques, and in its control loop."""

from collections.abc import Sequence

import mujoco
import numpy as np
from scipy import signal

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.errors import DynidError
from dynid.identification.data.recordings import Recording
from dynid.identification.data.signals import Signals
from dynid.identification.settings import IdentificationSettings
from dynid.robot import FloatArray, Robot
from dynid.runtime.model import Model
from dynid.runtime.to_mujoco import MujocoArm, mujoco_model

WINDOW_S, STEP_S, CUTOFF_HZ = 1.0, 0.001, 10.0
FREE_RAD = 100.0  # joint stops so wide that no window reaches them [rad]


def rollout_errors(
    model: Model, offset: FloatArray, recordings: Sequence[Recording], settings: IdentificationSettings
) -> tuple[float, float | None]:
    """Return root mean square position errors [deg] of the chain joints over all windows: open loop, closed loop.

    Axes beyond the chain follow the recording. In the closed loop the torque is the recorded one, and the gains of the
    robot's controller times the difference between recording and simulation; None for a robot without a controller.

    Args:
        model: model with all friction except offsets.
        offset: friction offset of every axis, (n,) [N m].
        recordings: held-out motions.
        settings: identification settings, which choose the recorded torques to use.
    """
    arm, gains = mujoco_model(model), loop_gains(model.robot)
    arm.model.opt.timestep = STEP_S
    arm.model.jnt_range[:] = (-FREE_RAD, FREE_RAD)
    found: list[float | None] = []
    for loop in (None, gains):
        squares, count = 0.0, 0
        for one in recordings if loop is not None or not found else ():
            signals = one.usable_signals(settings)
            for error in windows(arm, signals, offset, loop, model.robot.chain_size):
                squares, count = squares + float(np.sum(error**2)), count + error.size
        found.append(float(np.rad2deg(np.sqrt(squares / count))) if count else None)
    assert found[0] is not None
    return found[0], found[1]


def loop_gains(robot: Robot) -> tuple[FloatArray, FloatArray] | None:
    """Return stiffness and damping (n,) of the robot's FF+PD law; None without a controller.yaml."""
    try:
        law = FeedforwardPdLaw(load_controller(robot))
    except DynidError:
        return None
    return law.stiffness_gain, law.damping_gain


def windows(
    arm: MujocoArm, signals: Signals, offset: FloatArray, gains: tuple[FloatArray, FloatArray] | None, chain: int
) -> list[FloatArray]:
    """Return the position errors (steps, chain) [rad] of every window of a recording."""
    begin, end = signals.window or (signals.time[0], signals.time[-1])
    grid = np.arange(begin, end, STEP_S)
    q = _on(grid, signals.time, signals.q)
    tau = _on(grid, signals.torque_time, signals.tau)
    sections = signal.butter(4, 2.0 * CUTOFF_HZ * STEP_S, output="sos")
    smooth = signal.sosfiltfilt(sections, q, axis=0)
    rate = np.gradient(smooth, STEP_S, axis=0)
    steps = round(WINDOW_S / STEP_S)
    starts = range(0, len(grid) - steps, steps)
    return [_window(arm, smooth, rate, tau - offset, slice(k, k + steps), gains, chain) for k in starts]


def _on(grid: FloatArray, time: FloatArray, values: FloatArray) -> FloatArray:
    return np.column_stack([np.interp(grid, time, column) for column in values.T])


def _window(
    arm: MujocoArm,
    q: FloatArray,
    dq: FloatArray,
    tau: FloatArray,
    part: slice,
    gains: tuple[FloatArray, FloatArray] | None,
    chain: int,
) -> FloatArray:
    plant, data, friction = arm
    mujoco.mj_resetData(plant, data)
    data.qpos[:], data.qvel[:] = q[part.start], dq[part.start]
    mujoco.mj_forward(plant, data)
    errors = np.empty((part.stop - part.start, chain))
    for k in range(part.start, part.stop):
        data.qpos[chain:], data.qvel[chain:] = q[k, chain:], dq[k, chain:]
        errors[k - part.start] = data.qpos[:chain] - q[k, :chain]
        torque = tau[k]
        if gains is not None:
            torque = torque + gains[0] * (q[k] - data.qpos) + gains[1] * (dq[k] - data.qvel)
        data.qfrc_applied[:] = torque
        friction.update(data)
        mujoco.mj_step(plant, data)
        if not np.abs(data.qpos).max() < FREE_RAD:
            errors[k - part.start :] = np.pi
            break
    return np.clip(errors, -np.pi, np.pi)
