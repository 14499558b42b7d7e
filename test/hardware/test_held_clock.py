"""A simulated arm's time: that of the system, but for what the host holds up."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dynid.errors import ConfigurationError, InputNotFoundError, OutputExistsError
from dynid.hardware import held_clock
from dynid.hardware.clock import Clock
from dynid.hardware.held_clock import PATIENCE_S, ClockPage, HeldClock

PERIOD_NS = 1_000_000
CAP_NS = 900_000
PATIENCE_NS = int(PATIENCE_S * 1e9)


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
    monkeypatch.setattr(held_clock, "time", wall)
    return wall


@pytest.fixture
def page(tmp_path: Path) -> Iterator[ClockPage]:
    page = ClockPage(tmp_path / "clock", create=True)
    yield page
    page.close()


@pytest.fixture
def clock(page: ClockPage) -> HeldClock:
    return HeldClock(ClockPage(page.path), PERIOD_NS * 1e-9)


def at_once() -> bool:
    return False


def test_before_the_first_cycle_it_is_the_systems_clock(wall: Wall, page: ClockPage, clock: Clock) -> None:
    for _ in range(3):
        wall.now_ns += 12_345_678
        assert page.monotonic_ns() == clock.monotonic_ns() == wall.now_ns
    assert page.held_s() == 0.0 and clock.realtime_ns() == wall.time_ns()


def test_a_host_that_keeps_up_holds_nothing(wall: Wall, page: ClockPage, clock: Clock) -> None:
    begin = wall.now_ns
    for k in range(1, 100):
        clock.wait_until(begin + k * PERIOD_NS, at_once)
        assert clock.monotonic_ns() == wall.now_ns == begin + k * PERIOD_NS
        wall.now_ns += 600_000  # the cycle's work
    assert page.held_s() == 0.0


def test_a_cycle_that_begins_a_little_late_is_made_up_for(wall: Wall, page: ClockPage, clock: Clock) -> None:
    begin = wall.now_ns
    for k in range(1, 100):
        clock.wait_until(begin + k * PERIOD_NS, at_once)
        wall.now_ns += 1_300_000 if k % 10 == 0 else 500_000
    wall.now_ns = begin + 100 * PERIOD_NS
    clock.wait_until(begin + 100 * PERIOD_NS, at_once)
    assert clock.monotonic_ns() == wall.now_ns and page.held_s() == 0.0


@pytest.mark.parametrize("late_ms", [2, 20, 249])
def test_a_cycle_that_is_held_up_takes_no_longer_than_a_cycle(
    wall: Wall, page: ClockPage, clock: Clock, late_ms: int
) -> None:
    begin = wall.now_ns
    clock.wait_until(begin + PERIOD_NS, at_once)
    wall.now_ns += late_ms * 1_000_000
    assert page.monotonic_ns() == clock.monotonic_ns() == begin + PERIOD_NS + CAP_NS
    clock.wait_until(begin + 2 * PERIOD_NS, at_once)
    assert clock.monotonic_ns() == begin + 2 * PERIOD_NS
    assert page.held_s() == pytest.approx(late_ms * 1e-3 - 1e-3, abs=1e-9)
    wall.now_ns += 200_000
    assert page.monotonic_ns() == begin + 2 * PERIOD_NS + 200_000


def test_time_goes_on_without_a_driver_that_is_gone(wall: Wall, page: ClockPage, clock: Clock) -> None:
    """So that the watchdogs of servos trip, whose driver was killed."""
    begin = wall.now_ns
    clock.wait_until(begin + PERIOD_NS, at_once)
    wall.now_ns += PATIENCE_NS
    held_ns = page.monotonic_ns()
    wall.now_ns += 300_000_000
    assert page.monotonic_ns() - held_ns == 300_000_000


def test_a_driver_that_comes_back_catches_up_cycle_by_cycle(wall: Wall, page: ClockPage, clock: Clock) -> None:
    begin = wall.now_ns
    clock.wait_until(begin + PERIOD_NS, at_once)
    wall.now_ns += PATIENCE_NS + 5 * PERIOD_NS
    before = clock.monotonic_ns()
    clock.wait_until(begin + 2 * PERIOD_NS, at_once)
    assert clock.monotonic_ns() == before  # it never steps back
    wall.now_ns += 50 * PERIOD_NS
    assert clock.monotonic_ns() == before + CAP_NS  # and is held again


def test_it_waits_for_what_is_awaited_but_not_for_ever(wall: Wall, page: ClockPage, clock: Clock) -> None:
    begin, looks = wall.now_ns, iter([True] * 100 + [False])
    clock.wait_until(begin + PERIOD_NS, at_once)
    clock.wait_until(begin + 2 * PERIOD_NS, lambda: next(looks))
    assert clock.monotonic_ns() == begin + 2 * PERIOD_NS
    assert page.held_s() == pytest.approx(100 * held_clock.LOOK_S)
    clock.wait_until(begin + 3 * PERIOD_NS, lambda: True)
    assert clock.monotonic_ns() >= begin + 3 * PERIOD_NS
    assert page.held_s() < 100 * held_clock.LOOK_S + PATIENCE_S + 2e-3


def test_who_sleeps_lets_time_pass(wall: Wall, page: ClockPage, clock: Clock) -> None:
    begin = wall.now_ns
    clock.sleep(0.02)
    assert clock.monotonic_ns() == wall.now_ns == begin + 20_000_000
    clock.wait_until(begin + 21_000_000, at_once)
    clock.sleep(0.1)
    assert clock.monotonic_ns() == page.monotonic_ns() == begin + 121_000_000


def test_it_never_steps_back(wall: Wall, page: ClockPage, clock: Clock) -> None:
    deadline = last = wall.now_ns
    for k in range(2000):
        deadline += PERIOD_NS
        clock.wait_until(deadline, (lambda: True) if k % 500 == 499 else at_once)
        for part in range(3):
            wall.now_ns += (k * 7919 + part * 104729) % 1_500_000 + (k % 97 == 0) * 130_000_000
            assert last <= (last := page.monotonic_ns())
    assert page.held_s() > 0.0


def test_one_waits_with_the_systems_clocks_too(page: ClockPage) -> None:
    clock, begin = HeldClock(page, 0.001), time.monotonic_ns()
    for k in range(1, 20):
        clock.wait_until(begin + k * PERIOD_NS, at_once)
        assert clock.monotonic_ns() >= begin + k * PERIOD_NS


BEGIN_CYCLES = """
import sys
from pathlib import Path
from dynid.hardware.held_clock import ClockPage
page = ClockPage(Path(sys.argv[1]))
for k in range(1, 200_000):
    page.begin(k, k << 40, k)
"""


def test_a_reader_never_sees_half_a_cycle(page: ClockPage) -> None:
    seen = set()
    with subprocess.Popen([sys.executable, "-c", BEGIN_CYCLES, str(page.path)]) as writer:
        while writer.poll() is None:
            if (cycle := page._read()) is not None:
                wall_ns, held_ns, cap_ns = cycle
                assert held_ns == wall_ns << 40 and cap_ns == wall_ns
                seen.add(wall_ns)
    assert writer.returncode == 0 and len(seen) > 10


def test_the_page_is_its_makers_alone_and_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    page = ClockPage(path, create=True)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(OutputExistsError, match="clock exists"):
        ClockPage(path, create=True)
    ClockPage(path).close()
    assert path.exists()
    page.close()
    assert not path.exists()


def test_what_is_no_page_is_refused(tmp_path: Path) -> None:
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
