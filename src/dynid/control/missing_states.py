"""Count of the arm's missing states since a motion began, for the message when the motion is aborted."""

from dynid.hardware.loop.rate_trial import Window


class MissingStates:
    """Counter of the states of an arm that were not received, from number and time stamps of the received states."""

    def __init__(self) -> None:
        self._first_ns = self._last_ns = self._count = self._incomplete = 0

    def begin(self, incomplete: int) -> None:
        """Restart the counter; the next received state is the first one that counts.

        Args:
            incomplete: the driver's present count of cycles in which a servo did not reply.
        """
        self._first_ns, self._incomplete = 0, incomplete

    def note(self, stamp_ns: int) -> None:
        """Count a received state with this time stamp [ns]."""
        if not self._first_ns:
            self._first_ns, self._count = stamp_ns, 0
        else:
            self._count += 1
        self._last_ns = stamp_ns

    def complaint(self, cycle_s: float, incomplete: int) -> str:
        """Return a clause that reports too many missing states, as a prefix of an error message; "" if few are missing.

        Args:
            cycle_s: length of a control cycle [s].
            incomplete: the driver's present count of cycles in which a servo did not reply.
        """
        if not self._first_ns:
            return ""
        planned = round((self._last_ns - self._first_ns) * 1e-9 / cycle_s)
        missing = max(0, planned - self._count)
        unanswered = min(missing, max(0, incomplete - self._incomplete))
        window = Window(round(1.0 / cycle_s), planned, missing, unanswered, 0)
        return "" if window.kept else f"{window.describe('since the motion began')}; "
