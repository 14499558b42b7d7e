"""An identified arm in MuJoCo, with its gear friction: python examples/mujoco_viewer.py RESULT

Each joint follows a sine by the model's own controller. With a display, MuJoCo's viewer shows it until its window is
closed. At the end, and at once if there is no display or with --seconds, the largest tracking errors are printed.
"""

import argparse
import itertools
import os
import sys
import time
from pathlib import Path

import mujoco
import numpy as np

import dynid

RATE_HZ, AMPLITUDE_RAD, FREQUENCY_HZ = 500.0, 0.2, 0.4


def reference(t: float, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return q, dq, ddq (n,) of a sine that begins slowly."""
    w = 2.0 * np.pi * FREQUENCY_HZ
    size = AMPLITUDE_RAD * (1.0 - np.exp(-t)) ** 3
    rate = AMPLITUDE_RAD * 3.0 * (1.0 - np.exp(-t)) ** 2 * np.exp(-t)
    bend = AMPLITUDE_RAD * 3.0 * np.exp(-t) * (1.0 - np.exp(-t)) * (3.0 * np.exp(-t) - 1.0)
    s, c, one = np.sin(w * t), w * np.cos(w * t), np.ones_like(middle)
    return middle + size * s * one, (rate * s + size * c) * one, (bend * s + 2.0 * rate * c - size * w * w * s) * one


def main() -> None:
    """Step the arm, in a viewer or for some seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path, help="result folder that identify wrote")
    parser.add_argument("--seconds", type=float, help="time to simulate without a viewer [s]")
    arguments = parser.parse_args()
    shown = arguments.seconds is None and (
        sys.platform != "linux" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    )

    model = dynid.load_model(arguments.result)
    controller = model.controller(RATE_HZ)
    plant, data, gears = dynid.mujoco_model(model, geometry=shown)
    middle, axes = 0.5 * (model.robot.lower + model.robot.upper), gears.dofs
    data.qpos[axes] = middle
    mujoco.mj_forward(plant, data)
    worst = np.zeros(model.robot.size)

    def advance(t: float) -> None:
        wanted = reference(t, middle)
        data.ctrl[:] = controller.step(data.qpos[axes], *wanted, dq=data.qvel[axes])
        for _ in range(max(1, round(1.0 / (RATE_HZ * plant.opt.timestep)))):
            gears.update(data)
            mujoco.mj_step(plant, data)
        if t > 1.0:
            np.maximum(worst, np.abs(data.qpos[axes] - wanted[0]), out=worst)

    if shown:
        from mujoco import viewer

        with viewer.launch_passive(plant, data) as window:
            start = time.monotonic()
            for k in itertools.takewhile(lambda _: window.is_running(), itertools.count()):
                advance(k / RATE_HZ)
                window.sync()
                time.sleep(max(0.0, start + k / RATE_HZ - time.monotonic()))
    else:
        for k in range(round((arguments.seconds or 5.0) * RATE_HZ)):
            advance(k / RATE_HZ)
    for name, error in zip(model.robot.joint_names, np.rad2deg(worst), strict=True):
        print(f"{name}: largest tracking error {error:.3f} deg")


if __name__ == "__main__":
    main()
