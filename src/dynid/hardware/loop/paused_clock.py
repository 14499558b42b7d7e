"""Clock for simulated arms that pauses while the host delays a control cycle.

A busy host may stop processes for tens of milliseconds, at times for seconds. A real arm continues to move meanwhile; a
simulated arm need not. The driver's `PausedClock` divides time into cycles. At the start of a cycle, the arm's time
(named `held_ns` in this module) follows the system's monotonic clock. At 90 % of the cycle time, it pauses until the
next cycle begins; `ClockPage.arm_ticks` describes adapters for which it pauses earlier. The next cycle begins when it
is due, and when the replies of the servos, and the command for which the driver waits, have arrived. The simulated arm
reads the same time from a file that both processes map into memory (the clock page). So the arm does not move while the
driver or the sender of commands is late.

A process that has ended does not stop the arm's time: the driver waits for a reply or a command only until a timeout.
Time in which the host has stalled the driver does not count. When a driver ends, the system unlocks its clock page, and
the simulated arm makes the time continue. A driver that exists but does nothing stops the arm's time.
"""

import fcntl
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dynid.errors import ConfigurationError, InputNotFoundError, OutputExistsError, SafetyError
from dynid.hardware.bus.clock import Clock
from dynid.hardware.bus.simulated_line import is_simulated_port

# Timeouts for a servo's reply and for a command; the second value applies for KEPT_UP_CYCLES cycles after a timeout.
REPLY_PATIENCE_S, REPLY_PATIENCE_AFTER_S = 1.0, 0.02
COMMANDER_PATIENCE_S, COMMANDER_PATIENCE_AFTER_S = 2.0, 0.0
KEPT_UP_CYCLES = 1000
# longest time between two checks that counts towards a timeout: a longer one is a stall of the host
LONGEST_CHECK_INTERVAL_S = 0.01
DRIVER_GONE_S = 0.25  # time beyond the end of a cycle after which the simulated arm checks for a driver
LOCK_TIMEOUT_S = 1.0  # wait for the lock, which a check for a driver holds briefly
LONGEST_SHARE = 0.9  # longest advance of the arm's time within a cycle, as a share of the period
# largest delay of a cycle's start, as a share of the period; a cycle that begins later is counted from its late start
TOLERATED_SHARE = 0.5
CHECK_INTERVAL_S = 0.0001  # interval between two checks while waiting
NEVER_PAUSES_NS = 2**62  # length of a cycle in which the arm's time never pauses
# One cycle: its start by the system's and by the arm's time, and the longest advance of the arm's time [ns].
_CYCLE = struct.Struct("<qqq")
# Layout of the clock file: number of the present cycle (0 before the first), one slot for even and one for odd cycle
# numbers, then the values that the arm writes.
_ARM, _TICK_AT, _UNTIL_AT = struct.Struct("<q"), 56, 64
_SIZE = _UNTIL_AT + _ARM.size
ARM_TICK_SHARE = 0.15  # upper bound of the driver's own time in a cycle, as a share of an adapter's tick
LAST_NUMBER = 254  # even, so that its successor, 1, is odd


