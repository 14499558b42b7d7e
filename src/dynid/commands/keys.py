"""Keys that the user presses while a command runs, for example to end it."""

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_KEYS = b"\n\r q\x1b"
STOP_KEY_NAMES = "Enter, space, q or Esc"


@contextmanager
def typed_keys() -> Iterator[Callable[[], bytes]]:
    """Yield a function that returns the keys pressed since its last call; without a terminal it returns b""."""
    if not sys.stdin.isatty():
        yield lambda: b""
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def typed() -> bytes:
        ready, _, _ = select.select([number], [], [], 0.0)
        return os.read(number, 64) if ready else b""

    tty.setcbreak(number)
    try:
        yield typed
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


@contextmanager
def stop_keys() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Enter, space, q or Esc was pressed since its last call.

    Without a terminal it always returns False.
    """
    with typed_keys() as typed:
        yield lambda: bool(set(typed()) & set(STOP_KEYS))
