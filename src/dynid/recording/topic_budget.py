"""Limits on the data that a recorder accepts per topic, so that a flooded topic does not displace the arm's states."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TopicLimits:
    """Limits on the messages that a recorder accepts from one topic.

    Attributes:
        depth: length of the subscription's queue, in which messages wait if the recorder stalls.
        largest: maximum size of a message [bytes].
        bytes_per_s: maximum long-term data rate [bytes/s]; None is unlimited.
        messages_per_s: maximum long-term message rate [1/s]; None is unlimited.
        burst_s: maximum size of a burst, expressed as a time [s]: a topic may send at once as much as its long-term
            rates allow within this time.
    """

    depth: int
    largest: int
    bytes_per_s: float | None = None
    messages_per_s: float | None = None
    burst_s: float = 10.0

    def __str__(self) -> str:
        rates = ((self.bytes_per_s, "bytes"), (self.messages_per_s, "messages"))
        return ", ".join([f"{self.largest} bytes a message", *(f"{r:.0f} {what} a second" for r, what in rates if r)])


ARM_LIMITS = TopicLimits(depth=5000, largest=2**16)  # five seconds at 1 kHz
TEXT_LIMITS = TopicLimits(depth=1, largest=2**22, bytes_per_s=2**20, messages_per_s=10.0)
REPORT_LIMITS = TopicLimits(depth=50, largest=2**18, bytes_per_s=2**18, messages_per_s=50.0)


class TopicBudget:
    """Counter of a topic's messages, which decides whether they are within the topic's limits.

    Args:
        limits: limits of the topic.

    Attributes:
        refused: number of refused messages.
        exceeded: whether the last message was refused.
    """

    def __init__(self, limits: TopicLimits) -> None:
        self.limits, self.refused, self.exceeded = limits, 0, False
        self._bytes = self._messages = 0.0  # used part of the burst [bytes, messages]; decreases with time
        self._last_s = 0.0

    def take(self, size: int, now_s: float) -> bool:
        """Count a message of `size` bytes that arrives at time `now_s` [s]; return whether it may be recorded."""
        limits, passed_s = self.limits, max(0.0, now_s - self._last_s)
        self._last_s = now_s
        within = size <= limits.largest
        if within and limits.bytes_per_s is not None:
            self._bytes = max(0.0, self._bytes - passed_s * limits.bytes_per_s)
            within = self._bytes + size <= limits.burst_s * limits.bytes_per_s
            self._bytes += size * within
        if within and limits.messages_per_s is not None:
            self._messages = max(0.0, self._messages - passed_s * limits.messages_per_s)
            within = self._messages + 1.0 <= limits.burst_s * limits.messages_per_s
            self._messages += within
        self.exceeded = not within
        self.refused += self.exceeded
        return within
