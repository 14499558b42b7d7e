"""The simulated arm and simulator files with springs, against the model and an independent integration."""

import mujoco
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from spring_arms import ELBOW, SHOULDER, plain_arm, spring_arm, spring_torques

from dynid.errors import ConfigurationError
from dynid.export.mjcf import PlantOptions, compile_plant, mjcf_text
from dynid.export.mujoco_friction import MujocoFriction
from dynid.export.simple_friction import loads
from dynid.export.urdf import identified_urdf
from dynid.model.drive import of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.standard import from_file, load_nominal
from dynid.robot import FloatArray, Robot
from dynid.simulation.plant.arm import ArmPlant, plant_standard

BOTH, LINEAR = spring_arm(), spring_arm((ELBOW,))
WIDE = PlantOptions(None, np.zeros(3), (-4.0 * np.ones(3), 4.0 * np.ones(3)))
Q0 = np.array([0.3, -0.9, 0.6])


def accelerations(model: mujoco.MjModel, q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, dq, tau
    mujoco.mj_forward(model, data)
    return np.array(data.qacc)


def phi_of(robot: Robot, arm: ArmModel):
    return of_kinds(arm.base_parameters(from_file(plant_standard(robot), arm.mdh)), ("FC",), others=True)


def test_linear_spring_is_the_joints_stiffness() -> None:
    arm, standard = ArmModel.of(LINEAR), plant_standard(LINEAR)
    text, rng = mjcf_text(LINEAR, standard, WIDE), np.random.default_rng(2)
    models = compile_plant(LINEAR, standard, WIDE).model, mujoco.MjModel.from_xml_string(text)
    for q, dq, ddq in rng.uniform(-1.5, 1.5, (10, 3, 3)):
        tau = arm.inverse_dynamics(q, dq, ddq, phi_of(LINEAR, arm))[0]
        for model in models:
            np.testing.assert_allclose(accelerations(model, q, dq, tau), ddq, atol=1e-9)
    assert "cannot hold" not in text


def test_mjcf_names_the_part_that_is_not_linear() -> None:
    text = mjcf_text(BOTH, plant_standard(BOTH), WIDE)
    assert "cannot hold them: torque of the spring of joint_2: -6 N m/rad^3 (q + 1.0472 rad)^3" in text
    assert text.count("stiffness=") == 2 and 'stiffness="35.0"' in text


def test_urdf_names_the_springs_that_it_cannot_hold() -> None:
    arm = ArmModel.of(BOTH)
    text = identified_urdf(BOTH, arm.mdh, from_file(plant_standard(BOTH), arm.mdh))
    assert "Springs are NOT in this file either: joint_2: 4 N m + 35 N m/rad" in text
    assert "joint_3: 20 N m/rad (q - 0.69813 rad)" in text and "KS" not in text
    plain = ArmModel.of(plain_arm())
    standard = load_nominal(plain_arm(), plain.mdh)
    assert "Springs" not in identified_urdf(plain_arm(), plain.mdh, standard)


def test_a_simulator_needs_the_coefficients() -> None:
    standard = plant_standard(BOTH)
    axes = tuple(axis.model_copy(update={"spring_coefficients": None}) for axis in standard.axes)
    with pytest.raises(ConfigurationError, match=r"springs in robot\.yaml of 'spring_arm' declare"):
        ArmPlant(BOTH, standard=standard.model_copy(update={"axes": axes}))


@pytest.mark.slow
@pytest.mark.parametrize("robot", [LINEAR, BOTH], ids=["linear", "with a cubic part"])
def test_simulated_arm_falls_as_its_equations_say(robot: Robot) -> None:
    """MuJoCo with springs, against a solver of the model's own equations; both without dry friction."""
    arm, seconds = ArmModel.of(robot), 0.8
    plant = ArmPlant(
        robot, q0=Q0, stops=(-4.0 * np.ones(3), 4.0 * np.ones(3)), hold_until_current=False,
        friction=FrictionLaw.of(3, {"fv": [5.8, 9.5, 3.98]}),
    )  # fmt: skip
    plant.advance(seconds)

    def moved(_: float, state: FloatArray) -> FloatArray:
        q, dq = state[:3], state[3:]
        return np.concatenate([dq, arm.forward_dynamics(q, dq, np.zeros(3), phi_of(robot, arm))[0]])

    found = solve_ivp(moved, (0.0, seconds), np.concatenate([Q0, np.zeros(3)]), rtol=1e-10, atol=1e-10).y[:, -1]
    assert np.abs(found[:3] - Q0).max() > 0.05
    np.testing.assert_allclose(plant.q, found[:3], atol=2e-6)
    np.testing.assert_allclose(plant.dq, found[3:], atol=2e-5)


def test_springs_count_as_load_of_the_gears() -> None:
    still = np.zeros((1, 3))
    plant = ArmPlant(BOTH, q0=Q0)
    plain = ArmModel.of(plain_arm())
    gravity = plain.inverse_dynamics(Q0[None], still, still, phi_of(plain_arm(), plain))
    expected = -(gravity + spring_torques(Q0[None]))[0]
    np.testing.assert_allclose(plant.load, expected, atol=1e-6)
    law = FrictionLaw.of(3, {"fb": 0.1, "ke": 0.2})
    model = compile_plant(LINEAR, plant_standard(LINEAR), WIDE).model
    data = mujoco.MjData(model)
    data.qpos[:] = Q0
    mujoco.mj_forward(model, data)
    MujocoFriction(model, law, LINEAR.joint_names).update(data)
    load = -gravity[0] - spring_torques(Q0[None])[0] * np.array([0.0, 0.0, 1.0])
    np.testing.assert_allclose(model.dof_frictionloss, law.budget(np.zeros(3), np.zeros(3), load), atol=1e-6)


def test_a_simulated_arm_with_gears_sticks_by_the_load_of_its_springs() -> None:
    """Friction of a fifth of the load and no other: the arm falls, and its budget is that of gravity and springs."""
    law = FrictionLaw.of(3, {"fv": [5.8, 9.5, 3.98], "ke": 0.2})
    plant = ArmPlant(BOTH, q0=Q0, friction=law, hold_until_current=False)
    plant.advance(0.2)
    before = plant.load
    plant.push(np.zeros(3), 1e-6)
    np.testing.assert_allclose(plant.compiled.model.dof_frictionloss, 0.2 * np.abs(before), rtol=1e-3)
    assert np.array_equal(plant.torque, np.zeros(3))


def test_loads_that_exports_average_friction_over_include_springs() -> None:
    arm, plain = ArmModel.of(BOTH), ArmModel.of(plain_arm())
    own = loads(BOTH, arm.mdh, from_file(plant_standard(BOTH), arm.mdh), "upright")
    other = loads(plain_arm(), plain.mdh, load_nominal(plain_arm(), plain.mdh), "upright")
    assert np.abs((own - other)[:, SHOULDER]).max() > 30.0 and not (own - other)[:, 0].any()
