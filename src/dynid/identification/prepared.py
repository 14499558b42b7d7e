"""Recordings made ready for an identification: how rows are made, what of the set-up is estimated, what is held out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.identification.data.preprocessing import instants_of
from dynid.identification.data.row_choice import RowChoice
from dynid.identification.data.sources import Portion, Several, Source, read_sources, rows_of
from dynid.identification.row_rate import HalvedRows
from dynid.identification.settings import IdentificationSettings
from dynid.identification.setup import SetupEstimate, estimate_setup
from dynid.recording.mapping import Mapping
from dynid.robot import Robot

# The regression keeps kilobytes of every instant of all recordings: so many are below 2 GB.
MOST_INSTANTS = 160_000


@dataclass(frozen=True, eq=False)
class Prepared:
    """What an identification begins with.

    Attributes:
        robot: with its set-up as the data imply it.
        sources: the recordings, read as that set-up would have recorded them; their signals may have been released.
        validation: held-out recordings, likewise.
        settings: with the choice of rows.
        rows: how rows are made.
        notes: what a reader of the result should know of the recordings as a whole.
        setup: set-up unknowns that were estimated.
        fitted, ends: portions that are fitted, and those at the ends of recordings that judge.
        halved: samples from every other row, where rows are slow; None elsewhere.
    """

    robot: Robot
    sources: tuple[Source, ...]
    validation: Several
    settings: IdentificationSettings
    rows: RowChoice
    notes: tuple[str, ...]
    setup: tuple[SetupEstimate, ...]
    fitted: tuple[Portion, ...]
    ends: tuple[Portion, ...]
    halved: HalvedRows | None

    def released(self) -> "Prepared":
        """Return the same without the signals of its recordings."""
        return replace(self, sources=tuple(one.released() for one in self.sources))


def within_memory(
    sources: Sequence[Source], settings: IdentificationSettings
) -> tuple[Sequence[Source], tuple[str, ...]]:
    """Return as many recordings as fit in memory, spread evenly over those given, and a note if they are not all."""
    count = sum(instants_of(one.usable_signals(settings), settings) for one in sources)
    if count <= MOST_INSTANTS or len(sources) == 1:
        return sources, ()
    kept = max(1, int(len(sources) * MOST_INSTANTS / count))
    chosen = np.unique(np.rint(np.linspace(0, len(sources) - 1, kept)).astype(int))
    note = (
        f"{len(chosen)} of {len(sources)} recordings are used, spread evenly, because an identification holds "
        "no more in memory: judge the model by others with --validate"
    )
    return [sources[k] for k in chosen.tolist()], (note,)


def prepare(
    robot: Robot,
    sources: Sequence[Source],
    settings: IdentificationSettings,
    *,
    validation: Several,
    mapping: Mapping,
    held_out_share: float,
    setup: Sequence[str],
    progress: Callable[[str], None],
) -> Prepared:
    """Choose how rows are made, estimate what of the set-up is unknown, and make the samples.

    The delay of torques is unknown where rows are slow and nobody states it.

    Args:
        robot: as it is described.
        sources: recordings to identify from.
        settings: of the identification.
        validation: held-out recordings.
        mapping: of those.
        held_out_share: part of each recording's time, at its end, that judges.
        setup: what of the set-up is unknown, see `setup.choose`.
        progress: called with the name of each stage as it starts.

    Raises:
        DataError: a recording cannot be used.
        ConfigurationError, UnknownNameError: as of `setup.choose`.
    """
    rows = rows_of(sources, settings)
    settings, averaged = rows.settings(settings), rows.kind == "averaged"
    sources, notes = within_memory(sources, settings)
    estimates: tuple[SetupEstimate, ...] = ()
    unknown_delay = averaged and not any(one.usable_signals(settings).torque_delay_s for one in sources)
    if setup or unknown_delay:
        found, estimates = estimate_setup(robot, sources, settings, setup, progress, delay=unknown_delay)
        sources = [found.read(one) for one in sources]
        validation = [found.read(one) for one in read_sources(validation, robot, mapping)]
        robot = found.robot(robot, sources[0].mount)
    progress("preprocessing")
    split = [one.split(settings, held_out_share) for one in sources]
    fitted, ends = (tuple(one for pair in split for one in pair[k]) for k in (0, 1))
    halved = HalvedRows.of(sources, settings, held_out_share) if averaged else None
    return Prepared(robot, tuple(sources), validation, settings, rows, notes, estimates, fitted, ends, halved)
