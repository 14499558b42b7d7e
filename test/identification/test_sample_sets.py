"""Joined and split samples: only samples that the filter mixed across the cut are lost."""

from dataclasses import replace

import numpy as np
import pytest
from arms import arm, nominal

from dynid.errors import DataError
from dynid.identification.data.sample_sets import hold_out, join, part
from dynid.identification.settings import FilterSettings
from dynid.robot import load_robot

ROBOT = load_robot("planar_3r")
MODEL = arm("planar_3r")
PHI = nominal("planar_3r")


@pytest.fixture
def samples(make_samples):
    made = make_samples(ROBOT, PHI, count=500)
    return replace(made, settings=made.settings.model_copy(update={"window_s": (0.0, 10.0), "cutoff_hz": 20.0}))


def test_the_end_of_the_samples_is_held_out(samples) -> None:
    fitted, held = hold_out(samples, 0.3, FilterSettings(settling_periods=4.0))
    assert fitted.time[-1] < 7.0 - 0.1 <= fitted.time[-1] + 0.02 + 1e-9
    assert held.time[0] >= 7.1 and held.time[-1] == samples.time[-1]
    np.testing.assert_array_equal(join([fitted, held]).q, samples.q[np.isin(samples.time, [*fitted.time, *held.time])])
    assert len(samples) - len(fitted) - len(held) <= 11


def test_parts_keep_states_and_torques_together(samples) -> None:
    some = part(samples, np.arange(500) % 2 == 0)
    np.testing.assert_array_equal(some.tau, samples.tau[::2])
    np.testing.assert_allclose(MODEL.inverse_dynamics(some.q, some.dq, some.ddq, PHI), some.tau, atol=1e-9)


@pytest.mark.parametrize(("share", "words"), [(0.0, "between 0 and 1"), (1.5, "between 0 and 1"), (0.999, "leaves")])
def test_held_out_shares_that_leave_no_samples_are_refused(samples, share: float, words: str) -> None:
    with pytest.raises(DataError, match=words):
        hold_out(samples, share, FilterSettings())
