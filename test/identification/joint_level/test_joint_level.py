"""Joint-level models: recovery of known joints, from synthetic data and from bags of the simulated arm."""

import numpy as np
import pytest
from scipy.signal import lsim

from dynid.control.controller import load_controller
from dynid.errors import DataError, OutputExistsError
from dynid.identification.joint_level.arx import fit_arx
from dynid.identification.joint_level.excitation import (
    ExcitedJoint,
    controller_settings,
    excited_joints,
    identify_joint,
    segments,
    write_controller,
)
from dynid.identification.joint_level.excited_arm import simulate_excitation
from dynid.identification.joint_level.first_order import LEAD, Segment, fit_first_order
from dynid.model.dynamics import ArmModel
from dynid.model.standard import from_file
from dynid.recording.driver_recording import load_driver_recording
from dynid.robot import load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.simulation.plant.arm import plant_standard
from dynid.trajectory.families import load_excitation
from dynid.trajectory.switching import binary_sequence, square_wave
from dynid.trajectory.trajectory import approach

ROBOT = load_robot("crane_x7")
SETTINGS = load_controller(ROBOT)
ACCELERATION = load_excitation(ROBOT).acceleration_limits
DT = 0.001
COUNT = 2 * np.pi / 4096
BAND_HZ = np.geomspace(0.2, 20.0, 40)


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    """The index of joint 7, which the paper shows, and a bag of its excitation with all nuisances on."""
    joint = 6
    run = simulate_excitation(ROBOT, SETTINGS, joint, ACCELERATION, friction="viscous")
    folder = tmp_path_factory.mktemp("bags") / f"joint_{joint + 1}"
    write_bag(run, ROBOT, SETTINGS, folder, profile="joint", law="open_loop_joint")
    return joint, folder


@pytest.fixture(scope="module")
def usual(bag):
    """What is identified of that bag."""
    return identify_joint(excited_joints(load_driver_recording(bag[1], ROBOT)), ROBOT, SETTINGS)


def truth(joint):
    """Inertia and damping of the simulated arm's joint at the rest posture, and its response with 1.5 ms."""
    model = ArmModel.of(ROBOT)
    phi = model.base_parameters(from_file(plant_standard(ROBOT), model.mdh))
    inertia = model.inertia_matrix(ROBOT.rest_posture[None], phi)[0, joint, joint]
    damping, s = phi[f"FV{joint + 1}"], 2j * np.pi * BAND_HZ
    return inertia, damping, np.exp(-0.0015 * s) / (inertia * s + damping)


@pytest.mark.slow
def test_a_known_joint_of_the_simulated_arm_is_recovered_with_all_nuisances_on(bag, usual):
    joint, folder = bag
    assert [one.joint for one in excited_joints(load_driver_recording(folder, ROBOT))] == [joint]
    found = usual
    inertia, damping, response = truth(joint)
    fit = found.first_order
    assert fit.gain.value == pytest.approx(1.0 / damping, rel=0.05)
    assert fit.time_constant.value == pytest.approx(inertia / damping, rel=0.05)
    assert fit.dead_time.value == pytest.approx(0.0015, abs=0.0005)
    assert fit.coulomb.value == pytest.approx(ROBOT.nuisances.coulomb_friction_nm[joint], rel=0.05)
    assert fit.normalised_error == pytest.approx(1.0, abs=0.1)
    for bounded, width in ((fit.gain, 0.1), (fit.time_constant, 0.1), (fit.dead_time, 0.2)):
        assert bounded.lower < bounded.value < bounded.upper
        assert (bounded.upper - bounded.lower) < width * bounded.value
    for model in (fit, found.arx):
        assert np.abs(20 * np.log10(np.abs(model.response(BAND_HZ) / response))).max() < 1.0
    shown = found.as_dict()["response"]
    assert len(shown["first_order"]["magnitude_db"]) == len(shown["arx"]["phase_deg"]) == len(shown["frequency_hz"])


@pytest.mark.slow
def test_the_bag_gives_the_stretches_without_feedback(bag):
    folder = bag[1]
    (excited,) = excited_joints(load_driver_recording(folder, ROBOT))
    found, dt = segments(excited, ROBOT)
    assert dt == pytest.approx(DT, rel=1e-4) and len(found) == 12  # four levels of three signals each
    for one in found:  # two values of torque, from which only the current's steps and the fading former law differ
        late = one.torque[LEAD + 600 :]
        assert len(late) == 0 or np.unique(np.sign(late[np.abs(late) > 0.01])).size <= 2
    driven = np.flatnonzero((excited.dq_ref[:, excited.joint] == 0) & (excited.ddq_ref[:, excited.joint] != 0))
    for missing, pieces, longest in ((4, 12, 2400), (40, 12, 1000)):  # held over, or the end of the stretch
        kept = np.delete(np.arange(len(excited.time)), driven[0] + 1000 + np.arange(missing))
        first = segments(some(excited, kept), ROBOT)[0]
        assert len(first) == pieces and abs(len(first[0].q) - longest) <= 1  # a state on its edge belongs to either
        assert np.isnan(first[0].q).sum() == (missing if longest == 2400 else 0)


