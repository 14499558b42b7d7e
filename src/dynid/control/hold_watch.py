"""Watch over an arm that is said to be held: one that leaves its reference again and again is not."""

BRAKED_S = 1.0  # within that time after the first loss an arm that was thrown off is braked, and may be lost again
QUIET_S = 3.0  # without a loss: whatever it was is over


class HoldWatch:
    """Notes when the arm left its reference without a new request in between."""

    def __init__(self) -> None:
        self._first_ns: int | None = None
        self._last_ns = 0

    def clear(self) -> None:
        """Forget: somebody asked for a motion or a hold."""
        self._first_ns = None

    def lost(self, stamp_ns: int) -> bool:
        """Note that the arm left its reference at this stamp [ns]; return whether it ought to stand by now."""
        if self._first_ns is None or stamp_ns - self._last_ns > QUIET_S * 1e9:
            self._first_ns = stamp_ns
        self._last_ns = stamp_ns
        return stamp_ns - self._first_ns > BRAKED_S * 1e9
