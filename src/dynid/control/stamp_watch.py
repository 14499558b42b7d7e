"""Check that the stamps of an arm's states advance like time: they must not stop, go back, or jump ahead."""

MOST_DELAY_NS = 20_000_000  # largest delay of a state that arrived out of order, which is skipped
MOST_STALE = 20  # largest number of consecutive states that are not newer than an earlier one
LONGEST_GAP_S = 1.0  # longest gap in the states: after it the hardware has switched the motors off


class StampWatch:
    """Check that the time stamps of an arm's states do not stop, go back, or jump ahead by more than a tolerance."""

    def __init__(self) -> None:
        self._stale = 0

    def clear(self) -> None:
        """Reset the count of time stamps that did not advance."""
        self._stale = 0

    def fault(self, last_ns: int, stamp_ns: int) -> str:
        """Return a sentence about the fault of a time stamp, or "" if it has no fault.

        A stamp that is newer than `last_ns` is a fault if it is newer by more than `LONGEST_GAP_S`. A state may arrive
        twice or out of order, so a stamp that is not newer than `last_ns` is a fault only if it is older by more than
        `MOST_DELAY_NS`, or if more than `MOST_STALE` such stamps follow each other. If it is not a fault, the caller
        must skip the state with this stamp.

        Args:
            last_ns: newest stamp before this one [ns].
            stamp_ns: the stamp to check [ns].
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
