"""The control loop: cycle after cycle in a thread of its own, paced by absolute deadlines.

A node starts the loop, gives it commands, and publishes what the callback receives.
"""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future

from dynid.errors import BusError, SafetyError
from dynid.hardware.arm.cycle_rate import SLOW_POLL_S
from dynid.hardware.arm.dynamixel_arm import ArmSample, DynamixelArm
from dynid.hardware.bus.clock import wait_in_time
from dynid.hardware.loop.arm_cycle import ArmCycle
from dynid.hardware.loop.cycle_meter import CycleCounts, CycleMeter, LoopStatistics
from dynid.hardware.loop.rate_trial import RunWatch
from dynid.hardware.loop.realtime import bounded_timer_slack, disable_cpu_idle, fifo_scheduling, quiet_interpreter
from dynid.hardware.loop.realtime_limit import HoleWatch
from dynid.hardware.loop.request_queue import LOOK_S, Request, RequestQueue, nothing
from dynid.hardware.safety.guard import GuardResult, SafetyGuard
from dynid.hardware.safety.guard_states import GuardEvent, GuardState
from dynid.hardware.startup.realtime_permission import read_limit
from dynid.robot import FloatArray

# After standstills of the host, planned cycles are run late, back to back, rather than left out: each reads the state
# of its moment and answers the newest command. Only a loop that stays farther behind than this leaves cycles out.
LONGEST_CATCH_UP_S = 0.5
LONGEST_CATCH_UP_STOPPING_S = 0.02  # a stop counts its time in cycles
YOUNG_COLLECTION_EVERY = 100
STOP_TIMEOUT_S = 32.0  # longer than the longest stop of an arm that is lowered until it comes to rest


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
        disable_cpu_idle: keep processors out of idle states while the loop runs, where that is permitted.
        slow_poll_every: one piece of slow data is read every so many cycles; 0 never, None as `SLOW_POLL_S` says. A
            loop that is late leaves it for later, up to `LONGEST_SLOW_POLL_DELAY` times as long.
        feedback_timeout_s: reads that miss a servo for so long are a fault, while torque is on.
        rest_after_failure: bring the arm to rest, as after a fault, when an exception ends the loop.
        aligned: begin when a reply arrives: behind an adapter with ticks, requests then have a whole tick.
        times_off: how often torque was switched off before, by loops of the same driver.

    Attributes:
        error: what ended the loop, None while it runs or if it was stopped.
        torque_off_unconfirmed: set before `on_end` is called if the last attempt to switch torque off failed: the arm
            may still be under torque. Then it is `error` as well, and names what ended the loop.
        fifo: whether SCHED_FIFO is in force.
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
        self._holes = HoleWatch(self._period_ns, read_limit())
        self._clock.pace(self._period_ns)
        if slow_poll_every is None:
            slow_poll_every = max(1, round(SLOW_POLL_S * 1e9 / self._period_ns))
        self._cycle = ArmCycle(arm, guard, self._meter, on_cycle, on_waiting, slow_poll_every, feedback_timeout_s)
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
        """The guard's last decision."""
        return self._cycle.last_result

    @property
    def times_off(self) -> int:
        """How often torque was switched off."""
        return self._cycle.times_off

    def start(self) -> None:
        """Start the loop; torque stays off until `enable`. A loop runs once; a second start raises SafetyError."""
        if self._thread is not None:
            raise SafetyError("this control loop was started before; create a new one")
        self._thread = threading.Thread(target=self.run, name="control loop", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S, meanwhile: Callable[[], None] = nothing) -> None:
        """Stop the arm, let it down, switch torque off, and end the loop; more than once does no harm.

        The error that ended the loop, if any, is in `error`. The time is the arm's, see `wait_in_time`. `meanwhile` is
        called again and again until the loop has ended.

        Raises:
            SafetyError: the loop did not end in time; its thread still uses the port.
        """
        self._stop_requested = True
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():

            def ended(seconds: float) -> bool:
                meanwhile()
                thread.join(min(seconds, LOOK_S))
                return not thread.is_alive()

            if not wait_in_time(self._clock, ended, timeout_s):
                raise SafetyError(f"the control loop did not end within {timeout_s} s; switch the arm's power off")

    def set_command(self, tau: FloatArray, stamp_s: float | None = None, held: bool = False) -> None:
        """Hand over joint torques, (n,) [N m]; the newest one counts, an older one is refused.

        Args:
            tau: the torques; what is not n finite numbers is refused by the guard.
            stamp_s: when the command was given, on the arm's monotonic clock [s]; None is now.
            held: whether whoever commands says that it holds the arm: a joint that then moves far is a fault.
        """
        self._cycle.set_command(tau, self._clock.monotonic_ns() * 1e-9 if stamp_s is None else stamp_s, held)

    def fault(self, text: str) -> None:
        """Stop the arm by a fault that was found outside of the loop; it latches until it is cleared."""
        self._cycle.pending_faults.append(text)

    def enable(self, timeout_s: float = 5.0) -> None:
        """Switch torque on and follow commands; returns when it is on.

        Raises:
            SafetyError: not possible in the present state, or no complete reading of the arm.
            BusError: a servo did not switch its torque on.
        """
        self._ask(GuardEvent.ENABLE, timeout_s)

    def disable(self, timeout_s: float = STOP_TIMEOUT_S, meanwhile: Callable[[], None] = nothing) -> None:
        """Stop the arm, let it down and switch torque off; returns when it is off.

        `meanwhile` is called again and again until then.
        """
        self._ask(GuardEvent.DISABLE, timeout_s, meanwhile)

    def clear_fault(self, timeout_s: float = 5.0) -> None:
        """Leave the fault state; SafetyError while the arm is still being stopped."""
        self._ask(GuardEvent.CLEAR, timeout_s)

    def between_cycles(self, work: Callable[[], None], timeout_s: float) -> None:
        """Have the loop's thread do something with the arm between two cycles; returns when it is done.

        Raises:
            SafetyError: torque is on, or the loop does not run. What the work itself raises is raised, too.
        """
        self._ask(work, timeout_s)

    def counts(self) -> CycleCounts:
        """Return how many cycles ran so far, and when that is."""
        return self._meter.counts(self._clock.monotonic_ns())

    @property
    def complaint(self) -> str:
        """What is to be said first of a run that was given up: why this machine missed cycles; "" if it did not."""
        return f"{self.throttling}; " if self.throttling else self._run_watch.complaint

    @property
    def throttling(self) -> str:
        """That the kernel stopped real-time programs once in each of its periods; "" unless holes show that."""
        return self._holes.text if self.fifo else ""

    def statistics(self) -> LoopStatistics:
        """Counters and times so far."""
        return self._meter.statistics(self._clock.monotonic_ns())

    def request(self, event: GuardEvent) -> "Future[None]":
        """Ask for ENABLE, DISABLE or CLEAR without waiting; the future completes when served, or fails."""
        return self._requests.post(event)

    def _ask(self, request: Request, timeout_s: float, meanwhile: Callable[[], None] = nothing) -> None:
        if not self.running:
            what = request.value if isinstance(request, GuardEvent) else "do that"
            raise SafetyError(f"cannot {what}: the control loop is not running")
        self._requests.ask(request, timeout_s, meanwhile)

    # -- the loop's thread -------------------------------------------------------------------------------------

    def run(self) -> None:
        """What `start` runs in its thread; lock-step runs call it in their own."""
        try:
            with (
                quiet_interpreter(),
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
                self._clock.let_go()

    def _come_to_rest(self, error: Exception) -> None:
        """What failed need not be the arm: stop it well, as long as it can be reached."""
        if self._rest_after_failure and self._cycle.torque_on and self.arm.bus.is_open:
            self._cycle.come_to_rest(f"the control loop failed: {error}", self._period_ns * 1e-9)

    def _finish(self) -> None:
        """Zero current and torque off, whatever happened before; all waiting callers are notified."""
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
                gc.collect(0)  # full collections are off; young garbage of other threads must not pile up
            if not self._serve_requests():
                return

    def _awaits_command(self) -> bool:
        """Whether a command is worth waiting for: not where there is something to do about the arm."""
        if self._stop_requested or self._requests.first is not None or self._cycle.pending_faults:
            return False
        return self._cycle.awaits_command()

    def _lost_cycles(self, late_ns: int) -> int:
        """How many planned cycles are left out by a loop that is so late [ns]."""
        stopping = self._cycle.torque_on and self.guard.state is not GuardState.ENABLED
        longest_ns = (LONGEST_CATCH_UP_STOPPING_S if stopping else LONGEST_CATCH_UP_S) * 1e9
        return int((late_ns - longest_ns) // self._period_ns) + 1 if late_ns > longest_ns else 0

    def _serve_requests(self) -> bool:
        """Between two cycles: requests of other threads, torque off after a stop; False when the loop shall end."""
        self._cycle.take_up_faults()
        while (first := self._requests.first) is not None:
            if first is GuardEvent.ENABLE and self._cycle.may_complete():
                break  # look again after the next cycle
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
