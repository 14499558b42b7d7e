"""The servos' own position loop, hand-made motions, and a short benchmark of logs."""

import numpy as np
import pytest
from benchmarks.logs.benchmark import BARS, benchmark_logs
from benchmarks.logs.position_servos import STEP_RAD, Gains, PositionServos
from benchmarks.logs.session import Logger, SessionJob, log_of, run_session
from benchmarks.logs.teleoperation import hand_motion

from dynid.errors import ConfigurationError
from dynid.hardware.safety.overload import load_motors
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("crane_x7")


def steady_current(error_counts: float, dq: float, gains: Gains, cycles: int = 200) -> FloatArray:
    """Return the steady current at a constant position error and velocity, (n,) [A]."""
    n = ROBOT.size
    servos = PositionServos(ROBOT, gains, np.zeros(n), 0.0)
    position, current = np.zeros((2, n), dtype=np.int16)
    torque, still = np.zeros(n), np.zeros(n)
    for _ in range(cycles):
        servos.step(np.full(n, error_counts), still, np.full(n, dq), still, still, position, current, torque)
    assert np.allclose(torque / ROBOT.drive_constants, current * 0.00269, atol=0.002)
    return torque / ROBOT.drive_constants


def test_proportional_loop_current_follows_from_its_voltage() -> None:
    motors = load_motors(ROBOT)
    assert motors is not None
    for error, dq in ((10.0, 0.0), (-10.0, 0.0), (10.0, 0.5)):
        pwm = 800.0 / 128.0 * error
        volts = [m.winding.supply_v * pwm / 885.0 - m.winding.back_emf_v_s_rad * dq for m in motors]
        expected = np.array(volts) / [m.winding.resistance_ohm for m in motors]
        assert np.allclose(steady_current(error, dq, Gains()), expected, atol=1e-6)


def test_steady_current_is_capped_and_grows_with_the_integral_gain() -> None:
    assert (steady_current(2000.0, 0.0, Gains()) <= ROBOT.drive_limits + 1e-9).all()
    alone, summed = (steady_current(5.0, 0.0, Gains(i=gain)) for gain in (0, 3000))
    assert (summed > alone).all()


def test_a_robot_without_motors_has_no_position_loop() -> None:
    with pytest.raises(ConfigurationError, match=r"motors\.yaml"):
        PositionServos(load_robot("tx40"), Gains(), np.zeros(6), 0.0)


def test_hand_motions_are_smooth_and_stay_within_limits() -> None:
    q = hand_motion(ROBOT, 60.0, 100.0, 3)
    assert np.array_equal(q, hand_motion(ROBOT, 60.0, 100.0, 3))
    assert not np.array_equal(q, hand_motion(ROBOT, 60.0, 100.0, 4))
    assert (q >= ROBOT.lower).all()
    assert (q <= ROBOT.upper).all()
    assert np.abs(np.diff(q, axis=0)).max() * 100.0 < 4.0


def test_the_arm_follows_its_goals_and_logs_are_late() -> None:
    session = run_session(SessionJob(ROBOT, 8.0, 1))
    off = (session.position - session.goal)[1000:] * STEP_RAD
    assert 0.0 < np.abs(off).max() < 0.35
    prompt, late = (log_of(session, ROBOT, Logger(50.0, torque_delay_s=one), "log", 0) for one in (0.0, 0.1))
    assert late.tau is not None
    assert prompt.tau is not None
    assert np.allclose(late.tau[10:], prompt.tau[5:-5], atol=2.5)
    assert not np.allclose(late.tau, prompt.tau)


@pytest.mark.slow
def test_a_short_benchmark_has_all_figures() -> None:
    found = benchmark_logs(ROBOT, minutes=3.0)
    assert set(BARS) <= set(found)
    assert found["delay_error_ms_50hz"] < 10.0
    assert found["gravity_error_50hz"] < 0.1
