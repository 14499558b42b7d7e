"""Contact stops the arm: whatever moves is stopped while something is felt, or while nobody can say whether it is.

The estimates come from another process. They count as long as they keep up with the arm's states, by the stamps of
both, and are of the model and payload that the executor has. Nothing begins while they do not.
"""

from dynid.contact.contact_report import ContactReport
from dynid.control.motion import MotionExecutor
from dynid.control.sway import SwayingController
from dynid.errors import SafetyError

LATE_NS = 200_000_000  # estimates may be so much older than the newest state, and a new model taken over so late
CLEAR_NS = 300_000_000  # a force near its threshold comes and goes: it has ended if nothing was felt for so long
INSTEAD = "or set the executor's parameter contact to report"


class ContactStop:
    """Keeps an arm from moving while something touches it; one per executor.

    Args:
        motion: that is stopped.

    Attributes:
        asked: whether contact is to stop the arm; without it nothing is done.
        report: the newest estimate; None before there is one.
    """

    def __init__(self, motion: MotionExecutor) -> None:
        self._motion, self.asked = motion, False
        self.report: ContactReport | None = None
        self._expected, self._judged_ns, self._felt_ns = "", -LATE_NS, -CLEAR_NS

    def expect(self, model: str) -> None:
        """Let only estimates by this model count from now on, by the digest of its message."""
        self._expected = model

    def hear(self, report: ContactReport) -> None:
        """Take an estimate; one by an older model says what is felt, and not that nothing is."""
        self.report = report
        if report.contact:
            self._felt_ns = report.stamp_ns
        if report.model == self._expected:
            self._judged_ns = report.stamp_ns

    def reason(self, stamp_ns: int) -> str:
        """Return why the arm must not move at the state of this stamp [ns]; "" if it may."""
        if not self.asked:
            return ""
        if self.report is None:
            return f"contact is to stop the arm, and nobody feels it: start external_torque, {INSTEAD}"
        late_s = abs(stamp_ns - self._judged_ns) * 1e-9
        if late_s * 1e9 <= LATE_NS:
            what_to_do = "free the arm, or give the executor what it holds (payload.parameters)"
            return f"{self.report.text}: {what_to_do}" if self.report.contact else ""
        if self.report.model != self._expected:
            return (
                "external_torque does not feel by the executor's model and payload yet: wait, and look into its "
                f"diagnostics, {INSTEAD}"
            )
        return (
            f"the estimates of contact are {late_s:.2f} s away from the newest state, at most {LATE_NS * 1e-9:g} s are "
            f"allowed: is external_torque running, and keeping up? Start it again, {INSTEAD}"
        )

    def refuse(self, stamp_ns: int) -> None:
        """Refuse a motion that is about to begin at this stamp [ns].

        Raises:
            SafetyError: something is felt or was a moment ago, or the estimates do not count.
        """
        reason = self.reason(stamp_ns)
        if not reason and self.asked and abs(stamp_ns - self._felt_ns) < CLEAR_NS:
            reason = "contact ended a moment ago: wait until nothing has been felt for 0.3 s"
        if reason:
            raise SafetyError(f"nothing is moved: {reason}")

    def watch(self, stamp_ns: int) -> str:
        """Stop what moves at this stamp [ns]; return why, if a motion is stopped now, else ""."""
        motion, reason = self._motion, self.reason(stamp_ns)
        if isinstance(motion.controller, SwayingController):
            motion.controller.paused = bool(reason)
        if not reason or not motion.moving or motion.phase == "cancelled":
            return ""
        motion.stopped_itself = reason
        motion.cancel(stamp_ns)
        return reason
