"""The parallel filter: torques show any function of the states after the same low-pass."""

from dataclasses import replace

import numpy as np
import pytest

from dynid.identification.data.fine_states import decimation
from dynid.identification.data.preprocessing import Samples, preprocess
from dynid.identification.data.sample_sets import hold_out, join, part
from dynid.identification.data.signals import Signals
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.friction import FrictionLaw
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
SETTINGS = load_identification(ROBOT)
FRICTION = FrictionLaw.of(8, {"fb": 0.2}, 0.02)


def alone(settings: IdentificationSettings) -> IdentificationSettings:
    """States pass the torques' filter, as in the paper."""
    return settings.model_copy(update={"filter": settings.filter.model_copy(update={"state_cutoff_ratio": None})})


def run(settings: IdentificationSettings, interval_s: float = 0.04) -> Samples:
    """Joints swing at 0.3 to 1 Hz; torques are a square of the velocity, and friction."""
    time = np.arange(0.0, 20.0, 0.001)
    w = 2.0 * np.pi * np.linspace(0.3, 1.0, 8)
    q, dq = np.sin(w * time[:, None]), w * np.cos(w * time[:, None])
    signals = Signals(
        joint_names=ROBOT.joint_names,
        time=time,
        q=q,
        torque_time=time,
        tau=0.04 * dq**2 + FRICTION.torque(dq),
        torque_limits=ROBOT.torque_limits,
        window=(1.0, 19.0),
    )
    return preprocess(signals, settings, interval_s)


def error(samples: Samples) -> float:
    expected = samples.low_passed(lambda _, dq, __: 0.04 * dq**2 + FRICTION.torque(dq))
    return float(np.abs(samples.tau - expected).max())


@pytest.mark.parametrize("interval_s", [0.01, 0.04, 0.08])
def test_torques_are_explained_through_their_own_filter(interval_s: float) -> None:
    found, plain = error(run(SETTINGS, interval_s)), error(run(alone(SETTINGS), interval_s))
    assert found < 0.01 and plain > 0.05


def test_low_passed_states_match_the_filtered_torques() -> None:
    samples = run(SETTINGS)
    for name, function in (("q", lambda q, _, __: q), ("dq", lambda _, dq, __: dq), ("ddq", lambda _, __, ddq: ddq)):
        np.testing.assert_allclose(samples.low_passed(function), getattr(samples, name), atol=1e-12)
    assert samples.settings.state_cutoff_hz == pytest.approx(1.5 * samples.settings.cutoff_hz)
    assert run(alone(SETTINGS)).settings.state_cutoff_hz is None and not run(alone(SETTINGS)).fine


def test_joined_and_split_samples_keep_their_fine_states() -> None:
    samples = run(SETTINGS)
    both = join([samples, samples])
    assert len(both.low_passed(lambda q, _, __: q)) == len(both) == 2 * len(samples)
    which = np.arange(len(both)) % 3 == 0
    np.testing.assert_allclose(part(both, which).low_passed(lambda q, _, __: q), both.q[which], atol=1e-12)
    fitted, held = hold_out(samples, 0.3, SETTINGS.filter)
    assert error(fitted) < 0.01 and error(held) < 0.01
    np.testing.assert_allclose(held.low_passed(lambda _, dq, __: dq), held.dq, atol=1e-12)


def test_the_grid_divides_the_interval_and_is_fine_enough() -> None:
    assert decimation(40, 0.001, 6.0) == 5
    assert decimation(10, 0.001, 6.0) == 5
    assert decimation(80, 0.001, 5.0) == 5
    assert decimation(7, 0.001, 6.0) == 1  # no other divisor
    assert decimation(40, 0.001, 100.0) == 1


def test_slow_recordings_get_the_bandwidth_of_their_rate() -> None:
    slow = replace(run(SETTINGS))  # 1 kHz gives the whole ratio
    assert slow.settings.state_cutoff_hz == pytest.approx(9.0)
    time = np.arange(0.0, 20.0, 0.04)
    q = np.sin(2 * np.pi * np.linspace(0.3, 1.0, 8) * time[:, None])
    signals = Signals(
        joint_names=ROBOT.joint_names,
        time=time,
        q=q,
        torque_time=time,
        tau=2.0 * q,
        torque_limits=ROBOT.torque_limits,
        window=(2.0, 18.0),
    )
    settings = preprocess(signals, SETTINGS, 0.04).settings
    assert settings.cutoff_hz == pytest.approx(6.0) and 6.0 <= (settings.state_cutoff_hz or 0.0) < 0.5 / 0.04
