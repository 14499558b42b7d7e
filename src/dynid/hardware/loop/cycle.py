"""Control loop: runs cycle after cycle in its own thread, paced by absolute deadlines.

A node starts the loop, gives it commands, and publishes the samples that the callback receives.
"""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future

from dynid.errors import BusError, SafetyError
from dynid.hardware.arm.cycle_rate import SLOW_POLL_S
from dynid.hardware.arm.dynamixel_arm import ArmSample, DynamixelArm
from dynid.hardware.bus.clock import succeeds_within
from dynid.hardware.loop.arm_cycle import ArmCycle
from dynid.hardware.loop.cycle_meter import CycleCounts, CycleMeter, LoopStatistics
from dynid.hardware.loop.rate_trial import RunWatch
from dynid.hardware.loop.realtime import (
    bounded_timer_slack,
    disable_cpu_idle,
    disable_garbage_collection,
    fifo_scheduling,
)
from dynid.hardware.loop.realtime_limit import GapWatch
from dynid.hardware.loop.request_queue import CHECK_INTERVAL_S, Request, RequestQueue, nothing
from dynid.hardware.safety.guard import GuardResult, SafetyGuard
from dynid.hardware.safety.guard_states import GuardEvent, GuardState
from dynid.hardware.startup.realtime_permission import read_limit
from dynid.robot import FloatArray

# Delay above which the loop skips cycles [s]. After a shorter stall of the host, planned cycles run late, back to back:
# each reads the present state and applies the newest command.
LONGEST_CATCH_UP_S = 0.5
LONGEST_CATCH_UP_STOPPING_S = 0.02  # the same limit during a stop, which counts its time in cycles
YOUNG_COLLECTION_EVERY = 100  # cycles between two garbage collections of the youngest generation
STOP_TIMEOUT_S = 32.0  # longer than the longest stop of an arm that is lowered until it comes to rest


