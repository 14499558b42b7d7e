"""Checks that a bag is complete: before a motion, during recording, at its end, and on disk.

- Discovery: has every node whose topics are recorded discovered the recorder? Earlier messages are not in the bag.
- Motion completion: has every topic been recorded up to the end of the motion? Topics arrive with different delays.
- Late start: does a bag contain the motion from its start?
- Completeness: does a bag contain every joint state that the driver published? The driver's diagnostics report the
  number of published states, the number of missed cycles, and the stamp of the last state. Between two reports, the bag
  must contain exactly the number of published states; missing states were lost between driver and recorder.
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

DRIVER = "hardware"  # status name of the driver's diagnostics
# Maximum age of a node's report [s]; nodes report every second, the middleware drops dead ones at 20 s
MOST_REPORT_AGE_S = 3.0
TOLERATED_START_S = 0.05  # tolerated start of a topic after the motion's [s]; states may precede the first command
MOST_OFFSET_NS = 100_000_000


class Discovery:
    """State of ROS discovery between a recorder and the publishers it records, in both directions.

    The middleware informs each side separately, so only a received message proves that a publisher has discovered the
    recorder. Publishers and subscriptions are announced in the order of their creation. Nodes create their diagnostics
    publisher last, and the recorder subscribes to diagnostics last. So if a node's diagnostics arrive, its other
    messages arrive, too.

    Args:
        topics: topics that need a publisher.
        reports: names of the diagnostic statuses that must arrive, one for each node.
    """

    def __init__(self, topics: Sequence[str], reports: Sequence[str]) -> None:
        self._topics, self._reports = topics, reports
        self._publishers: dict[str, int] = {}
        self._departed: dict[str, int] = {}
        self._reported_s: dict[str, float] = {}

    def matched(self, topic: str, publishers: int, departed: int) -> bool:
        """Store the number of a topic's publishers; return True if the discovery must be checked again.

        This is the case if the topic got its first publisher, if it lost its last publisher, or if any of its
        publishers has left since the previous call.

        If a publisher has left, all diagnostics received before are ignored, because a restarted node must discover the
        recorder again.

        Args:
            topic: name of the topic.
            publishers: number of publishers that are known now.
            departed: total number of publishers that have left the topic so far.
        """
        changed = bool(publishers) != bool(self._publishers.get(topic, 0))
        fewer = departed > self._departed.get(topic, 0)
        self._publishers[topic], self._departed[topic] = publishers, departed
        if fewer:  # a publisher left, and may return under the same name without having discovered the recorder
            self._reported_s.clear()
        return changed or fewer

    def reported(self, raw: bytes, now_s: float) -> bool:
        """Record the status names in a diagnostics message; return True if one of them is new.

        A status name identifies the node that sends it. Its arrival proves that this node has discovered the recorder.

        Args:
            raw: a serialized diagnostic_msgs/DiagnosticArray.
            now_s: time of arrival of the message [s].
        """
        try:
            names = {status.name for status in decode_diagnostics(raw)[1]}
        except DataError:
            return False  # an invalid message is recorded unchanged
        new = not names <= set(self._reported_s)
        self._reported_s.update(dict.fromkeys(names, now_s))
        return new

    def unmatched(self, now_s: float) -> list[str]:
        """Return the topics without a publisher; if there are none, return the missing diagnostic reports.

        The list is empty if the discovery is complete.

        Args:
            now_s: present time [s]; reports older than `MOST_REPORT_AGE_S` count as missing.
        """
        fresh = {name for name, reported_s in self._reported_s.items() if now_s - reported_s <= MOST_REPORT_AGE_S}
        topics = [topic for topic in self._topics if not self._publishers.get(topic)]
        return topics or [f"reports of {name}" for name in self._reports if name not in fresh]


def reported_motion(raw: bytes) -> ExperimentSettings | None:
    """Return the experiment's settings in a serialized message of topic `experiment`; None if they are invalid."""
    try:
        return parse_settings(EXPERIMENT, decode(raw, STRING).data, ExperimentSettings)
    except DataError:
        return None  # an invalid message is recorded unchanged


