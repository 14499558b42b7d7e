"""Contact stop: stop any motion while contact is detected, or while its absence cannot be verified.

The contact estimates come from another process. They are valid if their timestamps are close to those of the executor's
states, and if they were made with the executor's model and payload. Without valid estimates no motion starts.
"""

from dynid.contact.contact_report import ContactReport
from dynid.control.motion import MotionExecutor
from dynid.control.sway import SwayingController
from dynid.errors import SafetyError

MOST_AGE_NS = 200_000_000  # maximum age of estimates and of a model change [ns]
# Time without contact after which it has ended [ns]; a force near its threshold fluctuates
CONTACT_END_NS = 300_000_000
ALTERNATIVE = "or set the executor's parameter contact to report"


class ContactStop:
    """Guard that stops and refuses the motions of one executor during contact.

    Args:
        motion: the motion executor to stop.

    Attributes:
        enabled: whether contact stops the arm; if False, the guard has no effect.
        report: the newest message with a contact estimate; None before the first.
    """

    def __init__(self, motion: MotionExecutor) -> None:
        self._motion, self.enabled = motion, False
        self.report: ContactReport | None = None
        self._counted: ContactReport | None = None
        self._expected, self._judged_ns, self._felt_ns = "", -MOST_AGE_NS, -CONTACT_END_NS

    def expect(self, model: str) -> None:
        """Set the executor's model; only an estimate made with this model can prove that there is no contact.

        Args:
            model: `digest` of the executor's `SharedModel` message.
        """
        self._expected = model

    def receive(self, report: ContactReport) -> None:
        """Process a message with the contact process's estimate.

        A report of contact always counts. A report that there is no contact counts only if the estimate was made with
        the expected model, see `expect`.
        """
        self.report = report
        if report.contact or report.model == self._expected:
            self._counted = report
        if report.contact:
            self._felt_ns = report.stamp_ns
        if report.model == self._expected:
            self._judged_ns = report.stamp_ns

    def reason(self, stamp_ns: int) -> str:
        """Return a sentence that states why the arm must not move because of contact, or "" if it may move.

        An absence of contact that cannot be verified is also a reason.

        Args:
            stamp_ns: timestamp of the arm's present state [ns].
        """
        if not self.enabled:
            return ""
        counted = self._counted
        if self.report is None:
            return f"contact is to stop the arm, and no node detects it: start external_torque, {ALTERNATIVE}"
        late_s = abs(stamp_ns - self._judged_ns) * 1e-9
        if counted is not None and late_s * 1e9 <= MOST_AGE_NS:
            what_to_do = "free the arm, or give the executor what it holds (payload.parameters)"
            return f"{counted.text}: {what_to_do}" if counted.contact else ""
        if self.report.model != self._expected:
            return (
                "external_torque does not use the executor's model and payload yet: wait, and look into its "
                f"diagnostics, {ALTERNATIVE}"
            )
        return (
            f"the newest contact estimate is {late_s:.2f} s away from the newest state, at most "
            f"{MOST_AGE_NS * 1e-9:g} s are allowed: is external_torque running, and keeping up? Start it again, "
            f"{ALTERNATIVE}"
        )

    def refuse(self, stamp_ns: int) -> None:
        """Raise an error if a motion must not start at the timestamp `stamp_ns` [ns].

        Raises:
            SafetyError: contact is detected or was detected a moment ago, or the contact estimate is missing, too old,
                or made with another model than the executor's.
        """
        reason = self.reason(stamp_ns)
        if not reason and self.enabled and abs(stamp_ns - self._felt_ns) < CONTACT_END_NS:
            reason = "contact ended a moment ago: wait until no contact was detected for 0.3 s"
        if reason:
            raise SafetyError(f"nothing is moved: {reason}")

    def watch(self, stamp_ns: int) -> str:
        """Stop a running motion if contact is detected, or if the absence of contact cannot be verified.

        In both cases, the executor's controller also pauses the small oscillation that it adds to the reference of a
        held arm, if it is a `SwayingController`.

        Args:
            stamp_ns: timestamp of the arm's present state [ns].

        Returns:
            The reason if a motion was stopped now, else "".
        """
        motion, reason = self._motion, self.reason(stamp_ns)
        if isinstance(motion.controller, SwayingController):
            motion.controller.paused = bool(reason)
        if not reason or not motion.moving or motion.phase == "cancelled":
            return ""
        motion.stopped_itself = reason
        motion.cancel(stamp_ns)
        return reason
