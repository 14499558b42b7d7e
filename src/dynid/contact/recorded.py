"""Feeling along a recording: which models may, and what was in force when."""

import numpy as np

from dynid.contact.feel import ContactSense
from dynid.control.control_model import from_model_file
from dynid.errors import DataError
from dynid.identification.data.signals import Signals, Torques, interpolate
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import ModelFile
from dynid.robot import FloatArray, Robot


def sense_of(robot: Robot, content: ModelFile, mount: str | None = None) -> ContactSense:
    """The sense of an accepted model of this robot at a mount.

    Raises:
        DataError: a model of another robot or structure, one that was refused, or one without deviations.
    """
    if content.robot != robot.name:
        raise DataError(f"the model is of '{content.robot}', not of '{robot.name}': name the robot of the model")
    if not content.accepted:
        raise DataError(
            f"the model of {robot.name} was not accepted, so what it leaves of torques is no contact: identify again"
        )
    arm = ArmModel.of(robot, mount=mount, lengths_m=content.geometry_overrides_m)
    return ContactSense(robot, arm, from_model_file(content, arm), content.torque_deviations)


def torques_before(signals: Signals) -> FloatArray:
    """Mean torques (N, n) [N m] between each state and the one before: those written, where a recording has them."""
    given = signals.other
    if given is None or given.source != "goal":
        given = Torques(signals.torque_time, signals.tau, signals.torque_source, signals.torque_delay_s)
    period = float(np.median(np.diff(given.time)))
    edges = np.append(given.time, given.time[-1] + period) + given.delay_s
    total = np.vstack([np.zeros(given.tau.shape[1]), np.cumsum(given.tau * np.diff(edges)[:, None], axis=0)])
    passed = interpolate(signals.time, edges, total)
    out = np.zeros_like(signals.q)
    out[1:] = np.diff(passed, axis=0) / np.maximum(np.diff(signals.time), 1e-6)[:, None]
    return out
