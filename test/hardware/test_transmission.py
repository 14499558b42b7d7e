"""Gears and couplings in reading, writing, limits and holding; equal mechanics give equal models."""

from pathlib import Path

import numpy as np
import pytest
from driven_arm import driven
from geared_arms import COUPLING, RATIOS, variant

from dynid.errors import ConfigurationError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.bus import control_table as table
from dynid.hardware.safety.guard import SafetyGuard, SafetySettings
from dynid.hardware.safety.guard_states import GuardEvent
from dynid.hardware.servos.models import USUAL_UNIT_A
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.data.recordings import Recording
from dynid.identification.pipeline import identify
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.model.standard import load_standard
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Robot

KINDS = tuple(RATIOS)
DURATION_S = 12.0


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def robot(kind: str, tmp_path: Path) -> Robot:
    return variant(kind, tmp_path)


# -- conversion ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_motors_and_joints_are_converted_as_written_in_the_robot_file(robot: Robot) -> None:
    between, rng = Transmission(robot), np.random.default_rng(1)
    q, tau_motor = rng.normal(size=(2, 5, 3))
    np.testing.assert_allclose(between.motor_motion(q), robot.gear_ratios * (q @ robot.coupling.T))
    np.testing.assert_allclose(between.joint_motion(between.motor_motion(q)), q)
    tau = between.joint_torque(tau_motor)
    np.testing.assert_allclose(tau, (tau_motor * robot.gear_ratios) @ robot.coupling)
    np.testing.assert_allclose(np.sum(tau * q, axis=1), np.sum(tau_motor * between.motor_motion(q), axis=1))  # power
    joint_a = between.joint_currents(tau_motor / robot.torque_constants)
    np.testing.assert_allclose(joint_a * robot.joint_constants, tau)
    np.testing.assert_allclose(between.motor_currents(joint_a), tau_motor / robot.torque_constants)


def test_coupled_motors_are_limited_together_and_no_torque_changes_its_sign(tmp_path: Path) -> None:
    between = Transmission(variant("coupled", tmp_path))
    wanted, caps = np.array([2.0, -2.4, -2.4]), np.array([2.5, 1.0, 1.5])
    found = between.within(wanted, caps)
    assert found[0] == 2.0 and found[1] / wanted[1] == pytest.approx(found[2] / wanted[2])
    assert (np.abs(between.motor_currents(found))[1:] <= caps[1:] + 1e-12).all()
    assert np.isclose(np.abs(between.motor_currents(found))[1:], caps[1:]).any()
    np.testing.assert_array_equal(between.within(found, caps), found)


def test_joint_is_read_if_all_motors_of_its_group_are(tmp_path: Path) -> None:
    answers = np.array([True, True, False])
    assert Transmission(variant("coupled", tmp_path)).joints_read(answers).tolist() == [True, False, False]
    assert Transmission(variant("geared", tmp_path)).joints_read(answers).tolist() == [True, True, False]


# -- the driver ------------------------------------------------------------------------------------------------


def test_the_driver_reads_and_drives_joints(robot: Robot) -> None:
    setup = driven(robot, q0=np.array([0.3, -0.2, 0.1]), hold_until_current=False)
    servos = [setup.chain.servos[one] for one in robot.servo_ids]
    raw = np.array([servo.get(table.PRESENT_POSITION) - 2048 for servo in servos]) * table.POSITION_RAD_PER_COUNT
    sample = setup.driver.read()
    coupling = np.array(COUPLING) if robot.file.coupling else np.eye(3)
    np.testing.assert_allclose(raw, robot.gear_ratios * (coupling @ setup.plant.q), atol=0.01)
    np.testing.assert_allclose(sample.q, setup.plant.q, atol=0.01)
    setup.driver.enable()
    tau = np.array([2.0, -1.0, 0.5])
    written = setup.driver.write_currents(tau / robot.joint_constants)
    np.testing.assert_allclose(written * robot.joint_constants, tau, atol=0.02)
    setup.driver.bus.clock.sleep(0.001)
    goals = np.array([servo.get(table.GOAL_CURRENT) for servo in servos]) * robot.current_units
    at_motors = np.linalg.solve(coupling.T, tau) / robot.gear_ratios / robot.torque_constants
    np.testing.assert_allclose(goals, at_motors, atol=USUAL_UNIT_A)
    sample = setup.driver.read()
    np.testing.assert_allclose(sample.tau_present, tau, atol=0.15)
    np.testing.assert_allclose(setup.plant.torque, tau, atol=0.15)


