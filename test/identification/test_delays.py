"""Delays of torques are found iteratively, where one linear step falls far short."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from recordings import recorded

from dynid.identification.data.delayed_torques import with_shifted_torques
from dynid.identification.data.recordings import Recording
from dynid.identification.diagnosis.delays import MOST_S, DelaySearch, RemainingDelay, iterated_delays, secant_step
from dynid.identification.diagnosis.nuisance_columns import Unknown, doubt_of_delays, unknowns
from dynid.identification.estimators.regression import Regression
from dynid.identification.settings import SuspicionLimits, load_identification
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("crane_x7")
SETTINGS = load_identification(ROBOT)
COULOMB = SETTINGS.coulomb_friction.model_copy(update={"structure": "Coulomb-viscous"})
LIMITS = SuspicionLimits()


class Faint(DelaySearch):
    """Three joints that are late alike, of whose delay a share is left in every fit, 1 ms off at most."""

    _approximates = True

    def __init__(self, share: float, late_s: float) -> None:
        self.share, self.late_s, self.fits = share, late_s, Counter[bool]()
        self.given = self._fitted(np.zeros(3))
        self._found, self._nearly = {}, {}

    def _fitted(self, delays_s: FloatArray, *, exactly: bool = True) -> RemainingDelay:
        self.fits[exactly] += 1
        left = self.share * (self.late_s - delays_s)
        each = (Unknown("delay", axis, float(value), 0.001, 0.0) for axis, value in enumerate(left))
        return RemainingDelay((Unknown("delay", -1, float(left.mean()), 0.001, 0.0), *each), np.ones(3))


def late(delays_s: FloatArray) -> Recording:
    """A recording whose torques are late, each joint's by its own time."""

    def shift(tau: FloatArray) -> FloatArray:
        time = np.arange(len(tau)) / 100.0
        return np.stack([np.interp(time - one, time, own) for one, own in zip(delays_s, tau.T, strict=True)], axis=1)

    return recorded(ROBOT, torques=shift)


def estimates(data: Recording) -> tuple[tuple[Unknown, ...], tuple[Unknown, ...]]:
    """Delays by one linear step, and followed: of all torques first, then of each joint."""
    model, samples = ArmModel.of(ROBOT, mount=data.mount), data.samples(SETTINGS)
    regression = Regression.stack(model, samples, COULOMB)
    free = unknowns(model, samples, regression)
    search = DelaySearch(model, samples, regression, COULOMB, free)
    return search.given.delays, iterated_delays(search, LIMITS, doubt_of_delays(samples, regression))


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.05, -0.05])
def test_a_long_delay_of_all_torques_is_found_whole(delay: float) -> None:
    linear, found = estimates(late(np.full(8, delay)))
    assert abs(linear[0].value) < 0.95 * abs(delay)
    assert found[0].axis == -1 and found[0].value == pytest.approx(delay, abs=0.001)
    assert found[0].deviation < 0.002 and found[0].explained > 0.8


@pytest.mark.slow
def test_a_long_delay_of_one_joint_is_its_own() -> None:
    linear, found = estimates(late(np.where(np.arange(8) == 1, 0.05, 0.0)))
    assert abs(linear[2].value - 0.05) > 0.002
    assert found[2].axis == 1 and found[2].value == pytest.approx(0.05, abs=0.001) and found[2].explained > 0.3
    assert all(abs(one.value) < 0.005 + 3.0 * one.deviation for one in found[3:])


@pytest.mark.slow
def test_approximate_fits_are_close_to_complete_ones() -> None:
    model, samples = ArmModel.of(ROBOT), late(np.full(8, 0.03)).samples(SETTINGS)
    regression = Regression.stack(model, samples, COULOMB)
    free = unknowns(model, samples, regression)
    for shift_s in (0.02, 0.03):
        search, shifts = DelaySearch(model, samples, regression, COULOMB, free), np.full(8, shift_s)
        rough, complete = search.about(shifts), search.remaining(shifts)
        assert rough.delays[0].value == pytest.approx(complete.delays[0].value, abs=0.001)
        assert rough.sigma == pytest.approx(complete.sigma, rel=0.05)
        assert search.about(shifts) is complete  # what is known exactly is not approximated


@pytest.mark.slow
def test_without_delays_the_linear_estimates_remain() -> None:
    linear, found = estimates(recorded(ROBOT))
    assert [one.value for one in found] == [one.value for one in linear]


@pytest.mark.slow
def test_a_delay_that_is_too_long_keeps_its_linear_estimate() -> None:
    linear, found = estimates(late(np.full(8, 0.3)))
    assert found[0].value == linear[0].value and abs(linear[0].value) > MOST_S / 10.0


