"""Phases of a stop: hold the arm, lower it, push it out of unstable balance, release it, and switch torque off."""

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.safety.posture import Posture
from dynid.hardware.safety.settings import SafetySettings
from dynid.robot import FloatArray

ROUNDING_S = 1e-9  # tolerance for rounding of times that are sums of cycles
STANDSTILL_RAD = 0.0035  # largest movement that counts as standing: two encoder counts
CATCH_RAD = 0.1  # movement of a joint above which an arm without current is caught
CATCH_M_S = 0.1  # speed of a link's end above which an arm without current is caught
BALANCE_LEFT_RAD = 0.05  # movement after which a pushed joint has left its unstable balance
LONGEST_LEAN_RAD = 0.35  # movement after which the push out of balance ends: gravity is stronger there
BALANCE_HEIGHT_M = 0.015  # smallest mean height of the links above a joint's axis that can balance there
UNREAD_S = 0.1  # time without any reading after which no servo is expected to reply
NO_HOLDING_SHARE = 0.02  # share of the current limit below which a current carries no load
LEANS_PER_STOP = 2  # number of pushes out of balance per stop: each such joint is pushed to both sides
LONGEST_LEAN_S = 1.5  # longest push out of balance [s]: a joint that moves then continues by gravity


class Phase(Enum):
    """Phase of a stop.

    HOLD: brake and hold the arm. LOWER: lower it slowly. LEAN: push joints out of an unstable balance. RELEASED: wait
    without current.
    """

    HOLD = "hold"
    LOWER = "lower"
    LEAN = "lean"
    RELEASED = "released"


