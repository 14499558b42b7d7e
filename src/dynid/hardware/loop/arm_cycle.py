"""One control cycle of an arm: read and check its state, limit the commanded currents, and write them."""

from collections import deque
from collections.abc import Callable

import numpy as np

from dynid.errors import SafetyError
from dynid.hardware.arm.dynamixel_arm import ArmSample, DynamixelArm
from dynid.hardware.bus.masks import any_set
from dynid.hardware.loop.cycle_meter import CycleMeter
from dynid.hardware.loop.request_queue import nothing
from dynid.hardware.safety.claim_watch import DISPLACEMENT_LIMIT_RAD, ClaimWatch
from dynid.hardware.safety.guard import GuardResult, SafetyGuard
from dynid.hardware.safety.guard_states import GuardEvent, GuardState
from dynid.hardware.safety.servo_watch import ServoWatch
from dynid.robot import FloatArray

Handed = Callable[[ArmSample, FloatArray], None]
STALLED_SHARE = 0.5  # a stall of this process longer than this share of the watchdog time causes a check
# It is a fault if this number of consecutive states is each answered by two different commands; fewer may be due to a
# controller that is faster than the cycle.
CONTRADICTIONS = 10
DIFFERENT_SHARE = 0.02  # smallest torque difference between two commands that counts, as a share of the torque limit
OVERLOAD_ADVICE = "its current was limited for too long; let it rest, and give it less to carry"
SUSPECTED_S = 0.004  # interval between checks for servos that do not drive
# longest delay of a slow poll, in poll intervals: a loop that is always late must still read temperatures
LONGEST_SLOW_POLL_DELAY = 4
ANSWERED_CYCLES = 1.5  # largest lag of a punctual commander, in cycles: one answer may be on its way
LONGEST_ANSWER_CYCLES = 3.5  # smallest lag, in cycles, of a commander that does not answer every state
LONGEST_STEP_S = 0.05  # longest time step, so that a stall of the host does not end a stop


