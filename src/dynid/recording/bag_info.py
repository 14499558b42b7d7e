"""Summary of a bag: its topics, rates, gaps, dropped cycles and file hashes."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.recording.bag_reader import Bag, TopicContent, read_bag, sha256_of
from dynid.recording.completeness import late_starts
from dynid.recording.series import joint_series, strings
from dynid.recording.settings import LONGEST_CYCLE_S, SHORTEST_CYCLE_S, HardwareSettings, parse_settings
from dynid.recording.topics import EXPERIMENT, HARDWARE_SETTINGS, JOINT_STATES, STAMPED

DRIFT_BLOCK = 1000
EXCLUDED_END_S = 1.0  # the last second of a bag is not judged, since a late driver may still catch up [s]


@dataclass(frozen=True)
class Drops:
    """Control cycles without a message, detected from the messages' stamps.

    Attributes:
        expected: number of cycles from the first to the last stamp, both included.
        missed: number of these cycles without a message.
        gaps: start [s since the first stamp] and number of missed cycles of each gap.
        cycle_s: duration of a cycle [s].
    """

    expected: int
    missed: int
    gaps: tuple[tuple[float, int], ...]
    cycle_s: float

    @property
    def missed_fraction(self) -> float:
        """Fraction of the expected control cycles without a message."""
        return self.missed / self.expected if self.expected else 0.0


@dataclass(frozen=True)
class TopicSummary:
    """Summary of one topic of a bag.

    Attributes:
        name: name of the topic.
        message_type: type of the messages.
        count: number of messages.
        rate_hz: mean rate by log time [Hz]; None with fewer than two messages.
        longest_gap_s: longest time between two messages by log time [s]; None with fewer than two messages.
        drops: control cycles without a message; only for joint states.
    """

    name: str
    message_type: str
    count: int
    rate_hz: float | None
    longest_gap_s: float | None
    drops: Drops | None = None


@dataclass(frozen=True)
class FileSummary:
    """Name, size [bytes] and SHA-256 of a data file."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class BagInfo:
    """Summary of a bag: its files and topics, and descriptions of its faults in `findings` (none if it is intact)."""

    path: str
    storage: str
    start_ns: int | None
    duration_s: float
    files: tuple[FileSummary, ...]
    topics: tuple[TopicSummary, ...]
    findings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as plain values that can be written as JSON."""
        return asdict(self)


def missed_cycles(stamp_ns: NDArray[np.int64], cycle_s: float) -> Drops:
    """Count the control cycles without a message, from the messages' stamps.

    The delay of a message is its stamp minus the time at which it would be due if no cycle had been missed. A missed
    cycle increases the delay of all later messages by one cycle. A driver that runs late and catches up has missed no
    cycle, so an increase counts only if it lasts. An increase at the very end of the bag does not count, because the
    driver might have caught up.

    Args:
        stamp_ns: stamps that jitter by less than half a cycle, (N,) [ns].
        cycle_s: duration of a cycle [s].
    """
    cycles = (stamp_ns - stamp_ns[:1]) / (cycle_s * 1e9)
    count = np.arange(len(cycles))
    lateness = cycles - count
    lateness -= _drift(lateness) * count
    last = len(cycles) - min(round(EXCLUDED_END_S / cycle_s), len(cycles) // 5) - 1
    end = last + int(np.argmin(lateness[last:])) + 1 if len(cycles) else 0
    lasting = np.minimum.accumulate(lateness[:end][::-1])[::-1]
    rises = np.diff(lasting)
    at = np.flatnonzero(rises > 0.5)
    gaps = tuple((float(cycles[k] * cycle_s), int(np.rint(rises[k]))) for k in at)
    total = sum(missed for _, missed in gaps)
    return Drops(len(stamp_ns) + total, total, gaps, cycle_s)


def _drift(lateness: NDArray[np.float64]) -> float:
    """Return the drift of the stamps' clock relative to the driver's clock [cycles per message].

    It is positive if stamps advance by more than one nominal cycle per cycle of the driver. The messages are divided
    into blocks of `DRIFT_BLOCK`, and each block's smallest delay is determined. The drift is the median change of this
    delay from one block to the next, divided by `DRIFT_BLOCK`. It is 0 with fewer than five blocks.

    Args:
        lateness: delay of each message: its stamp minus its nominal time, (N,) [cycles].
    """
    whole = len(lateness) // DRIFT_BLOCK * DRIFT_BLOCK
    earliest = lateness[:whole].reshape(-1, DRIFT_BLOCK).min(axis=1)
    return float(np.median(np.diff(earliest))) / DRIFT_BLOCK if len(earliest) > 4 else 0.0


def bag_info(path: Path | str) -> BagInfo:
    """Summarise a bag.

    Raises:
        InputNotFoundError: the path does not exist.
        DataError: the path is not a bag.
    """
    bag = read_bag(path)
    findings = list(bag.findings)
    topics = tuple(_summary(topic, bag, findings) for topic in bag.topics.values())
    for name, topic in bag.topics.items():
        if name.split("/")[-1] == EXPERIMENT:
            experiment_topics = [name[: -len(EXPERIMENT)] + stamped for stamped in STAMPED]
            findings += late_starts(topic, [bag[other] for other in experiment_topics if other in bag.topics])
    start, end = bag.span_ns or (None, None)
    duration = 0.0 if start is None or end is None else (end - start) / 1e9
    files = tuple(FileSummary(file.name, file.stat().st_size, sha256_of([file])) for file in bag.files)
    return BagInfo(str(bag.path), bag.storage, start, duration, files, topics, tuple(findings))


def _summary(topic: TopicContent, bag: Bag, findings: list[str]) -> TopicSummary:
    log = topic.messages.log_ns
    rate = gap = None
    if len(log) > 1:
        span = (log[-1] - log[0]) / 1e9
        rate = float((len(log) - 1) / span) if span > 0 else None
        gap = float(np.diff(log).max() / 1e9)
    drops = None
    if topic.name.split("/")[-1] == JOINT_STATES and len(log) > 1:
        try:
            drops = _drops(topic, bag, findings)
        except DataError as error:
            findings.append(str(error))
    return TopicSummary(topic.name, topic.message_type, len(log), rate, gap, drops)


def _drops(states: TopicContent, bag: Bag, findings: list[str]) -> Drops:
    series = joint_series(states)
    if series.left_out:
        findings.append(f"{series.left_out} malformed messages of '{states.name}' do not count: {series.reason}")
    settings_topic = states.name[: -len(JOINT_STATES)] + HARDWARE_SETTINGS
    texts = strings(bag[settings_topic]) if settings_topic in bag.topics else []
    if texts:
        cycle = parse_settings(settings_topic, texts[-1], HardwareSettings).cycle_s
        if not SHORTEST_CYCLE_S <= cycle <= LONGEST_CYCLE_S:
            raise DataError(
                f"topic '{settings_topic}': cycle_s is {cycle}, expected {SHORTEST_CYCLE_S} to {LONGEST_CYCLE_S}, so "
                "missed cycles cannot be counted: correct the driver's settings"
            )
    else:
        cycle = float(np.median(np.diff(series.stamp_ns))) / 1e9
    if cycle <= 0:
        raise DataError(f"topic '{states.name}': its stamps do not advance, so missed cycles cannot be counted")
    return missed_cycles(series.stamp_ns, cycle)
