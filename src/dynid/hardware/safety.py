"""What stands between a commanded torque and the motors: pure decisions, no I/O, no clock.

`SafetyGuard.filter` is called once per control cycle and returns the motor currents that may flow, with the reasons
for every change. The states and the one table of transitions decide whether any current flows at all.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dynid.errors import SafetyError
from dynid.hardware.guard_states import TRANSITIONS, GuardEvent, GuardState, Reason
from dynid.robot import FloatArray, NonNegative, Positive, Robot, Strict


class SafetySettings(Strict):
    """Settings of the guard.

    Attributes:
        command_timeout_s: a command older than this is not followed any more.
        soft_zone_rad: within this distance of a joint limit only current that leads back inside passes.
        damping_fraction: damping current at the joint's velocity limit, as a fraction of its current limit.
        release_s: time constant with which the last good command fades when commands end.
        current_ramp_s: time in which the cap on commanded current rises from 0 to the full current limit, counted
            from the first good command after enable; without a good command the cap falls with `release_s`, so that
            one late command costs little and a pause starts the rise anew. Joints that it holds back are braked. 0 is
            no ramp.
        commands_ended_s: an enabled arm that had a good command, and then none for so long, is stopped as by disable.
        first_command_s: an enabled arm that gets no good command for so long is stopped as by disable.
        enable_tolerance_rad: enable is refused while a joint reads further than this outside its limits.
        stop_velocity_rad_s: below this velocity a joint stands still.
        stop_dwell_s: how long all joints must stand still for a stop to be complete.
        stop_time_s: after this time a stop is complete whatever the joints do.
    """

    command_timeout_s: Positive = 0.020
    soft_zone_rad: NonNegative = 0.05
    damping_fraction: float = Field(default=1.0, ge=0.0, le=1.0)
    release_s: Positive = 0.05
    current_ramp_s: NonNegative = 0.5
    commands_ended_s: Positive = 1.0
    first_command_s: Positive = 60.0
    enable_tolerance_rad: NonNegative = 0.087
    stop_velocity_rad_s: Positive = 0.05
    stop_dwell_s: Positive = 0.1
    stop_time_s: Positive = 2.0


@dataclass(frozen=True, slots=True)
class GuardResult:
    """What may flow in this cycle.

    Attributes:
        current_a: motor currents, (n,) [A].
        reasons: what changed them, each at most once; empty when the command passed as it was.
    """

    current_a: FloatArray
    reasons: tuple[Reason, ...]


class SafetyGuard:
    """Decides, cycle by cycle, which currents may flow.

    Args:
        robot: joint, velocity and current limits, torque constants, cycle time.
        settings: thresholds; None is the defaults.

    Attributes:
        state: see `GuardState`; changed by `handle` and `fault` only.
        fault_text: what the latched fault is, empty without one.
        stop_text: why the guard itself began the last stop, empty if it did not; until the next enable.
    """

    def __init__(self, robot: Robot, settings: SafetySettings | None = None) -> None:
        self.settings = settings or SafetySettings()
        self.state = GuardState.DISABLED
        self.fault_text = self.stop_text = ""
        self._robot = robot
        self._size = robot.size
        self._torque_constants = robot.torque_constants
        self._caps = robot.current_limits
        self._velocity_limits = robot.velocity_limits
        self._soft_lower = robot.lower + self.settings.soft_zone_rad
        self._soft_upper = robot.upper - self.settings.soft_zone_rad
        self._damping = self.settings.damping_fraction * self._caps / self._velocity_limits
        self._cycle_s = robot.file.bus.cycle_s
        self._fade = float(np.exp(-self._cycle_s / self.settings.release_s))
        self._ramp_step = self._cycle_s / max(self.settings.current_ramp_s, self._cycle_s)
        self._ramp = 0.0  # fraction of the caps that a command may use
        self._held = np.zeros(self._size)
        self._commanded, self._idle_cycles = False, 0
        self._settled = True
        self._stop_cycles = self._still_cycles = 0

    @property
    def torque_needed(self) -> bool:
        """Whether torque must stay on: while enabled, and while a stop is under way."""
        return self.state is GuardState.ENABLED or not self._settled

    def handle(self, event: GuardEvent) -> GuardState:
        """Move to the next state.

        Returns:
            The new state.

        Raises:
            SafetyError: the event is not possible now; the state stays.
        """
        following = TRANSITIONS.get((self.state, event))
        if following is None or (event is GuardEvent.CLEAR and not self._settled):
            detail = f": {self.fault_text}" if self.fault_text else ""
            raise SafetyError(f"cannot {event.value} while {self.state.value}{detail}")
        stops = following in (GuardState.STOPPING, GuardState.FAULT) and self.state is GuardState.ENABLED
        if stops:
            self._settled = False
            self._stop_cycles = self._still_cycles = 0
        if following is GuardState.DISABLED:
            self.fault_text = ""
            self._settled = True
        if following is not self.state and following is GuardState.ENABLED:
            self._held = np.zeros(self._size)
            self._ramp, self._commanded, self._idle_cycles, self.stop_text = 0.0, False, 0, ""
        self.state = following
        return following

    def fault(self, text: str) -> None:
        """Latch a fault from any state; the first one's text stays until it is cleared."""
        self.fault_text = self.fault_text or text
        self.handle(GuardEvent.FAULT)

    def check_posture(self, q: FloatArray) -> None:
        """Refuse joint angles, (n,) [rad], that the joints cannot have: a servo's zero is wrong.

        Raises:
            SafetyError: joints outside their limits by more than `enable_tolerance_rad`, or not finite, by name.
        """
        lower, upper = self._robot.lower, self._robot.upper
        tolerance = self.settings.enable_tolerance_rad
        wrong = [
            f"{name} reads {angle:.3f} rad, its limits are {low:.3f} to {high:.3f} rad"
            for name, angle, low, high in zip(self._robot.joint_names, q, lower, upper, strict=True)
            if not low - tolerance <= angle <= high + tolerance
        ]
        if wrong:
            raise SafetyError(
                f"cannot enable: {'; '.join(wrong)} (tolerance {tolerance:.3f} rad): move the joint back by hand, or "
                "check the servo's zero"
            )

    def filter(
        self,
        command_tau: FloatArray | None,
        command_age_s: float,
        q: FloatArray,
        dq: FloatArray,
        valid: NDArray[np.bool_] | None = None,
    ) -> GuardResult:
        """The currents that may flow in this cycle; to be called once per cycle.

        Args:
            command_tau: commanded torques, (n,) [N m]; None if there was none yet.
            command_age_s: time since the command was given [s].
            q: joint angles, (n,), finite [rad].
            dq: joint velocities, (n,), finite [rad/s].
            valid: which of q and dq are of this cycle, (n,); None is all. The others get no damping.
        """
        refusal = self._refusal(command_tau, command_age_s) if self.state is GuardState.ENABLED else None
        self._watch_commands(refusal)
        if not self.torque_needed:
            reason = Reason.FAULT if self.state is GuardState.FAULT else Reason.DISABLED
            return GuardResult(np.zeros(self._size), (reason,))
        known_dq = dq if valid is None or valid.all() else np.where(valid, dq, 0.0)
        reasons: list[Reason] = []
        if self.state is GuardState.ENABLED:
            drive, braked = self._follow(command_tau, refusal, reasons)
        else:
            reasons.append(Reason.FAULT if self.state is GuardState.FAULT else Reason.STOPPING)
            if self.stop_text:
                reasons.append(Reason.COMMANDS_ENDED)
            drive, braked = self._release()
            self._count_stop(known_dq, valid)
        drive, braked = self._limit_velocity(drive, braked, known_dq, reasons)
        drive, braked = self._limit_position(drive, braked, q, known_dq, reasons)
        # The brake comes after all limits: it only opposes motion, so no limit may take it away.
        brake = np.clip(-self._damping * known_dq, -self._caps, self._caps)
        current = drive + np.where(braked, brake, 0.0)
        if not (np.abs(current) <= self._caps).all():  # true for NaN as well, which must never pass
            reasons.append(Reason.CURRENT_LIMIT)
            current = np.clip(np.nan_to_num(current), -self._caps, self._caps)
        current.flags.writeable = False
        return GuardResult(current, tuple(reasons))

    def _follow(
        self, tau: FloatArray | None, refusal: Reason | None, reasons: list[Reason]
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """(current that drives, (n,) [A]; which joints are braked, (n,)), as of the following three."""
        if refusal is not None or tau is None:
            reasons.append(refusal or Reason.NO_COMMAND)
            return self._release()
        self._ramp = min(1.0, self._ramp + self._ramp_step)
        self._held = tau / self._torque_constants
        cut = np.zeros(self._size, dtype=np.bool_)
        if self._ramp < 1.0:
            caps = self._ramp * self._caps
            cut = np.abs(self._held) > caps
            if cut.any():
                reasons.append(Reason.CURRENT_RAMP)
                self._held = np.clip(self._held, -caps, caps)
        return self._held, cut  # a joint that gets too little to be held against gravity sinks slowly

    def _refusal(self, tau: FloatArray | None, age_s: float) -> Reason | None:
        """Why a command is not followed; None for a good one."""
        if tau is None:
            return Reason.NO_COMMAND
        if np.shape(tau) != (self._size,) or not np.isfinite(tau).all():
            return Reason.BAD_COMMAND
        if not age_s <= self.settings.command_timeout_s:  # a NaN age is refused too
            return Reason.STALE_COMMAND
        return None

    def _watch_commands(self, refusal: Reason | None) -> None:
        """Stop an enabled arm that nobody commands any more."""
        if self.state is not GuardState.ENABLED:
            return
        if refusal is None:
            self._commanded, self._idle_cycles = True, 0
            return
        self._idle_cycles += 1
        limit_s = self.settings.commands_ended_s if self._commanded else self.settings.first_command_s
        if self._idle_cycles * self._cycle_s > limit_s:
            self.handle(GuardEvent.DISABLE)
            self.stop_text = f"stopped: no usable command for {limit_s} s ({refusal.value})"

    def _release(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """The last good command fading out, and braking: an arm let go at once would drop."""
        self._ramp *= self._fade
        self._held = np.clip(self._held * self._fade, -self._caps, self._caps)
        return self._held, np.ones(self._size, dtype=np.bool_)

    def _limit_velocity(
        self, drive: FloatArray, braked: NDArray[np.bool_], dq: FloatArray, reasons: list[Reason]
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Beyond the velocity limit, no current in the direction of motion, and braking."""
        fast = np.abs(dq) > self._velocity_limits
        if not fast.any():
            return drive, braked
        reasons.append(Reason.VELOCITY_LIMIT)
        return np.where(fast & (drive * dq > 0.0), 0.0, drive), braked | fast

    def _limit_position(
        self,
        drive: FloatArray,
        braked: NDArray[np.bool_],
        q: FloatArray,
        dq: FloatArray,
        reasons: list[Reason],
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """In a soft zone, no current that leads outwards, and braking of motion that does."""
        low, high = q < self._soft_lower, q > self._soft_upper
        if not (low.any() or high.any()):
            return drive, braked
        reasons.append(Reason.JOINT_LIMIT)
        inwards = np.where(low, np.maximum(drive, 0.0), np.where(high, np.minimum(drive, 0.0), drive))
        return inwards, braked | (low & (dq < 0.0)) | (high & (dq > 0.0))

    def _count_stop(self, dq: FloatArray, valid: NDArray[np.bool_] | None) -> None:
        self._stop_cycles += 1
        seen = valid is None or bool(valid.all())
        still = seen and bool((np.abs(dq) < self.settings.stop_velocity_rad_s).all())
        self._still_cycles = self._still_cycles + 1 if still else 0
        dwelt = self._still_cycles * self._cycle_s >= self.settings.stop_dwell_s
        if dwelt or self._stop_cycles * self._cycle_s >= self.settings.stop_time_s:
            self._settled = True
