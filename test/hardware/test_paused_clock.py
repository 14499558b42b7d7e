"""The simulated arm's clock: equal to the system clock except for pauses during stalls of the host."""

import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from child import Child

from dynid.errors import ConfigurationError, InputNotFoundError, OutputExistsError, SafetyError
from dynid.hardware.bus import clock as clock_module
from dynid.hardware.bus.simulated_line import mark_simulated
from dynid.hardware.loop import paused_clock
from dynid.hardware.loop.paused_clock import (
    CHECK_INTERVAL_S,
    COMMANDER_PATIENCE_S,
    DRIVER_GONE_S,
    REPLY_PATIENCE_AFTER_S,
    REPLY_PATIENCE_S,
    ClockPage,
    PausedClock,
    open_paused_clock,
)

PERIOD_NS = 1_000_000
CAP_NS = 900_000
GONE_NS = int(DRIVER_GONE_S * 1e9) + 1
LOOK_NS = 1_000_000


class Wall:
    """The system's clock, set by hand; sleeping lets it pass."""

    def __init__(self) -> None:
        self.now_ns = 7_000_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def time_ns(self) -> int:
        return self.now_ns + 10**18


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    wall = Wall()
    monkeypatch.setattr(paused_clock, "time", wall)
    monkeypatch.setattr(clock_module, "time", wall)
    return wall


@pytest.fixture
def page(tmp_path: Path) -> Iterator[ClockPage]:
    page = ClockPage(tmp_path / "clock", create=True)
    yield page
    page.close()


@pytest.fixture
def clock(page: ClockPage) -> Iterator[PausedClock]:
    clock = PausedClock(ClockPage(page.path), PERIOD_NS * 1e-9)
    yield clock
    clock.close()


def at_once() -> bool:
    return False


