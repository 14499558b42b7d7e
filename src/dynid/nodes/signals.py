"""Signal handlers for the time of a block."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int


@contextlib.contextmanager
def signals_handled(handlers: Mapping[int, Handler]) -> Iterator[None]:
    """Handle signals, by number, like this while the block runs, and then as before.

    Only the main thread may do that; in another the block runs with the handlers that there are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, signal.SIG_DFL if former is None else former)  # None: not set by Python