@pytest.mark.slow
def test_a_joint_that_carries_the_forearm_is_recovered_too():
    joint = 3
    run = simulate_excitation(ROBOT, SETTINGS, joint, ACCELERATION, mount="hanging", seed=2, friction="viscous")
    excited = ExcitedJoint(
        joint,
        run.stamps_ns / 1e9,
        run.q,
        run.torque_command,
        run.dq_ref,
        run.ddq_ref,
        ROBOT.torque_constants,
        run.mount,
        "lock-step",
    )
    fit = identify_joint([excited], ROBOT, SETTINGS).first_order
    inertia, damping, _ = truth(joint)
    assert fit.gain.value == pytest.approx(1.0 / damping, rel=0.05)
    assert fit.time_constant.value == pytest.approx(inertia / damping, rel=0.05)


def some(excited, rows):
    """A part of the states."""
    parts = {key: getattr(excited, key)[rows] for key in ("time", "q", "command", "dq_ref", "ddq_ref")}
    return type(excited)(**{**vars(excited), **parts})


@pytest.mark.slow
def test_missing_readings_do_not_bias_the_fit(bag):
    joint, folder = bag
    (excited,) = excited_joints(load_driver_recording(folder, ROBOT))
    kept = np.sort(np.random.default_rng(0).choice(len(excited.time), len(excited.time) * 97 // 100, replace=False))
    found = identify_joint([some(excited, kept)], ROBOT, SETTINGS).first_order
    inertia, damping, _ = truth(joint)
    assert found.gain.value == pytest.approx(1.0 / damping, rel=0.1)
    assert found.time_constant.value == pytest.approx(inertia / damping, rel=0.1)
    assert found.dead_time.value == pytest.approx(0.0015, abs=0.0005)
    assert found.missing == pytest.approx(0.03, abs=0.01) and found.doubts == ()


@pytest.mark.slow
def test_unreliable_fit_is_reported_and_not_written(bag, tmp_path):
    folder = bag[1]
    (excited,) = excited_joints(load_driver_recording(folder, ROBOT))
    kept = np.sort(np.random.default_rng(0).choice(len(excited.time), len(excited.time) * 80 // 100, replace=False))
    found = identify_joint([some(excited, kept)], ROBOT, SETTINGS)
    assert any("of the cycles have no reading, at most 0.05 is trusted" in one for one in found.first_order.doubts)
    with pytest.raises(DataError, match=r"controller\.yaml is not written: joint 7: 0\.\d+ of the cycles"):
        write_controller(tmp_path / "controller.yaml", [found], SETTINGS)
    assert not (tmp_path / "controller.yaml").exists()


def synthetic(gain, lag, dead, torque, noise=0.0, seed=0):
    """Encoder readings of eq. 1 behind a hold of 1 ms, by scipy's simulation on a grid of 50 us; `dead` excludes it."""
    fine = 20
    held = np.repeat(torque, fine)
    late = np.concatenate([np.zeros(round(dead / DT * fine)), held])[: len(held)]
    time = np.arange(len(held)) * DT / fine
    _, q, _ = lsim(([gain], [lag, 1.0, 0.0]), late, time, interp=False)
    reading = np.rint((q[::fine] + noise * np.random.default_rng(seed).normal(size=len(torque))) / COUNT) * COUNT
    return Segment(reading, np.concatenate([np.zeros(LEAD), torque]))


@pytest.mark.slow
@pytest.mark.parametrize(("gain", "lag", "dead"), [(25.0, 0.15, 0.0012), (8.0, 0.4, 0.0035), (40.0, 0.05, 0.0)])
def test_first_order_models_are_recovered_whatever_their_dead_time(gain, lag, dead):
    size = 1.5 / gain * np.array([1.0, 1.4])
    signals = (square_wave(0.8, 6, DT), binary_sequence(7, 0.02, DT))
    parts = [synthetic(gain, lag, dead, a * signal) for a, signal in zip(size, signals, strict=True)]
    fit = fit_first_order(parts, DT, COUNT, (2.0 * lag / gain, 0.5 / gain))
    assert fit.gain.value == pytest.approx(gain, rel=0.02)
    assert fit.time_constant.value == pytest.approx(lag, rel=0.02)
    assert fit.dead_time.value == pytest.approx(dead + 0.5 * DT, abs=0.0002)
    assert fit.coulomb.value < 0.03 * size[0]
    assert fit.inertia == pytest.approx(lag / gain, rel=0.01) and fit.damping == pytest.approx(1 / gain, rel=0.02)


def without_friction():
    """A first-order fit that knows of no friction and no load."""
    known = fit_first_order([synthetic(25.0, 0.15, 0.001, 0.1 * square_wave(0.8, 4, DT))], DT, COUNT, (0.006, 0.04))
    nothing = {"coulomb": type(known.coulomb)(0.0, 0.0, 0.0), "offset": 0.0, "stiffness": 0.0}
    return type(known)(**{**vars(known), **nothing})


@pytest.mark.slow
def test_fourth_order_model_shows_the_resonance():
    """A joint with a resonance at 9 Hz that keeps moving one way, by scipy's simulation on a finer grid."""
    held = np.repeat(0.1 + 0.05 * np.random.default_rng(1).choice([-1.0, 1.0], 300), 250)
    natural, damping = 2 * np.pi * 9.0, 0.15
    poles = np.polymul([0.1, 1.0], [1.0, 2 * damping * natural, natural**2])
    _, q, _ = lsim(([20.0 * natural**2], [*poles, 0.0]), held, np.arange(len(held)) * DT / 10, interp=False)
    part = Segment(q[::10].copy(), np.concatenate([np.zeros(LEAD), held[::10]]))
    s = 2j * np.pi * BAND_HZ
    expected = 20.0 * natural**2 / np.polyval(poles, s)

    def error(model):
        return np.abs(20 * np.log10(np.abs(model.response(BAND_HZ) / expected))).max()

    assert error(fit_arx([part], DT, without_friction())) < 1.0
    assert error(fit_first_order([part], DT, COUNT, (0.005, 0.05))) > 5.0


@pytest.mark.slow
def test_uninformative_data_are_refused():
    sticking = Segment(np.zeros(2000), np.concatenate([np.zeros(LEAD), 0.02 * square_wave(0.5, 4, DT)]))
    with pytest.raises(DataError, match=r"none has 50 states and a motion of 3\.5 deg \(the largest is 0\.00 deg\)"):
        fit_first_order([sticking], DT, COUNT, (0.005, 0.04))
    with pytest.raises(DataError, match="of 0 open-loop segments"):
        fit_first_order([], DT, COUNT, (0.005, 0.04))
    with pytest.raises(DataError, match=r"10 positions has 10 torques; expected 16 more"):
        Segment(np.zeros(10), np.zeros(10))
    good = synthetic(25.0, 0.15, 0.001, 0.1 * square_wave(0.8, 4, DT))
    fit = fit_first_order([good], DT, COUNT, (0.006, 0.04))
    slow = Segment(0.01 * good.q, good.torque)
    with pytest.raises(DataError, match="kept moving in 0 intervals"):
        fit_arx([slow], DT, fit)


def test_a_bag_without_excitation_is_refused(tmp_path):
    motion = approach(ROBOT.rest_posture, ROBOT.rest_posture + 0.1, ROBOT.joint_names, name="short")
    from dynid.control.ff_pd import FeedforwardPd

    run = simulate(ROBOT, motion, FeedforwardPd(SETTINGS), friction="viscous")
    write_bag(run, ROBOT, SETTINGS, tmp_path / "short", profile="limited")
    with pytest.raises(DataError, match=r"holds no joint excitation .* its experiments are: short"):
        excited_joints(load_driver_recording(tmp_path / "short", ROBOT))


@pytest.mark.slow
def test_too_few_data_for_the_fourth_order_model_leave_eq_1(bag):
    joint, folder = bag
    (excited,) = excited_joints(load_driver_recording(folder, ROBOT))
    driven = np.flatnonzero((excited.dq_ref[:, joint] == 0) & (excited.ddq_ref[:, joint] != 0))
    stretch = driven[driven < driven[0] + 20000]  # before the strongest level, whose stretches its window cuts short
    part = some(excited, slice(stretch[-1] - 2500, stretch[-1] - 900))
    found = identify_joint([part], ROBOT, SETTINGS)
    assert found.first_order.gain.value > 0.0 and isinstance(found.arx, str)
    shown = found.as_dict()
    assert "kept moving in" in shown["arx"]["refused"] and set(shown["response"]) == {"frequency_hz", "first_order"}
    with pytest.raises(DataError, match="open-loop segments none has"):
        identify_joint([some(excited, slice(0, driven[0] + 40))], ROBOT, SETTINGS)


@pytest.mark.slow
def test_realization_parameters_are_written_and_nothing_is_overwritten(bag, usual, tmp_path):
    (joint, folder), found = bag, usual
    path = tmp_path / "controller.yaml"
    write_controller(path, [found], SETTINGS)
    written = load_controller(ROBOT, path)
    assert written == controller_settings([found], SETTINGS)
    assert written.inertia_kg_m2[joint] == pytest.approx(
        found.first_order.time_constant.value / found.first_order.gain.value, rel=1e-5
    )
    assert written.damping_nm_s_rad[joint] == pytest.approx(1.0 / found.first_order.gain.value, rel=1e-5)
    others = [k for k in range(ROBOT.size) if k != joint]
    assert [written.inertia_kg_m2[k] for k in others] == [SETTINGS.inertia_kg_m2[k] for k in others]
    assert written.proportional_gain_1_s2 == SETTINGS.proportional_gain_1_s2
    assert str(folder) in path.read_text()
    with pytest.raises(OutputExistsError):
        write_controller(path, [found], SETTINGS)