class ClockPage:
    """Memory-mapped file with the time of a simulated arm, shared between processes.

    Several processes read the time; the driver, which locks the file, sets it. Until the first control cycle has begun,
    the time is that of the system's monotonic clock. After the driver has ended, the time continues from its last
    value.

    Args:
        path: path of the file.
        create: whether to create the file, for this user alone; if not, it must exist.

    Attributes:
        path: path of the file.

    Raises:
        OutputExistsError: the file to create exists.
        InputNotFoundError: the file to open does not exist.
        ConfigurationError: the file is not the clock of a simulated arm.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path, self._owned = path, create
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if create else 0)
        try:
            self._file = open(path, "r+b", buffering=0, opener=lambda name, _: os.open(name, flags, 0o600))
        except FileExistsError:
            raise OutputExistsError(f"{path} exists; name a new file for the clock") from None
        except OSError as error:
            raise InputNotFoundError(f"no clock of a simulated arm at {path}: {error.strerror}") from None
        try:
            if create:
                self._file.truncate(_SIZE)
            if os.fstat(self._file.fileno()).st_size != _SIZE:
                raise ConfigurationError(f"{path} is not the clock of a simulated arm; expected {_SIZE} bytes")
            self._memory = mmap.mmap(self._file.fileno(), _SIZE)
        except BaseException:
            self._file.close()
            raise

    def take(self) -> None:
        """Lock the clock's file for this process, which then sets the arm's time.

        The system releases the lock when the process ends, even if it is killed.

        Raises:
            ConfigurationError: another driver has locked the file.
        """
        deadline_ns = time.monotonic_ns() + int(LOCK_TIMEOUT_S * 1e9)
        while not self._try_lock():  # a check for a driver holds the lock briefly
            if time.monotonic_ns() > deadline_ns:
                raise ConfigurationError(f"another driver uses the clock {self.path}; expected one driver per arm")
            time.sleep(CHECK_INTERVAL_S)

    def monotonic_ns(self) -> int:
        """Return the simulated arm's time [ns]."""
        return self.read_times()[0]

    def read_times(self) -> tuple[int, int, bool]:
        """Return the simulated arm's time [ns], the system's time [ns], and whether the arm's time is paused.

        If the driver has ended while the arm's time was paused, the process that created the file makes the time
        continue.
        """
        cycle = self._read()
        now_ns = time.monotonic_ns()  # after reading: a cycle that begins in between cannot be ahead of this time
        if cycle is None:
            return now_ns, now_ns, False
        wall_ns, held_ns, cap_ns = cycle
        cap_ns = max(cap_ns, self._arm_value(_UNTIL_AT) - held_ns)
        elapsed_ns = now_ns - wall_ns
        if elapsed_ns < cap_ns:
            return held_ns + elapsed_ns, now_ns, False
        if self._owned and elapsed_ns > cap_ns + int(DRIVER_GONE_S * 1e9):
            self._continue_without_driver(now_ns, held_ns + cap_ns)
        return held_ns + cap_ns, now_ns, True

    def arm_ticks(self, tick_ns: int) -> None:
        """Announce that the simulated arm's adapter delivers replies at ticks every `tick_ns` [ns]; called by the arm.

        In each control cycle, the arm's time then pauses after a small fraction of a tick, however long the driver's
        own work takes. While the driver waits for a reply, the arm allows its time to continue until the delivery of
        the reply, see `leave_time_until`. So the driver does not miss a tick because the host delays it, but only if
        the bytes of its requests and replies take longer on the line than the time between two ticks.
        """
        _ARM.pack_into(self._memory, _TICK_AT, tick_ns)

    def leave_time_until(self, held_ns: int) -> None:
        """Postpone the next pause of the arm's time to `held_ns` in the arm's time [ns], if it would begin before that.

        The simulated arm calls this with the moment at which its adapter delivers the next reply, for which the driver
        waits.
        """
        _ARM.pack_into(self._memory, _UNTIL_AT, held_ns)

    @property
    def tick_ns(self) -> int:
        """Interval of the ticks at which the simulated arm's adapter delivers replies [ns]; 0 without ticks."""
        return self._arm_value(_TICK_AT)

    @property
    def pausing(self) -> bool:
        """Whether the arm's time pauses if the present control cycle takes too long.

        The value is False before the first cycle, after the last cycle, and in a cycle in which a wait has timed out.
        """
        cycle = self._read()
        return cycle is not None and cycle[2] != NEVER_PAUSES_NS

    def paused_s(self) -> float:
        """Return the delay of the arm's time behind the system's time [s]."""
        held_ns, now_ns, _ = self.read_times()
        return (now_ns - held_ns) * 1e-9

    def wall_ns(self, held_ns: int) -> int:
        """Convert a moment of the arm's time, `held_ns` [ns], to the system's time [ns].

        The result is correct if the arm's time does not pause between the start of the present cycle and this moment.
        """
        cycle = self._read()
        return held_ns if cycle is None else cycle[0] + held_ns - cycle[1]

    def begin(self, wall_ns: int, held_ns: int, cap_ns: int) -> None:
        """Begin a control cycle of the simulated arm.

        Args:
            wall_ns: system's time at the start of the cycle [ns].
            held_ns: arm's time at the start of the cycle [ns].
            cap_ns: duration after which the arm's time pauses if no new cycle has begun [ns].
        """
        number = self._memory[0] % LAST_NUMBER + 1
        _CYCLE.pack_into(self._memory, self._offset(number), wall_ns, held_ns, cap_ns)
        self._memory[0] = number  # readers used the other slot until here

    def close(self) -> None:
        """Unmap and unlock the clock's file; the process that created the file also removes it."""
        self._memory.close()
        self._file.close()
        if self._owned:
            self.path.unlink(missing_ok=True)

    def _continue_without_driver(self, now_ns: int, held_ns: int) -> None:
        """Make the arm's time continue if its driver has ended, so that the watchdogs of the servos trip.

        Args:
            now_ns: system's time [ns].
            held_ns: arm's time, at which it is paused [ns].
        """
        if self._try_lock():
            self.begin(now_ns, held_ns, NEVER_PAUSES_NS)
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _read(self) -> tuple[int, int, int] | None:
        """Return the arguments `wall_ns`, `held_ns` and `cap_ns` [ns] with which `begin` began the present cycle.

        The three values belong to the same cycle. The result is None before the first cycle.
        """
        while number := self._memory[0]:
            cycle: tuple[int, int, int] = _CYCLE.unpack_from(self._memory, self._offset(number))
            if self._memory[0] == number:
                return cycle
        return None

    def _arm_value(self, offset: int) -> int:
        return int(_ARM.unpack_from(self._memory, offset)[0])

    @staticmethod
    def _offset(number: int) -> int:
        return 1 + number % 2 * _CYCLE.size


