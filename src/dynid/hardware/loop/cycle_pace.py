"""The cycle rate of a driver from configure to torque on: chosen by the line, kept or lowered by the machine."""

from dataclasses import replace

from dynid.errors import SafetyError
from dynid.hardware.arm.cycle_rate import CycleRate, period_s
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.loop.cycle_meter import CycleCounts
from dynid.hardware.loop.rate_trial import DECIDING_WINDOWS, SETTLING_WINDOWS, WINDOW_S, RateTrial, Window


class CyclePace:
    """Tries a cycle rate on the running loop while torque is off.

    Args:
        rate: what the line allows, or what a user has fixed.
        held: the arm's clock waits for this machine, so every rate is kept.

    Attributes:
        rate: the present one.
        lowered: why it was lowered the last time, in one line.
        warning: that the rate which a user has fixed is not kept; "" if it is.
    """

    def __init__(self, rate: CycleRate, *, held: bool) -> None:
        self.rate, self.lowered, self.warning = rate, "", ""
        self._trial = RateTrial(rate.rate_hz, fixed=rate.fixed, needed=not held)
        self._since: CycleCounts | None = None

    @property
    def text(self) -> str:
        """How the rate is kept, in a few words."""
        return self._trial.text

    def restart(self) -> None:
        """Begin a window anew: a loop has just started, or torque is on."""
        self._since = None

    def look(self, loop: ControlLoop) -> None:
        """Note the time since the last window, once it is a window; to be called often while torque is off."""
        now = loop.counts()
        if self._since is None or now.cycles < self._since.cycles:
            self._since = now if now.cycles else None
        elif now.now_ns - self._since.now_ns >= WINDOW_S * 1e9:
            self._trial.note(Window.between(self.rate.rate_hz, self._since, now))
            self._since = now

    def lower(self, *, unasked: bool) -> bool:
        """Choose the next lower rate if this one is not kept; return whether it was."""
        before, last = self.rate.rate_hz, self._trial.last
        if not self._trial.lower(SETTLING_WINDOWS if unasked else DECIDING_WINDOWS):
            return False
        assert last is not None, "it was judged"
        self.rate = replace(self.rate, rate_hz=self._trial.rate_hz, cycle_s=period_s(self._trial.rate_hz))
        self.lowered = f"cycle rate lowered from {before} to {self._trial.rate_hz} Hz: {last.said()}"
        self._since = None
        return True

    def decided(self) -> bool:
        """Whether torque may come on at the present rate; not before its last windows were kept.

        Raises:
            SafetyError: not even the lowest rate is kept.
        """
        last, self.warning = self._trial.last, ""
        if self._trial.fixed and last is not None and not self._trial.kept:
            self.warning = f"{last.said()}; {self.rate.rate_hz} Hz goes on, as fixed by rate_hz"
        if last is not None and self._trial.exhausted(DECIDING_WINDOWS):
            raise SafetyError(
                f"cannot enable: no cycle rate is kept, {last.said()}; end other programs, or set rate_hz to go on in "
                "spite of missed cycles"
            )
        return self._trial.fixed or self._trial.kept
