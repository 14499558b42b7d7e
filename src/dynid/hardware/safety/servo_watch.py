"""Detection of faulty servos from samples and slow data (temperature, errors, settings); it does no I/O."""

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.masks import all_set
from dynid.hardware.bus.slow_state import ARMED, SlowState
from dynid.robot import FloatArray, Robot

DRIVEN_A = 0.15  # goal current above which a servo is checked for driving
UNDRIVEN_SHARE = 0.2  # a smaller ratio of measured to goal current counts as not driving
SUSPICIOUS_CYCLES = 3  # consecutive cycles without drive before the servo is reported
PAIR_DIFFERENCE_DEG = 6.0  # angle between two servos of one joint that backlash and reading times do not explain
FOLLOWER_LOST_S = 1.0  # silence of a joint's second servo that is a fault
MIN_INCOMPLETE_READS = 3  # fewest incomplete reads for a fault: one may come from a stalled process


class ServoWatch:
    """Detector of servos that are silent, report errors, or draw far less than their goal current.

    Args:
        robot: names and servo IDs.
        feedback_timeout_s: time without a reply after which the silence is a fault [s].
        fault_deg_c: lowest servo temperature that is a fault [deg C].
        slow_lost_s: largest age of slow values (temperature, errors, settings) that is not a fault [s].
    """

    def __init__(self, robot: Robot, feedback_timeout_s: float, fault_deg_c: float, slow_lost_s: float) -> None:
        self._labels = [wired.label for wired in robot.wired_servos]
        self._leaders = [robot.wired_servos[wired.axis].servo_id for wired in robot.wired_servos]
        self._timeout_s, self._fault_deg_c, self._slow_lost_s = feedback_timeout_s, fault_deg_c, slow_lost_s
        self._incomplete_since_ns = self._incomplete_reads = 0
        self._answered_ns = np.zeros(robot.size, dtype=np.int64)
        self._undriven = np.zeros(robot.size, dtype=np.int64)

    def note(self, valid: NDArray[np.bool_], began_ns: int) -> None:
        """Record which servos replied to a read.

        Args:
            valid: mask of the servos that replied, (n,).
            began_ns: start of the read [ns].
        """
        if all_set(valid):
            self._answered_ns.fill(began_ns)
            self._incomplete_since_ns = self._incomplete_reads = 0
            return
        self._answered_ns[valid] = began_ns
        self._incomplete_reads += 1
        if not self._incomplete_since_ns:
            self._incomplete_since_ns = began_ns

    def missing_s(self, now_ns: int) -> float:
        """Return the time up to `now_ns` for which reads have been incomplete [s]; 0 if the last read was complete.

        A read is incomplete if a servo did not reply.
        """
        return (now_ns - self._incomplete_since_ns) * 1e-9 if self._incomplete_since_ns else 0.0

    def may_complete(self, now_ns: int) -> bool:
        """Return whether reads have been incomplete so briefly, or so few times, that they may soon be complete again.

        A read is incomplete if a servo did not reply. While the result is True, the driver delays a request to enable
        torque instead of refusing it. The result is False if the last read was complete.
        """
        missed_lately = self.missing_s(now_ns) <= self._timeout_s or self._incomplete_reads < MIN_INCOMPLETE_READS
        return self._incomplete_reads > 0 and missed_lately

    def silence(self, now_ns: int) -> str:
        """Return a fault message if reads have been incomplete for longer than the timeout; '' if they have not.

        At least `MIN_INCOMPLETE_READS` reads must be incomplete. The message names the servos that were silent for
        longer than the timeout; if every servo has replied since, it names those that were silent last.
        """
        if self.missing_s(now_ns) <= self._timeout_s or self._incomplete_reads < MIN_INCOMPLETE_READS:
            return ""
        silent = self.silent(now_ns)
        if silent.all():
            return f"no reply for {self._timeout_s} s from any servo: is the cable plugged in and the power on?"
        if not silent.any():  # different servos missed at different times
            names = self.names(self._answered_ns < self._answered_ns.max())
            return f"no complete reading of all servos for {self._timeout_s} s; the last ones missed {names}"
        return f"no reply for {self._timeout_s} s from {self.names(silent)}"

    def silent(self, now_ns: int) -> NDArray[np.bool_]:
        """Return a mask (n,) of the servos that have not replied for longer than the timeout at `now_ns` [ns]."""
        return now_ns - self._answered_ns > self._timeout_s * 1e9

    def alerts(self, alert: NDArray[np.bool_], slow: SlowState) -> str:
        """Return a fault message about servos that report a hardware error; '' if there are none.

        Args:
            alert: mask of the servos that report an error, (n,) for the first servos of the joints, or (m,) for all
                servos.
            slow: slow values of the servos (temperature, errors, settings). The message states the kind of an error if
                these values contain it.
        """
        if not alert.any():
            return ""
        found = [f"{self._labels[axis]}{_error_text(int(slow.hardware_error[axis]))}" for axis in np.flatnonzero(alert)]
        return f"hardware error at {', '.join(found)}"

    def slow_fault(self, slow: SlowState) -> str:
        """Return a message about the first fault in the slow values (temperature, errors, settings), or ''."""
        error = slow.hardware_error > 0
        if error.any():
            return self.alerts(error, slow)
        hot = slow.temperature_deg_c >= self._fault_deg_c
        for text, wrong in (
            ("bus watchdog tripped", self.tripped(slow)),
            ("torque switched off by itself", slow.torque_enable == 0),
            (f"{self._fault_deg_c:.0f} deg C reached", hot),
        ):
            if wrong.any():
                return f"{text} at {self.names(wrong)}"
        return self._changed(slow)

    def _changed(self, slow: SlowState) -> str:
        """Return a fault message about settings that changed while torque is on; '' if there are none."""
        found = [
            f"{self._labels[axis]} has {ARMED[column].name} {slow.armed[axis, column]} instead of "
            f"{slow.wanted[axis, column]}"
            for axis, column in np.argwhere(slow.different()).tolist()
        ]
        return f"{'; '.join(found)}: a setting changed while torque was on" if found else ""

    def overdue(self, age_s: FloatArray) -> str:
        """Return a fault message about servos whose slow values are too old; '' if there are none.

        Args:
            age_s: age of each servo's oldest slow value, (m,) [s].
        """
        late = age_s > self._slow_lost_s
        if not late.any():
            return ""
        return (
            f"no temperature, errors or settings were read for {self._slow_lost_s:g} s from {self.names(late)}: it may "
            "overheat unseen; check its cable and firmware"
        )

    def disagreement(self, slow: SlowState, now_ns: int) -> str:
        """Return a fault message about joints with several servos; '' if there is no fault.

        It is a fault if servos of one joint disagree in position, or if a further servo of a joint does not reply.

        Args:
            slow: slow values of the servos, with their positions relative to the first servo of their joint.
            now_ns: present time on the bus' monotonic clock [ns].
        """
        apart = np.abs(slow.mismatch_deg) > PAIR_DIFFERENCE_DEG
        if apart.any():
            at = int(np.flatnonzero(apart)[0])
            return (
                f"{self._labels[at]} stands {slow.mismatch_deg[at]:.1f} deg from servo {self._leaders[at]} of the same "
                "joint: a gear or horn has slipped, or one of the two pulls the wrong way; repair it first"
            )
        silent = (slow.place_ns > 0) & (now_ns - slow.place_ns > FOLLOWER_LOST_S * 1e9)
        if not silent.any():
            return ""
        return f"no reply for {FOLLOWER_LOST_S} s from {self.names(silent)}: its joint has lost part of its torque"

    def tripped(self, slow: SlowState) -> NDArray[np.bool_]:
        """Return a mask (m,) of the servos whose bus watchdog has tripped according to the last slow values."""
        return np.asarray(slow.watchdog == table.WATCHDOG_TRIPPED)

    def undriven(self, goal_a: FloatArray, sample_a: FloatArray) -> NDArray[np.bool_] | None:
        """Return a mask (n,) of servos that repeatedly had far less than their goal current; None if there are none.

        This is not a fault yet, but a reason to read at once whether the servo's torque is on and its watchdog has
        tripped.

        Args:
            goal_a: motor goal currents that were written last, (n,) [A].
            sample_a: motor currents that were read after that, (n,) [A].
        """
        wanted = np.abs(goal_a)
        idle = (wanted > DRIVEN_A) & (np.abs(sample_a) < UNDRIVEN_SHARE * wanted)
        self._undriven = (self._undriven + 1) * idle
        long = self._undriven >= SUSPICIOUS_CYCLES
        if not np.count_nonzero(long):
            return None
        self._undriven[long] = 0
        return long

    def names(self, axes: NDArray[np.bool_]) -> str:
        """Return a text that lists the servos for which a mask is True, by ID and joint.

        The mask has one entry for the first servo of each joint, (n,), or one for every servo, (m,).
        """
        return ", ".join(label for label, one in zip(self._labels, axes, strict=False) if one)


def _error_text(status: int) -> str:
    return f": {table.hardware_error_text(status)}" if status > 0 else ""
