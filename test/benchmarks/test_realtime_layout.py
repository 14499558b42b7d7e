"""Processors and priorities of a chain's processes: set only while it runs and if permitted, and reported."""

import os
import signal
import sys
from pathlib import Path

import pytest
from benchmarks.chain import realtime_layout
from benchmarks.chain.realtime_layout import KERNEL_PRIORITY, LOOP_PRIORITY, PRIORITIES, RealtimeLayout

from dynid.nodes.processes import ProcessGroup

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux' scheduling")
Placed = dict[str, tuple[set[int], int | None]]


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> Placed:
    """What a layout asks for, by process; nothing is really changed. Process ids are those of `names`."""
    found: Placed = {}
    names = [*PRIORITIES, "recorder"]

    def schedule(pid: int, *, processors: set[int], priority: int | None = None) -> bool:
        found[names[pid]] = (processors, priority)
        return True

    monkeypatch.setattr(realtime_layout, "schedule_process", schedule)
    return found


def place_all(layout: RealtimeLayout) -> None:
    for pid, name in enumerate([*PRIORITIES, "recorder"]):
        layout.place(name, pid)


def test_driver_and_executor_have_a_processor_each_where_there_are_three(
    monkeypatch: pytest.MonkeyPatch, placed: Placed
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3, 4})
    layout = RealtimeLayout()
    place_all(layout)
    assert placed["hardware"] == ({4}, PRIORITIES["hardware"])
    assert placed["executor"] == ({3}, PRIORITIES["executor"])
    assert placed["simulated_arm"][0] == placed["recorder"][0] == {1}
    assert placed["recorder"][1] is None, "what can wait must not run before others"
    assert layout.in_force == {"processors and SCHED_FIFO": True}


def test_executor_on_the_drivers_processor_has_no_real_time_policy(
    monkeypatch: pytest.MonkeyPatch, placed: Placed
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    place_all(RealtimeLayout())
    assert placed["hardware"] == ({1}, PRIORITIES["hardware"])
    assert placed["executor"] == ({1}, None), "the kernel would stop both once a second"
    assert placed["simulated_arm"][0] == placed["recorder"][0] == {0}


def test_the_arm_comes_before_the_driver_and_the_driver_before_the_executor() -> None:
    arm, hardware, executor = (PRIORITIES[name] for name in ("simulated_arm", "hardware", "executor"))
    assert KERNEL_PRIORITY > arm > LOOP_PRIORITY > hardware > executor > 0


def test_one_processor_is_left_to_the_kernel(monkeypatch: pytest.MonkeyPatch, placed: Placed) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2})
    layout = RealtimeLayout()
    place_all(layout)
    with layout.kernel_workers() as again:
        again()
    assert not placed and layout.in_force == {"processors and SCHED_FIFO": False, "kernel workers first": False}


def test_one_refusal_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    asked = []

    def schedule(pid: int, **_: object) -> bool:
        asked.append(pid)
        return pid != 1

    monkeypatch.setattr(realtime_layout, "schedule_process", schedule)
    layout = RealtimeLayout()
    place_all(layout)
    assert layout.in_force == {"processors and SCHED_FIFO": False} and asked == [0, 1], "half a layout is worse"


def test_a_group_places_every_process_that_it_starts(tmp_path: Path) -> None:
    seen: dict[str, int] = {}
    with ProcessGroup(tmp_path, {}, seen.__setitem__) as group:
        child = group.start("child", ["-c", "pass"])
    assert seen == {"child": child.pid}


class Kernel:
    """Threads with policies, and what may be done with them."""

    def __init__(self, forbidden: bool = False) -> None:
        self.policy = {50: os.SCHED_OTHER, 51: os.SCHED_OTHER, 52: os.SCHED_FIFO, 53: os.SCHED_OTHER}
        self.names = {50: "kworker/u8:1-events_unbound", 51: "bash", 52: "kworker/u8:2", 53: "kworker/0:1"}
        self.forbidden = forbidden

    def set(self, thread: int, policy: int, _: object) -> None:
        if self.forbidden:
            raise PermissionError
        if thread not in self.policy:
            raise ProcessLookupError
        self.policy[thread] = policy

    def install(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        for thread, name in self.names.items():
            (folder / str(thread)).mkdir(exist_ok=True)
            (folder / str(thread) / "comm").write_text(f"{name}\n")
        monkeypatch.setattr(realtime_layout, "THREADS", folder)
        monkeypatch.setattr(realtime_layout, "LOOK_EVERY_S", 0.0)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        monkeypatch.setattr(os, "sched_getscheduler", lambda thread: self.policy[thread])
        monkeypatch.setattr(os, "sched_setscheduler", self.set)


def test_kernel_workers_are_raised_and_put_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernel = Kernel()
    kernel.install(monkeypatch, tmp_path)
    before = dict(kernel.policy)
    layout = RealtimeLayout()
    with pytest.raises(KeyError), layout.kernel_workers() as again:
        assert kernel.policy == before | {50: os.SCHED_FIFO}
        assert layout.in_force == {"kernel workers first": True}
        kernel.policy[54], kernel.names[54] = os.SCHED_OTHER, "kworker/u8:5"  # one that the kernel starts later
        before[54] = os.SCHED_OTHER
        kernel.install(monkeypatch, tmp_path)
        again()
        assert kernel.policy[54] == os.SCHED_FIFO
        raise KeyError
    assert kernel.policy == before


def test_a_number_that_is_another_process_by_now_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernel = Kernel()
    kernel.install(monkeypatch, tmp_path)
    with RealtimeLayout().kernel_workers():
        (tmp_path / "50" / "comm").write_text("somebody_else\n")
    assert kernel.policy[50] == os.SCHED_FIFO


def test_kernel_workers_are_put_back_when_the_terminal_is_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel = Kernel()
    kernel.install(monkeypatch, tmp_path)
    before = signal.getsignal(signal.SIGHUP)
    with pytest.raises(SystemExit) as ended, RealtimeLayout().kernel_workers():
        signal.raise_signal(signal.SIGHUP)
    assert ended.value.code == 128 + signal.SIGHUP and kernel.policy[50] == os.SCHED_OTHER
    assert signal.getsignal(signal.SIGHUP) is before


def test_without_permission_kernel_workers_stay_and_it_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel = Kernel(forbidden=True)
    kernel.install(monkeypatch, tmp_path)
    layout = RealtimeLayout()
    with layout.kernel_workers() as again:
        again()
    assert layout.in_force == {"kernel workers first": False} and kernel.policy[50] == os.SCHED_OTHER
