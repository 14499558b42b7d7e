"""The simulated arm against pinocchio and the identified model's equations, and each nuisance alone."""

from unittest.mock import Mock

import mujoco
import numpy as np
import pinocchio
import pytest

from dynid.errors import ConfigurationError, DataError, UnknownNameError
from dynid.export.mjcf import PlantOptions, compile_plant, default_stops, mjcf_text
from dynid.model.dynamics import ArmModel
from dynid.model.standard import StandardFile, from_file
from dynid.resources import load_validated
from dynid.robot import load_robot
from dynid.simulation.plant.arm import ArmPlant, plant_standard
from dynid.simulation.plant.nuisances import NUISANCES, NoiseStream, Play, magnitudes, quantise, stamps

ROBOT = load_robot("crane_x7")
STANDARD = plant_standard(ROBOT)
NOMINAL = load_validated(ROBOT.folder / "models" / "nominal.yaml", StandardFile)  # what the URDF holds
QUIET = set(NUISANCES)


def states(count: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = rng.uniform(ROBOT.lower, ROBOT.upper, (count, 8))
    return q, rng.uniform(-3, 3, (count, 8)), rng.uniform(-20, 20, (count, 8))


def mujoco_inverse(options: PlantOptions, q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> np.ndarray:
    compiled = compile_plant(ROBOT, NOMINAL, options)
    data = mujoco.MjData(compiled.model)
    out = np.empty_like(q)
    for k in range(len(q)):
        data.qpos[:], data.qvel[:], data.qacc[:] = q[k], dq[k], ddq[k]
        mujoco.mj_inverse(compiled.model, data)
        out[k] = data.qfrc_inverse
    return out


def pinocchio_inverse(mount: str, q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> np.ndarray:
    """RNEA of the shipped URDF, plus rotors and viscous friction."""
    full = pinocchio.buildModelFromUrdf(str(ROBOT.urdf_path))
    finger = [full.getJointId("crane_x7_gripper_finger_b_joint")]
    model = pinocchio.buildReducedModel(full, finger, pinocchio.neutral(full))
    model.gravity.linear[:] = ROBOT.gravity(mount)
    data = model.createData()
    rotor = np.array([axis.rotor_inertia_kg_m2 for axis in NOMINAL.axes])
    viscous = np.array([axis.viscous_friction_nm_s_per_rad for axis in NOMINAL.axes])
    rigid = [pinocchio.rnea(model, data, *row) for row in zip(q, dq, ddq, strict=True)]
    return np.array(rigid) + rotor * ddq + viscous * dq


@pytest.mark.parametrize("mount", ["upright", "hanging"])
def test_mujoco_and_pinocchio_agree_on_inverse_dynamics(mount):
    motion = states(50)
    ours = mujoco_inverse(PlantOptions(mount), *motion)
    np.testing.assert_allclose(ours, pinocchio_inverse(mount, *motion), atol=1e-9)


def test_the_comparison_notices_a_wrong_mount():
    motion = states(5)
    wrong = mujoco_inverse(PlantOptions("upright"), *motion) - pinocchio_inverse("hanging", *motion)
    assert np.abs(wrong).max() > 0.1


@pytest.mark.parametrize("mount", ["upright", "hanging"])
def test_regressor_times_base_parameters_is_the_plants_torque(mount):
    model = ArmModel.of(ROBOT, mount=mount)
    phi = model.base_parameters(from_file(STANDARD, model.mdh))
    q, dq, _ = states(50)
    tau = np.random.default_rng(4).uniform(-2, 2, q.shape)
    compiled = compile_plant(ROBOT, STANDARD, PlantOptions(mount))
    data = mujoco.MjData(compiled.model)
    ddq = np.empty_like(q)
    for k in range(len(q)):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q[k], dq[k], tau[k]
        mujoco.mj_forward(compiled.model, data)
        ddq[k] = data.qacc
    predicted = model.regressor(q, dq, ddq) @ phi.values
    np.testing.assert_allclose(predicted, tau, atol=1e-6)
    assert np.abs(predicted - tau).max() < np.abs(predicted).max() * 1e-6


def test_mjcf_text_and_model_agree():
    options = PlantOptions("hanging", coulomb_friction=np.linspace(0.01, 0.3, 8))
    spec = compile_plant(ROBOT, STANDARD, options).model
    text = mujoco.MjModel.from_xml_string(mjcf_text(ROBOT, STANDARD, options))
    motion = states(10)
    for name in (
        "body_mass",
        "body_ipos",
        "body_inertia",
        "dof_armature",
        "dof_damping",
        "dof_frictionloss",
        "jnt_range",
        "jnt_axis",
        "dof_solref",
        "dof_solimp",
    ):
        np.testing.assert_array_equal(getattr(text, name), getattr(spec, name), err_msg=name)
    np.testing.assert_allclose(text.body_iquat, spec.body_iquat, atol=1e-15)
    np.testing.assert_array_equal(text.opt.gravity, ROBOT.gravity("hanging"))
    one, other = mujoco.MjData(text), mujoco.MjData(spec)
    for q, dq, ddq in zip(*motion, strict=True):
        for model, data in ((text, one), (spec, other)):
            data.qpos[:], data.qvel[:], data.qacc[:] = q, dq, ddq
            mujoco.mj_inverse(model, data)
        np.testing.assert_allclose(one.qfrc_inverse, other.qfrc_inverse, atol=1e-12)


def test_motors_take_torques_under_the_names_of_the_joints() -> None:
    model = mujoco.MjModel.from_xml_string(mjcf_text(ROBOT, STANDARD, PlantOptions(motors=True)))
    assert [model.actuator(k).name for k in range(model.nu)] == list(ROBOT.joint_names)
    np.testing.assert_allclose(model.actuator_ctrlrange[:, 1], ROBOT.torque_limits, rtol=1e-5)
    np.testing.assert_allclose(model.actuator_ctrlrange[:, 0], -ROBOT.torque_limits, rtol=1e-5)
    data = mujoco.MjData(model)
    data.ctrl[:] = np.linspace(-0.5, 0.5, 8)
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.qfrc_actuator, data.ctrl, atol=1e-12)
    assert mujoco.MjModel.from_xml_string(mjcf_text(ROBOT, STANDARD)).nu == 0


def test_geometry_keeps_shapes_and_the_second_finger_follows_the_first():
    model = mujoco.MjModel.from_xml_string(mjcf_text(ROBOT, STANDARD, PlantOptions(geometry=True)))
    assert model.ngeom > 20 and model.nq == 9 and model.neq == 1
    compiled = compile_plant(ROBOT, STANDARD)
    assert compiled.model.ngeom == 0 and compiled.model.nq == 8
    np.testing.assert_array_equal(compiled.dofs, np.arange(8))


def test_energy_is_conserved_without_friction():
    frictionless = STANDARD.model_copy(
        update={"axes": tuple(a.model_copy(update={"viscous_friction_nm_s_per_rad": 0.0}) for a in STANDARD.axes)}
    )
    model = compile_plant(ROBOT, frictionless).model
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    drifts = []
    for step in (0.002, 0.001):
        model.opt.timestep = step
        data = mujoco.MjData(model)
        data.qpos[:] = ROBOT.rest_posture + 0.2
        mujoco.mj_forward(model, data)
        start = data.energy.sum()
        mujoco.mj_step(model, data, nstep=round(0.15 / step))
        mujoco.mj_forward(model, data)
        assert data.energy[1] > 0.01  # it does move
        drifts.append(abs(data.energy.sum() - start) / data.energy[1])
    assert drifts[1] < 1e-8 and drifts[1] < 0.1 * drifts[0]  # a fourth-order method: half the step, 1/16 of the drift


def test_viscous_friction_dissipates_energy():
    model = compile_plant(ROBOT, STANDARD).model
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data = mujoco.MjData(model)
    data.qpos[:] = ROBOT.rest_posture + 0.2
    mujoco.mj_forward(model, data)
    start = data.energy.sum()
    mujoco.mj_step(model, data, nstep=round(0.15 / model.opt.timestep))
    mujoco.mj_forward(model, data)
    assert start - data.energy.sum() > 0.1 * data.energy[1]


def test_arm_rests_on_its_stand_until_current_flows_and_falls_when_it_stops():
    plant = ArmPlant(ROBOT)
    plant.advance(2.0)
    assert plant.held and plant.time_s == pytest.approx(2.0)
    plant.set_currents(np.zeros(8))
    plant.advance(1.0)
    assert 0 < np.abs(plant.q - ROBOT.rest_posture).max() < np.deg2rad(0.5)
    np.testing.assert_array_equal(plant.dq, 0.0)
    plant.set_currents(np.array([0, 0, 0, 0, 0, 0, 0, 0.001]))
    plant.advance(0.001)
    assert not plant.held
    plant.set_currents(np.zeros(8))
    plant.advance(0.5)
    assert np.abs(plant.q - ROBOT.rest_posture)[[1, 3]].max() > 0.2


def test_arm_without_a_stand_falls_at_once():
    plant = ArmPlant(ROBOT, hold_until_current=False)
    plant.advance(0.5)
    assert np.abs(plant.q - ROBOT.rest_posture).max() > 0.2


@pytest.mark.parametrize("friction", ["viscous", "M6"])
def test_locked_joints_stand_still_while_the_others_fall(friction: str) -> None:
    plant = ArmPlant(ROBOT, q0=np.full(ROBOT.size, 0.5), hold_until_current=False, friction=friction)
    plant.advance(0.1)
    plant.lock((0, 1, 2))
    plant.advance(0.02)
    before = plant.q.copy()
    plant.advance(0.3)
    moved = np.abs(plant.q - before)
    assert moved[:3].max() < 1e-3 and moved[3:].max() > 0.01
    plant.lock(())
    plant.advance(0.3)
    assert np.abs(plant.q - before)[1] > 0.05


def test_dry_friction_holds_smaller_loads():
    posture = np.zeros(8)  # upright: only friction has anything to do
    plant = ArmPlant(ROBOT, q0=posture, switched_off=QUIET - {"coulomb"}, hold_until_current=False, friction="viscous")
    plant.set_currents(0.9 * plant.nuisances.coulomb_friction / ROBOT.torque_constants * np.eye(8)[0])
    plant.advance(0.5)
    assert abs(plant.dq[0]) < 5e-4 and abs(plant.q[0]) < 5e-4
    plant.set_currents(1.5 * plant.nuisances.coulomb_friction / ROBOT.torque_constants * np.eye(8)[0])
    plant.advance(0.5)
    assert plant.dq[0] > 0.1


def test_joint_stops_end_the_motion_a_little_beyond_the_limits():
    plant = ArmPlant(ROBOT, switched_off=QUIET)
    plant.set_currents(np.array([1.5, 0, 0, 0, 0, 0, 0, 0]))
    plant.advance(4.0)
    lower, upper = default_stops(ROBOT)
    assert ROBOT.upper[0] < plant.q[0] < upper[0] + 0.05 and abs(plant.dq[0]) < 0.01
    wider = ArmPlant(ROBOT, switched_off=QUIET, stops=(lower - 0.5, upper + 0.5))
    wider.set_currents(np.array([1.5, 0, 0, 0, 0, 0, 0, 0]))
    wider.advance(4.0)
    assert wider.q[0] > upper[0] + 0.3


def test_the_stops_of_a_prismatic_joint_are_millimetres_beyond_its_limits():
    sliding = Mock(prismatic=(False, True), lower=np.array([-1.0, -0.2]), upper=np.array([1.0, 0.3]))
    lower, upper = default_stops(sliding)
    assert (lower[1], upper[1]) == pytest.approx((-0.205, 0.305))
    assert upper[0] == pytest.approx(1.0 + np.deg2rad(5.0))


def play_script(plant: ArmPlant, pieces: int = 1) -> list[np.ndarray]:
    """Readings of a fixed sequence of currents, each millisecond advanced in `pieces`."""
    out = []
    for k in range(200):
        plant.set_currents(np.sin(0.05 * k + np.arange(8)) * 0.3)
        for _ in range(pieces):
            plant.advance(0.001 / pieces)
        reading = plant.measure()
        out.append(np.concatenate([reading.q, reading.dq, reading.current_a, plant.q, plant.torque]))
    return out


def test_equal_seeds_give_equal_runs_and_other_seeds_do_not():
    first, second = play_script(ArmPlant(ROBOT, seed=5)), play_script(ArmPlant(ROBOT, seed=5))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, play_script(ArmPlant(ROBOT, seed=6)))


def test_time_in_pieces_of_any_size_is_the_same_time():
    """Exactly so for smooth motions; dry friction lets go within a step, so there it depends a little on the steps.

    Friction that grows with the load is set once per step, and lets go of a step in time, too.
    """
    cases = ((("coulomb",), None, 1e-8), ((), "viscous", 1e-3), ((), None, 2e-3))
    for switched_off, friction, tolerance in cases:

        def angles(pieces: int, step: float, off=switched_off, friction=friction) -> np.ndarray:
            plant = ArmPlant(ROBOT, seed=5, switched_off=off, longest_step_s=step, friction=friction)
            return np.array(play_script(plant, pieces))[:, 24:32]

        whole = angles(1, 0.001)
        assert np.ptp(whole, axis=0).min() > 0.01
        for pieces in (3, 4):
            np.testing.assert_allclose(angles(pieces, 0.00025), whole, atol=tolerance)


def test_times_below_a_step_are_not_lost():
    plant = ArmPlant(ROBOT, hold_until_current=False)
    for _ in range(1000):
        plant.advance(0.00001)
    assert plant.time_s == pytest.approx(0.01, abs=1e-9) and plant.q[1] != ROBOT.rest_posture[1]


def test_torque_noise_off_leaves_readings_of_current_exact_and_torque_exact():
    quiet = ArmPlant(ROBOT, seed=5, switched_off={"torque_noise"})
    quiet.set_currents(np.full(8, 0.1))
    quiet.advance(0.001)
    np.testing.assert_array_equal(quiet.measure().current_a, np.full(8, 0.1))
    np.testing.assert_array_equal(quiet.torque, 0.1 * ROBOT.torque_constants)
    noisy = ArmPlant(ROBOT, seed=5)
    errors, torques = [], []
    for _ in range(2000):
        noisy.set_currents(np.full(8, 0.1))
        noisy.advance(0.001)
        errors.append(noisy.measure().current_a - 0.1)
        torques.append(noisy.torque - 0.1 * ROBOT.torque_constants)
    sigma = np.array(ROBOT.nuisances.torque_noise_nm)
    np.testing.assert_allclose(np.std(torques, axis=0), sigma, rtol=0.1)
    np.testing.assert_allclose(np.std(errors, axis=0), sigma / ROBOT.torque_constants, rtol=0.1)
    assert np.abs(np.mean(np.array(errors) * np.array(torques), axis=0) / np.var(torques, axis=0)).max() < 0.1


def test_each_switch_changes_its_own_magnitude_only():
    everything = vars(magnitudes(ROBOT))
    owned = {
        "coulomb": {"coulomb_friction"},
        "torque_noise": {"torque_noise"},
        "encoder": {"position_step", "velocity_step"},
        "current_quantisation": {"current_step"},
        "jitter": {"stamp_jitter"},
        "backlash": {"backlash"},
        "delay": {"delay"},
        "warm_up": {"warm_up_share"},
    }
    assert set(owned) == set(NUISANCES)
    for name, keys in owned.items():
        without = vars(magnitudes(ROBOT, {name}))
        for key, value in everything.items():
            assert np.any(value), f"{key} is on by default"
            if key in keys:
                assert not np.any(without[key])
            else:
                np.testing.assert_array_equal(without[key], value)


def test_backlash_hides_small_motions_of_the_joint():
    play = Play(0.2, np.zeros(1))
    moved = [float(play.update(np.array([q]))[0]) for q in (0.05, 0.1, 0.3, 0.25, 0.1, 0.05, -0.2)]
    np.testing.assert_allclose(moved, [0, 0, 0.2, 0.2, 0.2, 0.15, -0.1], atol=1e-15)
    without = Play(0.0, np.zeros(1))
    assert float(without.update(np.array([0.03]))[0]) == 0.03


def test_the_velocity_register_rests_while_a_joint_moves_within_its_play():
    play, speed, at, found = Play(0.2, np.zeros(1)), np.array([0.7]), 0.0, []
    for step, sign in ((0.05, 1), (0.1, 1), (0.1, 1), (-0.05, -1), (-0.1, -1), (-0.1, -1)):
        at += step
        play.update(np.array([at]))
        found.append(float(play.velocity(np.array([at]), sign * speed)[0]))
    assert found == [0.0, 0.7, 0.7, 0.0, 0.0, -0.7]
    assert float(Play(0.0, np.zeros(1)).velocity(np.array([0.03]), speed)[0]) == 0.7


def test_a_pull_within_the_play_moves_no_velocity_register():
    plant = ArmPlant(ROBOT, switched_off=QUIET - {"backlash"}, q0=np.zeros(8))
    plant.set_currents(np.eye(8)[0] * 0.02)
    seen = [(plant.q[0], plant.measure()) for _ in range(50) if plant.advance(0.0002) is None]
    moved = [reading.dq[0] for q, reading in seen if reading.q[0] == 0.0]
    assert max(moved) == 0.0 and seen[-1][0] > 0.0


def test_plants_encoder_lags_by_half_the_backlash():
    plant = ArmPlant(ROBOT, switched_off=QUIET - {"backlash"}, q0=np.zeros(8))
    plant.set_currents(np.eye(8)[0] * 0.2)
    plant.advance(0.001)
    for _ in range(100):
        plant.advance(0.001)
        plant.measure()
    half = 0.5 * np.deg2rad(ROBOT.nuisances.backlash_deg)
    np.testing.assert_allclose(plant.q[0] - plant.measure().q[0], half, rtol=1e-9)


def test_noise_rows_do_not_depend_on_how_they_are_asked_for():
    one, other = NoiseStream(np.ones(2), 1, 1), NoiseStream(np.ones(2), 1, 1)
    rows = [one.row(k).copy() for k in range(3000)]
    np.testing.assert_array_equal(NoiseStream(np.ones(2), 1, 1).rows(3000), rows)
    np.testing.assert_array_equal(rows[2999], other.row(2999))
    assert not np.array_equal(rows[0], NoiseStream(np.ones(2), 1, 2).row(0))
    with pytest.raises(DataError, match="must not go backwards"):
        one.row(0)


def test_stamps_stay_in_order_even_with_huge_jitter():
    times = stamps(5000, 0.001, 0.01, 1, 3)
    assert np.all(np.diff(times) > 0) and np.std(times - 0.001 * np.arange(5000)) > 1e-4
    np.testing.assert_array_equal(stamps(5, 0.001, 0.0, 1, 3), 0.001 * np.arange(5))


def test_quantisation_is_to_the_nearest_step_or_none():
    np.testing.assert_allclose(quantise(np.array([0.24, 0.26, -0.26]), 0.5), [0.0, 0.5, -0.5])
    np.testing.assert_array_equal(quantise(np.array([0.24]), 0.0), [0.24])


def test_invalid_input_is_refused_by_name():
    with pytest.raises(UnknownNameError, match="nuisance 'friction'"):
        ArmPlant(ROBOT, switched_off={"friction"})
    with pytest.raises(UnknownNameError, match="mount 'sideways'"):
        ArmPlant(ROBOT, mount="sideways")
    with pytest.raises(DataError, match="start posture"):
        ArmPlant(ROBOT, q0=np.zeros(7))
    with pytest.raises(DataError, match="at least 0 s"):
        ArmPlant(ROBOT).advance(-0.1)
    with pytest.raises(DataError, match="standard parameters of 'other'"):
        ArmPlant(ROBOT, standard=STANDARD.model_copy(update={"robot": "other", "links": STANDARD.links[:6]}))


def test_a_diverged_arm_is_an_error_and_not_a_number(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log file where it warns
    plant = ArmPlant(ROBOT, switched_off=QUIET)
    plant.set_currents(np.full(8, 1e12))
    with pytest.raises(DataError, match="diverged"):
        for _ in range(100):
            plant.advance(0.001)
            plant.measure()


def test_a_urdf_without_a_joint_of_the_robot_is_named(tmp_path):
    broken = tmp_path / "urdf" / "crane_x7"
    broken.mkdir(parents=True)
    text = ROBOT.urdf_path.read_text().replace("crane_x7_wrist_joint", "other_joint")
    (broken / "crane_x7.urdf").write_text(text)
    folder = tmp_path / "config" / "crane_x7"
    folder.mkdir(parents=True)
    (folder / "robot.yaml").write_text((ROBOT.folder / "robot.yaml").read_text())
    with pytest.raises(ConfigurationError, match="crane_x7_wrist_joint"):
        compile_plant(load_robot(folder), STANDARD)
