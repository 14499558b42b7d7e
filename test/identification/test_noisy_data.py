"""Noise of the recorded torques is named as the reason of a refusal where it is the only one, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest
from recordings import Change, recorded

from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.recording.held_efforts import HELD
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("aloha_class")


def identified(share: float, fault: Change = lambda tau: tau) -> Identification:
    """Identify from torques with a fault and with noise that is a share of each joint's torque."""

    def noisy(tau: FloatArray) -> FloatArray:
        size = share * np.sqrt(np.mean(tau**2, axis=0))
        return np.asarray(fault(tau) + np.random.default_rng(7).normal(size=tau.shape) * size)

    return identify(ROBOT, [recorded(ROBOT, torques=noisy)])


@pytest.mark.slow
def test_noise_that_exceeds_the_limit_of_errors_is_named() -> None:
    result = identified(0.5)
    assert {one.id for one in result.verdict.failed} <= {"torque_error_fitted", "torque_error_held_out"}
    assert not result.verdict.accepted
    assert "are mostly noise of the recorded torques" in result.suspicions[0]
    assert "record at a higher rate" in result.suspicions[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "fault"),
    [
        (0.1, lambda tau: tau),  # accepted
        (0.4, lambda tau: tau * (1.0 + 0.5 * (np.arange(len(tau)) > 1200))[:, None]),
        (0.4, np.abs),
    ],
)
def test_a_wrong_recording_with_noise_is_not_excused(share: float, fault: Change) -> None:
    result = identified(share, fault)
    assert result.verdict.accepted == (share == 0.1)
    assert result.noise == ""
    assert not any("mostly noise of the recorded torques" in one for one in result.suspicions)


@pytest.mark.slow
def test_held_efforts_are_named_before_the_noise_that_they_cause() -> None:
    result = identified(0.5)
    held = f"log: efforts are {HELD}"
    assert replace(result, notes=(held,)).suspicions[:2] == (held, result.noise)
