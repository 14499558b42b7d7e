"""Choice of a driver's cycle rate before torque comes on: a trial on the running machine confirms or lowers it."""

from dataclasses import replace

from dynid.errors import SafetyError
from dynid.hardware.arm.cycle_rate import CycleRate, period_s
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.loop.cycle_meter import CycleCounts
from dynid.hardware.loop.rate_trial import DECIDING_WINDOWS, SETTLING_WINDOWS, WINDOW_S, RateTrial, Window


class CyclePace:
    """Trial of a cycle rate on the running loop while torque is off.

    Args:
        rate: cycle rate that the line allows, or that a user has fixed.
        held: whether the clock of a simulated arm waits for late control cycles. If so, every rate counts as kept,
            without a trial.

    Attributes:
        rate: present cycle rate.
        lowered: one line with the reason why the rate was last lowered; "" if it was never lowered.
        warning: warning that the machine does not keep the rate that a user has fixed; "" if there is none.
    """

    def __init__(self, rate: CycleRate, *, held: bool) -> None:
        self.rate, self.lowered, self.warning = rate, "", ""
        self._trial = RateTrial(rate.rate_hz, fixed=rate.fixed, needed=not held)
        self._window_start: CycleCounts | None = None

    @property
    def text(self) -> str:
        """Short text on whether the machine keeps the cycle rate."""
        return self._trial.text

    def restart(self) -> None:
        """Discard the present time window of the trial of the cycle rate; `evaluate` then starts a new one.

        Must be called at the start of a control loop, and repeatedly while torque is on, so that the trial uses only
        cycles of one loop without torque.
        """
        self._window_start = None

    def evaluate(self, loop: ControlLoop, share: float = 0.0) -> None:
        """Judge the cycle rate at the end of each time window of `WINDOW_S` [s].

        Call this often while torque is off; a call before the end of the present window does nothing.

        Args:
            loop: running control loop.
            share: fraction of the usable processors' time that this process took lately; 0 if it was not measured. If
                it is large, the rate counts as not kept, unless it is the lowest: other nodes need processor time, too.
        """
        now = loop.counts()
        if self._window_start is None or now.cycles < self._window_start.cycles:
            self._window_start = now if now.cycles else None
        elif now.now_ns - self._window_start.now_ns >= WINDOW_S * 1e9:
            self._trial.note(Window.between(self.rate.rate_hz, self._window_start, now, share))
            self._window_start = now

    def lower(self, *, unasked: bool) -> bool:
        """Choose the next lower cycle rate if the present one is not kept; return whether it was lowered.

        Args:
            unasked: True until torque is requested. More failed time windows are then needed to lower the rate
                (`SETTLING_WINDOWS` instead of `DECIDING_WINDOWS`), because other programs may still be starting.
        """
        before, last = self.rate.rate_hz, self._trial.last
        if not self._trial.lower(SETTLING_WINDOWS if unasked else DECIDING_WINDOWS):
            return False
        assert last is not None, "it was judged"
        self.rate = replace(self.rate, rate_hz=self._trial.rate_hz, cycle_s=period_s(self._trial.rate_hz))
        self.lowered = f"cycle rate lowered from {before} to {self._trial.rate_hz} Hz: {last.describe()}"
        self._window_start = None
        return True

    def may_enable(self) -> bool:
        """Return whether torque may come on: a user has fixed the cycle rate, or it was kept in the last time windows.

        Raises:
            SafetyError: the machine does not keep even the lowest rate.
        """
        last, self.warning = self._trial.last, ""
        if self._trial.fixed and last is not None and not self._trial.kept:
            self.warning = f"{last.describe()}; {self.rate.rate_hz} Hz goes on, as fixed by rate_hz"
        if last is not None and self._trial.exhausted(DECIDING_WINDOWS):
            raise SafetyError(
                f"cannot enable: no cycle rate is kept, {last.describe()}; end other programs, or set rate_hz to "
                "accept missed cycles"
            )
        return self._trial.fixed or self._trial.kept
