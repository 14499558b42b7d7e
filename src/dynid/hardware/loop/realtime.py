"""Operating-system settings for punctual loops; each is optional, and each function reports whether it took effect."""

import contextlib
import ctypes
import gc
import os
import platform
import struct
import sys
from collections.abc import Iterator

_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}  # system call numbers; the C library has no wrapper
_SCHED_ATTRIBUTES = struct.Struct("<IIQiIQQQ")
_SCHED_OTHER, _SCHED_BATCH = 0, 3
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_LATENCY_DEVICE = "/dev/cpu_dma_latency"
PUNCTUAL_SLICE_NS = 100_000  # time slice of threads that must run soon after waking
_PR_SET_TIMERSLACK = 29
_PR_GET_TIMERSLACK = 30
SWITCH_INTERVAL_S = 0.0005  # interpreter's switch interval while a loop runs
_in_force: dict[str, bool] = {}


def settings_in_effect() -> dict[str, bool]:
    """Return the operating-system settings that this process requested, by name, and whether each took effect."""
    return dict(_in_force)


@contextlib.contextmanager
def bounded_timer_slack(nanoseconds: int = 1) -> Iterator[bool]:
    """Set this thread's timer slack to `nanoseconds` [ns] inside the `with` block (Linux).

    The timer slack is the delay with which the kernel may wake a sleeping thread; its default is 50 us. Yields whether
    the kernel accepted the value.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is None:
        _in_force["timer slack"] = False
        yield False
        return
    before = prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0)
    accepted = _in_force["timer slack"] = prctl(_PR_SET_TIMERSLACK, nanoseconds, 0, 0, 0) == 0
    try:
        yield accepted
    finally:
        if before > 0:
            prctl(_PR_SET_TIMERSLACK, before, 0, 0, 0)


def _set_scheduling(policy: int, slice_ns: int, nice: int) -> bool:
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None or not sys.platform.startswith("linux"):
        return False
    size = _SCHED_ATTRIBUTES.size
    attributes = ctypes.create_string_buffer(_SCHED_ATTRIBUTES.pack(size, policy, 0, nice, 0, slice_ns, 0, 0))
    return bool(ctypes.CDLL(None).syscall(number, 0, attributes, 0) == 0)


def _runs_in_real_time() -> bool:
    """Return whether this thread runs under a real-time policy, SCHED_FIFO or SCHED_RR."""
    return hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)


def _nice() -> int:
    """Return the niceness (scheduling priority) of this thread, which it may have inherited."""
    return os.getpriority(os.PRIO_PROCESS, 0)


def prefer_latency() -> bool:
    """Request short scheduler time slices for this thread and its child threads; return whether the kernel accepts it.

    A thread with short slices that wakes up runs before threads with long slices. This needs no privilege; Linux 6.12
    or newer implements it. A thread under a real-time policy keeps that policy, and the result is False. The process'
    memory is also locked if that is permitted.
    """
    lock_memory()
    if _runs_in_real_time():
        return False
    _in_force["short time slices"] = _set_scheduling(_SCHED_OTHER, PUNCTUAL_SLICE_NS, _nice())
    return _in_force["short time slices"]


def lock_memory() -> bool:
    """Lock this process' memory (mlockall), so that no cycle waits for a disk; return whether that was permitted."""
    lock_all = getattr(ctypes.CDLL(None), "mlockall", None)
    locked = bool(lock_all is not None and lock_all(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) == 0)
    _in_force["locked memory"] = locked
    return locked


def prefer_throughput() -> bool:
    """Give low priority (SCHED_BATCH, niceness +5) to this thread and its child threads; return whether it succeeded.

    A real-time policy is also replaced, because long computations must not take a processor from urgent threads.
    """
    return _set_scheduling(_SCHED_BATCH, 0, min(_nice() + 5, 19))


@contextlib.contextmanager
def disable_garbage_collection() -> Iterator[None]:
    """Disable cyclic garbage collection, and shorten the interpreter's thread switch interval, in the `with` block.

    Both settings apply to the whole process.
    """
    was_enabled, interval = gc.isenabled(), sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def disable_cpu_idle(asked: bool) -> Iterator[bool]:
    """Keep all processors out of their idle states inside the `with` block, if `asked` and permitted (Linux).

    This saves the time to wake up a processor in every cycle, but costs power. Yields whether the setting is in
    force.
    """
    if not asked:
        yield False
        return
    with contextlib.ExitStack() as held:
        try:
            device = held.enter_context(open(_LATENCY_DEVICE, "r+b", buffering=0))
            device.write(struct.pack("i", 0))  # longest permitted wake-up latency [us], until the device is closed
            _in_force["CPU idle disabled"] = True
        except OSError:
            _in_force["CPU idle disabled"] = False
        yield _in_force["CPU idle disabled"]


def leave_realtime() -> None:
    """Return this thread to ordinary scheduling, if it inherited a real-time policy."""
    if _runs_in_real_time():
        _set_scheduling(_SCHED_OTHER, PUNCTUAL_SLICE_NS, _nice())


@contextlib.contextmanager
def fifo_scheduling(priority: int | None) -> Iterator[bool]:
    """Run this thread under SCHED_FIFO at `priority` inside the `with` block, if `priority` is not None and permitted.

    Yields whether a real-time policy is in force: SCHED_FIFO, or a policy with which the process was started.
    """
    if priority is None or not hasattr(os, "sched_setscheduler"):
        yield _runs_in_real_time()
        return
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except PermissionError:
        yield _runs_in_real_time()
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, policy, parameter)
