"""Keys that end a command while it runs."""

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_KEYS = b"\n\r q\x1b"
STOP_KEY_NAMES = "Enter, space, q or Esc"


@contextmanager
def stop_keys() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether a key of `STOP_KEYS` was pressed since its last call.

    Without a terminal it always returns False.
    """
    if not sys.stdin.isatty():
        yield lambda: False
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def pressed() -> bool:
        ready, _, _ = select.select([number], [], [], 0.0)
        return bool(ready) and bool(set(os.read(number, 64)) & set(STOP_KEYS))

    tty.setcbreak(number)
    try:
        yield pressed
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
