"""Does a bag that is being recorded hold a motion to its end? Topics do not keep step; one may be seconds behind."""

from collections.abc import Collection

from dynid.errors import DataError
from dynid.recording.messages import STRING, decode, header_stamp_ns
from dynid.recording.recording import EXPERIMENT
from dynid.recording.settings import ExperimentSettings, parse_settings

# Keys of the recorder's diagnostics
MOTION_END = "motion_end_ns"  # see `MotionEnd.recorded_ns`
MOTION_END_AWAITS = "motion_end_awaits"  # see `MotionEnd.behind`
GIVEN_UP = "given_up"  # why a recording was ended before its time


def ended_ns(raw: bytes) -> int | None:
    """When the motion ended [ns] of which a message of topic `experiment` tells; None if it goes on."""
    try:
        return parse_settings(EXPERIMENT, decode(raw, STRING).data, ExperimentSettings).ended_ns
    except DataError:
        return None  # of another program; it is recorded as it is


class MotionEnd:
    """Watches the messages of one bag.

    Args:
        experiment: the topic that tells of the motion.
        stamped: topics of messages with a header, by the clock of the arm's states. The motion's end has been recorded
            when each of them that came at all has come up to the end's stamp. What is not stamped (0) does not count.

    Attributes:
        recorded_ns: stamp of the end [ns], when the bag holds everything up to it; None before.
        behind: topics that have not come so far, once the motion's end was told.
    """

    def __init__(self, experiment: str, stamped: Collection[str]) -> None:
        self._experiment, self._stamped = experiment, frozenset(stamped)
        self._newest: dict[str, bytes] = {}
        self._end_ns = 0
        self.behind: set[str] = set()
        self.recorded_ns: int | None = None

    def note(self, topic: str, raw: bytes) -> bool:
        """Take a message that was recorded; whether with it the end is there."""
        if topic in self._stamped:
            self._newest[topic] = raw
            if topic in self.behind and header_stamp_ns(raw) >= self._end_ns:
                self.behind.discard(topic)
                return self._reached()
        elif topic == self._experiment:
            self.behind, self.recorded_ns = set(), None
            if (end_ns := ended_ns(raw)) is not None:
                self._end_ns = end_ns
                stamps_ns = {name: header_stamp_ns(last) for name, last in self._newest.items()}
                self.behind = {name for name, stamp_ns in stamps_ns.items() if 0 < stamp_ns < end_ns}
                return self._reached()
        return False

    def report(self) -> dict[str, str]:
        """What the recorder's diagnostics say of it."""
        reached = {} if self.recorded_ns is None else {MOTION_END: str(self.recorded_ns)}
        return reached | ({MOTION_END_AWAITS: ", ".join(sorted(self.behind))} if self.behind else {})

    def _reached(self) -> bool:
        if self.behind:
            return False
        self.recorded_ns = self._end_ns
        return True
