"""Joints that stop between encoder steps: detected by recorded velocities, excluded from the fit."""

from dataclasses import replace

import numpy as np
import pytest
from arms import arm
from recordings import recorded

from dynid.identification.data.slowest import slowest_velocities
from dynid.identification.estimators.sliding_rows import sliding_masks, sliding_states
from dynid.identification.settings import load_identification
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("crane_x7")
SETTINGS = load_identification(ROBOT)
STEP_S, SLOW = 0.004, 0.05


def crawling(speed: float, seconds: float = 4.0) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Times and mean velocities of states, and times and velocities that stop every 24 ms, of one joint."""
    time, recorded_time = np.arange(0.0, seconds, STEP_S), np.arange(0.0, seconds, 0.001)
    stops = np.where(recorded_time % 0.024 < 0.006, 0.0, speed / 0.75)
    return time, np.full((len(time), 1), speed), recorded_time, stops[:, None]


def test_recorded_stops_show_under_a_constant_mean_speed() -> None:
    found = slowest_velocities(*crawling(0.08))
    assert (found <= 0.0).mean() > 0.25 and found.max() == pytest.approx(0.08 / 0.75)
    # direction does not matter, and a velocity against the motion is slower than a stop
    time, dq, recorded_time, stops = crawling(0.08)
    np.testing.assert_array_equal(slowest_velocities(time, -dq, recorded_time, -stops), found)
    assert slowest_velocities(time, dq, recorded_time, stops - 0.02).min() == pytest.approx(-0.02)


def test_without_recorded_velocities_no_stops_are_found() -> None:
    time, dq, recorded_time, stops = crawling(0.08)
    few = slice(0, None, 20)  # one in 20 ms, five states
    found = slowest_velocities(time, dq, recorded_time[few], np.full_like(stops, 0.08)[few])
    assert np.isfinite(found).mean() == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(("speed", "slides"), [(0.08, False), (0.2, True), (0.04, False)])
def test_slow_joints_that_stop_in_between_do_not_slide(speed: float, slides: bool) -> None:
    _, dq, _, _ = crawling(speed)
    width, slowest = 27, slowest_velocities(*crawling(speed))
    assert sliding_states(dq, SLOW, width, slowest).all() == slides
    # a joint that does not stop slides, and so does one whose recorded velocity shows nothing
    smooth = np.full_like(dq, speed)
    for shown in (smooth, np.full_like(dq, np.inf), None):
        assert sliding_states(dq, SLOW, width, shown).all() == (speed > SLOW)


def test_stops_are_masked_in_samples_of_a_recording() -> None:
    source = recorded(ROBOT, seconds=8.0, seed=1, noise=0.01)
    signals = source.signals(SETTINGS)
    true = np.gradient(signals.q, signals.time, axis=0)
    rows = {}
    for name, dq in (("none", None), ("smooth", true), ("stopping", np.where(np.abs(true) < 0.15, 0.0, true))):
        samples = replace(source, signals=lambda settings, dq=dq: replace(signals, dq=dq)).samples(SETTINGS)
        rows[name] = sliding_masks(samples, SLOW)[0]
    assert arm("crane_x7").axes == rows["none"].shape[1]
    assert rows["smooth"].mean() > 0.9 * rows["none"].mean()
    assert rows["stopping"].mean() < 0.95 * rows["smooth"].mean()
