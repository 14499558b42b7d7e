"""Detection of an arm that repeatedly leaves the reference at which it should be held."""

BRAKED_S = 1.0  # longest braking time after the arm left its reference; further deviations within it are expected
RESET_S = 3.0  # time at the reference after which a deviation counts as the first one again


class HoldWatch:
    """Monitor that decides whether an arm may be held again after it has left its reference (a deviation).

    The decision depends on the times of earlier deviations. Deviations before the last request for a motion or a hold
    are ignored.
    """

    def __init__(self) -> None:
        self._first_ns: int | None = None
        self._last_ns = 0

    def clear(self) -> None:
        """Discard all earlier deviations of the arm from its reference, because a motion or a hold was requested."""
        self._first_ns = None

    def lost(self, stamp_ns: int, by_model: bool) -> str:
        """Record that the arm left its reference (a deviation); return why it must not be held again, "" if it may be.

        Args:
            stamp_ns: time stamp of the state in which the arm left its reference [ns].
            by_model: whether the control law that held the arm relies on an identified model. If it does, any second
                deviation forbids another hold, because a wrong model drives the arm away whenever it is held.

        Returns:
            Reason why the arm must not be held again. It is "" for a first deviation: the first one since `clear`, or
            after `RESET_S` without a deviation. Without an identified model, it is also "" for deviations within
            `BRAKED_S` after a first deviation, because the arm may still be braking.
        """
        if self._first_ns is None or stamp_ns - self._last_ns > RESET_S * 1e9:
            self._first_ns = self._last_ns = stamp_ns
            return ""
        self._last_ns = stamp_ns
        if by_model:
            return "it left a hold by the model's torques, so the model may be wrong"
        if stamp_ns - self._first_ns > BRAKED_S * 1e9:
            return f"its first deviation was more than {BRAKED_S:.0f} s ago, so a hold does not stop it"
        return ""
