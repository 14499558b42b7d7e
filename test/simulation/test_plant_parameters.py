"""Parameters of the simulated arm differ from the prior of identification and lie on no bound."""

import numpy as np
from benchmarks.plant_parameters import plant_parameters

from dynid.model.dynamics import ArmModel
from dynid.model.standard import from_file, load_standard
from dynid.model.within_limits import link_rows, spread_out
from dynid.robot import FloatArray, Robot
from dynid.simulation.plant.arm import plant_standard

ROOM = 1e-4  # SI, from every bound of masses and centres of mass


def room(robot: Robot, values: FloatArray) -> tuple[float, float]:
    """How far links (10 n,) are inside the bounds, and how far their pseudo-inertias are above the margin."""
    model = ArmModel.of(robot)
    limits = model.limits(robot.file.physical_bounds)
    inside, above = [limits.total_mass - values[9 : 10 * model.chain_size : 10].sum()], []
    for j, link in enumerate(limits.links):
        own = values[10 * j : 10 * j + 10]
        G, h = link_rows(link, model.mdh.in_link[j])
        inside += list(G @ own - h)
        above.append(np.linalg.eigvalsh(spread_out(own, limits.spread))[0] / limits.margin)
    return float(min(inside)), float(min(above))


def test_the_simulated_arm_lies_inside_all_physical_bounds_and_the_nominal_one_does_not(robot):
    model = ArmModel.of(robot)
    inside, above = room(robot, from_file(plant_standard(robot), model.mdh, model.regrouping.standard).values)
    assert inside > ROOM and above > 10.0
    nominal = load_standard(robot.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard).values
    inside, above = room(robot, nominal)
    assert inside < ROOM and above < 2.0


def test_the_prior_is_not_the_truth(robot):
    model = ArmModel.of(robot)
    names = model.regrouping.standard
    truth = from_file(plant_standard(robot), model.mdh, names)
    prior = load_standard(robot.folder / "models" / "nominal.yaml", model.mdh, names)
    base, assumed = model.base_parameters(truth).values, model.base_parameters(prior).values
    links = slice(0, 10 * model.chain_size)
    weighty = np.abs(truth.values[links]) > 1e-3
    off = np.abs(prior.values - truth.values)[links][weighty] / np.abs(truth.values[links][weighty])
    assert np.median(off) > 0.02
    assert np.count_nonzero(np.abs(assumed - base) > 0.05 * np.maximum(np.abs(base), 1e-3)) >= 8


def test_file_equals_the_output_of_its_command(robot):
    model = ArmModel.of(robot)
    made = plant_parameters(robot).values
    stored = from_file(plant_standard(robot), model.mdh, model.regrouping.standard).values
    np.testing.assert_allclose(stored, made, rtol=1e-3, atol=2e-6)  # a solver's tolerance