def watch(wall: Wall, clock: PausedClock, seconds: float) -> None:
    """Look at the time again and again, as a driver does that waits for a reply."""
    for _ in range(round(seconds * 1e9) // LOOK_NS):
        wall.now_ns += LOOK_NS
        clock.monotonic_ns()


@pytest.mark.slow
def test_the_clock_equals_the_system_clock_before_the_first_cycle(
    wall: Wall, page: ClockPage, clock: PausedClock
) -> None:
    for _ in range(3):
        wall.now_ns += 12_345_678
        assert page.monotonic_ns() == clock.monotonic_ns() == wall.now_ns
    assert page.paused_s() == 0.0 and clock.realtime_ns() == wall.time_ns()


def test_a_host_that_keeps_up_never_pauses_the_clock(wall: Wall, page: ClockPage, clock: PausedClock) -> None:
    begin = wall.now_ns
    for k in range(1, 100):
        clock.wait_until(begin + k * PERIOD_NS, at_once)
        assert clock.monotonic_ns() == wall.now_ns == begin + k * PERIOD_NS
        wall.now_ns += 600_000  # the cycle's work
    assert page.paused_s() == 0.0


def test_slightly_late_cycle_is_caught_up(wall: Wall, page: ClockPage, clock: PausedClock) -> None:
    begin = wall.now_ns
    for k in range(1, 100):
        clock.wait_until(begin + k * PERIOD_NS, at_once)
        wall.now_ns += 1_300_000 if k % 10 == 0 else 500_000
    wall.now_ns = begin + 100 * PERIOD_NS
    clock.wait_until(begin + 100 * PERIOD_NS, at_once)
    assert clock.monotonic_ns() == wall.now_ns and page.paused_s() == 0.0


def test_bytes_travel_while_time_stands_still(wall: Wall, page: ClockPage, clock: PausedClock) -> None:
    clock.wait_until(wall.now_ns + PERIOD_NS, at_once)
    sent_ns, held_ns = clock.line_ns(), clock.monotonic_ns()
    wall.now_ns += 2 * PERIOD_NS
    assert clock.line_ns() - sent_ns == 2 * PERIOD_NS and clock.monotonic_ns() - held_ns == CAP_NS


@pytest.mark.parametrize("late_ms", [2, 20, 249, 5000, 10**8])
def test_a_cycle_that_is_held_up_takes_no_longer_than_a_cycle(
    wall: Wall, page: ClockPage, clock: PausedClock, late_ms: int
) -> None:
    begin = wall.now_ns
    clock.wait_until(begin + PERIOD_NS, at_once)
    wall.now_ns += late_ms * 1_000_000
    assert page.monotonic_ns() == clock.monotonic_ns() == begin + PERIOD_NS + CAP_NS
    clock.wait_until(begin + 2 * PERIOD_NS, at_once)
    assert clock.monotonic_ns() == begin + 2 * PERIOD_NS
    assert page.paused_s() == pytest.approx(late_ms * 1e-3 - 1e-3, abs=1e-9)
    wall.now_ns += 200_000
    assert page.monotonic_ns() == begin + 2 * PERIOD_NS + 200_000


def test_time_goes_on_without_a_driver_that_is_gone(wall: Wall, page: ClockPage, clock: PausedClock) -> None:
    """So that the watchdogs of servos trip, whose driver was killed."""
    begin = wall.now_ns
    clock.wait_until(begin + PERIOD_NS, at_once)
    clock.close()
    wall.now_ns += CAP_NS + GONE_NS
    held_ns = page.monotonic_ns()
    assert held_ns == begin + PERIOD_NS + CAP_NS
    wall.now_ns += 300_000_000
    assert page.monotonic_ns() - held_ns == 300_000_000
    another = PausedClock(ClockPage(page.path), PERIOD_NS * 1e-9)
    another.wait_until(held_ns + 301_000_000, at_once)
    wall.now_ns += 10**10
    assert page.monotonic_ns() == held_ns + 301_000_000 + CAP_NS, "a new driver holds it again"
    another.close()


def test_a_process_that_is_killed_is_gone(page: ClockPage) -> None:
    """By the system's own clock: a lock does not outlive its process, however that ends."""
    begin = (
        "import sys, time; from pathlib import Path\n"
        "from dynid.hardware.loop.paused_clock import ClockPage, PausedClock\n"
        "clock = PausedClock(ClockPage(Path(sys.argv[1])), 0.001)\n"
        "clock.wait_until(clock.monotonic_ns(), lambda: False); print(flush=True); time.sleep(600)"
    )
    driver = subprocess.Popen([sys.executable, "-c", begin, str(page.path)], stdout=subprocess.PIPE)
    try:
        assert driver.stdout is not None and driver.stdout.readline()
        deadline_s = time.monotonic() + 30.0
        while time.monotonic() < deadline_s and page.paused_s() < 2 * DRIVER_GONE_S:
            time.sleep(0.01)
        stood_ns = page.monotonic_ns()
        assert page.paused_s() >= 2 * DRIVER_GONE_S, "it is held for as long as the process lives"
        with pytest.raises(ConfigurationError, match="another driver uses the clock"):
            ClockPage(page.path).take()
    finally:
        driver.kill()
        driver.communicate()
    while time.monotonic() < deadline_s and page.monotonic_ns() == stood_ns:
        time.sleep(0.01)
    assert page.monotonic_ns() > stood_ns


def test_a_second_driver_on_one_clock_is_refused(page: ClockPage, clock: PausedClock) -> None:
    second = ClockPage(page.path)
    with pytest.raises(ConfigurationError, match=r"another driver uses the clock .*clock; expected one driver"):
        PausedClock(second, PERIOD_NS * 1e-9)
    clock.close()
    PausedClock(second, PERIOD_NS * 1e-9).close()


def test_a_reply_that_does_not_come_is_not_waited_for_for_ever(wall: Wall, page: ClockPage, clock: PausedClock) -> None:
    begin = wall.now_ns
    clock.wait_until(begin + PERIOD_NS, at_once)
    stood_ns = begin + PERIOD_NS + CAP_NS
    watch(wall, clock, 0.9 * REPLY_PATIENCE_S)
    assert clock.monotonic_ns() == page.monotonic_ns() == stood_ns
    watch(wall, clock, 0.2 * REPLY_PATIENCE_S)
    assert stood_ns < clock.monotonic_ns() == page.monotonic_ns()
    deadline_ns = stood_ns + 10**9
    for _ in range(paused_clock.KEPT_UP_CYCLES // 2):  # less, and the next one in vain is given up sooner
        clock.wait_until(deadline_ns := deadline_ns + PERIOD_NS, at_once)
    wall.now_ns += 10**9
    assert clock.monotonic_ns() == page.monotonic_ns() == deadline_ns + CAP_NS, "the next cycle is held again"
    watch(wall, clock, 0.9 * REPLY_PATIENCE_AFTER_S)
    assert clock.monotonic_ns() == deadline_ns + CAP_NS
    watch(wall, clock, 0.3 * REPLY_PATIENCE_AFTER_S)
    assert clock.monotonic_ns() > deadline_ns + CAP_NS
    deadline_ns = clock.monotonic_ns()
    for _ in range(paused_clock.KEPT_UP_CYCLES + 1):
        clock.wait_until(deadline_ns := deadline_ns + PERIOD_NS, at_once)
    wall.now_ns += PERIOD_NS
    watch(wall, clock, 0.9 * REPLY_PATIENCE_S)
    assert clock.monotonic_ns() == deadline_ns + CAP_NS, "long afterwards it is waited for as before"


def test_stalled_host_does_not_use_up_the_wait(wall: Wall, page: ClockPage, clock: PausedClock) -> None:
    begin, stalls = wall.now_ns, 40
    clock.wait_until(begin + PERIOD_NS, at_once)
    for _ in range(stalls):
        wall.now_ns += 10**10
        assert clock.monotonic_ns() == page.monotonic_ns() == begin + PERIOD_NS + CAP_NS
    looks = iter([True] * stalls + [False])

    def stands_still() -> bool:
        wall.now_ns += 10**10
        return next(looks)

    clock.wait_until(begin + 2 * PERIOD_NS, stands_still)
    assert next(looks, None) is None, "a commander is waited for over standstills, too"
    assert clock.monotonic_ns() == begin + 2 * PERIOD_NS


def test_paused_clock_waits_with_a_limit(wall: Wall, page: ClockPage, clock: PausedClock) -> None:
    begin, looks = wall.now_ns, iter([True] * 100 + [False])
    clock.wait_until(begin + PERIOD_NS, at_once)
    clock.wait_until(begin + 2 * PERIOD_NS, lambda: next(looks))
    assert clock.monotonic_ns() == begin + 2 * PERIOD_NS
    assert page.paused_s() == pytest.approx(100 * CHECK_INTERVAL_S)
    clock.wait_until(begin + 3 * PERIOD_NS, lambda: True)
    assert clock.monotonic_ns() == begin + 3 * PERIOD_NS
    assert page.paused_s() == pytest.approx(100 * CHECK_INTERVAL_S + COMMANDER_PATIENCE_S, abs=2e-3)


def test_returned_commander_is_waited_for_again(wall: Wall, page: ClockPage, clock: PausedClock) -> None:
    deadline_ns = wall.now_ns
    clock.wait_until(deadline_ns := deadline_ns + PERIOD_NS, at_once)
    for vain in (1, 2):
        for _ in range(100):
            clock.wait_until(deadline_ns := deadline_ns + PERIOD_NS, lambda: True)
        assert page.paused_s() == pytest.approx(vain * COMMANDER_PATIENCE_S, rel=0.01)
        for _ in range(paused_clock.KEPT_UP_CYCLES):
            clock.wait_until(deadline_ns := deadline_ns + PERIOD_NS, at_once)


@pytest.mark.parametrize("every", [2, 3, 4, 10])
def test_a_commander_that_does_not_answer_each_state_is_not_waited_for(
    wall: Wall, page: ClockPage, clock: PausedClock, every: int
) -> None:
    deadline_ns = wall.now_ns
    for k in range(1, 1000):
        behind = k % every  # cycles since it has answered; a command is awaited as the driver does
        clock.wait_until(deadline_ns := deadline_ns + PERIOD_NS, (lambda: True) if 1 < behind < 4 else at_once)
    assert page.paused_s() < 1.01 * COMMANDER_PATIENCE_S, "it is found out once"


def test_time_goes_on_once_no_more_cycles_begin(wall: Wall, page: ClockPage, clock: PausedClock) -> None:
    begin = wall.now_ns
    clock.wait_until(begin + PERIOD_NS, at_once)
    wall.now_ns += 10**10
    clock.end_pacing()
    wall.now_ns += 10**9
    assert clock.monotonic_ns() == page.monotonic_ns() == begin + PERIOD_NS + CAP_NS + 10**9


def test_sleep_before_the_first_cycle_does_not_pause_the_clock(wall: Wall, page: ClockPage, clock: PausedClock) -> None:
    """A driver that sets servos up sleeps, too, and is not active for a long time afterwards."""
    for prepare in (lambda: None, lambda: clock.wait_until(clock.monotonic_ns(), at_once)):
        prepare()
        clock.end_pacing()
        clock.sleep(0.1)
        before_ns = page.monotonic_ns()
        wall.now_ns += 10**12
        assert page.monotonic_ns() == clock.monotonic_ns() == before_ns + 10**12


def test_a_reader_that_stood_still_while_a_cycle_began_does_not_see_time_step_back(
    wall: Wall, page: ClockPage, clock: PausedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.wait_until(wall.now_ns + PERIOD_NS, at_once)
    before_ns = page.monotonic_ns()
    now_ns = wall.monotonic_ns

    def stand_still() -> int:
        """The system's time as the arm asks for it, and then everything stands still until the driver goes on."""
        monkeypatch.setattr(wall, "monotonic_ns", now_ns)
        asked_ns = wall.now_ns
        wall.now_ns += 1_500_000_000
        clock.wait_until(before_ns + PERIOD_NS, at_once)
        return asked_ns

    monkeypatch.setattr(wall, "monotonic_ns", stand_still)
    assert page.monotonic_ns() >= before_ns


def test_sleeping_advances_the_paused_clock(wall: Wall, page: ClockPage, clock: PausedClock) -> None:
    begin = wall.now_ns
    clock.sleep(0.02)
    assert clock.monotonic_ns() == wall.now_ns == begin + 20_000_000
    clock.wait_until(begin + 21_000_000, at_once)
    clock.sleep(0.1)
    assert clock.monotonic_ns() == page.monotonic_ns() == begin + 121_000_000


def test_clock_never_steps_back(wall: Wall, page: ClockPage, clock: PausedClock) -> None:
    deadline = last = wall.now_ns
    for k in range(2000):
        deadline += PERIOD_NS
        clock.wait_until(deadline, (lambda: True) if k % 500 == 499 else at_once)
        for part in range(3):
            wall.now_ns += (k * 7919 + part * 104729) % 1_500_000 + (k % 97 == 0) * 130_000_000
            if k % 31 == 0:
                watch(wall, clock, 1.3 * REPLY_PATIENCE_S)
            if k % 71 == 0:
                clock.end_pacing()
            assert last <= (last := page.monotonic_ns())
    assert page.paused_s() > 0.0


def test_paused_clock_follows_the_system_clock(page: ClockPage) -> None:
    clock, begin = PausedClock(ClockPage(page.path), 0.001), time.monotonic_ns()
    for k in range(1, 20):
        clock.wait_until(begin + k * PERIOD_NS, at_once)
        assert clock.monotonic_ns() >= begin + k * PERIOD_NS
    clock.close()


BEGIN_CYCLES = """
import sys
from pathlib import Path
from dynid.hardware.loop.paused_clock import ClockPage
page = ClockPage(Path(sys.argv[1]))
for k in range(1, 200_000):
    page.begin(k, k << 40, k)
"""


@pytest.mark.slow
def test_reader_never_gets_a_half_written_cycle(page: ClockPage) -> None:
    seen = set()
    with Child([sys.executable, "-c", BEGIN_CYCLES, str(page.path)]) as writer:
        while writer.poll() is None:
            if (cycle := page._read()) is not None:
                wall_ns, held_ns, cap_ns = cycle
                assert held_ns == wall_ns << 40 and cap_ns == wall_ns
                seen.add(wall_ns)
    assert writer.returncode == 0 and len(seen) > 10


def test_the_clock_page_is_private_and_removed_by_its_maker(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    page = ClockPage(path, create=True)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(OutputExistsError, match="clock exists"):
        ClockPage(path, create=True)
    ClockPage(path).close()
    assert path.exists()
    page.close()
    assert not path.exists()


def test_file_that_is_no_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputNotFoundError, match=r"no clock of a simulated arm at .*/nothing: No such file"):
        ClockPage(tmp_path / "nothing")
    other = tmp_path / "other"
    other.write_bytes(b"text")
    with pytest.raises(ConfigurationError, match="is not the clock of a simulated arm"):
        ClockPage(other)
    os.symlink(other, tmp_path / "link")
    with pytest.raises(InputNotFoundError, match="symbolic link"):
        ClockPage(tmp_path / "link")
    assert other.read_bytes() == b"text"


def test_the_time_of_an_arm_is_opened_by_its_port(page: ClockPage, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    port = os.ttyname(slave)
    with pytest.raises(SafetyError, match=f"the arm behind {port} is real and does not wait"):
        open_paused_clock(page.path, port, 0.001)
    mark_simulated(slave)
    clock = open_paused_clock(page.path, port, 0.001)
    with pytest.raises(ConfigurationError, match="another driver"):
        open_paused_clock(page.path, port, 0.001)
    clock.close()
    open_paused_clock(page.path, port, 0.001).close()
    with pytest.raises(SafetyError, match="the arm behind /dev/null is real and does not wait"):
        open_paused_clock(page.path, "/dev/null", 0.001)
    with pytest.raises(InputNotFoundError):
        open_paused_clock(tmp_path / "nothing", port, 0.001)
    os.close(master)
    os.close(slave)
