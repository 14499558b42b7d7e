"""Shipped robots: each loads, with its base parameters and physically consistent standard parameters."""

from dataclasses import replace

import numpy as np
import pytest

from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard
from dynid.model.within_limits import outside
from dynid.robot import known_robots, load_robot

COUNTS = {
    "crane_x7": (94, 39),
    "tx40": (86, 60),
    "puma560": (78, 52),
    "kr300": (79, 47),
    "planar_3r": (39, 17),
    "aloha_class": (81, 55),
    "openmanipulator_x": (55, 30),
    "viperx_300s": (81, 48),
    "omx_leader": (68, 39),
    "planar_2r_elastic": (26, 11),
    "puma_3dof": (39, 21),
    "serial_9dof": (117, 75),
    "lower_limb_3r": (39, 15),
}


def test_every_shipped_robot_has_an_expected_parameter_count() -> None:
    assert set(known_robots()) == set(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_a_robots_folder_gives_a_consistent_model_of_known_size(name: str) -> None:
    robot = load_robot(name)
    model = ArmModel.of(robot)
    assert (len(model.regrouping.standard), len(model.names)) == COUNTS[name]
    assert load_identification(robot).estimator in ("ols", "wls")
    names = model.regrouping.standard
    nominal = load_standard(robot.folder / "models" / "nominal.yaml", model.mdh, names)
    assert outside(nominal, model, model.limits(robot.file.physical_bounds)) == ""
    rng = np.random.default_rng(1)
    q = rng.uniform(robot.lower, robot.upper, (50, robot.size))
    M = model.inertia_matrix(q, model.base_parameters(nominal))
    assert np.linalg.eigvalsh(M)[:, 0].min() > 0.0


@pytest.mark.parametrize("huge", [1e160, 1e308])
def test_parameters_too_large_to_compute_with_are_outside_the_limits_without_a_warning(huge: float) -> None:
    robot = load_robot("planar_3r")
    model = ArmModel.of(robot)
    nominal = load_standard(robot.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    values = nominal.values.copy()
    values[:10] *= huge
    found = outside(replace(nominal, values=values), model, model.limits(robot.file.physical_bounds))
    assert "link 1" in found


def test_the_tx40_has_the_geometry_and_gears_of_its_paper() -> None:
    """Modified DH of Gautier and Venture (2013), Table I, up to the signs of x that the convention leaves open."""
    robot = load_robot("tx40")
    mdh = ArmModel.of(robot).mdh
    np.testing.assert_allclose(np.abs(np.rad2deg(mdh.alpha)), [0, 90, 0, 90, 90, 90], atol=1e-9)
    np.testing.assert_allclose(mdh.d, [0, 0, 0.225, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(mdh.r, [0, 0, 0.035, 0.225, 0, 0], atol=1e-12)
    motors = robot.gear_ratios * (robot.coupling @ np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0]))
    np.testing.assert_array_equal(motors, [0, 0, 0, 0, 45, 64])


def test_the_wrist_of_the_puma_is_where_its_geometry_states() -> None:
    """Stretched out (Armstrong's frames, q = 0, 0, 90 deg), the wrist centre lies d4 and a2 from the shoulder."""
    mdh = ArmModel.of(load_robot("puma560")).mdh
    wrist = mdh.placements(np.deg2rad([0.0, 0.0, 90.0, 0.0, 0.0, 0.0]))[3, :3, 3]
    np.testing.assert_allclose(wrist, [0.4318 + 0.4331, 0.2435 - 0.0934, 0.0203], atol=1e-9)


def test_gravity_without_joint_torque_leaves_no_moments() -> None:
    robot = load_robot("planar_3r")
    flat = ArmModel.of(robot, mount="flat")
    assert len(flat.names) == 15 and {"MXR1", "MY1"} == set(ArmModel.of(robot).names) - set(flat.names)
