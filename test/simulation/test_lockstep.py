"""The lock-step loop: delay, register steps, references and seeds, each checked independently."""

import numpy as np
import pytest

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd, FeedforwardPdLaw
from dynid.control.motion import MotionExecutor
from dynid.errors import DataError, OutputExistsError, SafetyError, UnknownNameError
from dynid.export.mjcf import default_stops
from dynid.hardware.bus.control_table import POSITION_RAD_PER_COUNT, VELOCITY_RAD_S_PER_COUNT
from dynid.model.dynamics import ArmModel
from dynid.model.standard import from_file
from dynid.recording.completeness import completeness
from dynid.recording.driver_recording import load_driver_recording
from dynid.robot import load_robot
from dynid.simulation.lockstep.kernels import CompiledFeedforwardPd, actuate, compiled_law, nearest, sense
from dynid.simulation.lockstep.run import LONGEST_STEP_S, PHASES, SimulatedRun, simulate
from dynid.simulation.lockstep.simulated_bag import START_NS, write_bag
from dynid.simulation.plant.arm import ArmPlant, plant_standard
from dynid.simulation.plant.nuisances import NUISANCES, Play, quantise
from dynid.trajectory.families import load_excitation
from dynid.trajectory.trajectory import Trajectory, through

ROBOT = load_robot("crane_x7")
SETTINGS = load_controller(ROBOT)
STREAMS = ("q", "dq", "torque_present", "torque_command", "torque_goal", "torque_motor", "q_true", "dq_true")


def short_motion(size: float = 0.25) -> Trajectory:
    """A quick there and back of all joints, away from every limit."""
    start = ROBOT.rest_posture + np.array([0, 0.1, 0, 0, 0, 0, 0, 0.4])
    points = [start, start + size * np.array([1, -1, 1, 1, -1, 1, 1, 1]), start]
    return through("short", ROBOT.joint_names, np.array(points), np.full(8, 1.5), np.full(8, 6.0))


def run(**options) -> SimulatedRun:
    return simulate(ROBOT, short_motion(), FeedforwardPd(SETTINGS), **options)


@pytest.fixture(scope="module")
def usual() -> SimulatedRun:
    return run(seed=4)


def test_equal_seeds_repeat_bit_for_bit_and_other_seeds_do_not(usual):
    again, other = run(seed=4), run(seed=5)
    for name in (*STREAMS, "stamps_ns", "q_ref", "dq_ref", "ddq_ref"):
        np.testing.assert_array_equal(getattr(again, name), getattr(usual, name), err_msg=name)
    assert not np.array_equal(other.q, usual.q) and not np.array_equal(other.stamps_ns, usual.stamps_ns)


def test_arm_follows_and_ends_at_rest_posture(usual):
    for one, close in ((usual, 0.16), (run(seed=4, friction="viscous"), 0.11)):
        assert np.abs(one.q - one.q_ref).max() < close
        assert np.abs(one.q[-1] - ROBOT.rest_posture).max() < close
        assert np.abs(one.dq_true[-1]).max() < 0.05
    assert np.ptp(usual.q[usual.window("trajectory")], axis=0).min() > 0.1  # gears that stick take some of it


def test_results_cannot_be_changed(usual):
    with pytest.raises(ValueError, match="read-only"):
        usual.q[0, 0] = 1.0


@pytest.mark.slow
def test_references_are_those_of_the_motion_executor(usual):
    """The executor of the real-time chain, fed with the run's own states, gives the run's references and torques."""
    executor = MotionExecutor(ROBOT, FeedforwardPd(SETTINGS))
    executor.begin(short_motion(), usual.q[0], int(usual.stamps_ns[0]))
    for k, stamp in enumerate(usual.stamps_ns.tolist()):
        step = executor.update(stamp, usual.q[k])
        np.testing.assert_allclose(step.q_ref, usual.q_ref[k], atol=1e-12)
        np.testing.assert_allclose(step.dq_ref, usual.dq_ref[k], atol=1e-12)
        np.testing.assert_allclose(step.ddq_ref, usual.ddq_ref[k], atol=1e-11)
        np.testing.assert_allclose(step.tau, usual.torque_command[k], atol=1e-9)
    assert tuple(executor.phases) == usual.phases
    assert tuple(name for name, _ in usual.phases) == PHASES


