"""Operating-system settings that make a loop punctual; each is optional, and says whether it took effect."""

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Iterator

_PR_SET_TIMERSLACK = 29
_PR_GET_TIMERSLACK = 30
SWITCH_INTERVAL_S = 0.0005


@contextlib.contextmanager
def bounded_timer_slack(nanoseconds: int = 1) -> Iterator[bool]:
    """Let this thread's sleeps end within `nanoseconds` of their time instead of the kernel's 50 us (Linux).

    Yields whether the kernel accepted it.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is None:
        yield False
        return
    before = prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0)
    accepted = prctl(_PR_SET_TIMERSLACK, nanoseconds, 0, 0, 0) == 0
    try:
        yield accepted
    finally:
        if before > 0:
            prctl(_PR_SET_TIMERSLACK, before, 0, 0, 0)


@contextlib.contextmanager
def quiet_interpreter() -> Iterator[None]:
    """No cyclic garbage collection, and quick hand-over between threads, while the block runs; the whole process."""
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
def fifo_scheduling(priority: int | None) -> Iterator[bool]:
    """Run this thread under SCHED_FIFO at `priority`, if asked (not None) and permitted.

    Yields whether it is in force.
    """
    if priority is None or not hasattr(os, "sched_setscheduler"):
        yield False
        return
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except PermissionError:
        yield False
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, policy, parameter)
