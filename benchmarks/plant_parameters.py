"""Makes the parameters of the simulated CRANE-X7 from the nominal ones, which lie on the physical bounds.

    python benchmarks/plant_parameters.py --out config/crane_x7/models/plant.yaml

Each link is moved a tenth of the way to the arm with most room on all sides of the bounds, the first one made lighter,
and each rotor inertia is 10 % off, up and down in turn. So the nominal parameters, which identification stays close to
where torques show nothing, are not the truth, and no projection to the bounds finds the truth by chance.
"""

import argparse
from pathlib import Path

import numpy as np

from dynid.identification.feasibility.consistent import consistent_interior
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import StandardParameters
from dynid.model.standard import load_standard, save_standard, to_file
from dynid.resources import refuse_existing
from dynid.robot import Robot, load_robot, read_only

INWARD, FIRST_LINK, ROTOR = 0.1, 0.8, 0.1


def plant_parameters(robot: Robot) -> StandardParameters:
    """Standard parameters of the simulated arm, strictly inside the physical bounds."""
    model = ArmModel.of(robot)
    names, size = model.regrouping.standard, 10 * model.chain_size
    nominal = load_standard(robot.folder / robot.file.simulation.standard_parameters, model.mdh, names).values
    roomy = consistent_interior(model, model.limits(robot.file.physical_bounds))
    values = np.array(nominal)
    values[:size] += INWARD * (roomy[:size] - nominal[:size])
    values[:10] *= FIRST_LINK
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
    source = "The simulated arm: nominal.yaml moved inside the bounds of robot.yaml (benchmarks/plant_parameters.py)."
    content = to_file(plant_parameters(robot), ArmModel.of(robot).mdh, robot.name, robot.joint_names, source)
    save_standard(out, content)


if __name__ == "__main__":
    main()