def test_commands_reach_the_motors_one_cycle_later_capped_and_in_current_steps(usual):
    limit = ROBOT.current_limits
    current = np.clip(usual.torque_command / ROBOT.torque_constants, -limit, limit)
    current = np.rint(current / ROBOT.current_units) * ROBOT.current_units
    np.testing.assert_array_equal(usual.torque_goal[0], 0.0)
    np.testing.assert_allclose(usual.torque_goal[1:], current[:-1] * ROBOT.torque_constants, atol=1e-12)
    prompt = run(seed=4, switched_off={"delay"})
    wanted = np.clip(prompt.torque_command / ROBOT.torque_constants, -limit, limit)
    wanted = np.rint(wanted / ROBOT.current_units) * ROBOT.current_units * ROBOT.torque_constants
    np.testing.assert_allclose(prompt.torque_goal, wanted, atol=1e-12)


def test_sensors_report_the_mean_of_the_currents_before_and_after():
    quiet = run(switched_off={"torque_noise", "current_quantisation"})
    mean = 0.5 * (quiet.torque_goal[1:] + quiet.torque_goal[:-1])
    np.testing.assert_allclose(quiet.torque_present[1:], mean, atol=1e-12)
    np.testing.assert_array_equal(quiet.torque_motor, quiet.torque_goal)


def test_arm_has_come_to_rest_when_the_trajectory_begins():
    """Also where nothing but exact zeros would keep it on its stand; else its drop would be part of the data."""
    for options in ({}, {"q0": short_motion().start, "switched_off": set(NUISANCES)}):
        one = run(**options)
        first = one.window("trajectory").start
        assert np.abs(one.dq_true[first]).max() < 0.01
        assert np.abs(one.q[first] - one.q_ref[first]).max() > 1e-3  # it hangs in the controller's spring by then


def test_noise_of_motors_and_sensors_has_its_sigma_and_is_independent(usual):
    moving = usual.window("trajectory")
    sigma = np.array(ROBOT.nuisances.torque_noise_nm)
    motors = (usual.torque_motor - usual.torque_goal)[moving]
    sensors = (usual.torque_present[1:] - 0.5 * (usual.torque_goal[1:] + usual.torque_goal[:-1]))[moving]
    np.testing.assert_allclose(motors.std(axis=0), sigma, rtol=0.15)
    steps = ROBOT.current_units * ROBOT.torque_constants
    np.testing.assert_allclose(sensors.std(axis=0), np.hypot(sigma, steps / np.sqrt(12)), rtol=0.15)
    correlation = [np.corrcoef(motors[:, j], sensors[:, j])[0, 1] for j in range(8)]
    assert np.abs(correlation).max() < 0.15


def is_multiple(values: np.ndarray, step: np.ndarray | float) -> bool:
    counts = values / step
    return bool(np.abs(counts - np.rint(counts)).max() < 1e-6)


@pytest.mark.slow
def test_registers_have_the_servos_steps_and_no_others_where_switched_off(usual):
    currents = ROBOT.torque_constants * ROBOT.current_units
    assert is_multiple(usual.q, POSITION_RAD_PER_COUNT) and is_multiple(usual.dq, VELOCITY_RAD_S_PER_COUNT)
    assert is_multiple(usual.torque_present, currents) and is_multiple(usual.torque_goal, currents)
    fine = run(switched_off={"encoder"})
    assert not is_multiple(fine.q, POSITION_RAD_PER_COUNT) and not is_multiple(fine.dq, VELOCITY_RAD_S_PER_COUNT)
    assert is_multiple(fine.torque_goal, currents)
    smooth = run(switched_off={"current_quantisation"})
    assert not is_multiple(smooth.torque_goal, currents) and is_multiple(smooth.q, POSITION_RAD_PER_COUNT)


def test_jitter_and_backlash_can_be_switched_off_alone(usual):
    even = run(seed=4, switched_off={"jitter"})
    assert set(np.diff(even.stamps_ns)) == {1_000_000}
    assert np.std(np.diff(usual.stamps_ns)) == pytest.approx(np.sqrt(2) * 5e4, rel=0.1)
    tight = run(switched_off={"backlash", "encoder"})
    np.testing.assert_array_equal(tight.q, tight.q_true)
    loose = run(switched_off={"encoder"})
    half = 0.5 * np.deg2rad(ROBOT.nuisances.backlash_deg)
    assert np.abs(loose.q - loose.q_true).max() == pytest.approx(half, rel=1e-6)