def test_a_negative_gear_reverses_position_and_current(tmp_path: Path) -> None:
    """Ratio -2: an encoder that reads -0.0046 rad is a joint at +0.0023 rad, and +2 N m need a negative current."""
    robot = variant("geared", tmp_path)
    setup = driven(robot, q0=np.array([3 * table.POSITION_RAD_PER_COUNT / 2, 0.0, 0.0]), switched_off=("backlash",))
    sample = setup.driver.read()
    assert setup.chain.servos[1].get(table.PRESENT_POSITION) - 2048 == -3
    assert sample.q[0] == pytest.approx(0.0023, abs=1e-5)
    setup.driver.enable()
    setup.driver.write_currents(np.array([2.0, 0.0, 0.0]) / robot.joint_constants)
    setup.driver.bus.clock.sleep(0.001)
    expected = -2.0 / (2.0 * robot.torque_constants[0])
    goal_a = setup.chain.servos[1].get(table.GOAL_CURRENT) * USUAL_UNIT_A
    assert goal_a == pytest.approx(expected, abs=USUAL_UNIT_A)


@pytest.mark.slow
def test_the_guard_brakes_at_the_joints_limits_through_any_gear(robot: Robot) -> None:
    """An arm whose joint 1 is driven outwards with all it has stops within its limits, and is held there."""
    setup = driven(robot, q0=np.array([0.4, 0.0, 0.0]), hold_until_current=False)
    guard = SafetyGuard(robot, SafetySettings(current_ramp_s=0.0, command_timeout_s=1.0))
    guard.handle(GuardEvent.ENABLE)
    setup.driver.enable()
    farthest = 0.0
    for _ in range(1000):
        sample = setup.driver.read()
        result = guard.filter(np.array([18.0, 0.0, 0.0]), 0.0, sample.q, sample.dq, sample.valid)
        applied = setup.driver.write_currents(result.current_a)
        assert (np.abs(Transmission(robot).motor_currents(applied)) <= robot.current_limits + 0.002).all()
        setup.driver.bus.clock.sleep(0.001)
        farthest = max(farthest, float(setup.plant.q[0]))
    assert 0.9 < farthest < robot.upper[0] and abs(setup.plant.dq[0]) < 0.3
    assert (setup.chain.max_abs_current_a <= robot.current_limits + 1e-9).all()


def test_servos_hold_coupled_and_geared_joints_where_they_are(robot: Robot) -> None:
    """In position mode, when nobody answers: the goals are the motors' angles, not the joints'."""
    setup = driven(robot, q0=np.array([-0.5, 0.3, 0.2]))
    setup.driver.enable()
    setup.driver.servo_side_hold.begin(np.ones(3, dtype=np.bool_), setup.driver.read().q)
    for _ in range(100):
        setup.driver.servo_side_hold.step(1.0, 0.002)
        setup.driver.bus.clock.sleep(0.002)
    for servo in setup.chain.servos.values():
        assert servo.get(table.OPERATING_MODE) == table.POSITION_MODE and servo.torque_enabled
        goal, present = servo.get(table.GOAL_POSITION), servo.get(table.PRESENT_POSITION)
        assert abs(goal - present) < 150, "held far from where it is"
    before = setup.plant.q.copy()
    setup.driver.bus.clock.sleep(0.5)
    setup.line.settle(setup.line.clock.now_ns)
    assert np.abs(setup.plant.q - before).max() < 0.1


# -- what is refused -------------------------------------------------------------------------------------------


def test_a_motor_that_turns_beyond_its_encoders_turn_is_refused(tmp_path: Path) -> None:
    robot = variant("geared", tmp_path)
    joints = [joint.model_dump(exclude_none=True) for joint in robot.file.joints]
    joints[0]["gear_ratio"] = 32.0
    joints[0]["velocity_limit_rad_s"] = 1.0
    wide = variant("direct", tmp_path, joints=joints)
    with pytest.raises(ConfigurationError, match=r"motor of joint joint_1 turns from -1920 to 1920 deg"):
        DynamixelArm(wide, "/dev/null", allow_real_port=True)


# -- the same model --------------------------------------------------------------------------------------------


