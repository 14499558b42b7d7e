"""A clock for simulated arms that is paused while the host keeps a control cycle waiting.

A shared host may not run a process, or all of them, for tens of milliseconds and at times for seconds. A real arm moves
on meanwhile; a simulated one need not. The driver's `PausedClock` divides time into cycles: within one it goes with the
system's monotonic clock, but no farther than a cycle can take; the next begins when everything that it needs has
arrived. The simulated arm reads the same time from a page of memory that both have mapped, so that neither moves while
the other, or the commander, is late.

Time goes on without somebody who is gone. That an answer does not come is judged by the time that the driver has
watched for it, and while the host stands still, nobody watches; that there is no driver, by its lock on the page. A
driver that is there and does nothing holds the arm for as long as it is there.
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

# Watched for a reply of the servos, and for a command; and after that was in vain, until nobody was for so many cycles
REPLY_PATIENCE_S, REPLY_PATIENCE_AFTER_S = 1.0, 0.02
COMMANDER_PATIENCE_S, COMMANDER_PATIENCE_AFTER_S = 2.0, 0.0
KEPT_UP_CYCLES = 1000
LONGEST_LOOK_S = 0.01  # between two looks; what is longer, nobody was there to watch
DRIVER_GONE_S = 0.25  # so long a cycle lasts before the simulated arm asks whether there is a driver
LOCK_TIMEOUT_S = 1.0
LONGEST_SHARE = 0.9  # of a cycle: so far time goes within it
BEARABLE_SHARE = 0.5  # of a cycle: a beginning that is so late still leaves it time enough
LOOK_S = 0.0001
UNHELD_NS = 2**62  # a cycle that is as long as this holds nothing
# When a cycle began by the system's and by the held time, and how long that may go on [ns]
_CYCLE = struct.Struct("<qqq")
# The present cycle's number (0: none began yet), places for even and odd ones, and what the arm says (see `arm_ticks`)
_ARM, _TICK_AT, _UNTIL_AT = struct.Struct("<q"), 56, 64
_SIZE = _UNTIL_AT + _ARM.size
ARM_TICK_SHARE = 0.15  # of an adapter's tick: a driver needs no longer for its part of a cycle
LAST_NUMBER = 254  # even, so that the number behind it is odd


class ClockPage:
    """The held time, where several processes read it and the one that has locked it, the driver, sets it.

    Until the first cycle has begun it is the system's monotonic clock. Without a driver it goes on, from where it was.

    Args:
        path: file of the page.
        create: make it, for this user alone; without it the file must be one that was made so.

    Raises:
        OutputExistsError: there is a file to be created.
        InputNotFoundError: there is none to be opened.
        ConfigurationError: the file is not such a page.
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
        """From now on this page's time is set here; the system ends that with the process, however it ends.

        Raises:
            ConfigurationError: another driver sets it.
        """
        given_up_ns = time.monotonic_ns() + int(LOCK_TIMEOUT_S * 1e9)
        while not self._try_lock():  # who only looks whether there is a driver has it for a moment
            if time.monotonic_ns() > given_up_ns:
                raise ConfigurationError(f"another driver uses the clock {self.path}; expected one driver per arm")
            time.sleep(LOOK_S)

    def monotonic_ns(self) -> int:
        """The held time [ns]."""
        return self.look()[0]

    def look(self) -> tuple[int, int, bool]:
        """The held time and the system's [ns], and whether the held one stands still.

        Who has made the page lets it go on where it stands still and there is no driver.
        """
        cycle = self._read()
        now_ns = time.monotonic_ns()  # behind the reading: another cycle may begin between, none that is ahead of this
        if cycle is None:
            return now_ns, now_ns, False
        wall_ns, held_ns, cap_ns = cycle
        cap_ns = max(cap_ns, self._arm_said(_UNTIL_AT) - held_ns)
        elapsed_ns = now_ns - wall_ns
        if elapsed_ns < cap_ns:
            return held_ns + elapsed_ns, now_ns, False
        if self._owned and elapsed_ns > cap_ns + int(DRIVER_GONE_S * 1e9):
            self._go_on_without_driver(now_ns, held_ns + cap_ns)
        return held_ns + cap_ns, now_ns, True

    def arm_ticks(self, tick_ns: int) -> None:
        """Said by the arm: its adapter hands replies over by ticks of its own, for which it leaves time itself [ns].

        A cycle then ends soon, and goes on for as long as the arm says: a driver that is late on its host misses no
        tick, and one whose requests do not fit between two ticks does.
        """
        _ARM.pack_into(self._memory, _TICK_AT, tick_ns)

    def leave_time_until(self, held_ns: int) -> None:
        """Said by the arm: whatever the driver does, time goes on up to this moment of the held time [ns]."""
        _ARM.pack_into(self._memory, _UNTIL_AT, held_ns)

    @property
    def tick_ns(self) -> int:
        """See `arm_ticks`; 0 for a direct line."""
        return self._arm_said(_TICK_AT)

    @property
    def pausing(self) -> bool:
        """Whether cycles begin by which the time pauses."""
        cycle = self._read()
        return cycle is not None and cycle[2] != UNHELD_NS

    def paused_s(self) -> float:
        """By how much the held time is behind the system's [s]."""
        held_ns, now_ns, _ = self.look()
        return (now_ns - held_ns) * 1e-9

    def wall_ns(self, held_ns: int) -> int:
        """What the system's clock says at a held time [ns], if nothing holds that up from now on."""
        cycle = self._read()
        return held_ns if cycle is None else cycle[0] + held_ns - cycle[1]

    def begin(self, wall_ns: int, held_ns: int, cap_ns: int) -> None:
        """A cycle begins: the held time is `held_ns` at the system's `wall_ns`, and goes on for at most `cap_ns`."""
        number = self._memory[0] % LAST_NUMBER + 1
        _CYCLE.pack_into(self._memory, self._offset(number), wall_ns, held_ns, cap_ns)
        self._memory[0] = number  # until now, readers took the other place

    def close(self) -> None:
        """Unmap the page, and unlock it; who made the file removes it."""
        self._memory.close()
        self._file.close()
        if self._owned:
            self.path.unlink(missing_ok=True)

    def _go_on_without_driver(self, now_ns: int, held_ns: int) -> None:
        """So that the watchdogs of servos trip, whose driver was killed."""
        if self._try_lock():
            self.begin(now_ns, held_ns, UNHELD_NS)
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _read(self) -> tuple[int, int, int] | None:
        """The present cycle, never half of one and half of another; None before the first."""
        while number := self._memory[0]:
            cycle: tuple[int, int, int] = _CYCLE.unpack_from(self._memory, self._offset(number))
            if self._memory[0] == number:
                return cycle
        return None

    def _arm_said(self, offset: int) -> int:
        return int(_ARM.unpack_from(self._memory, offset)[0])

    @staticmethod
    def _offset(number: int) -> int:
        return 1 + number % 2 * _CYCLE.size


