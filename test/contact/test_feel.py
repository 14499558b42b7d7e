"""Contact detection: joint and size of a force, no alarm without contact, and models that may not be used."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio
import pytest
from scipy.signal import butter, sosfiltfilt
from test.shared.arms import nominal
from test.shared.felt import ARM, ROBOT, N, control_model, model_file, moved
from test.shared.recordings import recorded
from typer.testing import CliRunner

from dynid.cli import app
from dynid.contact.contact_sense import Contact, ContactSense
from dynid.contact.force import ToolForce
from dynid.contact.motion_filter import MeasuredTorques
from dynid.contact.recorded import measured_torques, refuse_coarser, sense_of
from dynid.contact.stamp_jitter import StampJitter
from dynid.control.controller import load_controller
from dynid.errors import DataError
from dynid.identification.data.signals import Signals
from dynid.identification.settings import load_identification
from dynid.model.chain import SerialChain
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import ModelFile, TorqueDeviations, parameter_rows, save_model
from dynid.robot import FloatArray, Robot, load_robot
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.simulation.lockstep.stepped_arm import SteppedArm

C = ROBOT.chain_size
FORCE = np.array([4.0, 6.0, -5.0])
FROM_S, TO_S = 2.6, 3.0


def pinocchio_jacobian(q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The tool's, (3, 7), and its place, by a frame that pinocchio carries along."""
    model = SerialChain.from_robot(ROBOT).model.copy()
    placement = pinocchio.SE3(np.eye(3), np.array(ROBOT.file.tool_m))
    frame = model.addFrame(pinocchio.Frame("tool", C, 0, placement, pinocchio.FrameType.OP_FRAME))
    data = model.createData()
    J = pinocchio.computeFrameJacobian(model, data, q[:C], frame, pinocchio.LOCAL_WORLD_ALIGNED)
    return J[:3], data.oMf[frame].translation


def test_the_tool_position_and_jacobian_equal_those_of_pinocchio() -> None:
    force, rng = ToolForce(ROBOT, ARM.mdh), np.random.default_rng(2)
    for q in rng.uniform(-1.5, 1.5, (10, N)):
        J, place = force.jacobian(q)
        expected, there = pinocchio_jacobian(q)
        np.testing.assert_allclose(J[:, :C], expected, atol=1e-9)
        np.testing.assert_allclose(place, there, atol=1e-9)
        assert not J[:, C:].any()


def test_force_is_recovered_and_hidden_directions_stay_uncertain() -> None:
    force, even = ToolForce(ROBOT, ARM.mdh), np.full(N, 0.01)
    q = np.array([0.3, 0.4, -0.2, -1.2, 0.5, 0.6, 0.1, 0.0])
    found, covariance = force.of(q, pinocchio_jacobian(q)[0].T @ FORCE @ np.eye(C, N), even)
    np.testing.assert_allclose(found, FORCE, atol=0.02)
    assert np.sqrt(np.diag(covariance)).max() < 0.2
    stretched = np.zeros(N)  # straight up: nothing shows a force along the arm
    found, covariance = force.of(stretched, np.zeros(N), even)
    assert np.sqrt(covariance[2, 2]) > 0.99 * force.largest_n
    doubtful = even.copy()
    doubtful[3] = 100.0  # a joint that sticks must not spoil the others' force
    torque = np.append(pinocchio_jacobian(q)[0].T @ FORCE, 0.0)
    torque[3] += 1.0
    np.testing.assert_allclose(force.of(q, torque, doubtful)[0], FORCE, atol=0.05)


def touch(arm: SteppedArm, time_s: float) -> FloatArray | None:
    """A force at the tool for a while."""
    if not FROM_S <= time_s < TO_S:
        return None
    return np.append(pinocchio_jacobian(arm.plant.q)[0].T @ FORCE, 0.0)


