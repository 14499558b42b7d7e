"""Placement of a chain's processes on processors and their real-time priorities, if the user may choose them.

The driver has the last processor under a real-time policy. With three processors the executor has one of its own. With
two it shares the driver's processor, without a real-time policy: both together would use up the kernel's limit for
real-time programs on a processor (`sched_rt_runtime_us`), and be stopped once a second. The simulated arm represents a
machine, so it precedes all others on its processor. Kernel workers pass on what a terminal or a USB adapter receives;
if they wait behind other processes, so does every reply.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from dynid.nodes.processes import signals_handled

ARM, EXECUTOR, HARDWARE = "simulated_arm", "executor", "hardware"
KERNEL_PRIORITY, LOOP_PRIORITY = 40, 25
# The driver's other threads come behind its loop, but before other programs: one of them may hold the interpreter.
PRIORITIES = {ARM: 30, HARDWARE: 20, EXECUTOR: 10}
THREADS = Path("/proc")
KERNEL_WORKERS = "kworker/u"  # workers bound to no processor: they serve terminals and write to disks
PLACES, WORKERS = "processors and SCHED_FIFO", "kernel workers first"
FEWEST_PROCESSORS, FEWEST_FOR_EXECUTOR = 2, 3
LOOK_EVERY_S = 1.0


def schedule_process(pid: int, *, processors: Collection[int], priority: int | None = None) -> bool:
    """Choose the processors of a process and, with a priority, its policy SCHED_FIFO.

    This applies to its present threads and to those that they start later, like `taskset -a` and `chrt -a`. The
    priority is set first: if that is forbidden, the process keeps its processors.

    Args:
        pid: process id.
        processors: numbers of the permitted processors.
        priority: SCHED_FIFO priority; None leaves the policy unchanged.

    Returns:
        Whether both were permitted, and the process existed.
    """
    if not hasattr(os, "sched_setaffinity"):
        return False
    try:
        for thread in [int(name) for name in os.listdir(f"/proc/{pid}/task")]:
            if priority is not None:
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))
            os.sched_setaffinity(thread, processors)
    except (OSError, ValueError):  # forbidden, gone, or no such processor
        return False
    return True


class RealtimeLayout:
    """Placement of processes; on a machine with one processor, or without permission, everything stays unchanged."""

    def __init__(self) -> None:
        processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._own_executor = len(processors) >= FEWEST_FOR_EXECUTOR
        self._driver = set(processors[-1:])
        self._executor = set(processors[-2:-1]) if self._own_executor else self._driver
        self._rest = set(processors[: -2 if self._own_executor else -1])
        self._possible = len(processors) >= FEWEST_PROCESSORS
        self.in_force: dict[str, bool] = {}
        self._raised: set[int] = set()
        self._next_look_s = 0.0

    @property
    def driver_parameters(self) -> dict[str, str]:
        """Parameters of the hardware node that this placement requires."""
        return {"disable_cpu_idle": "true", "realtime_priority": str(LOOP_PRIORITY)}

    def place(self, name: str, pid: int) -> None:
        """Place a process that was just started, so that its later threads inherit this; stop after a refusal."""
        processors = {HARDWARE: self._driver, EXECUTOR: self._executor}.get(name, self._rest)
        priority = None if name == EXECUTOR and not self._own_executor else PRIORITIES.get(name)
        self._possible = self._possible and schedule_process(pid, processors=processors, priority=priority)
        self.in_force[PLACES] = self._possible

    @contextlib.contextmanager
    def kernel_workers(self) -> Iterator[Callable[[], None]]:
        """Raise the priority of kernel workers while the block runs; yield a function to be called regularly.

        The kernel starts and ends these threads as it needs them, and new ones have to be raised again.
        """
        with _ending_in_order():
            try:
                self._raise_kernel_workers()
                yield self._raise_kernel_workers
            finally:
                with _uninterrupted():
                    self._put_kernel_workers_back()

    def _raise_kernel_workers(self) -> None:
        if not self._possible:
            self.in_force[WORKERS] = False
            return
        if time.monotonic() < self._next_look_s:
            return
        self._next_look_s = time.monotonic() + LOOK_EVERY_S
        workers = [int(path.name) for path in THREADS.glob("[0-9]*") if _is_worker(path)]
        allowed = bool(workers)
        for thread in workers:
            try:
                if os.sched_getscheduler(thread) == os.SCHED_OTHER:
                    self._raised.add(thread)  # noted before the change, since an interrupt may come between
                    os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(KERNEL_PRIORITY))
            except ProcessLookupError:
                continue
            except PermissionError:
                allowed = False
        self.in_force[WORKERS] = allowed

    def _put_kernel_workers_back(self) -> None:
        for thread in self._raised:
            with contextlib.suppress(OSError):  # the thread may have ended, and its number be reused
                if _is_worker(THREADS / str(thread)) and os.sched_getscheduler(thread) == os.SCHED_FIFO:
                    os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
        self._raised.clear()


def _ending_in_order() -> contextlib.AbstractContextManager[None]:
    """Let SIGTERM and SIGHUP end the program by an exception, so that changes of the machine are undone."""
    return signals_handled(dict.fromkeys((signal.SIGTERM, signal.SIGHUP), lambda number, _: sys.exit(128 + number)))


def _uninterrupted() -> contextlib.AbstractContextManager[None]:
    return signals_handled(dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN))


def _is_worker(process: Path) -> bool:
    try:
        return (process / "comm").read_text(encoding="ascii", errors="replace").startswith(KERNEL_WORKERS)
    except OSError:
        return False
