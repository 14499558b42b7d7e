"""Preparation of recordings for an identification: choice of rows, correction of the set-up, held-out portions.

A row is the torque equation of one joint at one time. Rows come from low-pass filtered or from averaged signals. The
set-up consists of encoder zeros, tilt of the base, torque constants and a torque delay; they are estimated on request.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.errors import DataError
from dynid.identification.data.preprocessing import instants_of
from dynid.identification.data.recordings import Portion, Recording, Several, read_recordings, span_of
from dynid.identification.data.row_choice import RowChoice, common_choice
from dynid.identification.data.signals import Span
from dynid.identification.goal_response import GoalResponse, first_response
from dynid.identification.late_torques import has_unknown_delay
from dynid.identification.row_rate import HalvedRows
from dynid.identification.settings import IdentificationSettings
from dynid.identification.setup import Setup, SetupEstimate, estimate_setup
from dynid.recording.mapping import Mapping
from dynid.robot import Robot

# The regression needs kilobytes of memory per instant: MOST_INSTANTS keep it below 2 GB. If there are more, the
# structure is chosen from SAMPLE_INSTANTS, while the parameters are still fitted to the rows of all recordings.
MOST_INSTANTS, SAMPLE_INSTANTS = 64_000, 60_000
MOST_ROWS = 500_000  # recorded rows kept in memory; other recordings are read again when they are needed


@dataclass(frozen=True, eq=False)
class Prepared:
    """Recordings and settings with which an identification starts.

    The set-up consists of properties that a recording does not show directly: encoder zeros, tilt of the base, torque
    constants and a torque delay.

    Attributes:
        robot: the robot with the estimated set-up.
        sources: the recordings, corrected by the estimated set-up; their signals may have been released from memory.
        validation: held-out recordings, corrected by the estimated set-up.
        settings: settings of the identification, with the choice between filtered and averaged rows.
        rows: choice between filtered and averaged rows (torque equations), with its reason.
        setup: estimate and standard deviation of each unknown of the set-up; () if none was estimated.
        fitted: portions of the recordings that are fitted.
        ends: portions at the ends of recordings, on which the fit is checked.
        halved: samples made from every second recorded time step, if rows are averaged; else None.
        found: the complete set-up: estimates where they differ significantly from robot.yaml, else its values.
        goals: response of servos in position control to their goals; None if goals were not recorded.
        every: all recordings, uncorrected, if `sources` contain only some of the recordings or of their time; else ().
    """

    robot: Robot
    sources: tuple[Recording, ...]
    validation: Several
    settings: IdentificationSettings
    rows: RowChoice
    setup: tuple[SetupEstimate, ...]
    fitted: tuple[Portion, ...]
    ends: tuple[Portion, ...]
    halved: HalvedRows | None
    found: Setup
    goals: GoalResponse | None = None
    every: tuple[Recording, ...] = ()

    def released(self) -> "Prepared":
        """Return a copy of this preparation without the signals of its recordings, to free memory."""
        return replace(self, sources=tuple(one.released() for one in self.sources))


def sources_in_memory(
    sources: Sequence[Recording], spans: Sequence[Span], settings: IdentificationSettings
) -> tuple[Sequence[Recording], bool]:
    """Return the recordings that fit in memory, and whether they contain all of the data.

    If not all recordings fit, an evenly spaced subset of the list is returned.

    Args:
        sources: the recordings.
        spans: time span of each recording.
        settings: settings of the identification, with the choice between filtered and averaged rows.
    """
    counts = [instants_of(one, settings) for one in spans]
    whole, kept = (sum(one[k] for one in counts) for k in (0, 1))
    if kept <= MOST_INSTANTS or len(sources) == 1:
        return sources, kept == whole
    chosen = np.linspace(0, len(sources) - 1, max(1, int(len(sources) * SAMPLE_INSTANTS / kept)))
    return [sources[k] for k in np.unique(np.rint(chosen).astype(int)).tolist()], False


def portions_of(
    sources: Sequence[Recording], settings: IdentificationSettings, held_out_share: float
) -> tuple[tuple[Portion, ...], tuple[Portion, ...]]:
    """Return the fitted portions of recordings, and the held-out portions at their ends.

    Args:
        sources: the recordings.
        settings: settings of the identification.
        held_out_share: share of each recording's time, at its end, that is held out.

    Raises:
        DataError: a recording has no samples.
    """
    split = [one.split(settings, held_out_share) for one in sources]
    fitted, ends = (tuple(one for pair in split for one in pair[k]) for k in (0, 1))
    return fitted, ends


def _with_samples(
    sources: Sequence[Recording], settings: IdentificationSettings, held_out_share: float
) -> list[Recording]:
    """Return the recordings that give samples, leaving out those that are too short.

    Args:
        sources: the recordings.
        settings: settings of the identification.
        held_out_share: share of each recording's time, at its end, that is held out.

    Raises:
        DataError: no recording is long enough.
    """
    found, refusal = [], DataError("no recording has samples")
    for one in sources:
        try:
            one.split(settings, held_out_share)
        except DataError as error:
            refusal = error
        else:
            found.append(one)
    if not found:
        raise refusal
    return found


def prepare(
    robot: Robot,
    sources: Sequence[Recording],
    settings: IdentificationSettings,
    *,
    validation: Several,
    mapping: Mapping,
    held_out_share: float,
    setup: Sequence[str],
    progress: Callable[[str], None],
) -> Prepared:
    """Choose filtered or averaged samples, estimate the requested unknowns of the set-up, and make the samples.

    Unknowns of the set-up are encoder zeros, the tilt of the base, torque constants and a torque delay. The torque
    delay is also estimated if samples are averages or a recording has a low rate, unless a recording states its delay.
    The reason is that torques and positions of a slow logger often come from different cycles. If the recordings exceed
    the memory, the samples come from some of them.

    Args:
        robot: the robot as robot.yaml describes it.
        sources: recordings to identify from.
        settings: settings of the identification.
        validation: held-out recordings.
        mapping: meaning of the columns or topics of the held-out recordings.
        held_out_share: share of each recording's time, at its end, that is not fitted and on which the fit is checked.
        setup: unknowns of the set-up, in the words of `setup.choose`, such as "tilt" or "zero:JOINT".
        progress: function that is called with the name of each stage as it starts.

    Raises:
        DataError: a recording cannot be used.
        ConfigurationError, UnknownNameError: a word of `setup` is not part of this robot's set-up, see `setup.choose`.
    """
    spans = [span_of(one, settings) for one in sources]
    rows = common_choice(spans, settings)
    settings, averaged = rows.settings(settings), rows.kind == "averaged"
    some, whole = sources_in_memory(sources, spans, settings)
    used = [one.in_memory(settings) for one in some]
    if not whole and len(used) > 1:
        used = _with_samples(used, settings, held_out_share)
    given = used[0].mount
    found = Setup.given(robot, given)
    estimates: tuple[SetupEstimate, ...] = ()
    unknown_delay = has_unknown_delay(spans, rows)
    if setup or unknown_delay:
        found, estimates = estimate_setup(robot, used, settings, setup, progress, delay=unknown_delay)
        used = [found.read(one) for one in used]
        validation = [found.read(one) for one in read_recordings(validation, robot, mapping, beside=sources)]
        robot = found.robot(robot, given)
    progress("preprocessing")
    fitted, ends = portions_of(used, settings, held_out_share)
    halved = HalvedRows.of(used, settings, held_out_share) if averaged else None
    goals = first_response(one.signals(settings) for one in used)
    every = () if whole else tuple(sources)
    return Prepared(
        robot, tuple(used), validation, settings, rows, estimates, fitted, ends, halved, found, goals, every
    )
