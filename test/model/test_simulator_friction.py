"""Friction for simulators: two values per joint, and MuJoCo's friction written before every step."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from dynid.errors import DataError, UnknownNameError
from dynid.export.mjcf import PlantOptions, mjcf_text
from dynid.export.mujoco_friction import SPRINGS_DISABLED, MujocoFriction
from dynid.export.result_files import write_exports
from dynid.export.simple_friction import beyond_two_figures, loads, simplified, two_figures, whole_friction
from dynid.model.bam import law_of, read_bam
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.gear_presets import gear_friction
from dynid.model.standard import from_file, to_file
from dynid.robot import FloatArray, load_robot
from dynid.simulation.plant.arm import ArmPlant, plant_standard
from dynid.simulation.plant.nuisances import NUISANCES

ROBOT = load_robot("crane_x7")
MODEL = ArmModel.of(ROBOT)
STANDARD = from_file(plant_standard(ROBOT), MODEL.mdh)
BARE = replace(STANDARD, values=STANDARD.values * [not name.startswith("FV") for name in STANDARD.names])
M6 = gear_friction(ROBOT)
N, STEP_S = ROBOT.size, 0.001
POSTURE = np.deg2rad([10.0, -30.0, 15.0, -70.0, 20.0, -20.0, 30.0, 20.0])
WIDE = (-10.0 * np.ones(N), 10.0 * np.ones(N))


def torque(k: int) -> FloatArray:
    """Return the torques of step k, by which joints move both ways, stick, and are driven by their load."""
    phase = 2.0 * np.pi * k * STEP_S * np.linspace(0.7, 1.6, N)
    return np.array([1.0, 3.5, 0.8, 2.0, 0.4, 0.5, 0.4, 0.4]) * np.sin(phase)


def plant_path(steps: int, friction: FrictionLaw | str) -> FloatArray:
    arm = ArmPlant(ROBOT, q0=POSTURE, switched_off=set(NUISANCES) - {"coulomb"}, stops=WIDE, friction=friction)
    path = np.empty((steps, N))
    for k in range(steps):
        arm.push(torque(k), STEP_S)
        path[k] = arm.q
    return path


def exported_path(steps: int, law: FrictionLaw | None) -> FloatArray:
    """The exported model in MuJoCo alone, with the friction that is written before every step."""
    standard = simplified(ROBOT, MODEL.mdh, BARE, M6, ROBOT.file.default_mount)
    content = to_file(standard, MODEL.mdh, ROBOT.name, ROBOT.joint_names, "test")
    model = mujoco.MjModel.from_xml_string(mjcf_text(ROBOT, content, PlantOptions(stops=WIDE)))
    model.opt.timestep = STEP_S
    data = mujoco.MjData(model)
    data.qpos[:] = POSTURE
    mujoco.mj_forward(model, data)
    gears = None if law is None else MujocoFriction(model, law, ROBOT.joint_names)
    path = np.empty((steps, N))
    for k in range(steps):
        data.qfrc_applied[:] = torque(k)
        if gears is not None:
            gears.update(data)
        mujoco.mj_step(model, data)
        path[k] = data.qpos
    return path


def test_friction_written_every_step_is_that_of_the_plant() -> None:
    expected, found = plant_path(1500, M6), exported_path(1500, M6)
    assert np.ptp(expected, axis=0).min() > 0.05
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(exported_path(1500, None) - expected).max() > 0.05  # two figures are not enough


def test_friction_in_motion_and_at_rest_is_what_the_law_says() -> None:
    content = to_file(BARE, MODEL.mdh, ROBOT.name, ROBOT.joint_names, "test")
    model = mujoco.MjModel.from_xml_string(mjcf_text(ROBOT, content, PlantOptions(stops=WIDE)))
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    data, gears = mujoco.MjData(model), MujocoFriction(model, M6, ROBOT.joint_names)
    data.qpos[:], data.qvel[:] = POSTURE, np.linspace(-1.5, 1.5, N)
    motor = torque(400)
    data.qfrc_applied[:] = motor
    for _ in range(2):  # the second time with friction forces among the constraints
        mujoco.mj_forward(model, data)
        gears.update(data)
        expected = M6.torque(data.qvel, motor, -data.qfrc_bias)
        np.testing.assert_allclose(
            np.sign(data.qvel) * model.dof_frictionloss - data.qfrc_passive, expected, atol=1e-12
        )
    data.xfrc_applied[model.nbody - 1] = [0.0, 0.0, -5.0, 0.0, 0.0, 0.0]  # a load that hangs at the hand
    mujoco.mj_forward(model, data)
    gears.update(data)
    expected = M6.budget(data.qvel, motor, data.qfrc_smooth - data.qfrc_passive - motor)
    np.testing.assert_allclose(model.dof_frictionloss, expected, atol=1e-12)
    assert np.abs(expected - M6.budget(data.qvel, motor, -data.qfrc_bias)).max() > 1e-3


def test_offset_is_a_constant_torque_of_the_joint_and_no_load() -> None:
    content = to_file(BARE, MODEL.mdh, ROBOT.name, ROBOT.joint_names, "test")
    model = mujoco.MjModel.from_xml_string(mjcf_text(ROBOT, content, PlantOptions(stops=WIDE)))
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    data, law = mujoco.MjData(model), M6.with_values({"of": np.linspace(-0.2, 0.3, N)})
    MujocoFriction(model, law.with_values({"of": 7.0}), ROBOT.joint_names)  # a second law takes the place of the first
    gears = MujocoFriction(model, law, ROBOT.joint_names)
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = POSTURE, np.linspace(-1.5, 1.5, N), torque(400)
    mujoco.mj_forward(model, data)
    gears.update(data)
    expected = law.torque(data.qvel, torque(400), -data.qfrc_bias)
    np.testing.assert_allclose(np.sign(data.qvel) * model.dof_frictionloss - data.qfrc_passive, expected, atol=1e-7)


def test_friction_that_mujoco_lacks_is_refused() -> None:
    content = to_file(BARE, MODEL.mdh, ROBOT.name, ROBOT.joint_names, "test")
    model = mujoco.MjModel.from_xml_string(mjcf_text(ROBOT, content))
    offset = M6.with_values({"of": 0.1})
    model.jnt_stiffness[0] = 2.0
    with pytest.raises(DataError, match=r"has an offset of 0\.1 N m, but a spring of its own"):
        MujocoFriction(model, offset, ROBOT.joint_names)
    model.jnt_stiffness[0], model.opt.disableflags = 0.0, SPRINGS_DISABLED
    with pytest.raises(DataError, match="springs are disabled"):
        MujocoFriction(model, offset, ROBOT.joint_names)
    with pytest.raises(DataError, match="for 3 joints"):
        MujocoFriction(model, M6, ROBOT.joint_names[:3])
    with pytest.raises(UnknownNameError, match="unknown joint 'elbow'"):
        MujocoFriction(model, M6, (*ROBOT.joint_names[:7], "elbow"))


def test_two_figures_are_the_law_itself_or_near_it() -> None:
    simple = FrictionLaw.of(2, {"fb": [0.1, 0.2], "fv": 0.3})
    load, fastest = np.zeros((5, 2)), np.array([1.0, 2.0])
    np.testing.assert_array_equal(two_figures(simple, load, fastest).values, simple.values)
    near = two_figures(simple.with_values({"km": 1e-9}), load, fastest)
    np.testing.assert_allclose(near.values, simple.values, atol=1e-7)
    loaded = two_figures(FrictionLaw.of(1, {"km": 0.5}), np.array([[2.0], [-2.0]]), np.ones(1))
    assert loaded["fb"][0] == pytest.approx((2.0 + 2.0 / 3.0) / 2.0)  # 0.5 |tm|: lifting 4, lowering 4/3 N m
    faded = two_figures(FrictionLaw.of(1, {"fs": 0.5, "ws": 0.3, "a": 1.0}), np.zeros((1, 1)), np.ones(1))
    assert faded["fv"][0] == 0.0 and 0.0 < faded["fb"][0] < 0.5


def test_the_load_is_the_weight_that_joints_carry() -> None:
    found = loads(ROBOT, MODEL.mdh, STANDARD, "upright")
    np.testing.assert_allclose(loads(ROBOT, MODEL.mdh, STANDARD, "hanging"), -found, atol=1e-12)
    assert np.abs(found[:, 1]).max() > 1.0 and not found[:, 7].any()


def test_friction_of_parameters_and_law_is_summed() -> None:
    law = whole_friction(ROBOT, STANDARD, FrictionLaw.of(N, {"fb": 0.2, "fv": 0.1, "km": 0.3}))
    np.testing.assert_allclose(law["fv"], STANDARD.axis("FV") + 0.1)
    np.testing.assert_allclose(law["fb"], STANDARD.axis("FC") + 0.2)
    np.testing.assert_allclose(whole_friction(ROBOT, STANDARD, None)["fv"], STANDARD.axis("FV"))
    assert beyond_two_figures(law).startswith("The joints' friction also has KM, which")
    assert beyond_two_figures(whole_friction(ROBOT, STANDARD, None)) == ""


def test_every_joint_has_armature_damping_friction_and_a_file_of_bam(tmp_path: Path) -> None:
    write_exports(tmp_path, ROBOT, MODEL.mdh, BARE, "upright", M6)
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "model.xml"))
    dofs = [model.joint(name).dofadr[0] for name in ROBOT.joint_names]
    assert (model.dof_frictionloss[dofs] > 0.05).all() and (np.atleast_2d(model.dof_damping.T)[0][dofs] >= 0.0).all()
    np.testing.assert_allclose(model.dof_armature[dofs], STANDARD.axis("IA"))
    back = law_of([read_bam(tmp_path / "bam" / f"{name}.json") for name in ROBOT.joint_names])
    np.testing.assert_array_equal(back.values, M6.values)
    for file in ("model.xml", "model.urdf"):
        assert "friction also has FS, KM, KE, KMS, KES, KMQ, KEQ, WS, AS" in (tmp_path / file).read_text()
    plain = tmp_path / "plain"
    write_exports(plain, ROBOT, MODEL.mdh, STANDARD, "upright")
    assert "5 deg (5 mm where it slides) wider" in (plain / "model.xml").read_text()
    assert "also has" not in (plain / "model.xml").read_text() and len(list((plain / "bam").iterdir())) == N
