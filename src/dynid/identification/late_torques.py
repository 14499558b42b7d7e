"""Compensation of an unknown delay between positions and torques in the recordings of slow loggers.

The torques and positions of a slow logger often come from different cycles. Identification, validation and comparisons
decide here whether a recording has such a delay, so that they read the same recording alike.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dynid.errors import ConfigurationError, DataError, UndeterminedError
from dynid.identification.data.recordings import Recording, span_of
from dynid.identification.data.row_choice import RowChoice, common_choice
from dynid.identification.data.signals import Span
from dynid.identification.nominal_prior import nominal_prior, with_prior
from dynid.identification.settings import IdentificationSettings
from dynid.identification.setup import Setup, SetupEstimate, estimate_setup
from dynid.model.dynamics import ArmModel
from dynid.robot import Robot

SLOW_LOG_S = 0.012  # period of recorded rows beyond which the torques' delay is estimated with the set-up [s]


class InTime(NamedTuple):
    """Recordings after the compensation of a delay of their torques.

    Attributes:
        recordings: the recordings with torques corrected for a significant delay; unchanged if there is none.
        setup: set-up of the arm as robot.yaml states it, with the compensated delay of torques [s].
        notes: sentences about the estimated delay; () if no delay was estimated.
    """

    recordings: tuple[Recording, ...]
    setup: Setup
    notes: tuple[str, ...]


def has_unknown_delay(spans: Sequence[Span], rows: RowChoice) -> bool:
    """Return whether recordings are slow or averaged, and none of them states the delay of its torques.

    Args:
        spans: time span of each recording.
        rows: choice between filtered and averaged rows (torque equations) for these recordings.
    """
    slow = rows.kind == "averaged" or any(one.axis.period > SLOW_LOG_S for one in spans)
    return slow and not any(one.torque_delay_s for one in spans)


def in_time(
    robot: Robot,
    sources: Sequence[Recording],
    settings: IdentificationSettings,
    progress: Callable[[str], None] = lambda stage: None,
) -> InTime:
    """Estimate and compensate the delay of torques in slow recordings of one logger, unless one states its delay.

    If the recordings do not determine the delay, they are returned unchanged, with a note that says why.

    Args:
        robot: the robot.
        sources: the recordings, all with the mount and torque constants of the first one.
        settings: settings of the identification.
        progress: function that is called with the name of each step.

    Raises:
        DataError: a recording cannot be used for identification.
    """
    spans = [span_of(one, settings) for one in sources]
    rows, given = common_choice(spans, settings), Setup.given(robot, sources[0].mount)
    if not has_unknown_delay(spans, rows):
        return InTime(tuple(sources), given, ())
    try:
        setup, found = _estimated(robot, sources, rows, settings, progress)
    except (DataError, ConfigurationError) as error:
        return InTime(tuple(sources), given, (f"the delay of torques is unknown, so none is compensated: {error}",))
    notes = tuple(one.sentence for one in found)
    if not setup.delay_s:
        return InTime(tuple(sources), given, notes)
    return InTime(tuple(setup.read(one) for one in sources), setup, notes)


def _estimated(
    robot: Robot,
    sources: Sequence[Recording],
    rows: RowChoice,
    settings: IdentificationSettings,
    progress: Callable[[str], None],
) -> tuple[Setup, tuple[SetupEstimate, ...]]:
    """Return the set-up with the delay of torques, and its estimate.

    As in an identification, the robot's nominal values replace parameters that averaged rows do not determine.

    Args:
        robot: the robot.
        sources: the recordings.
        rows: choice between filtered and averaged rows (torque equations) for these recordings.
        settings: settings of the identification.
        progress: function that is called with the name of each step.

    Raises:
        DataError, ConfigurationError: the recordings do not determine the delay.
    """
    try:
        return estimate_setup(robot, sources, rows.settings(settings), (), progress, delay=True)
    except UndeterminedError:
        prior = nominal_prior(robot, ArmModel.of(robot, mount=sources[0].mount))
        if rows.kind != "averaged" or prior is None:
            raise
        return estimate_setup(robot, with_prior(sources, prior), rows.settings(settings), (), progress, delay=True)
