"""Gravity compensation with a model: python examples/gravity_compensation.py RESULT

The arm in MuJoCo is let go at a posture, without torque and then with the model's g(q); how far it moves is printed.
"""

import argparse
from pathlib import Path

import mujoco
import numpy as np

import dynid

SECONDS = 1.0


def main() -> None:
    """Let the arm go twice, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path, help="result folder of an accepted model, or its model.yaml")
    parser.add_argument(
        "--posture-deg", type=float, nargs="+", help="one angle per joint; else half the way to a limit"
    )
    arguments = parser.parse_args()

    model = dynid.load_model(arguments.result)
    if not model.accepted:
        raise SystemExit(f"{arguments.result} was not accepted: do not let it carry an arm")
    posture = 0.5 * model.robot.upper if arguments.posture_deg is None else np.deg2rad(arguments.posture_deg)
    plant, data, _ = dynid.mujoco_model(model)
    plant.dof_frictionloss[:] = 0.0  # dry friction would hold the arm by itself

    print("g(q) [N m]:", np.round(model.gravity(posture), 3))
    for name, share in (("without torque", 0.0), ("with g(q)", 1.0)):
        mujoco.mj_resetData(plant, data)
        data.qpos[:] = posture
        for _ in range(round(SECONDS / plant.opt.timestep)):
            data.ctrl[:] = share * model.gravity(data.qpos)
            mujoco.mj_step(plant, data)
        moved = np.rad2deg(np.abs(data.qpos - posture).max())
        print(f"{name}: moved {moved:.2f} deg in {SECONDS:g} s")


if __name__ == "__main__":
    main()
