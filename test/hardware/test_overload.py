"""Overload model against its published value, the guard's stop before it, and the check of motions."""

import numpy as np
import pytest

from dynid.control.motion_check import MotionCheck, robot_limits
from dynid.errors import ConfigurationError, SafetyError
from dynid.hardware.safety.guard import SafetyGuard, SafetySettings, load_safety
from dynid.hardware.safety.guard_states import GuardEvent, GuardState
from dynid.hardware.safety.overload import LIMITED, OverloadLimit, OverloadModel, load_motors
from dynid.robot import Robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.trajectory import through

JOINT, XM540 = 3, 1


@pytest.fixture
def law(robot: Robot) -> OverloadModel:
    law = OverloadModel.of(robot)
    assert law is not None
    return law


def constant(robot: Robot, current_a: float, joint: int = JOINT) -> np.ndarray:
    current = np.zeros(robot.size)
    current[joint] = current_a
    return current


@pytest.mark.slow
def test_the_published_current_trips_in_the_published_time(robot: Robot, law: OverloadModel) -> None:
    shares = law.along(np.zeros(8), np.tile(constant(robot, -0.941), (5000, 1)), 0.001)[:, JOINT]
    assert shares[-1] == pytest.approx(1.0) and shares[4000] < 0.81
    assert law.along(np.zeros(8), np.tile(constant(robot, 0.75), (600, 1)), 1.0).max() < 1e-9
    assert law.along(np.zeros(8), np.tile(constant(robot, 0.941, XM540), (600, 1)), 1.0).max() == 0.0


def test_overload_along_a_motion_equals_single_steps(law: OverloadModel) -> None:
    current = 2.0 * np.random.default_rng(0).standard_normal((500, 8))
    share, steps = np.linspace(0.0, 0.9, 8), []
    for row in current:
        share = law.step(share, row, 0.5)
        steps.append(share)
    assert np.min(steps) == 0.0 and np.max(steps) > 1.0
    np.testing.assert_allclose(law.along(np.linspace(0.0, 0.9, 8), current, 0.5), steps, atol=1e-9)


def test_an_unloaded_servo_recovers(robot: Robot, law: OverloadModel) -> None:
    assert law.step(np.full(8, 0.9), np.zeros(8), 1.0)[JOINT] < 0.6
    assert law.step(np.full(8, 0.9), np.zeros(8), 100.0).max() == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("wanted_a", [0.8, 0.941, 2.5])
def test_under_the_lowered_limit_no_current_trips(robot: Robot, law: OverloadModel, wanted_a: float) -> None:
    share, full = np.zeros(8), np.full(8, 2.5)
    for _ in range(60_000):
        share = law.step(share, np.minimum(wanted_a, law.cap(share, full)), 0.001)
    assert share[JOINT] < 1.0
    assert law.cap(np.full(8, LIMITED), full) == pytest.approx(full)


def limiting(robot: Robot, *, limits: bool = True) -> SafetySettings:
    return load_safety(robot).model_copy(update={"overload_limits": limits})


def test_guard_without_limits_only_reports_the_load(robot: Robot) -> None:
    guard = SafetyGuard(robot, limiting(robot, limits=False))
    for _ in range(20_000):
        guard.set_load(constant(robot, 0.941), 0.001)
    assert guard.load[JOINT] > 1.0 and not guard.overloaded().any()


