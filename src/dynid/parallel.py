"""Execution of independent function calls in several processes, by default one per core."""

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

AHEAD = 4  # maximum number of submitted items per process whose result has not been yielded, to limit memory
QUARTERS = 4  # number of progress reports per call of a map
Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(
    work: Callable[[Item], Result], items: Sequence[Item], processes: int | None = None
) -> Iterator[tuple[int, Result]]:
    """Call `work` on every item in several processes; yield each item's index and result as it is finished.

    Calls start in the order of the items, so items that take long should come first. After an error in a call or a
    KeyboardInterrupt, calls that have not started are cancelled. The error is raised after running calls have ended.

    Args:
        work: a function at the top level of a module; it is pickled, as are the items.
        items: arguments of the calls.
        processes: number of processes; None is one per core. With 1, this process makes all calls.

    Raises:
        DynidError: a process ended during a call.
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
    """Start processes, and yield a function like `map` that distributes calls among them; it can be used repeatedly.

    Results come in the order of the items. The function must be at the top level of a module, and the items must be
    picklable. `processes` is the number of processes; None is one per core, and 1 yields the builtin `map`.
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
    """Submit items one by one, and yield their results in the same order.

    Args:
        submit: function that starts the work on an item and returns a future.
        items: the items.
        ahead: maximum number of submitted items whose result has not been yielded yet.

    Raises:
        DynidError: a worker process ended. Errors of the work itself are raised, too.
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
    """Convert an error of a broken process pool in the `with` block to a DynidError of one sentence."""
    try:
        yield
    except BrokenExecutor as error:
        raise DynidError(
            "a process that worked on a piece has ended, perhaps for lack of memory: use fewer processes"
        ) from error


def with_progress(spread: Map, report: Callable[[str], None]) -> Map:
    """Return a function that does the same as `spread` and reports when each quarter of the items is done.

    A call with fewer than four items reports after each item.

    Args:
        spread: function like the builtin `map`, such as the one that `process_map` yields.
        report: function that receives a text such as "10 of 40 pieces"; a piece is an item to which `spread` applies
            its function.
    """

    def watch(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        pieces = list(items)
        marks = {len(pieces) * quarter // QUARTERS for quarter in range(1, QUARTERS + 1)}
        for done, result in enumerate(spread(work, pieces), 1):
            if done in marks:
                report(f"{done} of {len(pieces)} pieces")
            yield result

    return watch


@contextlib.contextmanager
def _pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of `count` processes, and shut it down at the end; calls that have not started are cancelled."""
    with _one_thread_each():
        # a new interpreter, because a fork of a process with threads may hang
        pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_begin)
        try:
            yield pool
        except SystemExit:  # this process was asked to end, but its children were not
            for child in multiprocessing.active_children():
                child.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limit numerical libraries to one thread in child processes that are started in the `with` block.

    The child processes together use all cores, so more threads would only compete with each other.
    """
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
    """Block SIGINT in child processes that are started in the `with` block, until Python has started in them.

    Otherwise Ctrl-C during the start would print tracebacks. `_begin` ends the blocking in each child.
    """
    resource_tracker.ensure_running()  # started before, because it unblocks signals at its start
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Prepare this child process to end when its parent ends, and to end on SIGINT without a traceback."""
    _watch()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # background jobs ignore SIGINT
        if signal.SIGINT in signal.sigpending():
            os._exit(1)
        signal.signal(signal.SIGINT, lambda *_: sys.exit(1))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _watch() -> None:
    """Start a thread that ends this child process when its parent has ended, even if the parent was killed."""

    def wait() -> None:
        sentinel = multiprocessing.parent_process()
        assert sentinel is not None
        sentinel.join()  # os.getppid() is not used: it may still name the dead parent
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