class StopSequence:
    """Sequence of phases that stops and lowers an arm, bounded in time.

    The arm is held until it stands still, then lowered until no current holds it. A joint whose links are above its
    axis may now be in unstable balance. So a small current pushes this joint to one side, then to the other; if it
    moves, it is lowered further. At last the arm is left without any current and damping. If it moves then, it is
    lowered again. Torque may go off once the arm has stayed in place for the setting `lower_dwell_s`, or when the
    longest duration of a stop is over.

    Args:
        settings: times and thresholds.
        posture: kinematics of the arm.

    Attributes:
        done: whether torque may go off.
        rested: whether the stop ended because the arm stayed in place without current; False during a stop,
            and if it ended for another reason, such as the longest duration of a stop.
        phase: present phase of the stop.
        strength: factor, 0 to 1, on the goal PWM of servos that hold their joints in position mode. The driver sets
            servos to this mode when they no longer answer but may still receive commands. The factor is 1 while the
            arm is held; after that, it falls to 0 within the setting `lower_s`.
        sides: direction in which each joint is pushed out of balance now, (n,): -1, 1, or 0 if it is not pushed.
    """

    def __init__(self, settings: SafetySettings, posture: Posture) -> None:
        self._settings, self._posture = settings, posture
        self.done, self.rested, self.strength, self.phase = True, True, 1.0, Phase.HOLD
        self._elapsed_s = self._still_s = self._lean_s = self._hold_s = self._unread_s = 0.0
        size = len(posture.height)
        self.sides, self._sagged, self._leaned, self._anchor, self._start_q = np.zeros((5, size))
        self._remaining_leans = LEANS_PER_STOP
        self._unseen_s = settings.stop_time_s

    def begin(self, hold_s: float) -> None:
        """Start a stop that holds the arm for at least `hold_s` [s]."""
        self.done, self.rested, self.strength, self._hold_s = False, False, 1.0, hold_s
        self._elapsed_s = self._unread_s = 0.0
        self._sagged[:] = self._leaned[:] = 0.0
        self._remaining_leans, self._unseen_s = LEANS_PER_STOP, self._settings.stop_time_s
        self._enter(Phase.HOLD)

    def allow_servo_side_hold(self) -> None:
        """Let the present stop last up to the setting `longest_stop_s`, even if no joint is read any more.

        Without this call, a stop without readings ends after the setting `stop_time_s`. Servos in position mode need
        more time, because they hold and slowly lower their joints themselves.
        """
        self._unseen_s = self._settings.longest_stop_s

    def end(self) -> None:
        """End the stop of the arm at once, so that torque may go off."""
        self.done = True

    def advance(
        self, q: FloatArray, dq: FloatArray, held: FloatArray, step_s: float, valid: NDArray[np.bool_] | None = None
    ) -> None:
        """Advance the stop of the arm by one control cycle.

        Args:
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
            held: current that holds each joint, as a fraction of its current limit, (n,) [-].
            step_s: time since the previous cycle [s].
            valid: mask of the joints that were read, (n,); None for all.
        """
        read = valid is None or bool(valid.any())
        self._elapsed_s += step_s
        self._unread_s = 0.0 if read else self._unread_s + step_s
        if self.phase is not Phase.HOLD:
            self.strength = max(0.0, self.strength - step_s / self._settings.lower_s)
        if read:
            self._take_step(q, dq, held, step_s)
        elif self.phase is Phase.HOLD and self._elapsed_s >= self._settings.lower_from_s:
            self._enter(Phase.LOWER)
        longest_s = self._unseen_s if self._unread_s > UNREAD_S else self._settings.longest_stop_s
        self.done = self.rested or self._elapsed_s >= longest_s - ROUNDING_S

    def _take_step(self, q: FloatArray, dq: FloatArray, held: FloatArray, step_s: float) -> None:
        """Advance the present phase of the stop by one cycle, and enter the next phase if this one is over.

        Args:
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
            held: current that holds each joint, as a fraction of its current limit, (n,) [-].
            step_s: time since the previous cycle [s].
        """
        settings = self._settings
        still = bool((np.abs(dq) < settings.stop_velocity_rad_s).all())
        if self.phase is not Phase.HOLD and np.abs(q - self._anchor).max() > STANDSTILL_RAD:
            self._anchor, still = q.copy(), False
        self._still_s = self._still_s + step_s if still else 0.0
        if self.phase is Phase.HOLD:
            at_rest = self._dwelt(settings.stop_dwell_s) and self._elapsed_s >= self._hold_s
            if at_rest or self._elapsed_s >= settings.lower_from_s:
                self._enter(Phase.LOWER)
        elif self.phase is Phase.LOWER:
            self._still_s *= bool((np.abs(held) <= NO_HOLDING_SHARE).all())
            if self._dwelt(settings.stop_dwell_s):
                self._leave_balances(q)
        elif self.phase is Phase.LEAN:
            self._posture.place(q)
            still_leaned = (self._posture.height > 0.0) & (np.abs(q - self._start_q) < LONGEST_LEAN_RAD)
            self.sides = np.where(still_leaned, self.sides, 0.0)
            self._lean_s += step_s
            if self._dwelt(settings.lean_s) or self._lean_s > LONGEST_LEAN_S or not self.sides.any():
                self._enter(Phase.LOWER)
        else:
            self._watch_released(q, dq)

    def _leave_balances(self, q: FloatArray) -> None:
        """Push joints that may stand in unstable balance to one side; after the last push, wait without current.

        This is called once the arm stands still and no current holds it. `q` are joint angles, (n,) [rad].
        """
        self._posture.place(q)
        balanced = self._posture.height > BALANCE_HEIGHT_M
        if self._remaining_leans == LEANS_PER_STOP:
            downhill = -np.sign(self._posture.slope)
            self.sides = np.where(self._sagged != 0.0, self._sagged, np.where(downhill == 0.0, 1.0, downhill))
        else:
            # joints that left their balance need no second push
            balanced &= np.abs(q - self._start_q) < BALANCE_LEFT_RAD
            self.sides = -self._leaned
        self.sides = np.where(balanced, self.sides, 0.0)
        if self._remaining_leans > 0 and self.sides.any():
            self._remaining_leans -= 1
            self._leaned, self._start_q = self.sides.copy(), q.copy()
            self._enter(Phase.LEAN)
        else:
            self._start_q = q.copy()
            self._enter(Phase.RELEASED)
        self._anchor = q.copy()

    def _watch_released(self, q: FloatArray, dq: FloatArray) -> None:
        """Lower the arm again if it moves without current, or end the stop once the arm has stayed in place.

        Args:
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
        """
        moved = q - self._start_q
        self._posture.place(q)
        fast = np.abs(dq).max() > self._settings.lower_rad_s or self._posture.pace(dq, CATCH_M_S, CATCH_M_S, 1.0) < 1.0
        if fast or np.abs(moved).max() > CATCH_RAD:
            self._sagged = np.where(np.abs(moved) > STANDSTILL_RAD, np.sign(moved), 0.0)
            self._remaining_leans = LEANS_PER_STOP
            self._enter(Phase.LOWER)
            return
        self.rested = self._dwelt(self._settings.lower_dwell_s)

    def _dwelt(self, seconds: float) -> bool:
        return self._still_s >= seconds - ROUNDING_S

    def _enter(self, phase: Phase) -> None:
        self.phase, self._still_s, self._lean_s = phase, 0.0, 0.0
        if phase is not Phase.LEAN:
            self.sides = np.zeros_like(self.sides)
