"""A clock for simulated arms whose time is held while the host keeps a control cycle waiting.

A shared host may not run a process for tens of milliseconds. A real arm moves on meanwhile; a simulated one need not.
The driver's `HeldClock` divides time into cycles: within one it goes with the system's monotonic clock, but no farther
than a cycle can take; the next begins when everything that it needs has arrived. The simulated arm reads the same time
from a page of memory that both have mapped, so that neither moves while the other, or the commander, is late.

A wait that lasts longer than `PATIENCE_S` is no hold-up: somebody is gone, and time goes on.
"""

import mmap
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

from dynid.errors import ConfigurationError, InputNotFoundError, OutputExistsError
from dynid.hardware.clock import Clock

PATIENCE_S = 0.25
LONGEST_SHARE = 0.9  # of a cycle: so far time goes within it
BEARABLE_SHARE = 0.5  # of a cycle: a beginning that is so late still leaves it time enough
LOOK_S = 0.0001
# When a cycle began by the system's and by the held time, and how long that may go on [ns]
_CYCLE = struct.Struct("<qqq")
_SIZE = 1 + 2 * _CYCLE.size  # the present cycle's number (0: none began yet), and places for even and odd ones
LAST_NUMBER = 254  # even, so that the number behind it is odd


class ClockPage:
    """The held time, where several processes read it and one sets it.

    Until the first cycle has begun it is the system's monotonic clock.

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
            descriptor = os.open(path, flags, 0o600)
        except FileExistsError:
            raise OutputExistsError(f"{path} exists; name a new file for the clock") from None
        except OSError as error:
            raise InputNotFoundError(f"no clock of a simulated arm at {path}: {error.strerror}") from None
        try:
            if create:
                os.ftruncate(descriptor, _SIZE)
            if os.fstat(descriptor).st_size != _SIZE:
                raise ConfigurationError(f"{path} is not the clock of a simulated arm; expected {_SIZE} bytes")
            self._memory = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)

    def monotonic_ns(self) -> int:
        """The held time [ns]."""
        cycle = self._read()
        now_ns = time.monotonic_ns()
        if cycle is None:
            return now_ns
        wall_ns, held_ns, cap_ns = cycle
        elapsed_ns = now_ns - wall_ns
        return held_ns + min(elapsed_ns, cap_ns) + max(0, elapsed_ns - int(PATIENCE_S * 1e9))

    def held_s(self) -> float:
        """By how much the held time is behind the system's [s]."""
        return (time.monotonic_ns() - self.monotonic_ns()) * 1e-9

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
        """Unmap the page; who made the file removes it."""
        self._memory.close()
        if self._owned:
            self.path.unlink(missing_ok=True)

    def _read(self) -> tuple[int, int, int] | None:
        """The present cycle, never half of one and half of another; None before the first."""
        while number := self._memory[0]:
            cycle: tuple[int, int, int] = _CYCLE.unpack_from(self._memory, self._offset(number))
            if self._memory[0] == number:
                return cycle
        return None

    @staticmethod
    def _offset(number: int) -> int:
        return 1 + number % 2 * _CYCLE.size


class HeldClock(Clock):
    """The driver's side of a held time.

    Args:
        page: shared with the simulated arm.
        period_s: the control cycle [s].
    """

    def __init__(self, page: ClockPage, period_s: float) -> None:
        self._page = page
        self._cap_ns, self._bearable_ns = (round(share * period_s * 1e9) for share in (LONGEST_SHARE, BEARABLE_SHARE))

    def monotonic_ns(self) -> int:
        """Time that never steps [ns]; it stands still while a cycle is held up."""
        return self._page.monotonic_ns()

    def realtime_ns(self) -> int:
        """The wall clock: time since the epoch [ns]."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Let time pass [s]: who sleeps holds nothing up."""
        awake_ns = self.monotonic_ns() + round(seconds * 1e9)
        time.sleep(max(0.0, seconds))
        self._page.begin(time.monotonic_ns(), max(awake_ns, self.monotonic_ns()), self._cap_ns)

    def wait_until(self, deadline_ns: int, awaits: Callable[[], bool]) -> None:
        """Begin a cycle: return at a moment [ns], or as soon after it as nothing is awaited any more."""
        before_ns = self.monotonic_ns()
        due_ns = self._page.wall_ns(deadline_ns)
        if (left_ns := due_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns * 1e-9)
        given_up_ns = time.monotonic_ns() + int(PATIENCE_S * 1e9)
        while awaits() and time.monotonic_ns() < given_up_ns:
            time.sleep(LOOK_S)
        now_ns = time.monotonic_ns()
        in_time = before_ns < deadline_ns and now_ns - due_ns <= self._bearable_ns
        # time had gone on without a process that was away for too long: it catches up cycle by cycle
        self._page.begin(due_ns if in_time else now_ns, max(deadline_ns, self.monotonic_ns()), self._cap_ns)