class _Patience:
    """How long somebody is waited for: long, but only briefly after a recent wait without success.

    What counts is the time that was watched by somebody who looks now and then; where the host stood still, nobody did.
    """

    def __init__(self, usual_s: float, after_s: float) -> None:
        self._usual_s, self._after_s, self._kept_up_cycles = usual_s, after_s, KEPT_UP_CYCLES
        self.begin_cycle()

    def begin_cycle(self) -> None:
        self._watched_ns, self._looked_ns = 0, -1
        self._kept_up_cycles += 1

    def exhausted(self, now_ns: int) -> bool:
        """Look once more, at the system's `now_ns` [ns]; whether it was long enough."""
        if self._looked_ns >= 0:
            self._watched_ns += min(now_ns - self._looked_ns, int(LONGEST_LOOK_S * 1e9))
        self._looked_ns = now_ns
        limit_s = self._usual_s if self._kept_up_cycles >= KEPT_UP_CYCLES else self._after_s
        if self._watched_ns < limit_s * 1e9:
            return False
        self._kept_up_cycles = 0
        return True


class PausedClock(Clock):
    """The driver's side of a held time.

    Args:
        page: shared with the simulated arm; it is taken, see `ClockPage.take`, and closed by `close`.
        period_s: the control cycle [s], until `pace` says another.

    Raises:
        ConfigurationError: another driver holds it.
    """

    def __init__(self, page: ClockPage, period_s: float) -> None:
        self._page = page
        self.pace(round(period_s * 1e9))
        self._mutex = threading.Lock()  # other threads ask for the time, too, and whoever asks may let it go on
        self._for_reply = _Patience(REPLY_PATIENCE_S, REPLY_PATIENCE_AFTER_S)
        self._for_command = _Patience(COMMANDER_PATIENCE_S, COMMANDER_PATIENCE_AFTER_S)
        page.take()

    def monotonic_ns(self) -> int:
        """Time that never steps [ns]; it pauses while a cycle is stalled."""
        with self._mutex:
            held_ns, now_ns, stands = self._page.look()
            if stands and self._for_reply.exhausted(now_ns):
                self._page.begin(now_ns, held_ns, UNHELD_NS)
            return held_ns

    def line_ns(self) -> int:
        """The system's time [ns]: the wire of a simulated line keeps it, and a reply must not look early."""
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        """Let time pass [s]: who sleeps holds nothing up."""
        held, awake_ns = self._page.pausing, self.monotonic_ns() + round(seconds * 1e9)
        time.sleep(max(0.0, seconds))
        if held:
            self._begin_at(time.monotonic_ns(), awake_ns, self._cap_ns)

    def wait_until(self, deadline_ns: int, awaits: Callable[[], bool]) -> None:
        """Begin a cycle: return at a moment [ns], or as soon after it as nothing is awaited any more."""
        before_ns = self.monotonic_ns()
        due_ns = self._page.wall_ns(deadline_ns)
        if (left_ns := due_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns * 1e-9)
        self._for_command.begin_cycle()
        while awaits() and not self._for_command.exhausted(time.monotonic_ns()):
            time.sleep(LOOK_S)
        now_ns = time.monotonic_ns()
        in_time = before_ns < deadline_ns and now_ns - due_ns <= self._bearable_ns
        # time had gone on without a process that was away for too long: it catches up cycle by cycle
        self._begin_at(due_ns if in_time else now_ns, deadline_ns, self._cap_ns)

    def pace(self, period_ns: int) -> None:
        """From now on cycles last so long [ns]."""
        self._cap_ns, self._bearable_ns = (round(share * period_ns) for share in (LONGEST_SHARE, BEARABLE_SHARE))

    def let_go(self) -> None:
        """No more cycles begin: time goes on by itself."""
        self._begin_at(time.monotonic_ns(), 0, UNHELD_NS)

    def close(self) -> None:
        """Leave the time to others, who see it go on."""
        self._page.close()

    def _begin_at(self, wall_ns: int, earliest_ns: int, cap_ns: int) -> None:
        """Begin a cycle at a held time [ns], or at the present one where that is later: it never steps back."""
        tick_ns = self._page.tick_ns
        if tick_ns and cap_ns == self._cap_ns:
            cap_ns = round(ARM_TICK_SHARE * tick_ns)
        with self._mutex:
            self._page.begin(wall_ns, max(earliest_ns, self._page.monotonic_ns()), cap_ns)
            self._for_reply.begin_cycle()


def open_paused_clock(path: Path, port: str, period_s: float) -> PausedClock:
    """The time of the simulated arm behind a port, by the page that the arm has made, for control cycles of `period_s`.

    Raises:
        SafetyError: the port is none of a simulated arm; a real one does not wait.
        InputNotFoundError, ConfigurationError: see `ClockPage` and its `take`.
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
