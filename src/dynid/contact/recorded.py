"""Feeling along a recording: which models may, and what was in force when."""

import numpy as np

from dynid.contact.feel import ContactSense
from dynid.contact.live_payload import LivePayload
from dynid.contact.motion_filter import MeasuredTorques
from dynid.contact.scale import Scale
from dynid.control.control_model import ControlModel, from_model_file
from dynid.errors import DataError
from dynid.identification.data.signals import Signals, Torques, interpolate
from dynid.identification.estimators.least_squares import MAD_TO_SIGMA
from dynid.identification.settings import IdentificationSettings
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import ModelFile
from dynid.robot import FloatArray, Robot

LEAST_STEP_RAD = 1e-7  # less between two positions is rounding
FEWEST_MOVES = 200  # of a joint, to know its steps from
FINE_RAD = 2e-5  # steps of this size are never felt
BEND = 6.0**0.5  # deviation of a second difference of noise, by the noise's
COARSER = 1.5  # times the stated step
BETWEEN = 0.05  # of a step: positions off the steps by more are not in steps


def arm_of(robot: Robot, content: ModelFile, mount: str | None = None) -> tuple[ArmModel, ControlModel]:
    """The arm at a mount, and the accepted model of it.

    Raises:
        DataError: a model of another robot or structure, or one that was refused.
    """
    if content.robot != robot.name:
        raise DataError(f"the model is of '{content.robot}', not of '{robot.name}': name the robot of the model")
    if not content.accepted:
        raise DataError(
            f"the model of {robot.name} was not accepted, so what it leaves of torques is no contact: identify again"
        )
    arm = ArmModel.of(robot, mount=mount, lengths_m=content.geometry_overrides_m)
    return arm, from_model_file(content, arm)


def sense_of(
    robot: Robot, content: ModelFile, mount: str | None = None, measured: MeasuredTorques | None = None
) -> ContactSense:
    """The sense of an accepted model of this robot at a mount, for torques that were measured or, with None, commanded.

    Raises:
        DataError: as `arm_of`, or a model without deviations.
    """
    return ContactSense(robot, *arm_of(robot, content, mount), content.torque_deviations, measured)


def live_payload_of(robot: Robot, content: ModelFile, mount: str | None = None) -> LivePayload:
    """What weighs by an accepted model of this robot at a mount; raises as `sense_of`."""
    arm, model = arm_of(robot, content, mount)
    return LivePayload(robot, arm, Scale(robot, arm, model, content.torque_deviations))


def refuse_coarser(signals: Signals, robot: Robot) -> None:
    """Raise DataError where positions come in larger steps than robot.yaml says: every step would be felt.

    A draft proposes the steps of an encoder that nobody has looked at.
    """
    read = signals.q if signals.q_read is None else signals.q_read
    counts = robot.nuisances.encoder_counts_per_turn
    stated = 2.0 * np.pi / counts if counts else 0.0
    for joint, name in enumerate(signals.joint_names):
        moves = np.abs(np.diff(read[:, joint]))
        moves = moves[moves > LEAST_STEP_RAD]
        if robot.prismatic[joint] or len(moves) < FEWEST_MOVES:
            continue
        step = float(moves.min())
        between = np.abs(moves / step - np.round(moves / step))
        if step > max(COARSER * stated, FINE_RAD) and np.median(between) < BETWEEN:
            raise DataError(
                f"positions of {name} come in steps of {step:.3g} rad, and robot.yaml says {stated:.3g} rad: set "
                f"simulation.nuisances.encoder_counts_per_turn to {round(2.0 * np.pi / step)} (it is {counts})"
            )


def measured_torques(signals: Signals, settings: IdentificationSettings) -> MeasuredTorques | None:
    """What is uncertain about a recording's torques; None if they are those that were written, so exact.

    Their noise is from second differences, which leave little of a motion, and by their median, which spares what a
    stop or a controller's step makes of them.

    Args:
        signals: the recording.
        settings: that its model was identified with.
    """
    if "goal" in (signals.torque_source, signals.other and signals.other.source):
        return None
    bends = np.abs(np.diff(signals.tau, n=2, axis=0))
    noise = MAD_TO_SIGMA * np.median(bends, axis=0) / BEND if len(bends) else np.zeros(signals.tau.shape[1])
    return MeasuredTorques(noise, 0.25 / settings.filter.cutoff_hz(settings.sampling_interval_s))


def torques_before(signals: Signals) -> FloatArray:
    """Mean torques (N, n) [N m] between each state and the one before: those written, where a recording has them.

    A delay is to the middle of a torque's effect, which lasts for a period.
    """
    given = signals.other
    if given is None or given.source != "goal":
        given = Torques(signals.torque_time, signals.tau, signals.torque_source, signals.torque_delay_s)
    period = float(np.median(np.diff(given.time)))
    edges = np.append(given.time, given.time[-1] + period) + given.delay_s - 0.5 * period
    total = np.vstack([np.zeros(given.tau.shape[1]), np.cumsum(given.tau * np.diff(edges)[:, None], axis=0)])
    passed = interpolate(signals.time, edges, total)
    out = np.zeros_like(signals.q)
    out[1:] = np.diff(passed, axis=0) / np.maximum(np.diff(signals.time), 1e-6)[:, None]
    return out
