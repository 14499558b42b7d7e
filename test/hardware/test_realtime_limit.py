"""Reports and warnings about the kernel's limit of real-time programs."""

import os
import subprocess
from pathlib import Path

import pytest

from dynid.hardware.loop.realtime_limit import GapWatch, ShareMeter, room_warning
from dynid.hardware.startup.realtime_permission import read_limit, realtime_permitted
from dynid.recording.periodic_gaps import DEFAULT_LIMIT, RealtimeLimit

MS = 1_000_000


def starts(hole_every_ms: int, hole_ms: int, seconds: int) -> list[int]:
    """When cycles of 1 ms began [ns]; those of a hole are missing."""
    return [MS * k for k in range(1, 1000 * seconds) if (k % hole_every_ms) >= hole_ms]


@pytest.mark.slow
def test_periodic_gaps_of_50_ms_name_the_real_time_limit() -> None:
    watch = GapWatch(MS, DEFAULT_LIMIT)
    for began_ns in starts(1000, 50, 6):
        watch.note(began_ns)
    assert "sched_rt_runtime_us" in watch.text and "give the executor another processor" in watch.text


@pytest.mark.slow
@pytest.mark.parametrize(("every_ms", "hole_ms"), [(370, 50), (1000, 3), (1000, 400)])
def test_other_gaps_do_not_name_the_real_time_limit(every_ms: int, hole_ms: int) -> None:
    watch = GapWatch(MS, DEFAULT_LIMIT)
    for began_ns in starts(every_ms, hole_ms, 8):
        watch.note(began_ns)
    assert watch.text == ""


def test_without_a_real_time_limit_no_gap_names_it() -> None:
    watch = GapWatch(MS, None)
    for began_ns in starts(1000, 50, 6):
        watch.note(began_ns)
    assert watch.text == ""


def test_room_is_warned_of_by_share_and_processors() -> None:
    assert "61% of a processor" in room_warning(0.61, 1, DEFAULT_LIMIT)
    assert room_warning(0.61, 2, DEFAULT_LIMIT) == ""
    assert "lower rate_hz" in room_warning(0.9, 2, DEFAULT_LIMIT)
    assert room_warning(0.3, 1, DEFAULT_LIMIT) == ""
    assert room_warning(0.99, 1, None) == ""


def test_limit_is_read_as_the_kernel_states_it(tmp_path: Path) -> None:
    (tmp_path / "sched_rt_period_us").write_text("1000000\n")
    (tmp_path / "sched_rt_runtime_us").write_text("950000\n")
    assert read_limit(tmp_path) == RealtimeLimit(0.95, 1.0)
    (tmp_path / "sched_rt_runtime_us").write_text("-1\n")
    assert read_limit(tmp_path) is None, "no limit"
    assert read_limit(tmp_path / "elsewhere") is None


@pytest.mark.skipif(not hasattr(os, "sched_setscheduler"), reason="Linux' scheduling")
@pytest.mark.parametrize(("code", "permitted"), [(0, True), (1, False)])
def test_permission_is_that_of_a_child_process(monkeypatch: pytest.MonkeyPatch, code: int, permitted: bool) -> None:
    def run(command: list[str], **_: object) -> "subprocess.CompletedProcess[bytes]":
        assert "sched_setscheduler" in command[-1]
        return subprocess.CompletedProcess(command, code)

    before = os.sched_getscheduler(0)
    monkeypatch.setattr(subprocess, "run", run)
    assert realtime_permitted() is permitted
    assert os.sched_getscheduler(0) == before


def test_share_is_known_after_its_time_only() -> None:
    meter = ShareMeter()
    meter.note(0.0)
    assert meter.share == 0.0
    sum(range(100_000))
    meter.note(0.0)
    assert 0.0 < meter.share
    meter.restart()
    known = meter.share
    meter.note(0.0)
    assert meter.share == known
