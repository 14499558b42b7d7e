"""Tracking errors of a recorded motion equal those of its simulation."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DataError
from dynid.recording.driver_recording import ReferenceSeries, load_driver_recording
from dynid.recording.tracking import tracking_rms
from dynid.robot import load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")


@pytest.mark.slow
def test_tracking_error_uses_the_reference_of_the_same_stamp(tmp_path: Path) -> None:
    settings = load_controller(ROBOT)
    run = simulate(ROBOT, load_excitation(ROBOT).trajectory("V02", "limited"), FeedforwardPd(settings), to_rest=False)
    write_bag(run, ROBOT, settings, tmp_path / "bag", profile="limited")
    recording = load_driver_recording(tmp_path / "bag", ROBOT)
    inside = run.window("trajectory")
    expected = np.sqrt(np.mean((run.q - run.q_ref)[inside] ** 2, axis=0))
    np.testing.assert_allclose(tracking_rms(recording), expected, rtol=0.01)
    assert recording.reference is not None
    late = ReferenceSeries(
        recording.reference.time + 3e-4, *(getattr(recording.reference, k) for k in ("q", "dq", "ddq"))
    )
    with pytest.raises(DataError, match="no reference has the same stamp"):
        tracking_rms(replace(recording, reference=late))
    with pytest.raises(DataError, match="no topic 'reference'"):
        tracking_rms(replace(recording, reference=None))
