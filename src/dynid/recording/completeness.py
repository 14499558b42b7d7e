"""Is a bag complete? Asked before a motion, while it is recorded, at its end, and of a bag on disk.

- Discovery: is the recorder connected to every node that it has to record? What is published before is in no bag.
- Motion completion: has everything up to the motion's end been recorded? Topics do not keep step.
- Late start: does a bag hold the motion from its start?
- Completeness: does it hold every state that the driver published? The driver's diagnostics say how many states it had
  published up to which stamp, and how many cycles it missed. Between two of them the bag must hold exactly the states
  that were published; what is absent without being counted as missed was lost on the way.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.recording.bag_reader import Bag, TopicContent, read_bag
from dynid.recording.messages import JOINT_STATE, JOINT_TRAJECTORY, STRING, decode, decode_diagnostics, header_stamp_ns
from dynid.recording.series import joint_series, strings
from dynid.recording.settings import ExperimentSettings, parse_settings
from dynid.recording.topics import DIAGNOSTICS, EXPERIMENT, JOINT_STATES, find_topics

DRIVER = "hardware"  # the status name under which the driver reports
FRESH_S = 3.0  # nodes report every second; a killed one stays known to the middleware for some 20 s
TOLERATED_START_S = 0.05  # the first states of a motion may pass before the first command
OUT_OF_STEP_NS = 100_000_000


class Discovery:
    """What a recorder knows of its publishers, and they of it.

    The middleware informs each side of its own; only what arrives proves that a publisher knows the recorder. It makes
    endpoints known in the order in which they were created. A node creates the publisher of its diagnostics last, and
    the recorder subscribes to them last; so once a node's report arrives, that node's other messages do, too.

    Args:
        topics: that need a publisher.
        reports: names of the statuses that must arrive.
    """

    def __init__(self, topics: Sequence[str], reports: Sequence[str]) -> None:
        self._topics, self._reports = topics, reports
        self._publishers: dict[str, int] = {}
        self._departed: dict[str, int] = {}
        self._reported_s: dict[str, float] = {}

    def matched(self, topic: str, publishers: int, departed: int) -> bool:
        """Note how many publishers of a topic are known now, and how many have left; whether that is news."""
        changed = bool(publishers) != bool(self._publishers.get(topic, 0))
        fewer = departed > self._departed.get(topic, 0)
        self._publishers[topic], self._departed[topic] = publishers, departed
        if fewer:  # somebody left, and may come back under the same name without knowing the recorder
            self._reported_s.clear()
        return changed or fewer

    def reported(self, raw: bytes, now_s: float) -> bool:
        """Note a serialized diagnostic_msgs/DiagnosticArray; whether there is a new name in it."""
        try:
            names = {status.name for status in decode_diagnostics(raw)[1]}
        except DataError:
            return False  # recorded as it is
        new = not names <= set(self._reported_s)
        self._reported_s.update(dict.fromkeys(names, now_s))
        return new

    def unmatched(self, now_s: float) -> list[str]:
        """What is missing, in words; empty if nothing is. Reports count where no topic is missing."""
        fresh = {name for name, reported_s in self._reported_s.items() if now_s - reported_s <= FRESH_S}
        topics = [topic for topic in self._topics if not self._publishers.get(topic)]
        return topics or [f"reports of {name}" for name in self._reports if name not in fresh]


def reported_motion(raw: bytes) -> ExperimentSettings | None:
    """What a message of topic `experiment` reports; None where it is another program's."""
    try:
        return parse_settings(EXPERIMENT, decode(raw, STRING).data, ExperimentSettings)
    except DataError:
        return None  # recorded as it is


class MotionCompletion:
    """Watches whether the bag that is being recorded holds its motion to the end.

    Args:
        experiment: the topic that reports the motion.
        stamped: topics of messages with a header, by the clock of the arm's states. The motion is complete when each
            of them that came at all has come up to the end's stamp. What is not stamped (0) does not count.

    Attributes:
        missing: what has not come yet; empty when the motion is complete, or there is none.
    """

    def __init__(self, experiment: str, stamped: Collection[str]) -> None:
        self._experiment, self._stamped = experiment, frozenset(stamped)
        self._newest: dict[str, bytes] = {}
        self._end_ns = 0
        self.missing: set[str] = set()

    def note(self, topic: str, raw: bytes) -> bool:
        """Take a message that was recorded; whether the motion is complete with it."""
        before = bool(self.missing)
        if topic in self._stamped:
            self._newest[topic] = raw
            if topic in self.missing and header_stamp_ns(raw) >= self._end_ns:
                self.missing.discard(topic)
        elif topic == self._experiment and (motion := reported_motion(raw)) is not None:
            self.missing = {f"the end of the motion on {self._experiment}"} if motion.phases else set()
            if motion.ended_ns is not None:
                self._end_ns = motion.ended_ns
                stamps_ns = {name: header_stamp_ns(last) for name, last in self._newest.items()}
                self.missing = {name for name, stamp_ns in stamps_ns.items() if 0 < stamp_ns < self._end_ns}
        return before and not self.missing


def late_starts(experiment: TopicContent | None, stamped: Sequence[TopicContent]) -> list[str]:
    """Which topics start after the first motion, in words; empty if none does.

    Args:
        experiment: the topic that reports the motions; None where there is none.
        stamped: topics of messages with a header, by the clock of the motions' phases; what is of another type, empty
            or carries no stamp (0) is not judged.
    """
    motion_ns = _start_ns(experiment) if experiment else None
    if motion_ns is None:
        return []
    found = []
    for topic in stamped:
        if topic.message_type not in (JOINT_STATE, JOINT_TRAJECTORY) or not len(topic.messages):
            continue
        late_s = 1e-9 * (header_stamp_ns(topic.messages[0]) - motion_ns)
        if late_s > TOLERATED_START_S:
            late = f"'{topic.name}' starts {late_s:.3g} s after the motion"
            found.append(f"{late}: the recorder started late, or its publisher had not discovered it")
    return found


def _start_ns(experiment: TopicContent) -> int | None:
    """When the first motion started [ns]; None where nothing reports one."""
    try:
        for text in strings(experiment):
            if phases := parse_settings(experiment.name, text, ExperimentSettings).phases:
                return phases[0].stamp_ns
    except DataError:
        pass  # another program's topic, which load_recording refuses
    return None


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
            f"{len(judged)} of them between its states, but judging its completeness needs at least 2: record for more "
            "than three seconds"
        )
    first, last = judged[0], judged[-1]
    recorded = int(np.count_nonzero((stamps > first.stamp_ns) & (stamps <= last.stamp_ns)))
    return Completeness(recorded, last.published - first.published, last.missed - first.missed)


def _within(reports: list[Counters], stamps: NDArray[np.int64]) -> list[Counters]:
    """Without a first report on states just before the bag's, and a last one on states just after them.

    Topics do not keep step: a recorder that starts or ends may meet a report later or sooner than the states beside it.
    """
    if not len(stamps):
        return []
    first, last = int(stamps[0]), int(stamps[-1])
    start = int(bool(reports) and first - OUT_OF_STEP_NS <= reports[0].stamp_ns < first)
    end = int(len(reports) > start and last < reports[-1].stamp_ns <= last + OUT_OF_STEP_NS)
    return reports[start : len(reports) - end]


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
                    f"the driver was restarted while the bag {bag.path} was recorded (its counters fell from "
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