def test_ideal_plants_torques_are_the_models():
    """With nothing but the delay and the hold left, regressor times base parameters is the motors' torque."""
    ideal = run(switched_off=set(NUISANCES), mount="hanging")
    model = ArmModel.of(ROBOT, mount="hanging")
    phi = model.base_parameters(from_file(plant_standard(ROBOT), model.mdh))
    moving = ideal.window("trajectory")
    # the mean acceleration over a cycle, at which the mean torque of the hold belongs to the middle of the cycle
    ddq = np.diff(ideal.dq_true, axis=0)[moving] / 0.001
    q, dq = (0.5 * (v[1:] + v[:-1])[moving] for v in (ideal.q_true, ideal.dq_true))
    error = model.inverse_dynamics(q, dq, ddq, phi) - ideal.torque_motor[:-1][moving]
    assert np.sqrt(np.mean(error**2)) < 2e-4


def test_model_without_dry_friction_misses_exactly_dry_friction():
    model = ArmModel.of(ROBOT)
    phi = model.base_parameters(from_file(plant_standard(ROBOT), model.mdh))
    dry = run(switched_off=set(NUISANCES) - {"coulomb"}, friction="viscous")
    moving = dry.window("trajectory")
    ddq = np.diff(dry.dq_true, axis=0)[moving] / 0.001
    q, dq = (0.5 * (v[1:] + v[:-1])[moving] for v in (dry.q_true, dry.dq_true))
    missing = dry.torque_motor[:-1][moving] - model.inverse_dynamics(q, dq, ddq, phi)
    friction = np.array(ROBOT.nuisances.coulomb_friction_nm)
    sliding = np.abs(dq) > 0.3
    for j in range(8):
        measured = missing[sliding[:, j], j] * np.sign(dq[sliding[:, j], j])
        np.testing.assert_allclose(np.median(measured), friction[j], rtol=0.03)


def test_compiled_servo_side_agrees_with_the_plants_bit_for_bit():
    rng = np.random.default_rng(2)
    q, dq = np.cumsum(rng.normal(0, 2e-4, (300, 8)), axis=0), rng.normal(0, 1, (300, 8))
    position, velocity, q_true, dq_true = (np.zeros((300, 8)) for _ in range(4))
    seen, play = np.zeros(8), Play(1e-3, np.zeros(8))
    for k in range(300):
        sense(k, q[k], dq[k], seen, 0.5e-3, POSITION_RAD_PER_COUNT, position, velocity, q_true, dq_true)
        np.testing.assert_array_equal(position[k], quantise(play.update(q[k]), POSITION_RAD_PER_COUNT))
        np.testing.assert_array_equal(velocity[k], play.velocity(q[k], dq[k]))
    np.testing.assert_array_equal(q_true, q)
    np.testing.assert_array_equal(dq_true, dq)
    assert nearest(0.3, 0.0) == 0.3 and nearest(0.3, 0.25) == 0.25


def test_compiled_control_law_is_the_controller_bit_for_bit(usual):
    class Plain(FeedforwardPd):
        """Subclass whose numpy code runs instead of the compiled law."""

    class Other(FeedforwardPdLaw):
        """Subclass with a different control law."""

    assert type(compiled_law(FeedforwardPd(SETTINGS))) is CompiledFeedforwardPd
    plain = Plain(SETTINGS)
    assert compiled_law(plain) is plain
    switched = FeedforwardPd(SETTINGS)
    switched.switch_to(Other(SETTINGS))
    assert compiled_law(switched) is switched
    same = simulate(ROBOT, short_motion(), plain, seed=4)
    for name in STREAMS:
        np.testing.assert_array_equal(getattr(same, name), getattr(usual, name), err_msg=name)


def test_actuation_delays_and_caps_currents():
    command, goal, in_force, motor = (np.zeros((3, 2)) for _ in range(4))
    settings = (
        np.array([2.0, 2.0]),
        np.array([1.0, 5.0]),
        np.full(2, 0.5),
        np.full((3, 2), 0.25),
        command,
        goal,
        in_force,
        motor,
    )
    actuate(0, 1, np.array([9.0, -3.1]), *settings)
    np.testing.assert_array_equal(goal[0], [1.0, -1.5])
    actuate(1, 1, np.array([0.1, 0.1]), *settings)
    np.testing.assert_array_equal(in_force[1], goal[0])
    np.testing.assert_array_equal(motor[1], [2.25, -2.75])
    np.testing.assert_array_equal(motor[0], [0.25, 0.25])


