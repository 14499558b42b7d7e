"""The filter of an arm's motion: low-pass against scipy, signatures against runs with a force, and alarms."""

import numpy as np
import pytest
from benchmarks.contact.bound import first_difference_ms
from scipy.stats import chi2, truncnorm
from test.shared.felt import ARM, ROBOT, SPREAD, N, control_model, model_file, moved

from dynid.contact.force import ToolForce
from dynid.contact.innovations import friction_terms, measure, truncated_moments
from dynid.contact.motion_filter import MotionFilter
from dynid.contact.onset import FALSE_ALARMS_1_S, OnsetTests
from dynid.contact.stamp_jitter import StampJitter
from dynid.errors import DataError, SafetyError
from dynid.model.gear_presets import gear_friction
from dynid.model.model_file import TorqueDeviations
from dynid.robot import FloatArray
from dynid.simulation.lockstep.stepped_arm import SteppedArm

STEP = 2.0 * np.pi / 4096


@pytest.mark.parametrize("off", [0.0, 0.2 * STEP, -0.6 * STEP, 0.9 * STEP])
@pytest.mark.parametrize("deviation", [0.1 * STEP, 0.7 * STEP, 5.0 * STEP])
def test_a_normal_distribution_within_an_encoder_step_is_scipys(off: float, deviation: float) -> None:
    low, high = (off - 0.5 * STEP) / deviation, (off + 0.5 * STEP) / deviation
    moved_by, share = truncated_moments(deviation, off, STEP)
    expected = truncnorm(low, high, scale=deviation)
    np.testing.assert_allclose(moved_by, expected.mean(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(deviation**2 * (1.0 - share), expected.var(), rtol=1e-4, atol=1e-12)


def read(steps_per_reading: float, readings: int = 60) -> tuple[float, float]:
    """Error of a joint that moves by known steps, and the deviation that it is given, in encoder steps."""
    x, P, true = np.array([0.0]), np.array([[STEP**2 / 12.0]]), 0.4 * STEP
    gains, found, within = np.zeros((1, 1)), np.zeros((2, 1)), np.zeros(1)
    for _ in range(readings):
        x += steps_per_reading * STEP
        true += steps_per_reading * STEP
        middle = np.array([np.rint(true / STEP) * STEP])
        measure(x, P, middle, np.array([STEP]), np.array([1e-3 * STEP]), within, gains, found)
    return abs(float(x[0]) - true) / STEP, float(np.sqrt(P[0, 0])) / STEP


@pytest.mark.parametrize("whole", [0.0, 1.0, -2.0])
def test_repeated_equal_readings_add_no_information(whole: float) -> None:
    error, deviation = read(whole)
    assert error > 0.3 and deviation > 0.15  # a uniform distribution within a step has 0.29


def test_a_moving_joints_position_is_known_to_a_fraction_of_an_encoder_step() -> None:
    error, deviation = read(0.37)
    assert error < 0.05 and deviation < 0.05


def test_brief_model_errors_count_as_noise_and_not_as_lasting_torque() -> None:
    brief = tuple(3.0 * one for one in SPREAD)
    given = TorqueDeviations(speeds_rad_s=(0.1,), deviations_nm=(brief,) * 2, lasting_nm=(SPREAD,) * 2)
    spreads = []
    for errors in (TorqueDeviations(speeds_rad_s=(0.1,), deviations_nm=(SPREAD,) * 2), given):
        motion = MotionFilter(ROBOT, ARM, control_model(), errors, 0.0)
        motion.reset(ROBOT.rest_posture, np.full(N, 0.5))
        np.testing.assert_allclose(np.diag(motion.P)[2 * N : 3 * N], np.square(SPREAD))
        motion.update(0.001, ROBOT.rest_posture + 5e-4, np.zeros(N))
        spreads.append(np.diag(motion.P)[N : 2 * N].copy())
    assert (spreads[1] > spreads[0]).all()


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_reading_that_is_not_finite_is_refused_and_changes_nothing(wrong: float) -> None:
    motion = MotionFilter(ROBOT, ARM, control_model(), model_file().torque_deviations, 0.0)
    motion.reset(ROBOT.rest_posture)
    motion.update(0.001, ROBOT.rest_posture, np.zeros(N))
    before = motion.x.copy(), motion.P.copy()
    with pytest.raises(SafetyError, match="joint 3's position is not finite"):
        motion.update(0.001, ROBOT.rest_posture + np.where(np.arange(N) == 2, wrong, 0.0), np.zeros(N))
    np.testing.assert_array_equal(motion.x, before[0])
    np.testing.assert_array_equal(motion.P, before[1])


def test_friction_is_known_at_a_certain_velocity_and_unknown_around_zero() -> None:
    law = gear_friction(ROBOT)
    v, tau, load = np.full(N, 0.5), np.linspace(-1.0, 2.0, N), np.full(N, 0.4)
    out = np.zeros((4, N))
    friction_terms(np.array(law.values), v, np.full(N, 1e-4), tau, load, out)
    np.testing.assert_allclose(out[0], law.torque(v, tau, -load), rtol=1e-9)
    np.testing.assert_allclose(out[3], 0.0, atol=1e-12)
    friction_terms(np.array(law.values), 0.0 * v, np.full(N, 0.05), tau, load, out)
    np.testing.assert_allclose(out[0], 0.0, atol=1e-12)
    np.testing.assert_allclose(out[2], law.budget(np.zeros(N), tau, -load), rtol=1e-9)
    np.testing.assert_allclose(out[3], 1.0)


def followed(force: FloatArray | None, from_s: float, seed: int) -> tuple[list[float], FloatArray, MotionFilter]:
    """Statistics of a motion, the filter's errors of velocity [rad/s], (N, n), and the filter at the end."""
    motion = MotionFilter(ROBOT, ARM, control_model(), model_file().torque_deviations, 0.001)
    tests = OnsetTests(motion, ToolForce(ROBOT, ARM.mdh).largest_n)
    found, errors, last = [], [], -1

    def each(arm: SteppedArm, tau: FloatArray) -> None:
        nonlocal last
        if last < 0:
            motion.reset(np.array(arm.position))
        else:
            motion.update((arm.stamp_ns - last) * 1e-9, np.array(arm.position), tau)
            tests.update()
            errors.append(motion.velocity - arm._rows["dq"][arm._count - 1])
            found.append(tests.statistic)
        last = arm.stamp_ns

    def push(arm: SteppedArm, time_s: float) -> FloatArray | None:
        return None if force is None or time_s < from_s else motion.J.T @ force

    moved(push, each, seed)
    return found, np.array(errors), motion


@pytest.mark.slow
def test_no_test_alarms_without_a_force_and_velocities_are_precise() -> None:
    statistics, errors, _ = followed(None, 0.0, 11)
    bound = chi2.isf(FALSE_ALARMS_1_S * 1e-3, 3)
    assert max(statistics[150:]) < bound
    assert np.sqrt(np.mean(errors[150:] ** 2)) < 0.1 < 0.1 * STEP / 1e-3


@pytest.mark.slow
def test_a_force_raises_an_alarm_within_40_cycles() -> None:
    statistics, _, motion = followed(np.array([4.0, 6.0, -5.0]), 2.6, 11)
    tests = OnsetTests(motion, 10.0)
    first = int(np.argmax(np.array(statistics) > tests.bound))
    assert 2600 < first + 1 < 2640


def test_a_model_without_deviations_is_refused() -> None:
    with pytest.raises(DataError, match="no deviations"):
        MotionFilter(ROBOT, ARM, control_model(), None, 0.0)


class Twin:
    """Arm whose readings change by a pull after some cycles, or never."""

    def __init__(self, after: float) -> None:
        self._after, self._pulled, self.plant = after, 0, self
        self.position = np.zeros(N)

    def cycle(self, force: FloatArray | None = None) -> list[bool]:
        self._pulled += force is not None
        self.position = np.full(N, float(self._pulled > self._after))
        return []


@pytest.mark.parametrize(("after", "found"), [(0.0, 0.0), (7.0, 7.0), (20.0, 20.0), (21.0, np.inf)])
def test_a_pull_is_detectable_from_the_first_differing_reading(after: float, found: float) -> None:
    assert first_difference_ms(lambda: Twin(after), np.ones(3), 20) == found  # type: ignore[arg-type,return-value]


def surprise(signs: FloatArray) -> float:
    """Sum of squares of the innovations, in their deviations, of joints that are `signs` of a late stamp off."""
    motion = MotionFilter(ROBOT, ARM, control_model(), model_file().torque_deviations, 0.0)
    v, late_s = np.linspace(0.8, 1.6, N), 1e-3
    motion.reset(ROBOT.rest_posture + 0.3)
    motion.x[N : 2 * N], motion._width[:], motion.jitter = v, 0.0, StampJitter(late_s)  # an encoder without steps
    sure = np.arange(2 * N)
    motion.P[sure, sure] = np.repeat([1e-12, 1e-8], N)
    motion.update(0.001, motion.x[:N] + 0.001 * v + late_s * signs * v, np.zeros(N))
    return float(np.sum(motion._found[0] ** 2 / motion._found[1]))


def test_a_stamp_that_is_off_shifts_all_joints_together() -> None:
    """One late stamp explains all joints at once; joints that are off as far, each its own way, it does not."""
    together = np.ones(N)
    assert surprise(together) < 0.6 * surprise((-1.0) ** np.arange(N))
    assert surprise(together) < 0.6 * surprise(np.repeat([1.0, -1.0], N // 2))


@pytest.mark.parametrize("cycle_s", [0.001, 0.002])
def test_stamp_jitter_is_estimated_and_at_least_the_stated_one(cycle_s: float) -> None:
    random, found = np.random.default_rng(0), StampJitter(5e-5)
    for dt in np.diff(cycle_s * (np.arange(4000) + 0.15 * random.normal(size=4000))):
        found.update(float(dt))
    assert found.deviation_s == pytest.approx(0.15 * cycle_s, rel=0.15)
    for _ in range(8000):
        found.update(cycle_s)
    assert found.deviation_s == 5e-5
    for lost in random.uniform(size=4000) < 0.05:  # states, of stamps that are even
        found.update((2.0 if lost else 1.0) * cycle_s)
    assert found.deviation_s == 5e-5
    early = StampJitter(5e-5)
    early.update(0.05 * cycle_s)  # whatever the first interval was
    for dt in np.diff(cycle_s * (np.arange(4000) + 0.15 * random.normal(size=4000))):
        early.update(float(dt))
    assert early.deviation_s == pytest.approx(0.15 * cycle_s, rel=0.2)