def reference(times: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sines that begin at rest: q, dq, ddq at times (N,) [s], (N, 3) each."""
    rates = np.array([[2.1, 3.3, 5.1], [2.7, 4.2, 6.3], [3.1, 5.3, 7.9]])
    sizes = np.array([[0.25, 0.15, 0.06], [0.28, 0.15, 0.06], [0.28, 0.15, 0.06]])
    angles = rates * times[:, None, None]
    q = np.array([-0.3, 0.1, 0.1]) - (sizes * np.cos(angles)).sum(axis=2)
    return q, (sizes * rates * np.sin(angles)).sum(axis=2), (sizes * rates**2 * np.cos(angles)).sum(axis=2)


def recorded(robot: Robot, feedforward: Robot) -> Recording:
    """Drive an arm along the reference through driver and guard; what was read and what was commanded."""
    model = ArmModel.of(feedforward)
    path = feedforward.folder / "models" / "nominal.yaml"
    phi = model.base_parameters(load_standard(path, model.mdh, model.regrouping.standard)).values
    planned = np.arange(0.0, DURATION_S, robot.file.bus.cycle_s)
    q_ref, dq_ref, ddq_ref = reference(planned)
    tau_ref = model.regressor(q_ref, dq_ref, ddq_ref) @ phi
    setup = driven(robot, q0=q_ref[0], switched_off=("coulomb",))
    guard = SafetyGuard(robot, SafetySettings(current_ramp_s=0.0))
    setup.driver.enable()
    guard.handle(GuardEvent.ENABLE)
    clock, stiffness, damping = setup.line.clock, np.array([60.0, 40.0, 15.0]), np.array([6.0, 3.0, 0.8])
    began_ns = clock.now_ns
    times, q, tau = list[float](), list[FloatArray](), list[FloatArray]()
    for k, due in enumerate(planned):
        clock.advance_to(began_ns + round(due * 1e9))
        sample = setup.driver.read()
        torque = tau_ref[k] + stiffness * (q_ref[k] - sample.q) + damping * (dq_ref[k] - sample.dq)
        result = guard.filter(torque, 0.0, sample.q, sample.dq, sample.valid)
        assert sample.complete and result.reasons == (), (k, result.reasons)
        applied = setup.driver.write_currents(result.current_a)
        times.append((clock.now_ns - began_ns) * 1e-9)
        q.append(sample.q)
        tau.append(applied * robot.joint_constants)
    setup.driver.close()
    return recording_from_arrays(robot, times, q, tau, name="run")


def with_deviations(base: BaseParameters) -> dict[str, tuple[float, float]]:
    """Values and standard deviations of parameters, by name."""
    assert base.covariance is not None
    return dict(zip(base.names, zip(base.values, np.sqrt(np.diag(base.covariance)), strict=True), strict=True))


@pytest.mark.slow
def test_a_geared_and_a_coupled_arm_have_the_model_of_the_same_arm_driven_directly(tmp_path: Path) -> None:
    robots = {kind: variant(kind, tmp_path) for kind in KINDS}
    found = {kind: identify(one, [recorded(one, robots["direct"])]) for kind, one in robots.items()}
    direct = with_deviations(found["direct"].estimate.base)
    for kind in ("geared", "coupled"):
        own = with_deviations(found[kind].estimate.base)
        assert set(direct) <= set(own)
        for name, (value, sigma) in own.items():
            expected, other = direct.get(name, (0.0, 0.0))  # the coupled motor has no friction of its own
            assert abs(value - expected) < 4.0 * np.hypot(sigma, other), (kind, name, value, expected)
        assert abs(own["MX3"][0] - direct["MX3"][0]) < 0.01 * direct["MX3"][0]


@pytest.mark.slow
def test_an_arm_of_small_servos_has_the_model_of_the_same_arm_on_large_ones(tmp_path: Path) -> None:
    """XL330 count 1 mA, XM430 2.69 mA: the same mechanics, torque constants and motion."""
    found = {}
    for number in (1020, 1200):
        own = tmp_path / str(number)
        small = {"XM": {"model_number": number, "torque_constant_nm_per_a": 2.0}}
        joints = [one.model_dump(exclude_none=True) for one in variant("direct", own / "draft").file.joints]
        robot = variant("direct", own, servos=small, joints=[joint | {"current_limit_a": 1.7} for joint in joints])
        found[number] = with_deviations(identify(robot, [recorded(robot, robot)]).estimate.base)
    large, little = found[1020], found[1200]
    assert set(large) == set(little)
    for name, (value, sigma) in large.items():
        assert abs(value - little[name][0]) < 4.0 * np.hypot(sigma, little[name][1]), (name, value, little[name])
    assert abs(little["MX3"][0] - large["MX3"][0]) < 0.01 * large["MX3"][0]