def test_lock_step_and_the_plant_of_the_real_time_chain_move_alike(usual):
    """The same currents, given to the plant through the interface that the servo bus uses, give the same motion."""
    plant = ArmPlant(ROBOT, seed=4, longest_step_s=LONGEST_STEP_S, hold_until_current=False)
    for k in range(1500):
        np.testing.assert_allclose(plant.q, usual.q_true[k], atol=1e-11)
        plant.set_currents(usual.torque_goal[k] / ROBOT.torque_constants)
        plant.advance(0.001)


def test_a_run_can_end_after_the_trajectory():
    short = run(to_rest=False)
    assert [name for name, _ in short.phases] == ["approach", "trajectory"]
    assert short.window("rest") == slice(0, 0)
    span = np.diff(short.stamps_ns[[short.window("trajectory").start, short.window("trajectory").stop]])[0] / 1e9
    assert span == pytest.approx(short_motion().duration, abs=0.002)


def test_bag_holds_the_run_and_nothing_of_the_truth(usual, tmp_path):
    write_bag(usual, ROBOT, SETTINGS, tmp_path / "bag", profile="limited")
    recording = load_driver_recording(tmp_path / "bag", ROBOT)
    np.testing.assert_array_equal(recording.q, usual.q)
    np.testing.assert_array_equal(recording.dq, usual.dq)
    np.testing.assert_array_equal(recording.tau_present, usual.torque_present)
    np.testing.assert_array_equal(recording.commands.tau, usual.torque_command)
    np.testing.assert_array_equal(recording.applied.tau, usual.torque_goal)
    np.testing.assert_array_equal(recording.reference.ddq, usual.ddq_ref)
    assert recording.stamp0_ns == START_NS and recording.hardware.simulated
    assert recording.hardware.mount == "upright" and recording.experiment.state == "done"
    assert recording.robot_description == ROBOT.urdf_path.read_text()
    begin, end = recording.trajectory_span()
    assert begin == pytest.approx(usual.phases[1][1] / 1e9) and end - begin == pytest.approx(short_motion().duration)
    counted = completeness(tmp_path / "bag")
    assert counted.lost == 0 and counted.missed == 0 and counted.recorded > 1000
    with pytest.raises(OutputExistsError):
        write_bag(usual, ROBOT, SETTINGS, tmp_path / "bag", profile="limited")


def test_trajectories_beyond_the_stops_need_wider_ones():
    lower, upper = default_stops(ROBOT)
    start = ROBOT.rest_posture.copy()
    beyond = start.copy()
    beyond[0] = upper[0] + 0.05
    far = through("far", ROBOT.joint_names, np.array([start, beyond]), np.full(8, 2.0), np.full(8, 8.0))
    with pytest.raises(SafetyError, match="shoulder_fixed_part_pan"):
        simulate(ROBOT, far, FeedforwardPd(SETTINGS))
    wide = simulate(ROBOT, far, FeedforwardPd(SETTINGS), stops=(lower, upper + 0.2), to_rest=False)
    assert wide.q[-1, 0] == pytest.approx(beyond[0], abs=0.03)


@pytest.mark.slow
def test_the_papers_profile_runs_between_stops_of_its_own():
    excitation = load_excitation(ROBOT)
    motion = excitation.trajectory("PB01", "paper")
    with pytest.raises(SafetyError, match="PB01"):
        simulate(ROBOT, motion, FeedforwardPd(SETTINGS))
    stops = default_stops(ROBOT, excitation.limits("paper"))
    paper = simulate(ROBOT, motion, FeedforwardPd(SETTINGS), stops=stops, mount="hanging")
    assert (paper.q.min(axis=0) < ROBOT.lower).any() and paper.mount == "hanging"
    assert np.all(stops[0] < paper.q_true) and np.all(paper.q_true < stops[1])


def test_an_arm_that_does_not_follow_is_an_error():
    class Limp(FeedforwardPd):
        def update(self, dt, q, q_ref, dq_ref, ddq_ref):
            return 0.02 * super().update(dt, q, q_ref, dq_ref, ddq_ref)

    with pytest.raises(SafetyError, match="off its reference"):
        simulate(ROBOT, short_motion(), Limp(SETTINGS))


def test_invalid_input_is_refused_by_name():
    with pytest.raises(UnknownNameError, match="nuisance 'wind'"):
        run(switched_off={"wind"})
    with pytest.raises(UnknownNameError, match="mount 'wall'"):
        run(mount="wall")
    other = through("x", tuple("abcdefgh"), np.zeros((2, 8)), np.ones(8), np.ones(8))
    with pytest.raises(DataError, match="moves a, b"):
        simulate(ROBOT, other, FeedforwardPd(SETTINGS))
