"""Regression rows that use the regressors of other rows: only where states, model and weights are the same."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from recordings import recorded

from dynid.identification.data.delayed_torques import with_shifted_torques
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.gear_rows import GearRows
from dynid.identification.estimators.play import without_play
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
MODEL = ArmModel.of(ROBOT)
SAMPLES = recorded(ROBOT).samples(load_identification(ROBOT))
SLOW_RAD_S = 0.05


def later_torques(samples: Samples) -> Samples:
    return with_shifted_torques(samples, np.full(8, 0.01))


def corrected(samples: Samples) -> Samples:
    return without_play(samples, np.full(8, 0.002))


def in_another_part_of_the_recording(samples: Samples) -> Samples:
    return replace(samples, fine=tuple(replace(one, later_s=30.0) for one in samples.fine))


@pytest.mark.parametrize(
    ("change", "slow_rad_s", "reused"),
    [
        (later_torques, SLOW_RAD_S, True),
        (later_torques, 0.2, False),
        (corrected, SLOW_RAD_S, False),
        (in_another_part_of_the_recording, SLOW_RAD_S, False),
    ],
)
def test_rows_are_those_of_a_fresh_start(change: Callable[[Samples], Samples], slow_rad_s: float, reused: bool) -> None:
    first, samples = GearRows(MODEL, SAMPLES, SLOW_RAD_S), change(SAMPLES)
    rows, fresh = GearRows(MODEL, samples, slow_rad_s, first), GearRows(MODEL, samples, slow_rad_s)
    assert (rows._stretches[0].motion is first._stretches[0].motion) == reused
    for name in ("sliding_W", "target", "sliding_share"):
        assert np.array_equal(getattr(rows, name), getattr(fresh, name))
    assert np.array_equal(rows._stretches[0].motion.minutes, fresh._stretches[0].motion.minutes)


def test_another_model_gets_its_own_regressors() -> None:
    turned = MODEL.under(np.array([0.0, 9.81, 0.0]))
    rows = GearRows(turned, SAMPLES, SLOW_RAD_S, GearRows(MODEL, SAMPLES, SLOW_RAD_S))
    assert np.array_equal(rows.sliding_W, GearRows(turned, SAMPLES, SLOW_RAD_S).sliding_W)
    assert not np.allclose(rows.sliding_W, GearRows(MODEL, SAMPLES, SLOW_RAD_S).sliding_W)