def test_guard_lowers_limits_and_names_overloaded_servos(robot: Robot) -> None:
    guard, none = SafetyGuard(robot, limiting(robot)), np.zeros(8)
    for _ in range(4200):
        guard.set_load(constant(robot, 0.941), 0.001)
    assert not guard.overloaded().any()
    for _ in range(5100):
        guard.set_load(constant(robot, 0.7501), 0.001)
    assert not guard.overloaded().any()  # it has not needed more
    guard.load[JOINT] = 0.9
    for _ in range(5100):
        guard.set_load(constant(robot, 0.7501), 0.001)
    assert np.flatnonzero(guard.overloaded()).tolist() == [JOINT]
    guard.handle(GuardEvent.ENABLE)
    wanted = constant(robot, 2.4) * robot.torque_constants
    for _ in range(600):  # beyond the ramp
        flowing = guard.filter(wanted, 0.0, robot.rest_posture, none).current_a
    assert 0.73 < flowing[JOINT] < 2.4
    guard.set_temperatures(np.full(8, 90.0))  # the lower limit counts
    assert abs(guard.filter(wanted, 0.0, robot.rest_posture, none).current_a[JOINT]) < 0.76
    guard.set_load(none, 100.0)
    guard.set_temperatures(np.full(8, 30.0))
    guard.filter(wanted, 0.0, robot.rest_posture, none)  # a current rises by steps
    assert guard.filter(wanted, 0.0, robot.rest_posture, none).current_a[JOINT] == pytest.approx(2.4)


def test_overload_stop_lowers_the_arm_without_holding(robot: Robot) -> None:
    still, none = robot.rest_posture, np.zeros(8)
    lengths = []
    for hold_s in (None, 0.0):
        guard = SafetyGuard(robot)
        guard.handle(GuardEvent.ENABLE)
        for _ in range(1000):  # the hold learns what the arm carries
            guard.filter(constant(robot, 1.0) * robot.torque_constants, 0.0, still, none)
        guard.fault("a fault", hold_s)
        assert guard.state is GuardState.FAULT
        cycles = 0
        while guard.torque_needed:
            assert cycles < 10_000
            guard.filter(None, 1.0, still, none)
            cycles += 1
        lengths.append(cycles)
    assert lengths[1] < lengths[0]


def carrying(robot: Robot, current_a: float):
    def torques(q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> np.ndarray:
        return np.tile(constant(robot, current_a) * robot.torque_constants, (len(q), 1))

    return torques


def test_a_motion_that_would_trip_a_servo_is_refused_with_joint_time_and_value(robot: Robot) -> None:
    limits = robot_limits(robot, load_excitation(robot).acceleration_limits)
    rest = np.array(robot.rest_posture)
    slow = through("slow", robot.joint_names, np.array([rest, rest + 0.3]), np.full(8, 0.06), np.ones(8))
    assert slow.duration > 5.0
    with pytest.raises(SafetyError) as refusal:
        MotionCheck(robot, limits, carrying(robot, 0.941)).check([slow])
    assert f"'slow' refused: {robot.joint_names[JOINT]} carries 0.941 A at 4.2" in str(refusal.value)
    assert "85% of the overload that switches it off" in str(refusal.value)
    MotionCheck(robot, limits, carrying(robot, 0.74)).check([slow])


def test_the_end_of_a_motion_counts_as_held(robot: Robot) -> None:
    limits, rest = robot_limits(robot, load_excitation(robot).acceleration_limits), np.array(robot.rest_posture)
    short = through("short", robot.joint_names, np.array([rest, rest + 0.01]), np.ones(8), np.ones(8))
    assert short.duration < 1.0
    with pytest.raises(SafetyError, match=r"carries 0\.941 A at 4\.2"):
        MotionCheck(robot, limits, carrying(robot, 0.941)).check([short])


def test_figures_are_complete_or_refused(robot: Robot, tmp_path) -> None:
    motors = load_motors(robot)
    assert motors is not None and len(motors) == 8
    with pytest.raises(ValueError, match=r"nominal_a 1\.0 must be below current_a 0\.9"):
        OverloadLimit(current_a=0.9, trips_after_s=5.0, nominal_a=1.0)
    other = Robot(robot.file, tmp_path)
    assert load_motors(other) is None and OverloadModel.of(other) is None
    text = (robot.folder / "motors.yaml").read_text().replace("XM540-W270:", "XM540-W150:")
    (tmp_path / "motors.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match="has no servo model XM540-W270"):
        load_motors(other)
