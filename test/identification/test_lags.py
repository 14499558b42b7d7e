"""Backlash and delays: values common to all joints, and compensation of delays below the verdict's limit."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.studies.drawn_arms import draw_arm, record

from dynid.identification.data.fine_states import FineStates
from dynid.identification.data.recordings import Recording
from dynid.identification.data.signals import Signals
from dynid.identification.estimators.lags import PRIOR_DELAY_S, FoundDelay, distance_since_reversal, in_common, pooled
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation

LATE_S = 0.006


def test_the_common_value_is_the_weighted_mean() -> None:
    value, deviation = in_common(np.array([1.0, 1.2]), np.array([0.1, 0.2]))
    assert value == pytest.approx((1.0 / 0.01 + 1.2 / 0.04) / 125.0) and deviation == pytest.approx(125.0**-0.5)


def test_estimates_that_contradict_each_other_are_unsure_in_common() -> None:
    value, deviation = in_common(np.array([-5.0, 5.0, -5.0, 5.0]), np.full(4, 0.1))
    assert value == pytest.approx(0.0) and deviation > 2.0


def test_a_joint_that_hardly_shows_its_play_has_that_of_the_others() -> None:
    values, deviations = pooled(np.array([2.0, 2.2, 2.1, 9.0]), np.array([0.1, 0.1, 0.1, 8.0]))
    np.testing.assert_allclose(values[:3], [2.0, 2.2, 2.1], atol=0.05)
    assert values[3] == pytest.approx(2.1, abs=0.2) and deviations[3] < 1.0
    apart, own = pooled(np.array([0.0, 6.0, 0.0, 6.0]), np.full(4, 0.1))  # joints that differ stay as they are
    np.testing.assert_allclose(apart, [0.0, 6.0, 0.0, 6.0], atol=0.05)
    np.testing.assert_allclose(own, 0.1, rtol=0.05)


def test_likely_delay_is_bounded_by_the_prior() -> None:
    none = np.zeros((1, 1))
    assert FoundDelay(0.0, 1e-4, none).remaining == pytest.approx(1e-4, rel=0.01)
    assert FoundDelay(1e-3, 1e-4, none).remaining == pytest.approx(1e-3, rel=0.02)
    assert FoundDelay(0.0, 1.0, none).remaining == pytest.approx(PRIOR_DELAY_S, rel=0.01)


def test_distance_counts_from_the_last_reversal() -> None:
    q = np.array([0.0, 1.0, 2.0, 1.5, 1.0, 1.5])[:, None]
    dq = np.array([1.0, 1.0, 1.0, -1.0, -1.0, 1.0])[:, None]
    states = FineStates(q, dq, dq, np.zeros((0, 6)), np.arange(6))
    np.testing.assert_allclose(distance_since_reversal(states)[:, 0], [0.0, 1.0, 2.0, 0.0, 0.5, 0.0])


@pytest.fixture(scope="module")
def source() -> Recording:
    """A simulated arm's identification motion."""
    robot = load_robot("crane_x7")
    motion = load_excitation(robot).trajectory("demo_identification", "limited")
    return record(robot, draw_arm(robot, 0), motion, 0).source


def identified(source: Recording, late_s: float) -> Identification:
    def signals(settings: IdentificationSettings) -> Signals:
        own = source.signals(settings)
        return replace(own, torque_time=own.torque_time + late_s, other=None)

    robot = load_robot("crane_x7")
    settings = load_identification(robot)
    coulomb = settings.coulomb_friction.model_copy(update={"structure": "directional"})
    acceptance = settings.acceptance.model_copy(update={"fresh_poses": 10_000})
    settings = settings.model_copy(update={"coulomb_friction": coulomb, "acceptance": acceptance})
    late = replace(source, signals=signals, driver=None)
    return identify(robot, [late], settings=settings, held_out_share=0.2)


@pytest.mark.slow
def test_a_delay_below_the_limit_is_compensated_and_stated(source: Recording) -> None:
    found = identified(source, LATE_S)
    (delay,) = found.setup
    assert delay.kind == "delay" and delay.value == pytest.approx(LATE_S, abs=3.0 * delay.deviation)
    assert delay.deviation < 1.5e-3 and delay.sentence in found.notes
    assert {one.id for one in found.verdict.checks} >= {"dynamic_error_held_out"}
    given = identified(source, 0.0)
    assert not given.setup  # there is none
    rotors = [name.startswith("IA") for name in found.base.names]
    change = np.abs(found.base.values - given.base.values) / given.estimate.base.standard_deviations
    assert change[rotors].max() < 3.0


@pytest.mark.slow
def test_a_delay_beyond_the_limit_is_left_to_the_verdict(source: Recording) -> None:
    found = identified(source, 0.03)
    assert not found.setup and "suspicion" in {one.id for one in found.verdict.failed}


def test_deviations_of_zero_give_finite_weights() -> None:
    """As of ideal data; numpy's warnings are errors here."""
    with np.errstate(all="raise"):
        common, its = in_common(np.full(3, 0.002), np.zeros(3))
        values, deviations = pooled(np.array([0.001, 0.002, 0.003]), np.zeros(3))
    assert common == pytest.approx(0.002) and 0.0 <= its < 1e-6
    np.testing.assert_allclose(values, [0.001, 0.002, 0.003], rtol=1e-6)
    assert np.isfinite(deviations).all()