class _AdaptiveTimeout:
    """Timeout of the waits in control cycles for replies or commands of another process, which may have ended.

    After a wait has timed out, a shorter timeout applies until `KEPT_UP_CYCLES` consecutive cycles have passed without
    a timeout. So a process that has ended delays one cycle by the long timeout, and later cycles by the short one.

    Each interval between two calls of `exhausted` counts with at most `LONGEST_CHECK_INTERVAL_S`, because a longer
    interval is a stall of the host, which must not use up the timeout.
    """

    def __init__(self, usual_s: float, after_s: float) -> None:
        self._usual_s, self._after_s, self._kept_up_cycles = usual_s, after_s, KEPT_UP_CYCLES
        self.begin_cycle()

    def begin_cycle(self) -> None:
        self._watched_ns, self._last_call_ns = 0, -1
        self._kept_up_cycles += 1

    def exhausted(self, now_ns: int) -> bool:
        """Add the time since the previous call to the waited time; return whether the wait has timed out.

        `now_ns` is the present system time [ns].
        """
        if self._last_call_ns >= 0:
            self._watched_ns += min(now_ns - self._last_call_ns, int(LONGEST_CHECK_INTERVAL_S * 1e9))
        self._last_call_ns = now_ns
        limit_s = self._usual_s if self._kept_up_cycles >= KEPT_UP_CYCLES else self._after_s
        if self._watched_ns < limit_s * 1e9:
            return False
        self._kept_up_cycles = 0
        return True


