"""Is a bag complete? Its joint states against the driver's own counters, which travel in the same bag.

The driver's diagnostics say how many states it had published up to which stamp, and how many cycles it missed. Between
two of them the bag must hold exactly the states that were published; what is absent without being counted as missed
was lost on the way.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.recording.bag_reader import Bag, read_bag
from dynid.recording.messages import decode_diagnostics
from dynid.recording.recording import DIAGNOSTICS, JOINT_STATES, find_topics
from dynid.recording.series import joint_series

DRIVER = "hardware"  # the status name under which the driver reports
OUT_OF_STEP_NS = 100_000_000


@dataclass(frozen=True)
class Counters:
    """The driver's counters at one moment: states published, the stamp of the last [ns], cycles missed."""

    published: int
    stamp_ns: int
    missed: int


@dataclass(frozen=True)
class Completeness:
    """What the bag holds between the driver's first and last report in it.

    Attributes:
        recorded: joint states in the bag.
        published: joint states that the driver published.
        missed: cycles that the driver counted as missed.
    """

    recorded: int
    published: int
    missed: int

    @property
    def lost(self) -> int:
        """States that were published and are not in the bag."""
        return self.published - self.recorded

    @property
    def missed_fraction(self) -> float:
        """Missed and lost cycles as a share of all."""
        return (self.missed + self.lost) / max(self.published + self.missed, 1)


def completeness(path: Path | str) -> Completeness:
    """Judge a bag by the driver's counters in it.

    Raises:
        InputNotFoundError, DataError: not a bag, without joint states, or with fewer than two reports of the driver.
    """
    bag = read_bag(path)
    topics = find_topics(bag, None, (JOINT_STATES, DIAGNOSTICS))
    reports = _reports(bag, topics[DIAGNOSTICS].name)
    stamps = joint_series(topics[JOINT_STATES]).stamp_ns
    judged = _within(reports, stamps)
    if len(judged) < 2:
        raise DataError(
            f"the bag {bag.path} holds {len(reports)} reports of the driver's counters on '{DIAGNOSTICS}', "
            f"{len(judged)} of them between its states, at least 2 are needed to judge its completeness: record for "
            "more than three seconds"
        )
    first, last = judged[0], judged[-1]
    recorded = int(np.count_nonzero((stamps > first.stamp_ns) & (stamps <= last.stamp_ns)))
    return Completeness(recorded, last.published - first.published, last.missed - first.missed)


def _within(reports: list[Counters], stamps: NDArray[np.int64]) -> list[Counters]:
    """Without a first report that speaks of states just before the bag's, and a last one of some just behind them.

    Topics do not keep step: a recorder that starts or ends may meet a report later or sooner than the states beside it.
    """
    if not len(stamps):
        return []
    first, last = int(stamps[0]), int(stamps[-1])
    begin = int(bool(reports) and first - OUT_OF_STEP_NS <= reports[0].stamp_ns < first)
    end = int(len(reports) > begin and last < reports[-1].stamp_ns <= last + OUT_OF_STEP_NS)
    return reports[begin : len(reports) - end]


def _reports(bag: Bag, topic: str) -> list[Counters]:
    """The driver's reports in order, those made when it had published states."""
    found: list[Counters] = []
    for raw in bag[topic].messages:
        for status in decode_diagnostics(raw)[1]:
            if status.name != DRIVER or "states_published" not in status.values:
                continue
            counters = _counters(status.values, bag)
            if found and (counters.published < found[-1].published or counters.missed < found[-1].missed):
                raise DataError(
                    f"the driver was started anew while the bag {bag.path} was recorded (its counters fell from "
                    f"{found[-1]} to {counters}), so completeness cannot be judged"
                )
            if counters.published:
                found.append(counters)
    return found


def _counters(values: dict[str, str], bag: Bag) -> Counters:
    numbers = []
    for key in ("states_published", "last_state_stamp_ns", "missed"):
        text = values.get(key, "")
        if not text.isdecimal():
            raise DataError(f"the bag {bag.path}: the driver's report has {key} = '{text}', expected a whole number")
        numbers.append(int(text))
    return Counters(*numbers)
