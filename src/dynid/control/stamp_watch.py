"""Whether the stamps of an arm's states pass as time does: they must not stop, go back, or jump ahead."""

LATE_NS = 20_000_000  # an older state that arrives by so much too late was overtaken on its way: it is left out
MOST_STALE = 20  # states in a row that are no newer than one before
GIVE_UP_S = 1.0  # states lost for longer: the hardware has switched the motors off, nothing is to be gone on with


class StampWatch:
    """Judges one stamp after the other against the newest one that was used."""

    def __init__(self) -> None:
        self._stale = 0

    def clear(self) -> None:
        """Begin again, at whatever time."""
        self._stale = 0

    def fault(self, last_ns: int, stamp_ns: int) -> str:
        """Return in words what is wrong with a stamp after another one, both [ns]; "" if nothing is.

        A state that is not newer but passes must be left out.
        """
        if stamp_ns > last_ns:
            self._stale = 0
            lost_s = (stamp_ns - last_ns) * 1e-9
            if lost_s <= GIVE_UP_S:
                return ""
            return f"no joint states for {lost_s:.2f} s by their stamps, more than the {GIVE_UP_S:.0f} s allowed"
        self._stale += 1
        if stamp_ns < last_ns - LATE_NS:
            return f"the stamps of joint_states went back by {(last_ns - stamp_ns) * 1e-9:.3f} s"
        if self._stale > MOST_STALE:
            return f"the last {self._stale} joint_states are no newer than one before: their stamps stand still"
        return ""
