"""Check that the stamps of an arm's states advance like time: they must not stop, go back, or jump ahead."""

MOST_DELAY_NS = 20_000_000  # largest delay of a state that arrived out of order, which is skipped
MOST_STALE = 20  # largest number of consecutive states that are not newer than an earlier one
LONGEST_GAP_S = 1.0  # longest gap in the states: after it the hardware has switched the motors off


class StampWatch:
    """Check of each stamp against the newest stamp in use."""

    def __init__(self) -> None:
        self._stale = 0

    def clear(self) -> None:
        """Reset the count of stale stamps."""
        self._stale = 0

    def fault(self, last_ns: int, stamp_ns: int) -> str:
        """Return the fault of a stamp that follows the newest one, both [ns], as a sentence; "" if there is none.

        A stamp that only repeats, or is slightly older, is no fault; the caller must skip its state.
        """
        if stamp_ns > last_ns:
            self._stale = 0
            lost_s = (stamp_ns - last_ns) * 1e-9
            if lost_s <= LONGEST_GAP_S:
                return ""
            return f"no joint states for {lost_s:.2f} s by their stamps, more than the {LONGEST_GAP_S:.0f} s allowed"
        self._stale += 1
        if stamp_ns < last_ns - MOST_DELAY_NS:
            return f"the stamps of joint_states went back by {(last_ns - stamp_ns) * 1e-9:.3f} s"
        if self._stale > MOST_STALE:
            return f"the last {self._stale} joint_states are no newer than an earlier one: their stamps do not advance"
        return ""
