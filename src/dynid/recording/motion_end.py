"""Does a bag that is being recorded hold a motion to its end? Topics do not keep step; one may be seconds behind."""

from collections.abc import Collection

from dynid.errors import DataError
from dynid.recording.messages import STRING, decode, header_stamp_ns
from dynid.recording.recording import EXPERIMENT
from dynid.recording.settings import ExperimentSettings, parse_settings

MOTION_END = "motion_end_ns"  # key of the recorder's diagnostics: see `MotionEnd.recorded_ns`


def ended_ns(raw: bytes) -> int | None:
    """When the motion ended [ns] of which a message of topic `experiment` tells; None if it goes on."""
    try:
        settings = parse_settings(EXPERIMENT, decode(raw, STRING).data, ExperimentSettings)
    except DataError:
        return None  # of another program; it is recorded as it is
    return settings.phases[-1].stamp_ns if settings.state in ("done", "cancelled") else None


class MotionEnd:
    """Watches the messages of one bag.

    Args:
        experiment: the topic that tells of the motion.
        stamped: topics of messages with a header. The motion's end has been recorded when each of them that came at all
            has come up to the end's stamp.

    Attributes:
        recorded_ns: stamp of the end [ns], when the bag holds everything up to it; None before.
    """

    def __init__(self, experiment: str, stamped: Collection[str]) -> None:
        self._experiment, self._stamped = experiment, frozenset(stamped)
        self._newest: dict[str, bytes] = {}
        self._end_ns = 0
        self._behind: set[str] = set()
        self.recorded_ns: int | None = None

    def note(self, topic: str, raw: bytes) -> bool:
        """Take a message that was recorded; whether with it the end is there."""
        if topic in self._stamped:
            self._newest[topic] = raw
            if topic in self._behind and header_stamp_ns(raw) >= self._end_ns:
                self._behind.discard(topic)
                return self._reached()
        elif topic == self._experiment:
            self._behind, self.recorded_ns = set(), None
            if (end_ns := ended_ns(raw)) is not None:
                self._end_ns = end_ns
                self._behind = {name for name, last in self._newest.items() if header_stamp_ns(last) < self._end_ns}
                return self._reached()
        return False

    def _reached(self) -> bool:
        if self._behind:
            return False
        self.recorded_ns = self._end_ns
        return True