@pytest.mark.slow
def test_contact_in_motion_is_detected_and_free_motion_is_not() -> None:
    felt: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for touched in (True, False):
        sense = ContactSense(ROBOT, ARM, control_model(), model_file().torque_deviations, torque_delay_s=0.0009)

        def feel(arm: SteppedArm, tau: FloatArray, sense=sense, touched=touched) -> None:  # type: ignore[no-untyped-def]
            if sense.update(arm.stamp_ns, np.array(arm.position), tau):
                felt[touched].append((arm.stamp_ns * 1e-9, float(np.linalg.norm(sense.force()[0] - FORCE))))

        moved(touch if touched else lambda arm, time_s: None, feel, seed=3 if touched else 4)
    times, errors = np.array(felt[True]).T
    assert felt[False] == []
    assert FROM_S < times[0] < FROM_S + 0.1 and times[-1] < TO_S + 0.3
    assert np.median(errors[(times > FROM_S + 0.1) & (times < TO_S)]) < 1.6


def waving(time: FloatArray, speed: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """Positions and motor torques (N, n) of an arm that moves all joints and touches nothing."""
    model, size, w = control_model(), np.linspace(0.6, 0.3, N), speed * np.linspace(4.0, 6.0, N)
    q, dq = size * np.sin(w * time[:, None]), size * w * np.cos(w * time[:, None])
    wanted = ARM.inverse_dynamics(q, dq, -size * w**2 * np.sin(w * time[:, None]), model.phi)
    load = -ARM.inverse_dynamics(q, dq, 0.0 * q, of_kinds(model.phi, KINDS, others=True))
    return q, model.friction.motor_torque(dq, wanted, load)


KNOWN = TorqueDeviations(speeds_rad_s=(0.05,), deviations_nm=((0.02,) * N,) * 2)


@pytest.mark.slow
def test_a_recording_that_begins_in_motion_shows_no_contact() -> None:
    time = 0.001 * np.arange(800)
    known = TorqueDeviations(speeds_rad_s=(0.05,), deviations_nm=((0.003,) * N,) * 2)
    sense = ContactSense(ROBOT, ARM, control_model(), known)
    assert sense.along(ROBOT.joint_names, time, *waving(time)) == []


def test_states_that_are_not_newer_than_the_last_one_change_nothing() -> None:
    time = 0.001 * np.arange(600)
    q, tau = waving(time)
    senses = [ContactSense(ROBOT, ARM, control_model(), KNOWN) for _ in range(2)]
    for k, stamp_ns in enumerate(np.rint(time * 1e9).astype(int).tolist()):
        for sense in senses:
            sense.update(stamp_ns, q[k], tau[k])
        for old in (0, 1, 30) if k in (0, 40, 500) else ():  # twice, and from another source that is late
            senses[1].update(stamp_ns - old * 1_000_000, q[k] + 0.1, tau[k] + 3.0)
    np.testing.assert_array_equal(senses[0].observer.torque, senses[1].observer.torque)
    np.testing.assert_array_equal(senses[0].motion.x, senses[1].motion.x)
    np.testing.assert_array_equal(senses[0].bars.threshold, senses[1].bars.threshold)


@pytest.mark.slow
def test_occasionally_late_stamps_are_no_contacts() -> None:
    """As a real UR10e is logged: a fine encoder, states every 10 ms, and now and then a stamp a millisecond late."""
    simulation = ROBOT.file.simulation
    fine = ROBOT.nuisances.model_copy(update={"encoder_counts_per_turn": 65536, "backlash_deg": 0.0})
    file = ROBOT.file.model_copy(update={"simulation": simulation.model_copy(update={"nuisances": fine})})
    time = 0.01 * np.arange(1200)
    q, tau = waving(time, 0.5)[0], waving(time - 0.005, 0.5)[1]
    known = TorqueDeviations(speeds_rad_s=(0.05,), deviations_nm=((0.1,) * N,) * 2)

    def felt(stamps: FloatArray, *, aware: bool) -> list[Contact]:
        sense = ContactSense(Robot(file, ROBOT.folder), ARM, control_model(), known)
        if not aware:
            sense.bars._jitter = StampJitter(0.0)
        return sense.along(ROBOT.joint_names, stamps, q, tau)

    late = time + 0.001 * (np.arange(len(time)) % 20 == 19)
    assert felt(time, aware=False) == felt(late, aware=True) == []
    assert felt(late, aware=False) != []


@pytest.mark.slow
def test_noise_of_measured_torques_is_estimated_and_no_contact() -> None:
    time = 0.002 * np.arange(4000)
    q, tau = waving(time)
    noise = np.linspace(0.02, 0.3, N)
    noisy = tau + noise * np.random.default_rng(1).normal(size=tau.shape)
    signals = Signals(ROBOT.joint_names, time, q, time, noisy, ROBOT.torque_limits)
    settings = load_identification(ROBOT)
    seen = measured_torques(signals, settings)
    assert seen is not None
    np.testing.assert_allclose(seen.noise_nm, noise, rtol=0.1)
    assert measured_torques(replace(signals, torque_source="goal"), settings) is None
    for given, found in ((seen, False), (None, True)):
        sense = ContactSense(ROBOT, ARM, control_model(), KNOWN, given)
        assert bool(sense.along(ROBOT.joint_names, time, q, noisy)) is found


@pytest.mark.slow
def test_low_passed_errors_of_measured_torques_are_no_contact() -> None:
    """As of a real Panda, whose friction builds up over 60 ms after each reversal, and over less than 10 Hz shows."""
    time = 0.002 * np.arange(6000)
    q, tau = waving(time, 0.5)
    low_pass = butter(4, 10.0, fs=500.0, output="sos")
    left = sosfiltfilt(low_pass, np.random.default_rng(5).normal(size=tau.shape), axis=0)
    known = TorqueDeviations(speeds_rad_s=(0.05,), deviations_nm=((0.1,) * N,) * 2, lasting_nm=((0.01,) * N,) * 2)
    torques = tau + 0.1 * left / left.std(axis=0)
    found = {}
    for measured in (MeasuredTorques(np.zeros(N), 0.025), None):
        sense = ContactSense(ROBOT, ARM, control_model(), known, measured)
        found[measured is not None] = sense.along(ROBOT.joint_names, time, q, torques)
    assert found[True] == [] and len(found[False]) > 2


@pytest.mark.slow
def test_feel_finds_the_contact_of_a_bag(tmp_path: Path) -> None:
    arm, duration, phases = moved(touch, lambda arm, tau: None)
    run = arm.recorded("there", duration, phases)
    write_bag(run, ROBOT, load_controller(ROBOT), tmp_path / "bag", profile="limited")
    save_model(tmp_path / "model.yaml", model_file())
    arguments = ["feel", str(tmp_path / "bag"), "--model", str(tmp_path / "model.yaml")]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["schema_version"] == 1 and found["frame"] == "base_link" and found["contacts"]
    contact = found["contacts"][0]
    assert FROM_S < contact["begin_s"] < FROM_S + 0.1 and found["contacts"][-1]["end_s"] < TO_S + 0.3
    off = np.abs(np.array(contact["force_n"]) - FORCE)
    assert (off < 3.0 * np.array(contact["force_deviation_n"])).all()
    both = [*arguments, str(tmp_path / "bag")]
    rows = json.loads(CliRunner().invoke(app, [*both, "--json"]).stdout)
    assert [row["contacts"] for row in rows] == [found["contacts"]] * 2 and rows[0]["recording"].endswith("/bag")
    shown = CliRunner().invoke(app, both)
    count = 2 * len(found["contacts"])
    assert "2 recordings, 0.1 minutes" in shown.stdout and f"\n{count} contact(s); forces" in shown.stdout
    (tmp_path / "none").mkdir()  # one that cannot be used does not take the others along
    partly = CliRunner().invoke(app, [*both, str(tmp_path / "none")])
    assert shown.exit_code == 0 and partly.exit_code == 1
    assert f"\n{count} contact(s); forces" in partly.stdout and "not used: " in partly.stdout
    assert "all recordings" not in CliRunner().invoke(app, arguments).stdout


@pytest.mark.slow
def test_models_unfit_for_contact_detection_are_refused() -> None:
    for change, message in (
        ({"accepted": False}, "not accepted"),
        ({"robot": "other"}, "is of 'other'"),
        ({"torque_deviations": None}, "no deviations"),
    ):
        with pytest.raises(DataError, match=message):
            sense_of(ROBOT, model_file(**change))


def test_sticking_joints_make_a_contact_force_less_certain() -> None:
    sense = ContactSense(ROBOT, ARM, control_model(), model_file().torque_deviations)
    q, motion = np.array([0.3, 0.4, -0.2, -1.2, 0.5, 0.6, 0.1, 0.0]), sense.motion
    motion.reset(q)
    motion.P[-3:, -3:] = 0.25 * np.eye(3)
    motion.x[N : 2 * N], sense._q, sense.onset.contact = 0.5, q, True
    budget = np.linspace(0.1, 0.8, N)
    motion._terms[2] = budget

    def covariance(open_share: FloatArray) -> FloatArray:
        motion._unclear = open_share
        return sense.force()[1]

    np.testing.assert_allclose(covariance(np.zeros(N)), 0.25 * np.eye(3))
    stuck = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])
    J, prior = pinocchio_jacobian(q)[0][:, :C], np.eye(3) / sense._force.largest_n**2
    own = np.array(model_file().torque_deviations.deviations_nm[-1])[:C]  # type: ignore[union-attr]
    least = [
        np.linalg.inv(J @ np.diag(1.0 / variance) @ J.T + prior)
        for variance in (own**2, own**2 + (stuck * budget**2)[:C] / 3.0)
    ]
    np.testing.assert_allclose(covariance(stuck), 0.25 * np.eye(3) + least[1] - least[0], rtol=1e-6)
    assert np.linalg.eigvalsh(covariance(stuck) - 0.25 * np.eye(3))[-1] > 0.1


