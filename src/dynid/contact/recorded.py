"""Contact detection on recordings: check the model, estimate the torque noise, and average torques between states."""

import numpy as np

from dynid.contact.contact_sense import ContactSense
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

LEAST_STEP_RAD = 1e-7  # smaller differences of positions are rounding
FEWEST_MOVES = 200  # position changes required to estimate the quantisation step
FINE_STEP_RAD = 2e-5  # steps up to this size never look like a contact [rad]
SECOND_DIFFERENCE = 6.0**0.5  # deviation of a second difference of noise relative to the noise
STEP_TOLERANCE = 1.5  # tolerance of the step, relative to the stated one
GRID_TOLERANCE = 0.05  # tolerance of positions as multiples of a step [steps]


def arm_of(robot: Robot, content: ModelFile, mount: str | None = None) -> tuple[ArmModel, ControlModel]:
    """Return the arm as mounted, and the control model of a model.yaml that identification accepted.

    Args:
        robot: the robot.
        content: content of its model.yaml.
        mount: name of the arm's mount; None is the robot's default.

    Raises:
        DataError: the model belongs to another robot or structure, was not accepted by the identification, or has a
            link that is not physically consistent.
    """
    if content.robot != robot.name:
        raise DataError(f"the model is of '{content.robot}', not of '{robot.name}': name the robot of the model")
    if not content.accepted:
        raise DataError(
            f"the model of {robot.name} was not accepted, so its residual torques do not show contact: identify again"
        )
    arm = ArmModel.of(robot, mount=mount, lengths_m=content.geometry_overrides_m)
    return arm, from_model_file(content, arm)


def sense_of(
    robot: Robot, content: ModelFile, mount: str | None = None, measured: MeasuredTorques | None = None
) -> ContactSense:
    """Return the contact detector for a robot with the accepted model of its model.yaml.

    Args:
        robot: the robot.
        content: content of the robot's model.yaml.
        mount: name of the arm's mount; None is the robot's default.
        measured: uncertainty of measured torques; None for commanded torques.

    Raises:
        DataError: the model belongs to another robot or structure, was not accepted by the identification, has a link
            that is not physically consistent, or does not state the errors of its torques.
    """
    return ContactSense(robot, *arm_of(robot, content, mount), content.torque_deviations, measured)


def live_payload_of(robot: Robot, content: ModelFile, mount: str | None = None) -> LivePayload:
    """Return the online payload estimator for a robot with the accepted model of its model.yaml.

    Args:
        robot: the robot.
        content: content of its model.yaml.
        mount: name of the arm's mount; None is the robot's default.

    Raises:
        DataError: the model belongs to another robot or structure, was not accepted by the identification, has a link
            that is not physically consistent, or does not state the errors of its torques.
    """
    arm, model = arm_of(robot, content, mount)
    return LivePayload(robot, arm, Scale(robot, arm, model, content.torque_deviations))


def refuse_coarser(signals: Signals, robot: Robot) -> None:
    """Raise DataError if the positions of a recording have larger quantisation steps than robot.yaml states.

    Larger steps look like contacts. A robot.yaml that was drafted automatically contains only an assumed step size.
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
        if step > max(STEP_TOLERANCE * stated, FINE_STEP_RAD) and np.median(between) < GRID_TOLERANCE:
            raise DataError(
                f"positions of {name} come in steps of {step:.3g} rad, and robot.yaml says {stated:.3g} rad: set "
                f"simulation.nuisances.encoder_counts_per_turn to {round(2.0 * np.pi / step)} (it is {counts})"
            )


def measured_torques(signals: Signals, settings: IdentificationSettings) -> MeasuredTorques | None:
    """Return the uncertainty of a recording's torques; None if they are commanded torques, which are exact.

    The noise is estimated from the second differences of the torques, in which the motion has little effect. Their
    median ignores the few torque jumps at stops and at changes of the controller.

    Args:
        signals: the recording.
        settings: settings with which the arm's model was identified; they give the low-pass filter of the torques.
    """
    if "goal" in (signals.torque_source, signals.other and signals.other.source):
        return None
    bends = np.abs(np.diff(signals.tau, n=2, axis=0))
    noise = (
        MAD_TO_SIGMA * np.median(bends, axis=0) / SECOND_DIFFERENCE if len(bends) else np.zeros(signals.tau.shape[1])
    )
    return MeasuredTorques(noise, 0.25 / settings.filter.cutoff_hz(settings.sampling_interval_s))


def torques_before(signals: Signals) -> FloatArray:
    """Return mean torques (N, n) [N m] between each state of a recording and the previous state.

    Commanded torques are used if the recording contains them, else measured torques. Each torque sample acts for one
    sampling period. The middle of this period is the timestamp of the sample plus the recording's torque delay.
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
