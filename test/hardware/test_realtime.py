"""Real-time settings are restored at the end."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.chain.realtime_layout import schedule_process
from child import Child

from dynid.hardware.loop import realtime
from dynid.hardware.loop.realtime import (
    SWITCH_INTERVAL_S,
    bounded_timer_slack,
    disable_garbage_collection,
    fifo_scheduling,
)


def timer_slack_ns() -> int:
    with open("/proc/self/timerslack_ns", encoding="ascii") as file:
        return int(file.read())


@pytest.mark.slow
def test_garbage_collection_is_disabled_only_inside() -> None:
    interval, frozen = sys.getswitchinterval(), gc.get_freeze_count()
    with pytest.raises(KeyError), disable_garbage_collection():
        assert not gc.isenabled() and gc.get_freeze_count() > frozen
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        raise KeyError
    assert gc.isenabled() and sys.getswitchinterval() == interval


@pytest.mark.skipif(not os.path.exists("/proc/self/timerslack_ns"), reason="no timer slack file")
def test_timer_slack_is_put_back() -> None:
    before = timer_slack_ns()
    with bounded_timer_slack(7) as accepted:
        assert accepted and timer_slack_ns() == 7
    assert timer_slack_ns() == before


def test_cpu_idle_is_disabled_as_long_as_the_device_is_held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    device = tmp_path / "cpu_dma_latency"
    monkeypatch.setattr(realtime, "_LATENCY_DEVICE", str(device))
    with realtime.disable_cpu_idle(True) as settings_in_effect:
        assert (
            not settings_in_effect and realtime.settings_in_effect()["CPU idle disabled"] is False
        )  # there is none, or it is forbidden
    device.touch()
    with realtime.disable_cpu_idle(False) as settings_in_effect:
        assert not settings_in_effect and device.read_bytes() == b""
    open_before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyError), realtime.disable_cpu_idle(True) as settings_in_effect:
        assert settings_in_effect and realtime.settings_in_effect()["CPU idle disabled"]
        assert device.read_bytes() == bytes(4) and len(os.listdir("/proc/self/fd")) == open_before + 1
        raise KeyError
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_fifo_is_not_requested_by_default() -> None:
    before = os.sched_getscheduler(0)
    with fifo_scheduling(None) as settings_in_effect:
        assert not settings_in_effect and os.sched_getscheduler(0) == before != os.SCHED_FIFO


def test_fifo_without_permission_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", forbid)
    with fifo_scheduling(10) as settings_in_effect:
        assert not settings_in_effect


CHILD = """
import os, sys, threading
from dynid.hardware.loop.realtime import leave_realtime, prefer_latency, prefer_throughput
sys.stdin.readline()
def look(change=None):
    if change:
        change()
    print(os.sched_getscheduler(0), sorted(os.sched_getaffinity(0)))
for change in (prefer_latency, None, leave_realtime, prefer_throughput):
    thread = threading.Thread(target=look, args=(change,)); thread.start(); thread.join()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux' scheduling policies")
def test_a_process_is_placed_with_the_threads_that_it_starts() -> None:
    processor = max(os.sched_getaffinity(0))
    with Child([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        permitted = schedule_process(child.pid, processors={processor}, priority=3)
        output, _ = child.communicate(b"go\n", timeout=300)
    assert not schedule_process(child.pid, processors={processor}), "it has ended"
    policies = [int(line.split(" ", 1)[0]) for line in output.decode().splitlines()]
    if not permitted:
        pytest.skip("no permission for SCHED_FIFO")
    assert all(line.endswith(f"[{processor}]") for line in output.decode().splitlines())
    # what is in a hurry keeps what it was given; what takes long leaves it
    assert policies == [os.SCHED_FIFO, os.SCHED_FIFO, os.SCHED_OTHER, os.SCHED_BATCH]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux' scheduling policies")
def test_placing_without_permission_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", forbid)
    processors = os.sched_getaffinity(0)
    assert schedule_process(os.getpid(), processors=processors)
    assert not schedule_process(os.getpid(), processors={max(processors)}, priority=3)
    assert os.sched_getaffinity(0) == processors, "who may not go first is not crowded onto one processor either"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux' scheduling policies")
@pytest.mark.parametrize(("function", "added"), [("prefer_latency", 0), ("prefer_throughput", 5)])
def test_scheduling_keeps_the_niceness_that_was_chosen(function: str, added: int) -> None:
    code = (
        f"import os; from dynid.hardware.loop.realtime import {function}\n"
        f"before = os.nice(3); accepted = {function}(); "
        "print(accepted, before, os.getpriority(os.PRIO_PROCESS, 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    accepted, before, after = done.stdout.split()
    assert int(after) == min(int(before) + (added if accepted == "True" else 0), 19) and int(before) >= 3
