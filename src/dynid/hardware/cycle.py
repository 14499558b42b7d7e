"""The 1 kHz loop: read, guard, write, hand over; in a thread of its own, paced by absolute deadlines.

A node starts the loop, gives it commands, and publishes what the callback receives."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from dynid.errors import BusError, SafetyError
from dynid.hardware.cycle_meter import CycleMeter, LoopStatistics
from dynid.hardware.dynamixel_arm import ArmSample, DynamixelArm
from dynid.hardware.guard_states import GuardEvent, GuardState
from dynid.hardware.realtime import bounded_timer_slack, fifo_scheduling, quiet_interpreter
from dynid.hardware.request_queue import RequestQueue
from dynid.hardware.safety import GuardResult, SafetyGuard
from dynid.robot import FloatArray

# After standstills of the host, planned cycles are run late, back to back, rather than left out: each reads the state
# of its moment and answers the newest command. Only a loop that stays farther behind than this leaves cycles out.
LONGEST_CATCH_UP_S = 0.5
YOUNG_COLLECTION_EVERY = 100


class ControlLoop:
    """Runs an arm cyclically.

    Args:
        arm: an open arm; the loop is the only one to use it while it runs.
        guard: decides which currents flow.
        on_cycle: called in the loop's thread after each write with the sample and the goal currents [A] written in
            answer to it, (n,); all zero while torque is off. Must be quick; an exception ends the loop.
        on_waiting: the same one cycle later, while the next request is on the wire: costs the cycle no time.
        on_end: called in the loop's thread when it has ended, with the error that ended it or None.
        realtime_priority: SCHED_FIFO priority to ask for; None does not ask.
        slow_poll_every: one piece of slow data is read every so many cycles; 0 never.
        feedback_timeout_s: reads that miss a servo for so long are a fault, while torque is on.

    Attributes:
        error: what ended the loop, None while it runs or if it was stopped.
        torque_off_unconfirmed: set before `on_end` is called if the last attempt to switch torque off failed: the arm
            may still be under torque. Then it is `error` as well, and names what ended the loop.
        fifo: whether SCHED_FIFO is in force.
        last_result: the guard's last decision.
    """

    def __init__(
        self,
        arm: DynamixelArm,
        guard: SafetyGuard,
        *,
        on_cycle: Callable[[ArmSample, FloatArray], None] | None = None,
        on_waiting: Callable[[ArmSample, FloatArray], None] | None = None,
        on_end: Callable[[BaseException | None], None] | None = None,
        realtime_priority: int | None = None,
        slow_poll_every: int = 20,
        feedback_timeout_s: float = 0.05,
    ) -> None:
        self.arm, self.guard, self._clock = arm, guard, arm.bus.clock
        self.error: BaseException | None = None
        self.torque_off_unconfirmed: BusError | None = None
        self.fifo = False
        self.last_result = GuardResult(np.zeros(arm.robot.size), ())
        self._on_cycle, self._on_waiting, self._on_end = on_cycle, on_waiting, on_end
        self._previous: tuple[ArmSample, FloatArray] | None = None
        self._realtime_priority = realtime_priority
        self._slow_poll_every, self._feedback_timeout_s = slow_poll_every, feedback_timeout_s
        self._period_ns = round(arm.robot.file.bus.cycle_s * 1e9)
        self._command: tuple[FloatArray, float] | None = None
        self._requests = RequestQueue()
        self._stop_requested = False
        self._thread: threading.Thread | None = None
        self._torque_on = False
        self._torque_off_waiters: list[Future[None]] = []
        self._incomplete_since_ns = 0
        self._meter = CycleMeter(self._period_ns)

    # -- for other threads -------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether the loop's thread is alive."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the loop; torque stays off until `enable`. A loop runs once."""
        if self._thread is not None:
            raise SafetyError("this control loop was started before; make a new one")
        self._thread = threading.Thread(target=self.run, name="control loop", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop the arm damped, switch torque off, and end the loop; more than once does no harm.

        The error that ended the loop, if any, is in `error`.

        Raises:
            SafetyError: the loop did not end in time.
        """
        self._stop_requested = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
            if self.running:
                raise SafetyError(f"the control loop did not end within {timeout_s} s; switch the arm's power off")

    def set_command(self, tau: FloatArray, stamp_s: float | None = None) -> None:
        """Hand over joint torques, (n,) [N m]; the newest one counts.

        Args:
            tau: the torques; what is not n finite numbers is refused by the guard.
            stamp_s: when the command was given, on the arm's monotonic clock [s]; None is now.
        """
        given_s = self._clock.monotonic_ns() * 1e-9 if stamp_s is None else stamp_s
        self._command = (np.array(tau, dtype=np.float64), given_s)

    def enable(self, timeout_s: float = 5.0) -> None:
        """Switch torque on and follow commands; returns when it is on.

        Raises:
            SafetyError: not possible in the present state, or no complete reading of the arm.
            BusError: a servo did not switch its torque on.
        """
        self._request(GuardEvent.ENABLE, timeout_s)

    def disable(self, timeout_s: float = 10.0) -> None:
        """Stop the arm damped and switch torque off; returns when it is off."""
        self._request(GuardEvent.DISABLE, timeout_s)

    def clear_fault(self, timeout_s: float = 5.0) -> None:
        """Leave the fault state; SafetyError while the arm is still being stopped."""
        self._request(GuardEvent.CLEAR, timeout_s)

    def statistics(self) -> LoopStatistics:
        """Counters and times so far."""
        return self._meter.statistics(self._clock.monotonic_ns())

    def request(self, event: GuardEvent) -> "Future[None]":
        """Ask for ENABLE, DISABLE or CLEAR without waiting; the future tells when it is served, and what failed."""
        return self._requests.post(event)

    def _request(self, event: GuardEvent, timeout_s: float) -> None:
        if not self.running:
            raise SafetyError(f"cannot {event.value}: the control loop is not running")
        self._requests.ask(event, timeout_s)

    # -- the loop's thread -------------------------------------------------------------------------------------

    def run(self) -> None:
        """What `start` runs in its thread; lock-step runs call it in their own."""
        try:
            with (
                quiet_interpreter(),
                bounded_timer_slack(),
                fifo_scheduling(self._realtime_priority) as self.fifo,
            ):
                self._loop()
        except BaseException as error:
            self.error = error
        finally:
            self._finish()

    def _finish(self) -> None:
        """Zero current and torque off, whatever happened before; everybody who waits is told."""
        try:
            self.arm.disable()
        except Exception as error:
            cause = f"; the loop was ended by: {self.error}" if self.error else ""
            unconfirmed = BusError(f"TORQUE MAY STILL BE ON: {error}{cause}")
            unconfirmed.__cause__ = self.error or error
            self.error = self.torque_off_unconfirmed = unconfirmed
        try:
            self._hand_over_previous()
        except Exception as error:
            self.error = self.error or error
        self._torque_on = False
        failure = self.error or SafetyError("the control loop was stopped")
        for waiter in self._torque_off_waiters:
            if self.error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(failure)
        self._requests.refuse_all(failure)
        if self._on_end is not None:
            self._on_end(self.error)

    def _hand_over_previous(self) -> None:
        previous, self._previous = self._previous, None
        if previous is not None and self._on_waiting is not None:
            self._on_waiting(*previous)

    def _loop(self) -> None:
        self._meter.started_ns = next_ns = self._clock.monotonic_ns()
        while True:
            ahead_ns = next_ns - self._clock.monotonic_ns()
            if ahead_ns > 0:
                self._clock.sleep(ahead_ns * 1e-9)
            late_ns = self._clock.monotonic_ns() - next_ns
            if late_ns > LONGEST_CATCH_UP_S * 1e9:
                lost = int((late_ns - LONGEST_CATCH_UP_S * 1e9) // self._period_ns) + 1
                self._meter.skipped += lost
                next_ns += lost * self._period_ns
            began_ns = self._clock.monotonic_ns()
            complete = self._cycle()
            self._meter.add(self._clock.monotonic_ns() - began_ns, late_ns, complete)
            next_ns += self._period_ns
            if self._meter.cycles % YOUNG_COLLECTION_EVERY == 0:
                gc.collect(0)  # full collections are off; young garbage of other threads must not pile up
            if not self._serve_requests():
                return

    def _cycle(self) -> bool:
        """One cycle; whether its sample was complete."""
        began_ns = self._clock.monotonic_ns()
        sample = self.arm.read(self._hand_over_previous)
        self._watch(sample, began_ns)
        command = self._command
        tau, age_s = (None, 0.0) if command is None else (command[0], self._clock.monotonic_ns() * 1e-9 - command[1])
        result = self.last_result = self.guard.filter(tau, age_s, sample.q, sample.dq, sample.valid)
        self._meter.add_reasons(result.reasons)
        applied = self.arm.write_currents(result.current_a) if self._torque_on else result.current_a
        if self._on_cycle is not None:
            self._on_cycle(sample, applied)
        self._previous = (sample, applied)
        if self._slow_poll_every and self._meter.cycles % self._slow_poll_every == 0:
            self.arm.slow_poll()
            self._watch_slow()
        return sample.complete

    def _watch(self, sample: ArmSample, began_ns: int) -> None:
        """Turn what the sample, asked for at `began_ns`, tells about the servos into faults."""
        if sample.complete:
            self._incomplete_since_ns = 0
        elif not self._incomplete_since_ns:
            self._incomplete_since_ns = began_ns
        if not self._torque_on or self.guard.state is GuardState.FAULT:
            return
        if self._missing_s() > self._feedback_timeout_s:
            self.guard.fault(f"no reply for {self._feedback_timeout_s} s from {self._names(~sample.valid)}")
        elif sample.alert.any():
            self.guard.fault(f"hardware error at {self._names(sample.alert)}")

    def _watch_slow(self) -> None:
        if not self._torque_on or self.guard.state is GuardState.FAULT:
            return
        slow = self.arm.slow
        for text, wrong in (
            ("bus watchdog tripped", slow.watchdog == -1),
            ("hardware error", slow.hardware_error > 0),
            ("torque switched itself off", slow.torque_enable == 0),
        ):
            if wrong.any():
                self.guard.fault(f"{text} at {self._names(wrong)}")

    def _names(self, axes: NDArray[np.bool_]) -> str:
        joints = self.arm.robot.file.joints
        return ", ".join(f"servo {j.servo_id} ({j.name})" for j, one in zip(joints, axes, strict=True) if one)

    def _serve_requests(self) -> bool:
        """Between two cycles: requests of other threads, torque off after a stop; False when the loop shall end."""
        while (first := self._requests.first) is not None:
            if first is GuardEvent.ENABLE and 0.0 < self._missing_s() <= self._feedback_timeout_s:
                break  # one lost reply is no reason to refuse: look again after the next cycle
            request = self._requests.take()
            if request is None:
                break
            event, done = request
            try:
                self._serve(event, done)
            except BaseException as error:
                done.set_exception(error)
                if not isinstance(error, SafetyError | BusError):
                    raise
        if self._stop_requested and self.guard.state is GuardState.ENABLED:
            self.guard.handle(GuardEvent.DISABLE)
        if self._torque_on and not self.guard.torque_needed:
            self.arm.disable()
            self._torque_on = False
            if self.guard.state is GuardState.STOPPING:
                self.guard.handle(GuardEvent.STOPPED)
        if not self._torque_on:
            for waiter in self._torque_off_waiters:
                waiter.set_result(None)
            self._torque_off_waiters.clear()
        return self._torque_on or not self._stop_requested

    def _missing_s(self) -> float:
        """For how long reads have missed a servo."""
        return (self._clock.monotonic_ns() - self._incomplete_since_ns) * 1e-9 if self._incomplete_since_ns else 0.0

    def _serve(self, event: GuardEvent, done: "Future[None]") -> None:
        if event is GuardEvent.DISABLE:
            self.guard.handle(event)
            self._torque_off_waiters.append(done)
            return
        if event is GuardEvent.ENABLE:
            self._enable()
        else:
            self.guard.handle(event)
        done.set_result(None)

    def _enable(self) -> None:
        if self._stop_requested or self._incomplete_since_ns:
            raise SafetyError("cannot enable: the loop is ending, or not all servos answer")
        before = self.guard.state
        if before is GuardState.DISABLED and self._previous is not None:
            self.guard.check_posture(self._previous[0].q)
        self.guard.handle(GuardEvent.ENABLE)
        if before is GuardState.ENABLED:
            return
        self._command = None
        self._torque_on = True  # from here on it may be: after a failure it is switched off once more, or the loop ends
        try:
            self.arm.enable()
        except BaseException:
            self.guard.handle(GuardEvent.DISABLE)
            self.guard.handle(GuardEvent.STOPPED)
            raise
