"""A sine that a control law follows in MuJoCo, with the model's friction in the joints."""

from collections.abc import Callable

import mujoco
import numpy as np

from dynid.robot import FloatArray
from dynid.runtime.model import Model
from dynid.runtime.to_mujoco import mujoco_model

SECONDS, AMPLITUDE_RAD, FREQUENCY_HZ, STEP_S = 3.0, 0.2, 0.4, 0.001
Law = Callable[..., FloatArray]


def tracked(model: Model, rate_hz: float, law: Law) -> FloatArray:
    """Return the largest tracking errors (n,) [deg] of a sine of 11.5 deg that begins slowly, after its first second.

    Args:
        model: of the arm; its friction is that of the simulated joints.
        rate_hz: of the law, which holds its torques between its steps of 1 ms or more.
        law: gives torques (n,) for q, dq, q_ref, dq_ref, ddq_ref, (n,) each.
    """
    robot, n, w = model.robot, model.robot.size, 2.0 * np.pi * FREQUENCY_HZ
    plant, data, gears = mujoco_model(model)
    plant.opt.timestep, middle = STEP_S, 0.5 * (robot.lower + robot.upper)
    data.qpos[:] = middle
    mujoco.mj_forward(plant, data)
    worst = np.zeros(n)
    for k in range(round(SECONDS * rate_hz)):
        t = k / rate_hz
        ramp, rate = min(t, 1.0), float(t < 1.0)
        s, ds, dds = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
        way = AMPLITUDE_RAD * np.array([ramp * s, ramp * ds + rate * s, ramp * dds + 2.0 * rate * ds])
        q_ref, dq_ref, ddq_ref = (one * np.ones(n) for one in way)
        data.qfrc_applied[:] = law(data.qpos, data.qvel, middle + q_ref, dq_ref, ddq_ref)
        for _ in range(round(1.0 / (rate_hz * STEP_S))):
            gears.update(data)
            mujoco.mj_step(plant, data)
        if t > 1.0:
            worst = np.maximum(worst, np.abs(data.qpos - middle - q_ref))
    return np.rad2deg(worst)
