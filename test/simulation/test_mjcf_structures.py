"""MJCF of all robot structures: coupled motors as tendons, masses counted once, and reported omissions."""

import mujoco
import numpy as np
import pytest

from dynid.export.mjcf import PlantOptions, build_spec, compile_plant, mjcf_text
from dynid.model.dynamics import ArmModel
from dynid.model.standard import StandardFile, from_file
from dynid.resources import load_validated
from dynid.robot import Robot, load_robot

FRICTIONLESS = ("coulomb_friction_nm", "motor_coulomb_friction_nm", "friction_offset_nm")


def parts(name: str) -> tuple[Robot, StandardFile]:
    """A robot and its nominal parameters without dry friction, which MuJoCo solves as a constraint."""
    robot = load_robot(name)
    content = load_validated(robot.folder / "models" / "nominal.yaml", StandardFile)
    smooth = [
        axis.model_copy(update={key: 0.0 for key in FRICTIONLESS if getattr(axis, key) is not None})
        for axis in content.axes
    ]
    return robot, content.model_copy(update={"axes": tuple(smooth)})


@pytest.mark.parametrize("name", ["tx40", "puma560", "planar_3r", "aloha_class"])
def test_mujoco_moves_the_arm_as_the_model_does(name: str) -> None:
    robot, standard = parts(name)
    model = ArmModel.of(robot)
    phi = model.base_parameters(from_file(standard, model.mdh, model.regrouping.standard))
    wide = (robot.lower - 10.0, robot.upper + 10.0)
    plants = [
        compile_plant(robot, standard, PlantOptions(stops=wide)).model,
        mujoco.MjModel.from_xml_string(mjcf_text(robot, standard, PlantOptions(stops=wide))),
    ]
    rng = np.random.default_rng(1)
    for q, dq, tau in rng.uniform(-1.5, 1.5, (10, 3, robot.size)):
        expected = model.forward_dynamics(q, dq, tau, phi)[0]
        for plant in plants:
            data = mujoco.MjData(plant)
            data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, dq, tau
            mujoco.mj_forward(plant, data)
            np.testing.assert_allclose(data.qacc, expected, rtol=1e-5, atol=1e-6)


def test_a_coupled_motor_without_its_tendon_is_another_arm() -> None:
    """Control case that the comparison above must reject."""
    robot, standard = parts("tx40")
    spec = build_spec(robot, standard)
    for tendon in list(spec.tendons):
        spec.delete(tendon)
    data = mujoco.MjData(plant := spec.compile())
    mujoco.mj_forward(plant, data)
    full = mujoco.MjData(whole := compile_plant(robot, standard).model)
    mujoco.mj_forward(whole, full)
    M, M_full = np.zeros((6, 6)), np.zeros((6, 6))
    mujoco.mj_fullM(plant, data, M)
    mujoco.mj_fullM(whole, full, M_full)
    rotor = standard.axes[5].rotor_inertia_kg_m2
    np.testing.assert_allclose((M_full - M)[4:, 4:], rotor, atol=1e-9)


def test_properties_that_mjcf_lacks_are_listed() -> None:
    robot = load_robot("tx40")
    content = load_validated(robot.folder / "models" / "nominal.yaml", StandardFile)
    axes = (content.axes[0].model_copy(update={"friction_offset_nm": 0.25}), *content.axes[1:])
    assert "offset of joint_1 0.25 N m" in mjcf_text(robot, content.model_copy(update={"axes": axes}))
    assert "cannot hold" not in mjcf_text(robot, content)
