"""Motion and preprocessing at every cycle rate that a line may allow."""

import numpy as np
import pytest

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.hardware.arm.cycle_rate import RATES_HZ, period_s
from dynid.identification.data.simulated_recording import source_of
from dynid.identification.settings import load_identification
from dynid.robot import Robot
from dynid.simulation.lockstep.run import simulate
from dynid.trajectory.families import load_excitation


@pytest.mark.slow
@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_motion_control_and_preprocessing_work_at_every_cycle_rate(robot: Robot, rate_hz: int) -> None:
    slower = robot.at_cycle(period_s(rate_hz))
    motion = load_excitation(slower).trajectory("V01")
    run = simulate(slower, motion, FeedforwardPd(load_controller(slower)), seed=1)
    assert np.diff(run.stamps_ns).mean() == pytest.approx(1e9 * period_s(rate_hz), rel=1e-3)
    # the law has no gravity term: its error is sag, 0.084 rad at 1 kHz; a loop that trembles would add to it
    assert np.sqrt(np.mean((run.q - run.q_ref) ** 2, axis=0)).max() == pytest.approx(0.084, rel=0.02)
    samples = source_of(slower, run, "V01").samples(load_identification(slower))
    assert samples.settings.missed_cycles == 0 and samples.settings.dropped_samples == 0
