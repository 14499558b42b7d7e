"""Laws, checks and contact of an arm with springs, against an arm without them and the springs' potential."""

import mujoco
import numpy as np
import pytest
from spring_arms import ELBOW, SHOULDER, plain_arm, spring_arm, spring_torques

from dynid.contact.observer import MomentumObserver
from dynid.control.control_model import ControlModel, from_model_file
from dynid.control.controller import ControllerSettings
from dynid.control.dynamics_kernel import compile_single, within_a_turn
from dynid.control.model_laws import ComputedTorque, GravityCompensation, static_friction
from dynid.control.motion_check import model_torques, nominal_torques
from dynid.errors import SafetyError
from dynid.export.mjcf import PlantOptions, compile_plant
from dynid.model.drive import of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import ModelFile, parameter_rows
from dynid.model.standard import from_file, load_nominal
from dynid.robot import FloatArray
from dynid.simulation.plant.arm import plant_standard

ROBOT, PLAIN = spring_arm((ELBOW,)), ArmModel.of(plain_arm())
ARM = ArmModel.of(ROBOT)
STANDARD = from_file(plant_standard(ROBOT), ARM.mdh)
PHI = of_kinds(ARM.base_parameters(STANDARD), ("FC",), others=True)
PLAIN_PHI = of_kinds(PLAIN.base_parameters(load_nominal(plain_arm(), PLAIN.mdh)), ("FC",), others=True)
LAW = FrictionLaw.of(3, {})
SETTINGS = ControllerSettings(
    schema_version=1,
    proportional_gain_1_s2=(100.0,) * 3,
    velocity_gain_1_s=(20.0,) * 3,
    inertia_kg_m2=(1.0,) * 3,
    damping_nm_s_rad=(0.0,) * 3,
    pseudo_differentiation_s=0.002,
)
MODEL = ControlModel(ROBOT.name, ARM.structure_hash, PHI, LAW, True)


@pytest.fixture(scope="module")
def dynamics():
    return compile_single(ARM)


@pytest.fixture(scope="module")
def mujoco_arm() -> mujoco.MjModel:
    options = PlantOptions(None, np.zeros(3), (-10.0 * np.ones(3), 10.0 * np.ones(3)))
    return compile_plant(ROBOT, plant_standard(ROBOT), options).model


def springs(q: FloatArray) -> FloatArray:
    """Motor torques (N, 3) [N m] against the elbow's spring."""
    return spring_torques(q) * np.array([0.0, 0.0, 1.0])


def acceleration(model: mujoco.MjModel, q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, dq, tau
    mujoco.mj_forward(model, data)
    return np.array(data.qacc)


def test_laws_carry_the_springs(dynamics, mujoco_arm) -> None:
    carried, tracked = GravityCompensation(MODEL, dynamics), ComputedTorque(SETTINGS, MODEL, dynamics)
    still = np.zeros(3)
    for q, dq, ddq in np.random.default_rng(3).uniform(-1.5, 1.5, (10, 3, 3)):
        np.testing.assert_allclose(
            acceleration(mujoco_arm, q, still, carried.torque(q, still, q, still, still)), 0.0, atol=1e-8
        )
        reached = acceleration(mujoco_arm, q, dq, tracked.torque(q, dq, q + 0.01, dq, ddq))
        np.testing.assert_allclose(reached - ddq, 100.0 * 0.01, atol=1e-7)


def test_friction_that_hand_guiding_gives_grows_with_the_springs_load(dynamics) -> None:
    law = FrictionLaw.of(3, {"ke": 0.2})
    own = GravityCompensation(ControlModel(ROBOT.name, ARM.structure_hash, PHI, law, True), dynamics)
    q = np.array([0.2, -0.4, 1.2])
    load = -(PLAIN.inverse_dynamics(q, 0 * q, 0 * q, PLAIN_PHI) + springs(q[None]))[0]
    np.testing.assert_allclose(static_friction(own, q), law.budget(np.zeros(3), -load, load), atol=1e-6)


def test_motion_check_predicts_with_springs() -> None:
    q, dq, ddq = np.random.default_rng(4).uniform(-1.0, 1.0, (3, 12, 3))
    wanted = PLAIN.inverse_dynamics(q, dq, ddq, PLAIN_PHI) + springs(q)
    np.testing.assert_allclose(model_torques(ARM, PHI, LAW)(q, dq, ddq), wanted, atol=1e-6)
    # before anything is identified: the nominal arm, dry friction included
    dry = PLAIN.base_parameters(load_nominal(plain_arm(), PLAIN.mdh))
    wanted = PLAIN.inverse_dynamics(q, dq, ddq, dry) + springs(q)
    np.testing.assert_allclose(nominal_torques(ROBOT, None)(q, dq, ddq), wanted, atol=1e-6)


def test_a_controller_takes_the_springs_from_model_yaml() -> None:
    content = ModelFile(
        robot=ROBOT.name, structure_hash=ARM.structure_hash, parameters=parameter_rows(ARM, PHI), accepted=True
    )
    assert from_model_file(content, ARM).phi["KS1_3"] == 20.0


@pytest.mark.slow
def test_a_spring_is_no_contact(dynamics) -> None:
    """Motors of an arm at rest carry gravity and the spring, so there is no contact."""
    q = np.array([0.3, -0.5, 1.1])
    held = (PLAIN.inverse_dynamics(q, 0 * q, 0 * q, PLAIN_PHI) + springs(q[None]))[0]
    felt = []
    for phi in (PHI, of_kinds(PHI, ("KS1_",), others=True)):
        observer = MomentumObserver(ARM, ControlModel(ROBOT.name, ARM.structure_hash, phi, LAW, True))
        for k in range(200):
            external = observer.update(1_000_000 * k, q, np.zeros(3), held)
        felt.append(external)
    assert np.abs(felt[0]).max() < 1e-5
    np.testing.assert_allclose(felt[1], -springs(q[None])[0], atol=1e-3)


@pytest.mark.slow
def test_a_turn_more_of_a_joint_with_a_spring_is_another_pose() -> None:
    q, turn = np.array([0.3, -0.5, 1.1]), 2.0 * np.pi
    assert ARM.aperiodic == (False, False, True)
    np.testing.assert_allclose(within_a_turn(q + turn, ARM.aperiodic), [0.3, -0.5, 1.1 + turn])
    observer = MomentumObserver(ARM, MODEL)
    observer.update(0, q + turn * np.array([1.0, 1.0, 0.0]), np.zeros(3), np.zeros(3))
    with pytest.raises(SafetyError, match=r"7\.38"):
        observer.update(1_000_000, q + turn * np.eye(3)[ELBOW], np.zeros(3), np.zeros(3))
    assert SHOULDER != ELBOW