class ControlLoop:
    """Control loop that runs an arm cycle after cycle.

    Args:
        arm: an open arm; only the loop may use it while the loop runs.
        guard: safety guard, which decides which currents flow.
        take_commands: called in the loop's thread before the newest command is used; it may call `set_command`.
        on_cycle: called in the loop's thread after each write, with the sample and the goal currents (n,) [A] written
            in answer to it; they are zero while torque is off. It must be quick; an exception ends the loop.
        on_waiting: called with the same arguments as `on_cycle`, but one cycle later, while the next request is on the
            wire, so that the call costs no cycle time.
        on_end: called in the loop's thread when it has ended, with the error that ended it or None.
        realtime_priority: SCHED_FIFO priority to request; None requests none.
        disable_cpu_idle: whether to keep processors out of idle states while the loop runs, if permitted.
        slow_poll_every: number of cycles between two reads of slow data (temperature, errors, settings); 0 for no
            reads, None for a read every `SLOW_POLL_S` [s]. While the loop is late, this number is up to
            `LONGEST_SLOW_POLL_DELAY` times as large.
        feedback_timeout_s: time without a reply from a servo after which the silence is a fault while torque is on [s].
        rest_after_failure: whether to bring the arm to rest, as after a fault, when an exception ends the loop.
        aligned: whether to start the first cycle right after the arrival of a reply. If the adapter delivers replies
            only at regular ticks, each cycle then starts right after a tick. So its exchange with the servos has the
            whole time until the next tick.
        times_off: number of times that earlier loops of the same driver switched torque off.

    Attributes:
        arm: the arm.
        guard: the guard.
        error: error that ended the loop; None while it runs or if it was stopped.
        torque_off_unconfirmed: error of a loop that has ended although servos did not confirm that torque is off; else
            None. The arm may then still be under torque. `error` is the same object, whose message also gives the cause
            of the loop's end. Both are set before `on_end` is called.
        fifo: whether a real-time policy (SCHED_FIFO or SCHED_RR) is in force.
    """

    def __init__(
        self,
        arm: DynamixelArm,
        guard: SafetyGuard,
        *,
        take_commands: Callable[[], None] = nothing,
        on_cycle: Callable[[ArmSample, FloatArray], None] | None = None,
        on_waiting: Callable[[ArmSample, FloatArray], None] | None = None,
        on_end: Callable[[BaseException | None], None] | None = None,
        realtime_priority: int | None = None,
        disable_cpu_idle: bool = False,
        slow_poll_every: int | None = None,
        feedback_timeout_s: float = 0.05,
        rest_after_failure: bool = True,
        aligned: bool = False,
        times_off: int = 0,
    ) -> None:
        self.arm, self.guard, self._clock = arm, guard, arm.bus.clock
        self.error: BaseException | None = None
        self.torque_off_unconfirmed: BusError | None = None
        self.fifo = False
        self._on_end = on_end
        self._without_idle = disable_cpu_idle
        self._realtime_priority, self._rest_after_failure = realtime_priority, rest_after_failure
        self._period_ns = round(arm.robot.file.bus.cycle_s * 1e9)
        self._meter = CycleMeter(self._period_ns)
        self._run_watch = RunWatch(self._period_ns)
        self._holes = GapWatch(self._period_ns, read_limit())
        self._clock.pace(self._period_ns)
        if slow_poll_every is None:
            slow_poll_every = max(1, round(SLOW_POLL_S * 1e9 / self._period_ns))
        self._cycle = ArmCycle(
            arm, guard, self._meter, on_cycle, on_waiting, slow_poll_every, feedback_timeout_s, take_commands
        )
        self._cycle.times_off = times_off
        self._requests = RequestQueue(self._clock)
        self._stop_requested, self._aligned = False, aligned
        self._thread: threading.Thread | None = None
        self._torque_off_waiters: list[Future[None]] = []

    # -- for other threads -------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether the loop's thread is alive."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def last_result(self) -> GuardResult:
        """Result of the safety guard in the last cycle: currents, and the reasons why they differ from the command."""
        return self._cycle.last_result

    @property
    def times_off(self) -> int:
        """Number of times that torque was switched off, by this loop and earlier loops of the same driver."""
        return self._cycle.times_off

    def start(self) -> None:
        """Start the loop, once; torque stays off until `enable`.

        Raises:
            SafetyError: the loop was started before.
        """
        if self._thread is not None:
            raise SafetyError("this control loop was started before; create a new one")
        self._thread = threading.Thread(target=self.run, name="control loop", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S, meanwhile: Callable[[], None] = nothing) -> None:
        """Stop and lower the arm, switch torque off, and end the loop, if it still runs.

        If an error has ended the loop, it is not raised here, but stored in `error`.

        Args:
            timeout_s: timeout on the arm's clock [s], see `succeeds_within`.
            meanwhile: called repeatedly until the loop has ended.

        Raises:
            SafetyError: the loop did not end in time; its thread still uses the port.
        """
        self._stop_requested = True
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():

            def ended(seconds: float) -> bool:
                meanwhile()
                thread.join(min(seconds, CHECK_INTERVAL_S))
                return not thread.is_alive()

            if not succeeds_within(self._clock, ended, timeout_s):
                raise SafetyError(f"the control loop did not end within {timeout_s} s; switch the arm's power off")

    def set_command(self, tau: FloatArray, stamp_s: float | None = None, held: bool = False) -> None:
        """Set the commanded joint torques, (n,) [N m]; a command older than the present one is refused.

        Args:
            tau: commanded torques, (n,) [N m]; the guard refuses other shapes and values that are not finite.
            stamp_s: time of the command on the arm's monotonic clock [s]; None for now.
            held: whether the sender of the command claims that it holds the arm still; a joint that then moves far is a
                fault.
        """
        self._cycle.set_command(tau, self._clock.monotonic_ns() * 1e-9 if stamp_s is None else stamp_s, held)

    def fault(self, text: str) -> None:
        """Stop the arm because of a fault that was found outside the loop; the fault latches until it is cleared."""
        self._cycle.pending_faults.append(text)

    def enable(self, timeout_s: float = 5.0) -> None:
        """Switch torque on and follow commands from then on; return when torque is on.

        Args:
            timeout_s: timeout on the arm's clock [s].

        Raises:
            SafetyError: the state of the guard or of the arm does not allow it (see `ArmCycle.enable`), the loop does
                not run, or the timeout is over.
            BusError: a servo did not switch its torque on.
        """
        self._ask(GuardEvent.ENABLE, timeout_s)

    def disable(self, timeout_s: float = STOP_TIMEOUT_S, meanwhile: Callable[[], None] = nothing) -> None:
        """Stop and lower the arm, and switch torque off; return when torque is off.

        Args:
            timeout_s: timeout on the arm's clock [s].
            meanwhile: called repeatedly until torque is off.

        Raises:
            SafetyError: the loop does not run, or the timeout is over before torque is off.
            BusError: the port is lost, or a servo did not confirm that its torque is off.
        """
        self._ask(GuardEvent.DISABLE, timeout_s, meanwhile)

    def clear_fault(self, timeout_s: float = 5.0) -> None:
        """Clear the latched fault, so that torque may be switched on again.

        Args:
            timeout_s: timeout on the arm's clock [s].

        Raises:
            SafetyError: the arm is enabled or still being stopped, the loop does not run, or the timeout is over.
        """
        self._ask(GuardEvent.CLEAR, timeout_s)

    def between_cycles(self, work: Callable[[], None], timeout_s: float) -> None:
        """Call `work` in the loop's thread between two cycles, where `work` may use the arm; return when it is done.

        Errors of `work` are raised in the calling thread.

        Raises:
            SafetyError: torque is on, the loop does not run, or `timeout_s` [s] has passed.
        """
        self._ask(work, timeout_s)

    def counts(self) -> CycleCounts:
        """Return the numbers of all, incomplete and late cycles so far, and the time of the count."""
        return self._meter.counts(self._clock.monotonic_ns())

    @property
    def complaint(self) -> str:
        """Text to put before the message of an aborted run if this machine missed many cycles; else "".

        The text contains the number of missed cycles, or RT throttling (the kernel's limit of real-time processor
        time) as their cause. Cycles that were missed because of the servos do not count.
        """
        return f"{self.throttling}; " if self.throttling else self._run_watch.complaint

    @property
    def throttling(self) -> str:
        """Message that RT throttling regularly stopped the loop: the kernel stops real-time programs that run too long.

        The message is "" if the loop has no real-time priority, if the kernel has no such limit, or if the loop's gaps
        do not recur with the limit's period.
        """
        return self._holes.text if self.fifo else ""

    def statistics(self) -> LoopStatistics:
        """Return counters and timing statistics of the loop since its start."""
        return self._meter.statistics(self._clock.monotonic_ns())

    def request(self, event: GuardEvent) -> "Future[None]":
        """Request ENABLE, DISABLE or CLEAR without waiting.

        The returned future completes when the loop has served the request; if that fails, the future contains the
        error.
        """
        return self._requests.post(event)

    def _ask(self, request: Request, timeout_s: float, meanwhile: Callable[[], None] = nothing) -> None:
        if not self.running:
            what = request.value if isinstance(request, GuardEvent) else "do that"
            raise SafetyError(f"cannot {what}: the control loop is not running")
        self._requests.ask(request, timeout_s, meanwhile)

    # -- the loop's thread -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the loop in the calling thread until it ends.

        `start` calls this in a new thread.
        """
        try:
            with (
                disable_garbage_collection(),
                bounded_timer_slack(),
                disable_cpu_idle(self._without_idle),
                fifo_scheduling(self._realtime_priority) as self.fifo,
            ):
                try:
                    self._loop()
                except Exception as error:
                    self.error = error
                    self._come_to_rest(error)
        except BaseException as error:
            self.error = self.error or error
        finally:
            try:
                self._finish()
            finally:
                self._clock.end_pacing()

    def _come_to_rest(self, error: Exception) -> None:
        """Stop and lower the arm because the loop failed with `error`, if torque is on and the bus is open.

        Nothing is done if the loop was created without `rest_after_failure`.
        """
        if self._rest_after_failure and self._cycle.torque_on and self.arm.bus.is_open:
            self._cycle.come_to_rest(f"the control loop failed: {error}", self._period_ns * 1e-9)

    def _finish(self) -> None:
        """Set zero current, switch torque off, and notify all waiting callers, because the loop has ended."""
        try:
            self.arm.disable()
        except Exception as error:
            causes = [str(one) for one in (self.error, self.guard.fault_text) if one and str(one) != str(error)]
            cause = f"; before that: {'; '.join(causes)}" if causes else ""
            unconfirmed = BusError(f"TORQUE MAY STILL BE ON: {error}{cause}")
            unconfirmed.__cause__ = self.error or error
            self.error = self.torque_off_unconfirmed = unconfirmed
        try:
            self._cycle.hand_over_previous()
        except Exception as error:
            self.error = self.error or error
        self._cycle.torque_on = False
        failure = self.error or SafetyError("the control loop was stopped")
        for waiter in self._torque_off_waiters:
            if self.error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(failure)
        self._requests.refuse_all(failure)
        if self._on_end is not None:
            self._on_end(self.error)

    def _loop(self) -> None:
        self.arm.begin_slow_polls()
        if self._aligned:
            self.arm.read()
        self._meter.started_ns = next_ns = self._clock.monotonic_ns()
        while True:
            self._clock.wait_until(next_ns, self._awaits_command)
            began_ns = self._clock.monotonic_ns()
            self._holes.note(began_ns)
            late_ns = began_ns - next_ns
            lost = self._lost_cycles(late_ns)
            complete = self._cycle.run(behind=late_ns > self._period_ns)
            self._meter.add(self._cycle.answered_ns - began_ns, late_ns, complete, skipped=lost)
            if self.guard.state is GuardState.ENABLED:
                self._run_watch.note(began_ns, self._meter)
            next_ns += (lost + 1) * self._period_ns
            if self._meter.cycles % YOUNG_COLLECTION_EVERY == 0:
                gc.collect(0)  # full collections are disabled; young garbage of other threads must not accumulate
            if not self._serve_requests():
                return

    def _awaits_command(self) -> bool:
        """Return whether the next cycle should wait for a late command.

        The cycle must not wait while a stop, a request or a fault is pending.
        """
        if self._stop_requested or self._requests.first is not None or self._cycle.pending_faults:
            return False
        return self._cycle.awaits_command()

    def _lost_cycles(self, late_ns: int) -> int:
        """Return the number of planned cycles that the loop must skip if it is `late_ns` [ns] late."""
        stopping = self._cycle.torque_on and self.guard.state is not GuardState.ENABLED
        longest_ns = (LONGEST_CATCH_UP_STOPPING_S if stopping else LONGEST_CATCH_UP_S) * 1e9
        return int((late_ns - longest_ns) // self._period_ns) + 1 if late_ns > longest_ns else 0

    def _serve_requests(self) -> bool:
        """Serve requests of other threads and switch torque off after a stop; return False when the loop must end."""
        if self._cycle.pending_faults:
            self._cycle.pass_faults_to_guard()
        while (first := self._requests.first) is not None:
            if first is GuardEvent.ENABLE and self._cycle.may_complete():
                break  # try again after the next cycle
            taken = self._requests.take()
            if taken is None:
                break
            request, done = taken
            try:
                self._serve(request, done)
            except BaseException as error:
                done.set_exception(error)
                if not isinstance(error, SafetyError | BusError):
                    raise
        if self._stop_requested and self.guard.state is GuardState.ENABLED:
            self.guard.handle(GuardEvent.DISABLE)
        self._cycle.switch_off_if_stopped()
        if not self._cycle.torque_on:
            for waiter in self._torque_off_waiters:
                waiter.set_result(None)
            self._torque_off_waiters.clear()
        return self._cycle.torque_on or not self._stop_requested

    def _serve(self, request: Request, done: "Future[None]") -> None:
        if request is GuardEvent.DISABLE:
            self.guard.handle(request)
            self._torque_off_waiters.append(done)
            return
        if request is GuardEvent.ENABLE:
            if self._stop_requested:
                raise SafetyError("cannot enable: the control loop is ending")
            before = self.guard.state
            self._cycle.enable()
            if before is not GuardState.ENABLED:
                self._run_watch.begin(self.counts())
        elif isinstance(request, GuardEvent):
            self.guard.handle(request)
        elif self._cycle.torque_on:
            raise SafetyError("not possible while torque is on: disable the arm first")
        else:
            request()
        done.set_result(None)
