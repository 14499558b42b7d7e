"""Estimation of parameters from any number of recordings, by reduction of their regression rows to R factors.

First, a subset of the recordings that fits into memory determines the structure of friction, delays and backlash, and
the correlation time of residuals. Then the regression rows (torque equations) of all recordings are linearised at this
result. They are reduced to R factors of QR decompositions (`estimators.reduced_rows`), one recording after the other,
in this process or in others. The parameters follow from the R factors.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.errors import DataError
from dynid.identification.data.preprocessing import all_blocks
from dynid.identification.data.recordings import Recording
from dynid.identification.data.sample_sets import mixing_reach_s, part
from dynid.identification.data.samples import Samples
from dynid.identification.data.signals import Signals, Span
from dynid.identification.estimators.estimate import Estimate, estimate_from
from dynid.identification.estimators.gear_fit import KnownGears
from dynid.identification.estimators.play import without_play
from dynid.identification.estimators.reduced_rows import GROUPS, ReducedRows, merged
from dynid.identification.estimators.regression import Regression
from dynid.identification.settings import IdentificationSettings
from dynid.identification.setup import Setup
from dynid.model.dynamics import ArmModel
from dynid.parallel import Map, with_progress
from dynid.robot import FloatArray

LINEAR = ("ols", "wls")  # estimators whose solution follows from R factors
PER_TASK = 8  # number of recordings per task; a task returns one set of R factors
FEWEST_SAMPLES = 10  # smallest number of samples of a block
MOST_NAMED = 3  # largest number of recordings without rows that a note lists


@dataclass(frozen=True, eq=False)
class Task:
    """Several recordings, and all other inputs from which a worker process computes their regression rows.

    The worker returns R factors of QR decompositions of the rows, because least squares needs only the factors.

    Attributes:
        sources: recordings as read from their files; the corrections of `setup` are not yet applied.
        numbers: index of each recording among all recordings.
        model: model of the arm.
        setup: estimated errors of the arm's set-up, such as position zeros and delay, which are corrected in the
            recordings.
        settings: settings of the identification.
        held_out_share: fraction of each recording's time, at its end, that is held out for validation.
        known: friction parameters at which torques are linearised; None if torques are linear in all parameters.
        play: half the backlash of each joint, which is corrected in the states, (n,) [rad]; 0 for a joint without
            significant backlash. None if no joint has significant backlash.
    """

    sources: tuple[Recording, ...]
    numbers: tuple[int, ...]
    model: ArmModel
    setup: Setup
    settings: IdentificationSettings
    held_out_share: float
    known: KnownGears | None
    play: FloatArray | None


@dataclass(frozen=True, eq=False)
class Reduced:
    """Regression rows of several recordings, reduced to R factors of QR decompositions.

    Attributes:
        triangles: R factors of the rows by the number of their group; for each group an array (n, c, c) with one factor
            per joint. Rows from the block of time b of recording r, both counted from 0, are in group (r + b) modulo
            `GROUPS`. Standard deviations are widened if the groups contradict each other.
        rows: number of rows of each joint with full weight, (n,); weights are lowered near standstill.
        seconds: total duration of the recordings that gave rows, without their held-out ends [s].
        left_out: one sentence for each recording that gave no rows, with the reason.
    """

    triangles: dict[int, FloatArray]
    rows: FloatArray
    seconds: float
    left_out: tuple[str, ...]


def reduced(task: Task) -> Reduced:
    """Read a task's recordings one after the other, and return the R factors of their regression rows.

    R is the triangular factor of the rows' QR decomposition. Least squares needs only this factor, not the rows.

    Raises:
        DataError: the data in a recording's file have changed since the file was first read.
    """
    triangles: dict[int, FloatArray] = {}
    rows, seconds, left_out = np.zeros(task.model.axes), 0.0, []
    coulomb = task.settings.coulomb_friction
    for number, source in zip(task.numbers, task.sources, strict=True):
        signals = task.setup.read(source).signals(task.settings)
        own, count = dict[int, FloatArray](), np.zeros(task.model.axes)
        try:
            for block, samples in enumerate(_fitted_blocks(signals, task)):
                regression = Regression.stack(task.model, samples, coulomb, task.known)
                _merge(own, (number + block) % GROUPS, regression.joint_triangles())
                count += regression.trusted.reshape(-1, task.model.axes).sum(axis=0)
        except DataError as error:
            left_out.append(f"{source.name}: {error}")  # whole, as the sentence says: no block of it counts
            continue
        if not own:
            left_out.append(f"{source.name}: too short for rows before its held-out end")
            continue
        for group, one in own.items():
            _merge(triangles, group, one)
        rows += count
        seconds += (1.0 - task.held_out_share) * float(signals.time[-1] - signals.time[0])
    return Reduced(triangles, rows, seconds, tuple(left_out))


def _merge(triangles: dict[int, FloatArray], group: int, own: FloatArray) -> None:
    """Merge R factors of each joint's rows, (n, k, k), into those of their group."""
    triangles[group] = merged(triangles[group], own) if group in triangles else own


