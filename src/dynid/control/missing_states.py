"""How many states of the arm were missing since a motion began: named first when the motion is given up."""

from dynid.hardware.loop.rate_trial import Window


class MissingStates:
    """Counts states by their stamps; those that never came show as gaps."""

    def __init__(self) -> None:
        self._first_ns = self._last_ns = self._count = self._incomplete = 0

    def begin(self, incomplete: int) -> None:
        """Count from the next state on; the driver has counted so many incomplete cycles until now."""
        self._first_ns, self._incomplete = 0, incomplete

    def note(self, stamp_ns: int) -> None:
        """Count a state with this stamp [ns]."""
        if not self._first_ns:
            self._first_ns, self._count = stamp_ns, 0
        else:
            self._count += 1
        self._last_ns = stamp_ns

    def complaint(self, cycle_s: float, incomplete: int) -> str:
        """Return that more states were missing than may be, and why, to be put before a reason; "" if not.

        Args:
            cycle_s: length of a cycle [s].
            incomplete: cycles without the reply of a servo that the driver has counted until now.
        """
        if not self._first_ns:
            return ""
        planned = round((self._last_ns - self._first_ns) * 1e-9 / cycle_s)
        missing = max(0, planned - self._count)
        unanswered = min(missing, max(0, incomplete - self._incomplete))
        window = Window(round(1.0 / cycle_s), planned, missing, unanswered, 0)
        return "" if window.kept else f"{window.said('since the motion began')}; "
