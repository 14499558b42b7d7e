"""Table of tracking errors of recorded motions, for comparing controllers with and without a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.recording.driver_recording import load_driver_recording
from dynid.recording.tracking import tracking_rms
from dynid.robot import Robot

WORDS = {"ff_pd": "feed-forward and PD", "computed_torque": "computed torque", "gravity_compensation": "gravity"}


def tracking_rows(robot: Robot, bags: Sequence[Path]) -> list[dict[str, Any]]:
    """Return a row for each bag: controller, and RMS tracking errors over all revolute joints and per joint.

    Tracking errors are formatted as text, in deg for revolute joints and in mm for prismatic ones.

    Raises:
        InputNotFoundError: a bag does not exist.
        DataError: a bag cannot be read, no reference was recorded, or the recorded trajectory never started.
    """
    rows = []
    turning = ~np.array(robot.prismatic)
    for bag in bags:
        recording = load_driver_recording(bag, robot)
        rms = tracking_rms(recording)
        shown = np.where(turning, np.rad2deg(rms), 1e3 * rms)
        controller = "" if recording.experiment is None else recording.experiment.controller
        rows.append(
            {
                "name": bag.name,
                "controller": WORDS.get(controller, controller),
                "all": f"{float(np.sqrt(np.mean(shown[turning] ** 2))):.3g}",
                "joints": [f"{one:.3g}" for one in shown],
            }
        )
    return rows