def _fitted_blocks(signals: Signals, task: Task) -> Iterator[Samples]:
    """Yield samples of a recording for the fit, block by block, without the held-out part at the recording's end."""
    span, filters = Span.of(signals), task.settings.filter
    cut = span.end - task.held_out_share * (span.end - span.begin)
    for whole in all_blocks(signals, task.settings):
        samples = whole
        if task.held_out_share:
            inside = whole.time < cut - mixing_reach_s(whole.settings, filters)
            if inside.sum() < FEWEST_SAMPLES:
                return
            samples = part(whole, inside)
        yield samples if task.play is None else without_play(samples, task.play)


def from_all(
    estimate: Estimate,
    model: ArmModel,
    sources: Sequence[Recording],
    setup: Setup,
    settings: IdentificationSettings,
    held_out_share: float,
    mapper: Map = map,
    progress: Callable[[str], None] = lambda stage: None,
) -> tuple[Estimate, tuple[str, ...]]:
    """Return the parameter estimate from all recordings, and notes about the recordings on which it is based.

    Worker processes reduce the recordings' regression rows to R factors of QR decompositions. The distribution of
    recordings over workers changes the result only within rounding errors.

    Args:
        estimate: estimate from a subset of the recordings that fits into memory.
        model: model of the arm.
        sources: all recordings as read from their files; the corrections of `setup` are not yet applied.
        setup: errors of the arm's set-up, such as position zeros and delay, estimated from this subset.
        settings: settings of the identification.
        held_out_share: fraction of each recording's time, at its end, that is held out for validation.
        mapper: map function that distributes the tasks, such as `map` or that of a process pool.
        progress: function that is called at most four times with a text about the number of finished tasks.

    Raises:
        DataError: the data in a recording's file have changed since the file was first read.
    """
    joint_friction = estimate.regression.joint_friction
    shape = 0 if joint_friction is None else joint_friction.shape_columns[0].shape[2]
    rows = ReducedRows.empty(model.axes, estimate.regression.friction_size, len(model.names), shape)
    play = None if joint_friction is None or joint_friction.play is None else joint_friction.play.significant
    play = play if play is not None and play.any() else None
    known = None if joint_friction is None else joint_friction.fit.known
    how = model, setup, settings, held_out_share, known, play
    tasks = [Task(tuple(sources[k] for k in mine), mine, *how) for mine in _pieces(len(sources))]
    left_out: list[str] = []
    seconds = 0.0
    for piece in with_progress(mapper, progress)(reduced, tasks):
        rows.merge(piece.triangles, piece.rows)
        left_out += piece.left_out
        seconds += piece.seconds
    regression = replace(estimate.regression, reduced=rows)
    solution, weights = regression.weighted_solution, regression.row_weights
    found = estimate_from(regression, estimate.method, solution, weights, settings=estimate.settings)
    return found, _notes(len(sources), left_out, seconds)


def _pieces(count: int) -> list[tuple[int, ...]]:
    """Return the indices of the recordings of each task, for a total of `count` recordings.

    A task is computed by one worker. Long recordings are processed in blocks of time. Regression rows are divided into
    `GROUPS` groups, and each group has its own R factors. Block b of recording r, both counted from 0, belongs to group
    (r + b) modulo `GROUPS`. The first blocks of all recordings of a task belong to the same group, so a task of short
    recordings gives the R factors of only a few groups.
    """
    groups = [range(group, count, GROUPS) for group in range(GROUPS)]
    return [tuple(own[first : first + PER_TASK]) for own in groups for first in range(0, len(own), PER_TASK)]


def _notes(count: int, left_out: Sequence[str], seconds: float) -> tuple[str, ...]:
    """Return notes about the recordings on which the parameters are based.

    Args:
        count: number of all recordings.
        left_out: one sentence for each recording that gave no rows, with the reason.
        seconds: total duration of the recordings that gave rows, without their held-out ends [s].
    """
    used = f"{count - len(left_out)} of {count} recordings" if left_out else f"all {count} recordings"
    used = "the whole recording" if count == 1 else used
    told = (
        f"The parameters rest on {used} ({seconds / 3600.0:.3g} h), and the structure of friction, delays, checks and "
        "figures on a sample spread evenly over that time, because memory holds no more"
    )
    if not left_out:
        return (told,)
    more = f"; and {len(left_out) - MOST_NAMED} others" if len(left_out) > MOST_NAMED else ""
    return told, f"{len(left_out)} recordings give no rows: {'; '.join(left_out[:MOST_NAMED])}{more}"