class PausedClock(Clock):
    """Clock with which a driver sets the time of a simulated arm; this time pauses while a control cycle is delayed.

    Args:
        page: clock file shared with the simulated arm; it is locked, see `ClockPage.take`, and closed by `close`.
        period_s: period of the control cycle [s], until `pace` changes it.

    Raises:
        ConfigurationError: another driver has locked the clock file.
    """

    def __init__(self, page: ClockPage, period_s: float) -> None:
        self._page = page
        self.pace(round(period_s * 1e9))
        self._mutex = threading.Lock()  # other threads read the time, too, and a read may let it continue
        self._reply_timeout = _AdaptiveTimeout(REPLY_PATIENCE_S, REPLY_PATIENCE_AFTER_S)
        self._command_timeout = _AdaptiveTimeout(COMMANDER_PATIENCE_S, COMMANDER_PATIENCE_AFTER_S)
        page.take()

    def monotonic_ns(self) -> int:
        """Return the arm's time [ns], which pauses while a control cycle is delayed, and which never steps."""
        with self._mutex:
            held_ns, now_ns, paused = self._page.read_times()
            if paused and self._reply_timeout.exhausted(now_ns):
                self._page.begin(now_ns, held_ns, NEVER_PAUSES_NS)
            return held_ns

    def line_ns(self) -> int:
        """Return the system's time [ns], which measures the duration of transfers on the serial line.

        On the arm's clock, which may pause during a transfer, a reply could look faster than the baud rate allows, and
        would be discarded.
        """
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds` [s], and advance the arm's time by the same duration."""
        held, awake_ns = self._page.pausing, self.monotonic_ns() + round(seconds * 1e9)
        time.sleep(max(0.0, seconds))
        if held:
            self._begin_at(time.monotonic_ns(), awake_ns, self._cap_ns)

    def wait_until(self, deadline_ns: int, awaits: Callable[[], bool]) -> None:
        """Wait until a moment of the arm's time, and begin a control cycle.

        Args:
            deadline_ns: start of the cycle in the arm's time [ns].
            awaits: function that returns whether an input of the cycle is still missing; the arm's time pauses until
                the input arrives, or a timeout is over.
        """
        before_ns = self.monotonic_ns()
        due_ns = self._page.wall_ns(deadline_ns)
        if (left_ns := due_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns * 1e-9)
        self._command_timeout.begin_cycle()
        while awaits() and not self._command_timeout.exhausted(time.monotonic_ns()):
            time.sleep(CHECK_INTERVAL_S)
        now_ns = time.monotonic_ns()
        in_time = before_ns < deadline_ns and now_ns - due_ns <= self._tolerated_delay_ns
        # the arm's time continued while a process stalled too long; that process catches up cycle by cycle
        self._begin_at(due_ns if in_time else now_ns, deadline_ns, self._cap_ns)

    def pace(self, period_ns: int) -> None:
        """Set the period of the following control cycles [ns]."""
        self._cap_ns, self._tolerated_delay_ns = (
            round(share * period_ns) for share in (LONGEST_SHARE, TOLERATED_SHARE)
        )

    def end_pacing(self) -> None:
        """Make the arm's time continue without pauses, because no further control cycles follow."""
        self._begin_at(time.monotonic_ns(), 0, NEVER_PAUSES_NS)

    def close(self) -> None:
        """Close the clock file; the arm's time continues for the other processes."""
        self._page.close()

    def _begin_at(self, wall_ns: int, earliest_ns: int, cap_ns: int) -> None:
        """Begin a control cycle at the arm's time `earliest_ns`, or at the arm's present time if that is later.

        The arm's time therefore never steps back.

        Args:
            wall_ns: system's time at the start of the cycle [ns].
            earliest_ns: lower bound of the arm's time at the start of the cycle [ns].
            cap_ns: duration after which the arm's time pauses if no new cycle has begun [ns].
        """
        tick_ns = self._page.tick_ns
        if tick_ns and cap_ns == self._cap_ns:
            cap_ns = round(ARM_TICK_SHARE * tick_ns)
        with self._mutex:
            self._page.begin(wall_ns, max(earliest_ns, self._page.monotonic_ns()), cap_ns)
            self._reply_timeout.begin_cycle()


def open_paused_clock(path: Path, port: str, period_s: float) -> PausedClock:
    """Return the clock of the simulated arm behind a port; this clock pauses while a control cycle is delayed.

    Args:
        path: clock file that the simulated arm has created, see `ClockPage`.
        port: path of the serial device.
        period_s: period of the control cycle [s].

    Raises:
        SafetyError: the arm behind the port is not simulated; a real arm's time cannot pause.
        InputNotFoundError: the clock file does not exist.
        ConfigurationError: the file is not the clock of a simulated arm, or another driver has locked it.
    """
    if not is_simulated_port(port):
        raise SafetyError(
            f"clock_file is {path}, but the arm behind {port} is real and does not wait: leave clock_file empty"
        )
    page = ClockPage(path)
    try:
        return PausedClock(page, period_s)
    except ConfigurationError:
        page.close()
        raise
