"""Gravity compensation with a model: python examples/gravity_compensation.py MODEL.YAML

The simulated arm is let go at a posture, without torque and then with the model's g(q); how far it moves is printed.
"""

import argparse
from pathlib import Path

import numpy as np

import dynid
from dynid.simulation.plant.arm import ArmPlant

CYCLE_S, SECONDS = 0.001, 1.0


def main() -> None:
    """Let the arm go twice, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="model.yaml of an accepted model")
    parser.add_argument(
        "--posture-deg", type=float, nargs="+", help="one angle per joint; else half the way to a limit"
    )
    arguments = parser.parse_args()

    model = dynid.load_model(arguments.model)
    if not model.accepted:
        raise SystemExit(f"{arguments.model} was not accepted: do not let it carry an arm")
    robot = model.robot
    posture = 0.5 * robot.upper if arguments.posture_deg is None else np.deg2rad(arguments.posture_deg)

    def gravity(q: np.ndarray) -> np.ndarray:
        return model.gravity(q[None])[0]

    print("g(q) [N m]:", np.round(gravity(posture), 3))
    for name, torque in (("without torque", lambda q: 0.0 * q), ("with g(q)", gravity)):
        # without the friction that sticks, which would hold the arm by itself
        arm = ArmPlant(robot, mount=model.mount, q0=posture, hold_until_current=False, switched_off=("coulomb",))
        for _ in range(round(SECONDS / CYCLE_S)):
            arm.set_currents(torque(arm.measured_position()) / robot.torque_constants)
            arm.advance(CYCLE_S)
        moved = np.rad2deg(np.abs(arm.q - posture).max())
        print(f"{name}: moved {moved:.2f} deg in {SECONDS:g} s")


if __name__ == "__main__":
    main()
