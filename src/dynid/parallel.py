"""Independent pieces of work in several processes, one per core."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from dynid.errors import DynidError
from dynid.threads import THREAD_VARIABLES

AHEAD = 4  # pieces per process that are under way or wait for an earlier one: their results take memory
QUARTERS = 4
Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(
    work: Callable[[Item], Result], items: Sequence[Item], processes: int | None = None
) -> Iterator[tuple[int, Result]]:
    """`work` on every item; yields the item's place and its result as each is finished.

    Items begin in the order given, so long ones should come first. What a piece raises is raised here, after the
    pieces under way have ended; pieces not yet begun are given up, as they are on KeyboardInterrupt.

    Args:
        work: a function at the top level of a module; it and the items travel by pickle between our own processes.
        processes: None is one per core; 1 works in this process.

    Raises:
        DynidError: a process has ended with its piece.
    """
    count = min(processes or cores(), len(items))
    if count <= 1:
        yield from ((index, work(item)) for index, item in enumerate(items))
        return
    with _pool(count) as pool:
        with _deaf_children(), _named_if_broken():
            futures = {pool.submit(work, item): index for index, item in enumerate(items)}
        for future in as_completed(futures):
            yield futures[future], _result(future)


Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@contextlib.contextmanager
def process_map(processes: int | None = None) -> Iterator[Map]:
    """A `map` over processes that stay for all of its calls; results come in the order of the items.

    Work and items as in `in_processes`.
    """
    count = processes or cores()
    if count <= 1:
        yield map
        return
    with _pool(count) as pool:

        def spread(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            def submit(item: Any) -> Any:
                with _deaf_children(), _named_if_broken():
                    return pool.submit(work, item)

            return in_order(submit, items, AHEAD * count)

        yield spread


def in_order(submit: Callable[[Any], Any], items: Iterable[Any], ahead: int) -> Iterator[Any]:
    """Results of the futures that `submit` makes of items, in their order; at most so many are under way or kept.

    Raises:
        DynidError: who works on an item has ended; and what the work itself raises.
    """
    waiting: deque[Any] = deque()
    for item in items:
        waiting.append(submit(item))
        if len(waiting) >= ahead:
            yield _result(waiting.popleft())
    while waiting:
        yield _result(waiting.popleft())


def _result(future: Any) -> Any:
    with _named_if_broken():
        return future.result()


@contextlib.contextmanager
def _named_if_broken() -> Iterator[None]:
    """What a broken pool raises, as one sentence."""
    try:
        yield
    except BrokenExecutor as error:
        raise DynidError(
            "a process that worked on a piece has ended, perhaps for lack of memory: use fewer processes"
        ) from error


def watched(spread: Map, said: Callable[[str], None]) -> Map:
    """The same map, which says four times per call how far it is."""

    def watch(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        pieces = list(items)
        marks = {len(pieces) * quarter // QUARTERS for quarter in range(1, QUARTERS + 1)}
        for done, result in enumerate(spread(work, pieces), 1):
            if done in marks:
                said(f"{done} of {len(pieces)} pieces")
            yield result

    return watch


@contextlib.contextmanager
def _pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """So many processes; what has not begun is given up at the end."""
    with _one_thread_each():
        # a fresh interpreter: a fork of a process with threads may hang
        pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_begin)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Children that start meanwhile run their libraries with one thread: every core has work of its own."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """Children that start meanwhile hold SIGINT back until `_begin`: Python's start-up would print a traceback."""
    resource_tracker.ensure_running()  # it unblocks signals when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """At the start of a child: end with the parent, and end on SIGINT, cleaned up and without a traceback."""
    _watch()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as a job in the background has it
        if signal.SIGINT in signal.sigpending():
            os._exit(1)
        signal.signal(signal.SIGINT, lambda *_: sys.exit(1))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _watch() -> None:
    """End this process when its parent was killed and can no longer end it."""

    def wait() -> None:
        sentinel = multiprocessing.parent_process()
        assert sentinel is not None
        sentinel.join()  # the parent's identifier may still be its own then, so it is not looked at
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
