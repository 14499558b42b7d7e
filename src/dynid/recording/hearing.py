"""Does a recorder hear those whom it is to record? What is published before both know each other is in no bag."""

from collections.abc import Sequence

from dynid.errors import DataError
from dynid.recording.messages import decode_diagnostics

# Keys of the recorder's diagnostics
BAG = "bag"  # the folder that was opened last
TOPICS_HEARD = "topics_heard"  # topics with a publisher that the recorder knows
REPORTS_HEARD = "reports_heard"  # names of the statuses that it receives
BETWEEN = ", "
FRESH_S = 3.0  # nodes report every second; a killed one stays known to the middleware for some 20 s


class Hearing:
    """What a recorder knows of its publishers, and they of it.

    The middleware tells each side of its own; only what arrives proves that a publisher knows the recorder. It tells of
    endpoints in the order in which they were made, so once a node's diagnostics arrive, which it makes last of what is
    recorded and which are subscribed to last, that node's other messages do, too.
    """

    def __init__(self) -> None:
        self._publishers: dict[str, int] = {}
        self._departed: dict[str, int] = {}
        self._heard_s: dict[str, float] = {}

    def matched(self, topic: str, publishers: int, departed: int) -> bool:
        """Note how many publishers of a topic are known now, and how many have left; whether that is news."""
        changed = bool(publishers) != bool(self._publishers.get(topic, 0))
        fewer = departed > self._departed.get(topic, 0)
        self._publishers[topic], self._departed[topic] = publishers, departed
        if fewer:  # somebody left, and may come back under the same name without knowing the recorder
            self._heard_s.clear()
        return changed or fewer

    def heard(self, raw: bytes, now_s: float) -> bool:
        """Note a serialized diagnostic_msgs/DiagnosticArray; whether there is a new name in it."""
        try:
            names = {status.name for status in decode_diagnostics(raw)[1]}
        except DataError:
            return False  # recorded as it is
        new = not names <= set(self._heard_s)
        self._heard_s.update(dict.fromkeys(names, now_s))
        return new

    def report(self, now_s: float) -> dict[str, str]:
        """What the recorder's diagnostics say of it."""
        topics = (topic for topic, publishers in self._publishers.items() if publishers)
        reports = (name for name, heard_s in self._heard_s.items() if now_s - heard_s <= FRESH_S)
        return {TOPICS_HEARD: BETWEEN.join(sorted(topics)), REPORTS_HEARD: BETWEEN.join(sorted(reports))}


def unheard(topics: str, reports: str, wanted_topics: Sequence[str], wanted_reports: Sequence[str]) -> list[str]:
    """What is missing in words, by the two values of a recorder's report; empty if nothing is.

    Reports count where no topic is missing.
    """
    missing = [topic for topic in wanted_topics if topic not in topics.split(BETWEEN)]
    return missing or [f"reports of {name}" for name in wanted_reports if name not in reports.split(BETWEEN)]