class ArmCycle:
    """Executor of single control cycles of an arm, which also switches torque on and off.

    The caller decides when each cycle starts.

    Args:
        arm: an open arm.
        guard: safety guard, which decides which currents flow.
        meter: counts the cycles.
        on_cycle: called after each write with the sample and the written goal currents, (n,) [A].
        on_waiting: called with the same arguments as `on_cycle`, one cycle later, while the next request is on the
            wire.
        slow_poll_every: number of cycles per read of slow data (temperature, errors, settings).
        feedback_timeout_s: time without a reply from a servo after which the silence is a fault while torque is on [s].
        take_commands: called before the newest command is used; it may call `set_command`.

    Attributes:
        arm: the arm.
        guard: the guard.
        torque_on: whether torque is on, or may be.
        times_off: number of times that torque was switched off.
        last_result: last decision of the guard.
        pending_faults: texts of faults that other threads found and that the next cycle processes.
        watch: detector of faulty servos.
        answered_ns: time on the arm's monotonic clock at which the last cycle finished its answer to the sample [ns]:
            the currents were written, and `on_cycle` had returned. Reads of slow data come after this time.
    """

    def __init__(
        self,
        arm: DynamixelArm,
        guard: SafetyGuard,
        meter: CycleMeter,
        on_cycle: Handed | None,
        on_waiting: Handed | None,
        slow_poll_every: int,
        feedback_timeout_s: float,
        take_commands: Callable[[], None] = nothing,
    ) -> None:
        self.arm, self.guard, self._meter = arm, guard, meter
        self.torque_on = False
        self.times_off = 0
        self.last_result = GuardResult(np.zeros(arm.robot.size), ())
        self.pending_faults: deque[str] = deque()
        settings = guard.settings
        self.watch = ServoWatch(arm.robot, feedback_timeout_s, settings.fault_deg_c, settings.slow_data_lost_s)
        self._claims = ClaimWatch(arm.robot.size)
        self._clock = arm.bus.clock
        self._take_commands, self._on_cycle, self._on_waiting = take_commands, on_cycle, on_waiting
        self._last: tuple[ArmSample, FloatArray] | None = None
        self._to_hand_over = False
        self._handed_s = 0.0  # timestamp of the newest sample given to `on_waiting`, on the monotonic clock
        self._slow_poll_every, self._since_slow_poll = slow_poll_every, slow_poll_every
        self._command: tuple[FloatArray, float, bool] | None = None
        self._contradicted, self._contradictions = False, 0
        self._suspected_every = max(1, round(SUSPECTED_S / arm.robot.file.bus.cycle_s))
        self._stalled_ns = int(STALLED_SHARE * arm.watchdog_s * 1e9)
        self._began_ns = self.answered_ns = 0
        self._step_s = 0.0
        self._applied_a = np.zeros(arm.robot.size)

    @property
    def complete(self) -> bool:
        """Whether the last read contained all servos."""
        return self._last is not None and self._last[0].complete

    def set_command(self, tau: FloatArray, given_s: float, held: bool = False) -> None:
        """Set the commanded torques; a command that was given earlier than the present one is refused and counted.

        If several consecutive states are each answered by two commands with different torques, two publishers command
        the arm. This is a fault, because only one program may command an arm.

        Args:
            tau: joint torques, (n,) [N m].
            given_s: time of the command on the arm's monotonic clock [s].
            held: whether the sender of the command (the commander) claims that it holds the arm still.
        """
        present, torques = self._command, np.array(tau, dtype=np.float64)
        if present is not None and given_s < present[1]:
            self._meter.commands_out_of_order += 1
            return
        if present is None or given_s > present[1]:
            self._contradictions = self._contradictions if self._contradicted else 0
            self._contradicted = False
        elif not self._contradicted and self._differ(present[0], torques):
            self._contradicted = True
            self._contradictions += 1
            if self._contradictions == CONTRADICTIONS:
                self.pending_faults.append(
                    f"two publishers command the arm: {CONTRADICTIONS} consecutive states were answered by two "
                    "different commands; end one publisher"
                )
        self._command = (torques, given_s, held)

    def _differ(self, one: FloatArray, other: FloatArray) -> bool:
        if one.shape != other.shape:
            return True
        return bool((np.abs(one - other) > DIFFERENT_SHARE * self.arm.robot.torque_limits).any())

    def may_complete(self) -> bool:
        """Return whether a complete read is likely soon, so that a request that needs complete data should wait.

        The result is True before the first sample, and while reads have been incomplete for only a short time.
        """
        return self._last is None or self.watch.may_complete(self._clock.monotonic_ns())

    def run(self, *, behind: bool = False) -> bool:
        """Run one control cycle; return whether its sample contains all joints.

        Args:
            behind: whether the loop is late; the next read of slow data may then be delayed.

        Raises:
            BusError: the port is lost.
        """
        began_ns = self._clock.monotonic_ns()
        self._notice_stall(began_ns)
        self._step_s = min((began_ns - self._began_ns) * 1e-9, LONGEST_STEP_S) if self._began_ns else 0.0
        self._began_ns = began_ns
        sample = self.arm.read(self.hand_over_previous)
        self._take_commands()
        now_ns = self._clock.monotonic_ns()
        self._notice_stall(now_ns)
        self.watch.note(sample.answered, began_ns)
        self._watch_claim(sample, now_ns)
        current_a = sample.current_a if sample.complete else np.where(sample.valid, sample.current_a, self._applied_a)
        self.guard.set_load(current_a, self._step_s)
        self._find_faults(sample, now_ns)
        self._have_unseen_held(sample, now_ns)
        command = self._command
        tau, age_s = (None, 0.0) if command is None else (command[0], now_ns * 1e-9 - command[1])
        missing_s = 0.0 if sample.complete else self.watch.missing_s(now_ns)
        result = self.guard.filter(tau, age_s, sample.q, sample.dq, sample.valid, missing_s, self._step_s)
        self.last_result = result
        self._meter.add_reasons(result.reasons)
        applied = self.arm.write_currents(result.current_a) if self.torque_on else result.current_a
        if self.torque_on and any_set(self.arm.servo_side_hold.held):
            self.arm.servo_side_hold.step(self.guard.strength, self._step_s)
        self._applied_a = applied
        if self._on_cycle is not None:
            self._on_cycle(sample, applied)
        self._last, self._to_hand_over = (sample, applied), True
        self.answered_ns = self._clock.monotonic_ns()
        if self._slow_poll_due(behind):
            if self.arm.slow_poll():
                self.guard.set_temperatures(self.arm.by_joint(self.arm.slow.temperature_deg_c))
            self.guard.set_slow_ages(self.arm.by_joint(self._slow_ages_s()))
            self._find_slow_faults()
        return sample.complete

    def _slow_poll_due(self, behind: bool) -> bool:
        self._since_slow_poll += 1
        factor = LONGEST_SLOW_POLL_DELAY if behind else 1
        if not self._slow_poll_every or self._since_slow_poll < factor * self._slow_poll_every:
            return False
        self._since_slow_poll = 0
        return True

    def _slow_ages_s(self) -> FloatArray:
        """Return the age of each servo's slow values (temperature, errors, settings), (m,) [s]; 0 without polling."""
        if not self._slow_poll_every:
            return np.zeros(len(self.arm.robot.all_servo_ids))
        return self.arm.slow.age_s(self._clock.monotonic_ns())

    def hand_over_previous(self) -> None:
        """Call `on_waiting` with the sample and the written currents of the previous cycle, once per cycle."""
        if self._to_hand_over and self._on_waiting is not None and self._last is not None:
            self._to_hand_over = False
            if (sample := self._last[0]).complete:
                self._handed_s = self.arm.bus.monotonic_s(sample.stamp_ns)
            self._on_waiting(*self._last)

    def awaits_command(self) -> bool:
        """Return whether the next cycle should wait for a late command.

        The next command is late if the last one was given more than 1.5 cycles (`ANSWERED_CYCLES`) before the newest
        complete sample that `on_waiting` received. From 3.5 cycles on (`LONGEST_ANSWER_CYCLES`), the cycle does not
        wait: the sender evidently does not send a command for every state.
        """
        self._take_commands()
        command = self._command
        if command is None or self.guard.state is not GuardState.ENABLED or not self.complete:
            return False
        cycles = (self._handed_s - command[1]) / self.arm.robot.file.bus.cycle_s
        return ANSWERED_CYCLES < cycles < LONGEST_ANSWER_CYCLES

    # -- torque ------------------------------------------------------------------------------------------------

    def enable(self) -> None:
        """Switch torque on, if all servos answer and the joint angles are plausible.

        Raises:
            SafetyError: a servo does not answer, a joint angle is far outside its limits, slow values (temperature,
                errors, settings) are too old, servos of one joint differ too much in position, or the guard's state
                does not allow it.
            BusError: a servo did not switch its torque on.
        """
        if not self.complete:
            raise SafetyError("cannot enable: not all servos answer")
        before = self.guard.state
        if before is GuardState.DISABLED and self._last is not None:
            self.guard.check_posture(self._last[0].q)
            now_ns = self._clock.monotonic_ns()
            if text := self.watch.overdue(self._slow_ages_s()) or self.watch.disagreement(self.arm.slow, now_ns):
                raise SafetyError(f"cannot enable: {text}")
        self.guard.handle(GuardEvent.ENABLE)
        if before is GuardState.ENABLED:
            return
        self._command, self._contradicted, self._contradictions = None, False, 0
        self.torque_on = True  # it may be on from here: a failure switches it off again, or ends the loop
        try:
            self.arm.enable()
        except BaseException:
            self.guard.handle(GuardEvent.DISABLE)
            self.guard.handle(GuardEvent.STOPPED)
            raise
        self._began_ns = self._clock.monotonic_ns()

    def switch_off_if_stopped(self) -> None:
        """Switch torque off if it is on and the safety guard no longer needs it.

        Raises:
            BusError: a servo did not confirm that its torque is off.
        """
        if self.torque_on and not self.guard.torque_needed:
            self.arm.disable()
            self.torque_on, self.times_off = False, self.times_off + 1
            if self.guard.state is GuardState.STOPPING:
                self.guard.handle(GuardEvent.STOPPED)

    def come_to_rest(self, reason: str, period_s: float) -> None:
        """Stop and lower the arm because the control loop has failed; return when torque is no longer needed.

        The stop is the same as after a fault, but the callbacks are not called. The guard bounds its duration.

        Args:
            reason: description of the failure, which the guard latches as a fault.
            period_s: cycle time [s].

        Raises:
            BusError: the port is lost.
        """
        self.guard.fault(reason)
        self._on_cycle = self._on_waiting = None
        self._take_commands = nothing
        while self.torque_on and self.guard.torque_needed:
            self.run()
            left_s = period_s - (self._clock.monotonic_ns() - self._began_ns) * 1e-9
            if left_s > 0.0:
                self._clock.sleep(left_s)

    # -- faults ------------------------------------------------------------------------------------------------

    def pass_faults_to_guard(self) -> None:
        """Pass all faults in `pending_faults`, which other threads found, to the guard."""
        while self.pending_faults:
            self.guard.fault(self.pending_faults.popleft())

    def _find_faults(self, sample: ArmSample, now_ns: int) -> None:
        if self.pending_faults:
            self.pass_faults_to_guard()
        if not self.torque_on or self.guard.state is GuardState.FAULT:
            return
        text = "" if sample.complete else self.watch.silence(now_ns)
        if not text and any_set(sample.alert):
            self.arm.poll_torque(sample.alert)  # reads the kind of error
            text = self.watch.alerts(sample.alert, self.arm.slow)
        limited = self.guard.settings.overload_limits
        if not text and limited and (loaded := self.guard.overloaded()).any():
            # lower the arm at once: holding it would trip the servo
            self.guard.fault(f"overload ahead at {self.watch.names(loaded)}: {OVERLOAD_ADVICE}", hold_s=0.0)
        if text:
            self.guard.fault(text)
        elif self._last is not None and sample.complete and self._meter.cycles % self._suspected_every == 0:
            undriven = self.watch.undriven(*map(self.arm.motor_currents, (self._last[1], sample.current_a)))
            if undriven is not None:
                self.arm.poll_torque(undriven)
                self._find_slow_faults()

    def _watch_claim(self, sample: ArmSample, now_ns: int) -> None:
        """Latch a fault in the guard if a joint moves although the sender of commands claims to hold the arm still."""
        command = self._command
        recent = command is not None and now_ns * 1e-9 - command[1] <= self.guard.settings.command_timeout_s
        claimed = command is not None and command[2] and recent and self.guard.state is GuardState.ENABLED
        joint = self._claims.moved(claimed, sample.q, sample.valid, now_ns * 1e-9)
        if joint is not None:
            self.guard.fault(
                f"{self.arm.robot.joint_names[joint]} moved by more than {np.rad2deg(DISPLACEMENT_LIMIT_RAD):.0f} deg "
                "while its commander says that the arm is held: check model, payload, and what else adds torques"
            )

    def _have_unseen_held(self, sample: ArmSample, now_ns: int) -> None:
        """Make all servos hold their joints in position mode once all have been silent for the feedback timeout.

        Without answers the driver cannot hold the arm, but its instructions may still reach the servos. If only some
        servos are silent, this is not done: a silent servo may be booting, and must then stay without current.
        """
        if sample.complete or not self.torque_on or self.arm.servo_side_hold.held.any():
            return
        if self.watch.silence(now_ns):
            silent = self.watch.silent(now_ns)
            if silent.all():
                self.arm.servo_side_hold.begin(silent, sample.q + sample.dq * self.guard.settings.blind_travel_s)
                self.guard.allow_servo_side_hold()

    def _find_slow_faults(self) -> None:
        if not self.torque_on or self.guard.state is GuardState.FAULT:
            return
        slow = self.arm.slow
        different = slow.different()
        if different.any():  # a servo that rebooted has also lost its torque
            self.arm.poll_torque(np.asarray(different.any(axis=1)))
        text = self.watch.slow_fault(slow) or self.watch.disagreement(slow, self._clock.monotonic_ns())
        if text := text or self.watch.overdue(self._slow_ages_s()):
            self.guard.fault(text)

    def _notice_stall(self, now_ns: int) -> None:
        """If this process has stalled, check whether the servos' watchdogs have tripped; if so, latch a fault.

        `now_ns` is the present time on the arm's monotonic clock [ns].
        """
        silence_ns = now_ns - self._began_ns
        if not self.torque_on or silence_ns <= self._stalled_ns or self.guard.state is GuardState.FAULT:
            return
        tripped = self.arm.tripped_watchdogs()
        if not tripped.any():
            return
        names = "all servos" if tripped.all() else self.watch.names(tripped)
        self.guard.fault(f"bus watchdog tripped at {names}: this process stalled for {silence_ns * 1e-9:.3f} s")
        if tripped.all():
            self.guard.abandon_stop()  # the arm has dropped, and no current may flow again
