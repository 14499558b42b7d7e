"""Findings about the servos from samples and slow data, as sentences; no I/O."""

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.slow_state import ARMED, SlowState
from dynid.robot import FloatArray, Robot

DRIVEN_A = 0.15
UNDRIVEN_SHARE = 0.2
SUSPICIOUS_CYCLES = 3
PARTED_DEG = 6.0  # between the servos of one joint: more than backlash, and what is read at another moment
FOLLOWER_LOST_S = 1.0
FEWEST_READS = 3  # a process that stalled in one read says nothing of the servo


class ServoWatch:
    """Finds servos that are silent, report errors, or do not drive any more.

    Args:
        robot: names, ids.
        feedback_timeout_s: reads that miss a servo for so long are a fault.
        fault_deg_c: temperature that is a fault [deg C].
        slow_lost_s: slow values older than this are a fault [s].
    """

    def __init__(self, robot: Robot, feedback_timeout_s: float, fault_deg_c: float, slow_lost_s: float) -> None:
        self._labels = [wired.label for wired in robot.wired_servos]
        self._leaders = [robot.wired_servos[wired.axis].servo_id for wired in robot.wired_servos]
        self._timeout_s, self._fault_deg_c, self._slow_lost_s = feedback_timeout_s, fault_deg_c, slow_lost_s
        self._incomplete_since_ns = self._incomplete_reads = 0
        self._answered_ns = np.zeros(robot.size, dtype=np.int64)
        self._undriven = np.zeros(robot.size, dtype=np.int64)

    def note(self, valid: NDArray[np.bool_], began_ns: int) -> None:
        """Which servos the read that began at a moment [ns] brought, valid (n,)."""
        if np.count_nonzero(valid) == len(valid):
            self._answered_ns.fill(began_ns)
            self._incomplete_since_ns = self._incomplete_reads = 0
            return
        self._answered_ns[valid] = began_ns
        self._incomplete_reads += 1
        if not self._incomplete_since_ns:
            self._incomplete_since_ns = began_ns

    def missing_s(self, now_ns: int) -> float:
        """For how long reads have missed a servo [s]."""
        return (now_ns - self._incomplete_since_ns) * 1e-9 if self._incomplete_since_ns else 0.0

    def may_complete(self, now_ns: int) -> bool:
        """Whether a servo was missed only just now: one lost reply, or one stalled cycle, is no reason to refuse."""
        missed_lately = self.missing_s(now_ns) <= self._timeout_s or self._incomplete_reads < FEWEST_READS
        return self._incomplete_reads > 0 and missed_lately

    def silence(self, now_ns: int) -> str:
        """The fault of servos that were silent for too long, '' without one."""
        if self.missing_s(now_ns) <= self._timeout_s or self._incomplete_reads < FEWEST_READS:
            return ""
        silent = self.silent(now_ns)
        if silent.all():
            return f"no reply for {self._timeout_s} s from any servo: is the cable plugged in and the power on?"
        if not silent.any():  # now this one, now that one
            names = self.names(self._answered_ns < self._answered_ns.max())
            return f"no complete reading of all servos for {self._timeout_s} s; the last ones missed {names}"
        return f"no reply for {self._timeout_s} s from {self.names(silent)}"

    def silent(self, now_ns: int) -> NDArray[np.bool_]:
        """Which servos have not answered for too long, (n,)."""
        return now_ns - self._answered_ns > self._timeout_s * 1e9

    def alerts(self, alert: NDArray[np.bool_], slow: SlowState) -> str:
        """The fault of servos that report a hardware error, alert (n,), as far as it was read; '' without one."""
        if not alert.any():
            return ""
        found = [f"{self._labels[axis]}{_error_text(int(slow.hardware_error[axis]))}" for axis in np.flatnonzero(alert)]
        return f"hardware error at {', '.join(found)}"

    def slow_fault(self, slow: SlowState) -> str:
        """The first fault that slow data show, '' without one."""
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
        """Return the fault of settings that changed while torque is on, '' without one."""
        found = [
            f"{self._labels[axis]} has {ARMED[column].name} {slow.armed[axis, column]} instead of "
            f"{slow.wanted[axis, column]}"
            for axis, column in np.argwhere(slow.different()).tolist()
        ]
        return f"{'; '.join(found)}: a setting changed while torque was on" if found else ""

    def overdue(self, age_s: FloatArray) -> str:
        """Return the fault of servos whose slow values are too old, '' without one.

        Args:
            age_s: see `SlowState.age_s`, (m,) [s].
        """
        late = age_s > self._slow_lost_s
        if not late.any():
            return ""
        return (
            f"no temperature, errors or settings were read for {self._slow_lost_s:g} s from {self.names(late)}: it may "
            "overheat unseen; check its cable and firmware"
        )

    def parted(self, slow: SlowState, now_ns: int) -> str:
        """Return the fault of servos of one joint that part, or of one that is silent; '' without one."""
        apart = np.abs(slow.apart_deg) > PARTED_DEG
        if apart.any():
            at = int(np.flatnonzero(apart)[0])
            return (
                f"{self._labels[at]} stands {slow.apart_deg[at]:.1f} deg from servo {self._leaders[at]} of the same "
                "joint: a gear or horn has slipped, or one of the two pulls the wrong way; repair it first"
            )
        silent = (slow.place_ns > 0) & (now_ns - slow.place_ns > FOLLOWER_LOST_S * 1e9)
        if not silent.any():
            return ""
        return f"no reply for {FOLLOWER_LOST_S} s from {self.names(silent)}: its joint has lost part of its torque"

    def tripped(self, slow: SlowState) -> NDArray[np.bool_]:
        """Which servos' bus watchdog has tripped, (m,)."""
        return np.asarray(slow.watchdog == table.WATCHDOG_TRIPPED)

    def undriven(self, goal_a: FloatArray, sample_a: FloatArray) -> NDArray[np.bool_] | None:
        """Servos (n,) that have not carried their goal current in several consecutive calls, None without one.

        Either has currents (n,) [A]: what was written last, and what was read since. It is no fault yet, but a reason
        to ask the servo at once whether its torque is on and its watchdog quiet.
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
        """The servos of a mask, by id and joint: (n,) of the joints' first servos, or (m,) of all."""
        return ", ".join(label for label, one in zip(self._labels, axes, strict=False) if one)


def _error_text(status: int) -> str:
    return f": {table.hardware_error_text(status)}" if status > 0 else ""
