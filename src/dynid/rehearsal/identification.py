"""Rehearsal of an identification: a model is identified from a short simulated motion, to compile functions."""

import tempfile
from pathlib import Path

import numpy as np

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DynidError
from dynid.identification.pipeline import identify
from dynid.robot import Robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.trajectory import through

AMPLITUDE_RAD, PACE_RAD_S, TURNS = 0.4, 1.0, 3


def rehearse_identification(robot: Robot, mount: str | None = None) -> None:
    """Simulate a few seconds of motion, write them as a bag, identify a model from the bag, and discard the model.

    This compiles the functions of an identification.

    Args:
        robot: the robot to simulate and identify; it must have controller settings.
        mount: mount of the arm; None is robot.yaml's default.
    """
    rest = robot.rest_posture
    away = np.where(rest + AMPLITUDE_RAD <= robot.upper, rest + AMPLITUDE_RAD, rest - AMPLITUDE_RAD)
    away = np.clip(away, robot.lower, robot.upper)
    points = np.array([rest, *[away, rest] * TURNS])
    pace = np.minimum(PACE_RAD_S, robot.velocity_limits)
    motion = through("rehearsal", robot.joint_names, points, pace, 4.0 * pace)
    controller = load_controller(robot)
    run = simulate(robot, motion, FeedforwardPd(controller), mount=mount)
    with tempfile.TemporaryDirectory(prefix="dynid-rehearsal-") as folder:
        write_bag(run, robot, controller, Path(folder) / "bag", profile="limited")
        try:
            identify(robot, [Path(folder) / "bag"], validation=[Path(folder) / "bag"])
        except DynidError:
            pass  # a few seconds may not identify an arm; functions not reached here are compiled at first use
