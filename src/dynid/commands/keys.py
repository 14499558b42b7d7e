"""Keys that end a command while it runs."""

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPS = b"\n\r q\x1b"
WORDS = "Enter, space, q or Esc"


@contextmanager
def stop_keys() -> Iterator[Callable[[], bool]]:
    """Yield whether a key of `STOPS` was pressed since the last call; without a terminal never."""
    if not sys.stdin.isatty():
        yield lambda: False
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def pressed() -> bool:
        ready, _, _ = select.select([number], [], [], 0.0)
        return bool(ready) and bool(set(os.read(number, 64)) & set(STOPS))

    tty.setcbreak(number)
    try:
        yield pressed
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
