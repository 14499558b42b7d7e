"""Friction of the simulated arm's gears: MuJoCo applies the law, and warm gears have less friction."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from dynid.errors import ConfigurationError, DataError, UnknownNameError
from dynid.model.friction import FrictionLaw
from dynid.model.gear_presets import GearFile, gear_friction, known_models, load_gears
from dynid.resources import load_validated
from dynid.robot import load_robot
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.plant.gear_friction import check_friction
from dynid.simulation.plant.nuisances import NUISANCES

ROBOT = load_robot("crane_x7")
AXES = ROBOT.size
QUIET = set(NUISANCES) - {"coulomb"}
POSTURE = np.deg2rad([10.0, -30.0, 15.0, -70.0, 20.0, -20.0, 30.0, 20.0])


def arm(**options) -> ArmPlant:
    return ArmPlant(ROBOT, q0=POSTURE, hold_until_current=False, **({"switched_off": QUIET} | options))


def gravity(plant: ArmPlant) -> np.ndarray:
    """Torque that holds the arm at rest where it is."""
    data = mujoco.MjData(plant.compiled.model)
    data.qpos[:] = plant.q
    mujoco.mj_forward(plant.compiled.model, data)
    return np.array(data.qfrc_bias)


def test_figures_are_the_published_ones_by_servo_model() -> None:
    law = gear_friction(ROBOT)
    assert law["km"][0] == 0.3115 and law["km"][1] == 0.198 and law["ws"][7] == 2.575
    assert known_models(ROBOT) == ("M1", "M6")
    assert gear_friction(ROBOT, "M1").terms == ("fv", "fb")
    assert all(gear.source for gear in load_gears(ROBOT).gears.values())


def test_arm_has_m6_friction_by_default_and_viscous_by_name() -> None:
    assert arm().friction.depends_on_load
    old = arm(friction="viscous").friction
    assert old.terms == ("fv", "fb")
    np.testing.assert_array_equal(old["fb"], ROBOT.nuisances.coulomb_friction_nm)


def test_without_nuisances_only_viscous_friction_remains() -> None:
    assert arm(switched_off=set(NUISANCES)).friction.terms == ("fv",)


def test_sticking_holds_the_law_s_budget_and_no_more() -> None:
    plant = arm()
    held = gravity(plant)
    te = -held
    # the largest motor torque beyond gravity with which joint 2 still sticks: extra = budget(tm = held + extra)
    joint, free = 1, FrictionLaw.of(AXES, {key: plant.friction[key] for key in plant.friction.terms})
    extra = 0.0
    for _ in range(60):
        extra = float(free.budget(np.zeros(AXES), held + extra * (np.arange(AXES) == joint), te)[joint])
    for share, moves in ((0.97, False), (1.03, True)):
        plant = arm()
        motor = held + share * extra * (np.arange(AXES) == joint)
        for _ in range(100):
            plant.push(motor, 0.001)
        assert (abs(plant.dq[joint]) > 0.01) == moves


def test_sliding_takes_the_law_s_torque() -> None:
    plant = arm()
    motor = gravity(plant) + np.array([1.5, 2.5, 1.5, 1.5, 0.6, 0.6, 0.5, 0.5])
    for _ in range(60):
        plant.push(motor, 0.001)
    model, data = plant.compiled.model, mujoco.MjData(plant.compiled.model)
    before = np.array(plant.dq)
    data.qpos[:], data.qvel[:] = plant.q, plant.dq
    mujoco.mj_forward(model, data)
    bias, inertial = np.array(data.qfrc_bias), np.zeros(AXES)
    plant.push(motor, 1e-4)
    acceleration = (np.array(plant.dq) - before) / 1e-4
    mujoco.mj_mulM(model, data, inertial, acceleration)
    friction = motor - bias - inertial
    slides = before > 0.05
    assert slides.sum() >= 5
    expected = plant.friction.torque(before, motor, -bias)
    np.testing.assert_allclose(friction[slides], expected[slides], rtol=0.01)


def test_warm_gears_rub_less() -> None:
    cold, warm = arm(), arm(switched_off=QUIET - {"warm_up"})
    gears = warm._gears
    assert cold._gears.warmth(600.0) == 1.0
    assert gears.warmth(0.0) == 1.0 and gears.warmth(1e5) == pytest.approx(0.8) and 0.8 < gears.warmth(180.0) < 0.9
    assert arm(friction="viscous", switched_off=QUIET - {"warm_up"})._gears.warmth(600.0) == 1.0


@pytest.mark.slow
def test_load_is_that_of_the_present_state() -> None:
    plant = arm()
    for _ in range(200):
        plant.push(1.2 * gravity(arm()), 0.001)
    fresh = mujoco.MjData(plant.compiled.model)
    fresh.qpos[:], fresh.qvel[:] = plant.q, plant.dq
    mujoco.mj_forward(plant.compiled.model, fresh)
    np.testing.assert_allclose(plant._data.qfrc_bias, fresh.qfrc_bias, atol=1e-4)


def test_one_long_step_resists_as_many_short_ones_do() -> None:
    motor = 1.3 * gravity(arm())
    ends = []
    for step in (0.001, 0.00025):
        plant = arm(longest_step_s=step)
        for _ in range(300):
            plant.push(motor, 0.001)
        ends.append(np.array(plant.q))
    np.testing.assert_allclose(ends[0], ends[1], atol=2e-4)


def test_a_law_may_be_given_as_such() -> None:
    plant = arm(friction=FrictionLaw.of(AXES, {"fb": 0.2, "fv": 0.01}))
    np.testing.assert_allclose(plant.compiled.model.dof_frictionloss, 0.2)


def test_friction_without_figures_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="M5"):
        arm(friction="M5")
    with pytest.raises(UnknownNameError, match="M6"):
        check_friction(load_robot("tx40"), "M6")
    with pytest.raises(DataError, match="offset"):
        arm(friction=FrictionLaw.of(AXES, {"of": 0.1}))


def test_file_with_wrong_figures_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "friction.yaml"
    path.write_text("schema_version: 1\nservos: {}\ngears: {x: {source: y, models: {M1: {fb: 0.1, km: 0.2}}}}\n")
    with pytest.raises(ConfigurationError, match="unknown or missing"):
        load_validated(path, GearFile)
    path.write_text("schema_version: 1\nservos: {}\ngears: {x: {source: y, models: {M7: {fb: 0.1}}}}\n")
    with pytest.raises(ConfigurationError, match="M7"):
        load_validated(path, GearFile)
    path.write_text("schema_version: 1\nservos: {XM430-W350: x}\ngears: {x: {source: y, models: {}}}\n")
    file = load_validated(path, GearFile)
    with pytest.raises(UnknownNameError, match="friction model"):
        gear_friction(ROBOT, "M6", file)
    with pytest.raises(ConfigurationError, match="no gear"):
        gear_friction(ROBOT, "M6", file.model_copy(update={"servos": {}}))
