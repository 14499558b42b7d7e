"""Safety guard between the commanded torque and the motors; it only makes decisions, without I/O or clock.

`SafetyGuard.filter` is called once per control cycle and returns the permitted motor currents, with the reasons for
every change. The states and the table of transitions decide whether any current flows at all.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.errors import SafetyError
from dynid.hardware.bus.masks import all_set
from dynid.hardware.safety.guard_states import TRANSITIONS, GuardEvent, GuardState, Reason
from dynid.hardware.safety.hold import Hold
from dynid.hardware.safety.limit_kernels import (
    CAPPED,
    DAMPING,
    RATE_STEP,
    SOFT_LOWER,
    SOFT_UPPER,
    SOFT_ZONE,
    STIFFNESS,
    TOO_FAST,
    TOO_SUDDEN,
    VELOCITY,
    WITHIN_ZONES,
    limit_currents,
    within,
)
from dynid.hardware.safety.lowering import Phase, StopSequence
from dynid.hardware.safety.overload import LIMITED, LIMITED_S, OverloadModel
from dynid.hardware.safety.posture import Posture
from dynid.hardware.safety.settings import SafetySettings, load_safety
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Robot, read_only

__all__ = ["GuardResult", "GuardState", "SafetyGuard", "SafetySettings", "load_safety"]
LONGEST_WAIT_SHARE = 0.3  # longest wait for a silent servo that counts in advance, as a share of `command_timeout_s`


class GuardResult(NamedTuple):
    """Currents that may flow in one control cycle.

    Attributes:
        current_a: joint currents (torque divided by `Robot.joint_constants`), (n,) [A].
        reasons: reasons why the currents differ from the command, each at most once; empty if they do not differ.
    """

    current_a: FloatArray
    reasons: tuple[Reason, ...]


class SafetyGuard:
    """Safety guard that decides, cycle by cycle, which currents may flow.

    Without a command, with one that the guard refuses (for example because it is too old), and in a stop, the arm is
    braked and then held where it came to rest. A stop then lowers the arm until it stays in place without current; the
    duration of a stop is bounded.

    Args:
        robot: joint, velocity, current and torque limits, torque constants, cycle time.
        settings: thresholds; None for those in the robot's safety.yaml, see `load_safety`.
        mount: how the arm is mounted, a name from robot.yaml; None for the default mount.

    Attributes:
        settings: thresholds in use.
        state: present state.
        fault_text: description of the latched fault; empty without a fault.
        load: used fraction of each servo's overload capacity (see `OverloadModel`), (n,); 1 trips the servo. It is 0 if
            the capacity is unknown.
        stop_text: reason why the guard itself began the last stop, or why torque went off while the arm still moved;
            empty if neither happened. The next enable clears this text.
    """

    def __init__(self, robot: Robot, settings: SafetySettings | None = None, mount: str | None = None) -> None:
        self.settings = settings or load_safety(robot)
        self.state = GuardState.DISABLED
        self.fault_text = self.stop_text = ""
        self._robot = robot
        self._size = robot.size
        self._torque_constants, self._transmission = robot.joint_constants, Transmission(robot)
        self._full_caps = np.minimum(robot.current_limits, robot.torque_limits / robot.joint_constants)
        self._caps, self._derated = self._full_caps, False
        self._warm, self._unread = np.ones(robot.size), np.ones(robot.size)  # remaining shares of the current limits
        self._overload, self.load = OverloadModel.of(robot), np.zeros(robot.size)
        self._limited_s = np.zeros(robot.size)
        self._refused_above = self.settings.refused_above * self._full_caps * self._torque_constants
        self._stopping_distance = 0.5 / self.settings.approach_deceleration_rad_s2  # per squared velocity [s^2/rad]
        self._cycle_s = robot.file.bus.cycle_s
        self._fade = float(np.exp(-self._cycle_s / self.settings.release_s))
        self._ramp_step = self._cycle_s / max(self.settings.current_ramp_s, self._cycle_s)
        self._share = 0.0  # share of the command in the current, 0 to 1; the rest is that of the hold
        self._posture = Posture(robot, mount, self.settings.table_height_m)
        self._hold, self._stop = Hold(robot, self.settings), StopSequence(self.settings, self._posture)
        self._limits = self._limits_by_row(robot)
        self._holding, self._hold_s = False, self.settings.hold_s
        self._none = read_only(np.zeros(self._size))
        self._last: FloatArray = self._none
        self._commanded, self._idle_s = False, 0.0
        self._decay_exponents, self._unseen = np.zeros(self._size), False  # exponents of the velocities' assumed decay

    def _limits_by_row(self, robot: Robot) -> FloatArray:
        """Return constants of the joints by row, (6, n), for the argument `limits` of `limit_currents`.

        The rows are soft limits, velocity limit, largest change of the current in a cycle, damping and stiffness; the
        module `limit_kernels` gives their order and units.
        """
        settings, rows = self.settings, np.empty((6, self._size))
        rows[SOFT_LOWER], rows[SOFT_UPPER] = robot.lower + settings.soft_zone_rad, robot.upper - settings.soft_zone_rad
        rows[VELOCITY] = robot.velocity_limits
        rows[RATE_STEP] = settings.current_rate_1_s * self._cycle_s * self._full_caps
        rows[DAMPING], rows[STIFFNESS] = self._hold.damping, self._hold.stiffness
        return rows

    @property
    def torque_needed(self) -> bool:
        """Whether torque must stay on: while enabled, and while a stop is in progress."""
        return self.state is GuardState.ENABLED or not self._stop.done

    @property
    def strength(self) -> float:
        """Factor, 0 to 1, on the goal PWM of servos that hold their joints themselves because they do not answer.

        Such servos are in position mode. With factor 1 a motor can reach its current limit, with 0 it only brakes. The
        factor is 1 until a stop lowers the arm; then it falls to 0.
        """
        return 1.0 if self._stop.done else self._stop.strength

    @property
    def current_limits(self) -> FloatArray:
        """Present limits of the joint currents, (n,) [A].

        The limits are lowered for servos near overload. Except during a stop, they are also lowered for warm servos
        and for servos whose slow values (temperature, errors, settings) are old.
        """
        return self._caps

    def allow_servo_side_hold(self) -> None:
        """Allow the present stop to last up to `longest_stop_s` even while no joint is read, instead of `stop_time_s`.

        Call this when the servos were set to hold their joints in position mode. They then hold and slowly lower their
        joints themselves, which takes longer.
        """
        self._stop.allow_servo_side_hold()

    def handle(self, event: GuardEvent) -> GuardState:
        """Change the guard's state according to an event, and return the new state.

        Raises:
            SafetyError: the event is not possible in the present state; the state does not change.
        """
        following = TRANSITIONS.get((self.state, event))
        if following is None or (event is GuardEvent.CLEAR and not self._stop.done):
            detail = f": {self.fault_text}" if self.fault_text else ""
            raise SafetyError(f"cannot {event.value} while {self.state.value}{detail}")
        if following in (GuardState.STOPPING, GuardState.FAULT) and self.state is GuardState.ENABLED:
            requested = following is GuardState.STOPPING and not self.stop_text
            self._stop.begin(0.0 if requested else self._hold_s)
            self._hold_s = self.settings.hold_s
        if following is GuardState.DISABLED:
            self.fault_text = ""
            self._stop.end()
        if following is not self.state and following is GuardState.ENABLED:
            self._hold.reset()
            self._hold_s = self.settings.hold_s  # that of a fault while the arm was stopped is over
            self._last = self._none
            self._share, self._holding = 0.0, False
            self._decay_exponents[:], self._unseen = 0.0, False
            self._commanded, self._idle_s, self.stop_text = False, 0.0, ""
        changed, self.state = following is not self.state, following
        if changed:
            self._lower_caps()
        return following

    def fault(self, text: str, hold_s: float | None = None) -> None:
        """Latch a fault in any state, and stop the arm if it is enabled.

        The text of the first fault stays until the fault is cleared.

        Args:
            text: description of the fault.
            hold_s: shortest time for which a stop that this fault begins holds the arm before lowering it [s]; None for
                the value of the settings.
        """
        self.fault_text = self.fault_text or text
        self._hold_s = self.settings.hold_s if hold_s is None else hold_s
        self.handle(GuardEvent.FAULT)

    def abandon_stop(self) -> None:
        """End the stop of the arm at once, so that torque goes off; the arm is neither held nor lowered any more."""
        self._stop.end()

    def set_temperatures(self, deg_c: FloatArray) -> None:
        """Adapt the current limits to the servos' temperatures (n,) [deg C], NaN if unknown.

        Warm servos get lower limits.
        """
        settings = self.settings
        warmth = (deg_c - settings.derate_from_deg_c) / (settings.derate_to_deg_c - settings.derate_from_deg_c)
        factor = 1.0 - (1.0 - settings.derated_fraction) * np.clip(np.nan_to_num(warmth), 0.0, 1.0)
        self._warm = factor
        self._lower_caps()

    def set_slow_ages(self, age_s: FloatArray) -> None:
        """Adapt the current limits to the ages of the servos' slow values (temperature, errors, settings).

        Joints with old values get lower limits.

        Args:
            age_s: age of the oldest slow value among the servos of each joint, (n,) [s].
        """
        settings = self.settings
        late = (age_s - settings.slow_data_old_s) / (settings.slow_data_lost_s - settings.slow_data_old_s)
        unread = 1.0 - (1.0 - settings.derated_fraction) * np.clip(late, 0.0, 1.0)
        if (unread != self._unread).any():
            self._unread = unread
            self._lower_caps()

    def restore_load(self, load: FloatArray) -> None:
        """Set the fraction of each servo's overload capacity that is already used, (n,), if the capacity is known."""
        if self._overload is not None:
            self.load = np.array(load, dtype=np.float64)
            self._lower_caps()

    def set_load(self, current_a: FloatArray, step_s: float) -> None:
        """Update the used fraction of each servo's overload capacity, and the current limits that depend on it.

        Args:
            current_a: joint currents, (n,) [A].
            step_s: time for which these currents flowed [s].
        """
        if self._overload is not None:
            limits = self.settings.overload_limits
            loaded = limits and self.load.max() > LIMITED
            self.load = self._overload.step(self.load, self._transmission.motor_currents(current_a), step_s)
            if limits and (loaded or self.load.max() > LIMITED):
                self._limited_s = np.where(self.load > LIMITED, self._limited_s + step_s, 0.0)
                self._lower_caps()

    def _lower_caps(self) -> None:
        """Adapt the current limits to the servos' temperatures, age of slow values, and overload.

        A stop does not lower the limits of warm servos: it lasts only seconds, and with less current than gravity needs
        the arm would fall. Overload lowers the limits even in a stop, because the servo would switch itself off.
        """
        limits = self._overload if self.settings.overload_limits else None
        stopping = self.state in (GuardState.STOPPING, GuardState.FAULT)
        warm = self._full_caps if stopping else np.minimum(self._warm, self._unread) * self._full_caps
        caps = warm if limits is None else limits.cap(self.load, warm)
        self._derated = bool((caps < self._full_caps).any())
        self._caps = caps if self._derated else self._full_caps

    def overloaded(self) -> NDArray[np.bool_]:
        """Return a mask (n,) of the servos whose current was limited near overload for longer than `LIMITED_S`.

        The arm must then be stopped.
        """
        return np.asarray(self._limited_s > LIMITED_S)

    def check_posture(self, q: FloatArray) -> None:
        """Raise an error if joint angles, (n,) [rad], are far outside the joint limits.

        The zero of a servo may then be wrong.

        Raises:
            SafetyError: joint angles exceed their limits by more than `enable_tolerance_rad`, or are not finite; the
                message names the joints.
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
        feedback_age_s: float = 0.0,
        step_s: float | None = None,
    ) -> GuardResult:
        """Return the currents that may flow in this cycle; must be called once per cycle.

        Args:
            command_tau: commanded torques, (n,) [N m]; None before the first command.
            command_age_s: time since the command was given [s].
            q: joint angles, (n,), finite [rad].
            dq: joint velocities, (n,), finite [rad/s].
            valid: mask of the joints that were read in this cycle, (n,); None for all. For the other joints, q and dq
                are their last readings.
            feedback_age_s: time for which the readings of the arm have been incomplete [s].
            step_s: time since the previous cycle [s]; None for the planned cycle time.
        """
        step_s = self._cycle_s if step_s is None else step_s
        refusal = None
        if self.state is GuardState.ENABLED:
            # cycles that wait for a silent servo are long: a command or reading that will be too old before the next is
            # refused now
            later_s = min(step_s, LONGEST_WAIT_SHARE * self.settings.command_timeout_s) if feedback_age_s > 0.0 else 0.0
            refusal = self._refusal(command_tau, command_age_s + later_s, feedback_age_s + later_s)
            self._watch_commands(refusal, step_s)
        if not self.torque_needed:
            self._last = self._none
            reason = Reason.FAULT if self.state is GuardState.FAULT else Reason.DISABLED
            return GuardResult(self._none, (reason,))
        known_dq = self._known_velocity(dq, valid, step_s)
        if self.settings.tool_limit_m_s is not None and self.state is GuardState.ENABLED:
            self._watch_tool(self.settings.tool_limit_m_s, q, known_dq)
        reasons: list[Reason] = []
        if self.state is GuardState.ENABLED and refusal is None and command_tau is not None:
            drive, braking = self._follow(command_tau, q, known_dq, valid, step_s, reasons)
            commanded = 1.0 - braking
        else:
            reasons.append(self._halt_reason(refusal))
            if not self._holding:
                self._holding = True
                self._hold.begin(dq)  # velocities as read: no brake has acted on an unread joint yet
            self._share *= self._fade
            phase = Phase.HOLD if self.state is GuardState.ENABLED else self._advance_stop(q, known_dq, valid, step_s)
            if phase is Phase.RELEASED:  # neither current nor damping, as after torque off
                self._last = self._none
                self._hold.track(self._none, dq, valid)
                return GuardResult(self._none, tuple(reasons))
            drive = self._carry(phase, q, known_dq, valid, step_s)
            braking, commanded = float(phase is Phase.HOLD), 0.0
        current = self._limit(drive, braking, commanded, q, known_dq, reasons)
        self._hold.track(current, dq, valid)
        current.flags.writeable = False
        return GuardResult(current, tuple(reasons))

    def _known_velocity(self, dq: FloatArray, valid: NDArray[np.bool_] | None, step_s: float) -> FloatArray:
        """Return joint velocities (n,) [rad/s]; those of unread joints are estimated.

        The estimate is the last velocity that was read. While the guard brakes and holds the arm, or lowers it, the
        estimate decays exponentially, with time constant `blind_brake_s`, or `blind_alone_s` if no joint is read.

        Args:
            dq: velocities, (n,) [rad/s]; those of unread joints are their last readings.
            valid: mask of the joints that were read in this cycle, (n,); None for all.
            step_s: time since the previous cycle [s].
        """
        if valid is None or all_set(valid):
            if self._unseen:
                self._decay_exponents[:], self._unseen = 0.0, False
            return dq
        self._unseen = True
        # while no joint is read, cycles are long, and a braking current lasts for a whole cycle
        decay_s = self.settings.blind_brake_s if valid.any() else self.settings.blind_alone_s
        exponent = step_s / decay_s if self._holding else 0.0  # the brake acts only in a hold
        self._decay_exponents = np.where(valid, 0.0, self._decay_exponents + exponent)
        return np.where(valid, dq, dq * np.exp(-self._decay_exponents))

    def _follow(
        self,
        tau: FloatArray,
        q: FloatArray,
        dq: FloatArray,
        valid: NDArray[np.bool_] | None,
        step_s: float,
        reasons: list[Reason],
    ) -> tuple[FloatArray, float]:
        """Return the drive current (n,) [A] for a command, and the weight of the holding current in it, 0 to 1.

        When torque comes on, and after a pause of the commands, the command takes over gradually: the drive current is
        a weighted sum of the commanded current and of the current that holds the arm in place. The holding current is
        computed anew in each cycle, from the positions of the joints. Its last value would not suffice: when torque
        comes on, this value is zero, and the arm would sag.

        Args:
            tau: commanded torques, (n,) [N m].
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
            valid: mask of the joints that were read in this cycle, (n,); None for all.
            step_s: time since the previous cycle [s].
            reasons: list to which `CURRENT_RAMP` is appended while the weight of the holding current is above 0.
        """
        self._holding = False
        self._share = min(1.0, self._share + self._ramp_step)
        drive = tau / self._torque_constants
        if self._share < 1.0:
            reasons.append(Reason.CURRENT_RAMP)
            clipped = np.clip(drive, -self._caps, self._caps)
            drive = self._share * clipped + (1.0 - self._share) * self._hold.drive(q, dq, valid, self._caps, step_s)
        return drive, 1.0 - self._share

    def _halt_reason(self, refusal: Reason | None) -> Reason:
        if self.state is GuardState.ENABLED:
            return refusal or Reason.NO_COMMAND
        if self.state is GuardState.FAULT:
            return Reason.FAULT
        return Reason.COMMANDS_ENDED if self.stop_text else Reason.STOPPING

    def _advance_stop(self, q: FloatArray, dq: FloatArray, valid: NDArray[np.bool_] | None, step_s: float) -> Phase:
        """Advance the stop of the arm by one cycle, and return the phase of the stop.

        Args:
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
            valid: mask of the joints that were read in this cycle, (n,); None for all.
            step_s: time since the previous cycle [s].
        """
        stop, before = self._stop, self._stop.phase
        stop.advance(q, dq, self._hold.held / self._full_caps, step_s, valid)
        if before in (Phase.HOLD, Phase.RELEASED) and stop.phase is Phase.LOWER:
            self._hold.begin_lowering(free=before is Phase.RELEASED)
        if stop.done and not stop.rested and (valid is None or valid.any()):
            fastest = int(np.argmax(np.abs(dq)))
            self.stop_text = (
                f"torque went off after {self.settings.longest_stop_s:g} s while "
                f"{self._robot.joint_names[fastest]} still moved at {abs(dq[fastest]):.2f} rad/s"
            )
        return stop.phase

    def _carry(
        self, phase: Phase, q: FloatArray, dq: FloatArray, valid: NDArray[np.bool_] | None, step_s: float
    ) -> FloatArray:
        """Return the current (n,) [A] that holds or lowers the arm; only the lowering current includes damping.

        Args:
            phase: phase of the stop. In `HOLD` the arm is held, in `LOWER` and `LEAN` it is lowered. In `LEAN`, joints
                are also pushed out of an unstable balance.
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
            valid: mask of the joints that were read in this cycle, (n,); None for all.
            step_s: time since the previous cycle [s].
        """
        if phase is Phase.HOLD:
            return self._hold.drive(q, dq, valid, self._caps, step_s)
        self._posture.place(q)
        lean = self.settings.lean_fraction * self._stop.sides * self._caps
        return self._hold.lower(q, dq, valid, self._caps, lean, step_s, self._within)

    def _within(self, rates: FloatArray) -> float:
        """Return the factor, at most 1, that scales joint velocities (n,) [rad/s] to the speeds allowed for lowering.

        These are speeds of the links' ends, which depend on the posture. `Posture.place` must have been called with
        the present joint angles.
        """
        settings = self.settings
        return self._posture.pace(rates, settings.lower_tool_m_s, settings.table_tool_m_s, settings.table_near_m)

    def _limit(
        self, drive: FloatArray, braking: float, commanded: float, q: FloatArray, dq: FloatArray, reasons: list[Reason]
    ) -> FloatArray:
        """Return the drive current after all limits, (n,) [A], and append the limits that acted to `reasons`.

        Args:
            drive: drive current before the limits, (n,) [A].
            braking: factor of the damping current, 0 to 1.
            commanded: factor, 0 to 1, of the spring that pushes joints out of the soft zones near their limits. It is 0
                while no command is followed. In a stop, joints may thus come to rest on their mechanical stops.
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
            reasons: list to which the reasons are appended.
        """
        current, limits_acted = limit_currents(
            drive, braking, commanded, q, dq, self._last, self._caps, self._limits, self._stopping_distance
        )
        if limits_acted & SOFT_ZONE:
            reasons.append(Reason.APPROACH_SPEED if limits_acted & WITHIN_ZONES else Reason.JOINT_LIMIT)
        if limits_acted & TOO_FAST:
            reasons.append(Reason.VELOCITY_LIMIT)
        if limits_acted & CAPPED:
            reasons.append(Reason.TEMPERATURE if self._derated else Reason.CURRENT_LIMIT)
        if limits_acted & TOO_SUDDEN:
            reasons.append(Reason.CURRENT_RATE)
        self._last = current = self._transmission.within(current, self._caps)
        return current

    def _refusal(self, tau: FloatArray | None, age_s: float, feedback_age_s: float) -> Reason | None:
        """Return the reason why a command tau (n,) [N m] is not followed; None if it is followed.

        Args:
            tau: commanded torques; None before the first command.
            age_s: time since the command was given [s].
            feedback_age_s: time for which the readings of the arm have been incomplete [s].
        """
        if tau is None:
            return Reason.NO_COMMAND
        if tau.shape != (self._size,):
            return Reason.BAD_COMMAND
        if not within(tau, self._refused_above):
            return Reason.HUGE_COMMAND if np.isfinite(tau).all() else Reason.BAD_COMMAND
        if not age_s <= self.settings.command_timeout_s:  # refuses a NaN age, too
            return Reason.STALE_COMMAND
        return Reason.NO_FEEDBACK if feedback_age_s > self.settings.command_timeout_s else None

    def _watch_tool(self, limit_m_s: float, q: FloatArray, dq: FloatArray) -> None:
        """Latch a fault if the tool, or another link's end, is faster than `limit_m_s` [m/s].

        Args:
            limit_m_s: largest allowed speed [m/s].
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
        """
        self._posture.place(q)
        speed = self._posture.speed(dq)
        if not speed <= limit_m_s:
            self.fault(f"the tool or a link moved at {speed:.2f} m/s, tool_limit_m_s allows {limit_m_s:g} m/s")

    def _watch_commands(self, refusal: Reason | None, step_s: float) -> None:
        """Stop an enabled arm that has received no usable command for too long.

        Args:
            refusal: reason why the present command is not usable; None if it is usable.
            step_s: time since the previous cycle [s].
        """
        if refusal is None:
            self._commanded, self._idle_s = True, 0.0
            return
        self._idle_s += step_s
        limit_s = self.settings.commands_ended_s if self._commanded else self.settings.first_command_s
        if self._idle_s > limit_s + 0.5 * self._cycle_s:
            self.stop_text = f"stopped: no usable command for {limit_s} s ({refusal.value})"
            self.handle(GuardEvent.DISABLE)