@pytest.mark.slow
def test_friction_hides_forces_equally_as_parameter_or_law() -> None:
    """A drafted robot has Coulomb friction in its structure: at rest its joints carry anything within that, too."""
    robot = load_robot("aloha_class")
    arm, q = ArmModel.of(robot), robot.rest_posture
    phi = nominal("aloha_class")
    dry = np.array([phi[f"FC{axis + 1}"] for axis in range(robot.size)])
    spread = tuple(0.01 * one for one in dry.tolist())
    thresholds = []
    for parameters in (phi, of_kinds(phi, ("FC",), others=True)):  # with it, and an arm without
        content = ModelFile(
            robot=robot.name,
            structure_hash=arm.structure_hash,
            accepted=True,
            parameters=parameter_rows(arm, parameters),
            torque_deviations=TorqueDeviations(speeds_rad_s=(0.1,), deviations_nm=(spread, spread)),
        )
        sense = sense_of(robot, content)
        held = arm.inverse_dynamics(q[None], 0.0 * q[None], 0.0 * q[None], parameters)[0]
        for k in range(400):
            sense.update(k * 1_000_000, q, held)
        thresholds.append(sense.bars.threshold)
    assert dry.min() > 0.0
    np.testing.assert_allclose(thresholds[0] - thresholds[1], dry, rtol=0.01)


def test_an_encoder_that_is_coarser_than_stated_is_named() -> None:
    """A draft's proposal is finer than many an arm's encoder, and every step would be felt as a push."""
    given = recorded(ROBOT).signals(load_identification(ROBOT))

    def in_steps(counts: int) -> Signals:
        step = 2.0 * np.pi / counts
        return replace(given, q=np.round(given.q / step) * step)

    stated = ROBOT.nuisances.encoder_counts_per_turn
    assert stated == 4096
    for fine in (given, in_steps(stated), in_steps(65536)):
        refuse_coarser(fine, ROBOT)
    with pytest.raises(DataError, match=r"come in steps of 0\.00614 rad.*encoder_counts_per_turn to 1024"):
        refuse_coarser(in_steps(1024), ROBOT)
