"""Does a recorder hear those whom it is to record? What is published before both know each other is in no bag."""

from dynid.errors import DataError
from dynid.recording.messages import decode_diagnostics

# Keys of the recorder's diagnostics
TOPICS_HEARD = "topics_heard"  # topics with a publisher that the recorder knows
REPORTS_HEARD = "reports_heard"  # names of the statuses that it has received
BETWEEN = ", "


class Hearing:
    """What a recorder knows of its publishers, and they of it.

    The middleware tells each side of its own; only what arrives proves that a publisher knows the recorder. It tells of
    subscriptions in the order in which they were made, so once a node's diagnostics arrive, which are subscribed to
    last, that node's other messages do, too.
    """

    def __init__(self) -> None:
        self._publishers: dict[str, int] = {}
        self._reports: set[str] = set()

    def matched(self, topic: str, publishers: int) -> bool:
        """Note how many publishers of a topic are known now; whether that is news."""
        fewer = publishers < self._publishers.get(topic, 0)
        changed = bool(publishers) != bool(self._publishers.get(topic, 0))
        self._publishers[topic] = publishers
        if fewer:  # somebody left, and may come back under the same name without knowing the recorder
            self._reports.clear()
        return changed or fewer

    def heard(self, raw: bytes) -> bool:
        """Note a serialized diagnostic_msgs/DiagnosticArray; whether there is a new name in it."""
        try:
            names = {status.name for status in decode_diagnostics(raw)[1]} - self._reports
        except DataError:
            return False  # recorded as it is
        self._reports |= names
        return bool(names)

    def report(self) -> dict[str, str]:
        """What the recorder's diagnostics say of it."""
        topics = sorted(topic for topic, publishers in self._publishers.items() if publishers)
        return {TOPICS_HEARD: BETWEEN.join(topics), REPORTS_HEARD: BETWEEN.join(sorted(self._reports))}


def unheard(topics: str, reports: str, wanted_topics: tuple[str, ...], wanted_reports: tuple[str, ...]) -> list[str]:
    """What is missing in words, by the two values of a recorder's report; empty if nothing is.

    A report is only missed where its node's topics are there.
    """
    missing = [topic for topic in wanted_topics if topic not in topics.split(BETWEEN)]
    return missing or [f"reports of {name}" for name in wanted_reports if name not in reports.split(BETWEEN)]
