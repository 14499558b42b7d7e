"""The order of a stop: hold, lower, leave balances, and let torque go off an arm that stays where it is without it."""

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.safety.posture import Posture
from dynid.hardware.safety.settings import SafetySettings
from dynid.robot import FloatArray

ROUNDING_S = 1e-9  # of times that are sums of cycles
CREPT_RAD = 0.0035  # largest movement that counts as standing: two encoder counts
LOOK_RAD = 0.1  # movement of a joint at which an arm without current is caught
LOOK_M_S = 0.1  # speed of a link's end at which it is caught
LEFT_RAD = 0.05  # movement by which a leaned joint has left its place
FAR_RAD = 0.35  # movement after which a joint is not leaned any more: gravity is stronger there
ABOVE_M = 0.015  # smallest mean height of the links above a joint's axis that can balance there
BLIND_S = 0.1  # time without any reading from which nobody is expected to answer any more
UNHELD = 0.02  # part of its limit below which a current holds nothing
SIDES = 2  # each joint in balance is leaned to both
LONGEST_LEAN_S = 1.5  # then a joint that moves goes on by itself


class Phase(Enum):
    """What a stop does: brake and hold, follow the arm down, lean joints out of balances, or wait without current."""

    HOLD = "hold"
    LOWER = "lower"
    LEAN = "lean"
    LOOK = "look"


class StopSequence:
    """The order of a stop; bounded in time.

    The arm is held until it stands, then followed down until nothing holds it. Joints that carry their links above
    their axis may stand there in balance, so a small current leans them to either side; one that moves is followed
    down. At last the arm is left without any current and damping. Only if it stays where it is for `lower_dwell_s` may
    torque go off; otherwise it is caught, and followed down again.

    Args:
        settings: times and thresholds.
        posture: kinematics of the arm.

    Attributes:
        done: whether torque may go off.
        rested: whether the arm stayed where it was without torque before.
        phase: what it does now.
        strength: share of the voltage with which servos that are not read hold their joints themselves, 1 to 0.
        sides: to which side each joint is leaned now, (n,): -1, 0 or 1.
    """

    def __init__(self, settings: SafetySettings, posture: Posture) -> None:
        self._settings, self._posture = settings, posture
        self.done, self.rested, self.strength, self.phase = True, True, 1.0, Phase.HOLD
        self._elapsed_s = self._still_s = self._lean_s = self._hold_s = self._blind_s = 0.0
        size = len(posture.height)
        self.sides, self._sagged, self._leaned, self._anchor, self._from = np.zeros((5, size))
        self._leans = SIDES
        self._unseen_s = settings.stop_time_s

    def begin(self, hold_s: float) -> None:
        """Start; the arm is held for at least `hold_s` [s]."""
        self.done, self.rested, self.strength, self._hold_s = False, False, 1.0, hold_s
        self._elapsed_s = self._blind_s = 0.0
        self._sagged[:] = self._leaned[:] = 0.0
        self._leans, self._unseen_s = SIDES, self._settings.stop_time_s
        self._enter(Phase.HOLD)

    def unseen_are_held(self) -> None:
        """Joints that are not read are lowered slowly, too: there is no hurry."""
        self._unseen_s = self._settings.longest_stop_s

    def end(self) -> None:
        """There is nothing to stop any more."""
        self.done = True

    def advance(
        self, q: FloatArray, dq: FloatArray, held: FloatArray, step_s: float, valid: NDArray[np.bool_] | None = None
    ) -> None:
        """Advance by one cycle.

        Args:
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
            held: the current that holds each joint as a part of its limit, (n,) [-].
            step_s: time since the last cycle [s].
            valid: which joints were read, (n,); None is all.
        """
        seen = valid is None or bool(valid.any())
        self._elapsed_s += step_s
        self._blind_s = 0.0 if seen else self._blind_s + step_s
        if self.phase is not Phase.HOLD:
            self.strength = max(0.0, self.strength - step_s / self._settings.lower_s)
        if seen:
            self._take_step(q, dq, held, step_s)
        elif self.phase is Phase.HOLD and self._elapsed_s >= self._settings.lower_from_s:
            self._enter(Phase.LOWER)
        longest_s = self._unseen_s if self._blind_s > BLIND_S else self._settings.longest_stop_s
        self.done = self.rested or self._elapsed_s >= longest_s - ROUNDING_S

    def _take_step(self, q: FloatArray, dq: FloatArray, held: FloatArray, step_s: float) -> None:
        """Move on to the next phase, if this one is over."""
        settings = self._settings
        still = bool((np.abs(dq) < settings.stop_velocity_rad_s).all())
        if self.phase is not Phase.HOLD and np.abs(q - self._anchor).max() > CREPT_RAD:
            self._anchor, still = q.copy(), False
        self._still_s = self._still_s + step_s if still else 0.0
        if self.phase is Phase.HOLD:
            dwelt = self._dwelt(settings.stop_dwell_s) and self._elapsed_s >= self._hold_s
            if dwelt or self._elapsed_s >= settings.lower_from_s:
                self._enter(Phase.LOWER)
        elif self.phase is Phase.LOWER:
            self._still_s *= bool((np.abs(held) <= UNHELD).all())
            if self._dwelt(settings.stop_dwell_s):
                self._leave_balances(q)
        elif self.phase is Phase.LEAN:
            self._posture.place(q)
            leans = (self._posture.height > 0.0) & (np.abs(q - self._from) < FAR_RAD)
            self.sides = np.where(leans, self.sides, 0.0)
            self._lean_s += step_s
            if self._dwelt(settings.lean_s) or self._lean_s > LONGEST_LEAN_S or not self.sides.any():
                self._enter(Phase.LOWER)
        else:
            self._look(q, dq)

    def _leave_balances(self, q: FloatArray) -> None:
        """The arm stands, and nothing holds it: lean what may be in balance, or look whether it stays."""
        self._posture.place(q)
        balanced = self._posture.height > ABOVE_M
        if self._leans == SIDES:
            downhill = -np.sign(self._posture.slope)
            self.sides = np.where(self._sagged != 0.0, self._sagged, np.where(downhill == 0.0, 1.0, downhill))
        else:
            balanced &= np.abs(q - self._from) < LEFT_RAD  # what has left its place needs no other side
            self.sides = -self._leaned
        self.sides = np.where(balanced, self.sides, 0.0)
        if self._leans > 0 and self.sides.any():
            self._leans -= 1
            self._leaned, self._from = self.sides.copy(), q.copy()
            self._enter(Phase.LEAN)
        else:
            self._from = q.copy()
            self._enter(Phase.LOOK)
        self._anchor = q.copy()

    def _look(self, q: FloatArray, dq: FloatArray) -> None:
        """Whether an arm without current stays where it is."""
        moved = q - self._from
        self._posture.place(q)
        fast = np.abs(dq).max() > self._settings.lower_rad_s or self._posture.pace(dq, LOOK_M_S, LOOK_M_S, 1.0) < 1.0
        if fast or np.abs(moved).max() > LOOK_RAD:
            self._sagged = np.where(np.abs(moved) > CREPT_RAD, np.sign(moved), 0.0)
            self._leans = SIDES
            self._enter(Phase.LOWER)
            return
        self.rested = self._dwelt(self._settings.lower_dwell_s)

    def _dwelt(self, seconds: float) -> bool:
        return self._still_s >= seconds - ROUNDING_S

    def _enter(self, phase: Phase) -> None:
        self.phase, self._still_s, self._lean_s = phase, 0.0, 0.0
        if phase is not Phase.LEAN:
            self.sides = np.zeros_like(self.sides)
