"""Generator of the parameters of the simulated CRANE-X7 from the nominal ones, which lie on the physical bounds.

python benchmarks/plant_parameters.py --out config/crane_x7/models/plant.yaml

The links keep nearly the same base parameters, but have a distance from every bound of a tenth of the largest possible
one; each rotor inertia is off by 10 %, up and down in turn. So the nominal parameters, which identification keeps where
torques show nothing, differ from the truth, and a projection to the bounds cannot find the truth by chance.
"""

import argparse
from pathlib import Path

import numpy as np

from dynid.identification.feasibility.consistent import ConsistentProblem, largest_room
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import StandardParameters
from dynid.model.standard import load_nominal, save_standard, to_file
from dynid.resources import refuse_existing
from dynid.robot import Robot, load_robot, read_only

ROOM, ROTOR = 0.1, 0.1
NEAR = 1e-3  # weight of the nominal parameters, which only parameters without effect on torques follow


def plant_parameters(robot: Robot) -> StandardParameters:
    """Return standard parameters of the simulated arm, strictly inside the physical bounds."""
    model = ArmModel.of(robot)
    names, size = model.regrouping.standard, 10 * model.chain_size
    nominal = load_nominal(robot, model.mdh, names).values
    limits = model.limits(robot.file.physical_bounds)
    problem = ConsistentProblem(model, limits, ROOM * largest_room(model, limits))
    base_units = problem.units[list(model.regrouping.representatives)]
    moved = model.regrouping.K / base_units[:, None]
    apart = np.eye(len(names)), -nominal / problem.units
    values = problem.nearest([(1.0, moved * problem.units, -moved @ nominal), (NEAR, *apart)], [], "inside all bounds")
    values[size:] = nominal[size:]
    for k, name in enumerate(names[size:], size):
        kind, number = kind_and_number(name)
        if kind == "IA":
            values[k] *= 1.0 + ROTOR * (-1) ** number
    return StandardParameters(names, read_only(values), model.chain_size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    refuse_existing(out)
    robot = load_robot("crane_x7")
    source = "The simulated arm: nominal.yaml moved inside the bounds of robot.yaml."
    content = to_file(plant_parameters(robot), ArmModel.of(robot).mdh, robot.name, robot.joint_names, source)
    save_standard(out, content)


if __name__ == "__main__":
    main()