class MotionCompletion:
    """Monitor that detects when the bag being recorded contains the motion up to its end.

    Args:
        experiment: name of the topic that reports the motion.
        stamped: names of topics whose messages have header stamps from the clock of the joint states. The motion is
            complete when each of these topics has reached the stamp of the motion's end. Topics without messages and
            messages with zero stamps are ignored.

    Attributes:
        missing: set of texts that state what the bag still lacks. While a motion is running, the set contains one
            phrase about the motion's end. Once the end is reported, the set contains the names of the topics that have
            not reached the end's stamp. The set is empty if the motion is complete, or before a motion is reported.
    """

    def __init__(self, experiment: str, stamped: Collection[str]) -> None:
        self._experiment, self._stamped = experiment, frozenset(stamped)
        self._newest: dict[str, bytes] = {}
        self._end_ns = 0
        self.missing: set[str] = set()

    def note(self, topic: str, raw: bytes) -> bool:
        """Register a recorded message; return True if the recorded motion is now complete.

        Args:
            topic: name of the message's topic.
            raw: the serialized message.
        """
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
    """Return a sentence for each topic that starts later than the first motion; [] if every topic starts in time.

    Args:
        experiment: topic that reports the motions; None if it is missing.
        stamped: topics whose header stamps come from the same clock as the motions' start times. Topics without
            messages, without a header, or with zero stamps are ignored.
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
    """Return the start of the first motion that topic `experiment` reports [ns]; None if it reports no motion."""
    try:
        for text in strings(experiment):
            if phases := parse_settings(experiment.name, text, ExperimentSettings).phases:
                return phases[0].stamp_ns
    except DataError:
        pass  # topic of another program, which load_recording refuses
    return None


@dataclass(frozen=True)
class Counters:
    """Driver's counters from one of its diagnostic reports.

    Attributes:
        published: number of published joint states.
        stamp_ns: stamp of the last published state [ns].
        missed: number of missed control cycles.
    """

    published: int
    stamp_ns: int
    missed: int


@dataclass(frozen=True)
class Completeness:
    """Numbers of recorded and published joint states between the driver's first and last report in a bag.

    Attributes:
        recorded: number of joint states in the bag.
        published: number of joint states that the driver published.
        missed: number of cycles that the driver counted as missed.
    """

    recorded: int
    published: int
    missed: int

    @property
    def lost(self) -> int:
        """Number of published states that are not in the bag."""
        return self.published - self.recorded

    @property
    def missed_fraction(self) -> float:
        """Fraction of control cycles that the driver missed or whose state is not in the bag."""
        return (self.missed + self.lost) / max(self.published + self.missed, 1)


def completeness(path: Path | str) -> Completeness:
    """Compare the number of joint states in a bag with the driver's counters in this bag.

    Raises:
        InputNotFoundError: the path does not exist.
        DataError: the path is not a bag, has no joint states, or has fewer than two diagnostic reports of the driver.
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
    """Select the driver's reports between which a bag must contain every published state.

    At the start and the end of a recording, topics arrive with different delays. So the first report may be recorded
    although states published just after it are not. The first report is left out if it is older than the first recorded
    state by at most `MOST_OFFSET_NS`. If it is older than that, the delays do not explain the difference: the report is
    kept, and the missing states count as lost. Likewise, the last report is left out if it is newer than the last
    recorded state by at most `MOST_OFFSET_NS`, and kept if it is newer than that.

    Args:
        reports: reports of the driver, in order.
        stamps: stamps of the joint states in the bag, (N,) [ns]; the result is [] if there are none.
    """
    if not len(stamps):
        return []
    first, last = int(stamps[0]), int(stamps[-1])
    start = int(bool(reports) and first - MOST_OFFSET_NS <= reports[0].stamp_ns < first)
    end = int(len(reports) > start and last < reports[-1].stamp_ns <= last + MOST_OFFSET_NS)
    return reports[start : len(reports) - end]


def _reports(bag: Bag, topic: str) -> list[Counters]:
    """Return the counters that the driver reported on a topic of a bag, in order.

    Reports before the first published state are left out.
    """
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