def test_later_torques_undo_a_delay_and_leave_positions() -> None:
    """What is shifted behind the filters is what would have been shifted in front of them."""
    delays = np.array([0.0, 0.02, -0.03, 0.05, 0.0, 0.01, 0.0, -0.01])
    honest, samples = recorded(ROBOT).samples(SETTINGS), late(delays).samples(SETTINGS)
    mended = with_shifted_torques(samples, delays)
    inside = slice(5, -5)
    scale = honest.tau.std(axis=0)
    assert (np.abs(samples.tau - honest.tau)[inside].max(axis=0) / scale > 0.01)[delays != 0.0].all()
    # the fast noise is averaged by reading between stamps twice
    assert (np.abs(mended.tau - honest.tau)[inside].max(axis=0) / scale < 0.05).all()
    assert np.array_equal(mended.q, samples.q) and np.array_equal(mended.fine[0].q, samples.fine[0].q)
    plain = with_shifted_torques(replace(samples, fine=()), delays)
    assert np.abs(plain.tau - mended.tau)[inside].max() < 0.1 * np.abs(samples.tau - honest.tau)[inside].max()


def test_secant_steps_grow_while_the_value_hardly_falls() -> None:
    first = secant_step(np.array([0.01, 0.2]), np.zeros(2), np.zeros(2))
    assert first.tolist() == [0.01, 0.04]  # as estimated, but no farther than the longest
    value, before, step = np.array([0.010, 0.004, 0.012]), np.array([0.010, 0.012, 0.010]), np.full(3, 0.008)
    assert secant_step(value, before, step) == pytest.approx([0.016, 0.004, 0.016])
    passed = secant_step(np.array([-0.0005]), np.array([0.0005]), np.array([0.02]))
    assert passed == pytest.approx([-0.01])


@pytest.mark.parametrize("share", [1.0, 0.2, 0.05])
def test_barely_visible_delay_is_uncertain(share: float) -> None:
    """What is left may look certain to a millisecond where a delay of twenty would change it by one."""
    search = Faint(share, 0.04)
    common, *each = iterated_delays(search, LIMITS, np.ones(3))
    assert common.value == pytest.approx(0.04, abs=0.0005 / share) and common.deviation == pytest.approx(0.001 / share)
    assert all(one.value == pytest.approx(0.04, abs=0.0005 / share) for one in each)


def test_no_shift_is_fitted_exactly_twice() -> None:
    search = Faint(1.0, 0.04)
    iterated_delays(search, LIMITS, np.ones(3))
    assert search.fits == {True: 2, False: 1}  # without a shift, and with that of the root: roughly, then exactly


@pytest.mark.slow
def test_two_late_joints_are_both_certain() -> None:
    """One is at its root rounds before the other: what its last steps of microseconds saw says nothing."""
    _, found = estimates(late(np.isin(np.arange(8), (1, 2)) * 0.06))
    for one in found[2:4]:
        assert one.value == pytest.approx(0.06, abs=0.002) and one.deviation < 0.005


@pytest.mark.slow
def test_three_late_joints_of_eight_are_not_all_torques() -> None:
    _, found = estimates(late(np.isin(np.arange(8), (1, 2, 3)) * 0.06))
    assert found[0].value - LIMITS.deviations * found[0].deviation < LIMITS.delay_s
    assert all(one.value == pytest.approx(0.06, abs=0.003) for one in found[2:5])
    assert abs(found[1].value) < 0.01


class Stubborn(DelaySearch):
    """Six joints: the first is late, of which three tenths are seen; the last looks so and never changes.

    Where the first's own error does not shrink, it is not late.
    """

    _approximates = True

    def __init__(self, *, shrinks: bool = True) -> None:
        self.shrinks = shrinks
        self.given, self._found, self._nearly = self._fitted(np.zeros(6)), {}, {}

    def _fitted(self, delays_s: FloatArray, *, exactly: bool = True) -> RemainingDelay:
        true = np.array([0.06, 0.0, 0.0, 0.0, 0.0, 0.0])
        left = np.array([0.3, 1.0, 1.0, 1.0, 1.0, 0.0]) * (true - delays_s) + np.array([0, 0, 0, 0, 0, 0.006])
        each = (Unknown("delay", axis, float(value), 0.001, 0.0) for axis, value in enumerate(left))
        sigma = 1.0 + 10.0 * np.abs(true - delays_s) if self.shrinks else np.ones(6)
        return RemainingDelay((Unknown("delay", -1, float(left.mean()), 0.001, 0.0), *each), sigma)


def test_a_delay_that_does_not_converge_leaves_other_joints_unchanged() -> None:
    _, first, *others = iterated_delays(Stubborn(), LIMITS, np.ones(6))
    assert first.value == pytest.approx(0.06, abs=0.002) and first.deviation < 0.01
    assert all(abs(one.value) < 0.007 for one in others)
    _, unshrunk, *_ = iterated_delays(Stubborn(shrinks=False), LIMITS, np.ones(6))
    assert unshrunk.value == pytest.approx(0.018)
