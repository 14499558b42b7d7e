"""A relay between a driver and a servo bus; its line counts as that of a real arm."""

import os
import select
import termios
import threading
import tty
from typing import Any


class Relay:
    """A pseudo-terminal of its own, as `socat PTY,link=... FILE:...` makes one, through which everything passes.

    Attributes:
        port: path that a driver opens.
        written: every byte that was written to the servos.
    """

    def __init__(self, port: str) -> None:
        self.written = bytearray()
        self._bus = os.open(port, os.O_RDWR | os.O_NOCTTY)
        self._master, self._slave = os.openpty()
        for terminal in (self._bus, self._slave):
            tty.setraw(terminal)
        self.port = os.ttyname(self._slave)
        self._end_read, self._end_write = os.pipe()
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def _pass_on(self) -> None:
        while True:
            ready, _, _ = select.select([self._master, self._bus, self._end_read], [], [])
            if self._end_read in ready:
                return
            if self._master in ready:
                data = os.read(self._master, 4096)
                self.written += data
                termios.tcsetattr(self._bus, termios.TCSANOW, self._at_the_drivers_rate())
                os.write(self._bus, data)
            if self._bus in ready:
                os.write(self._master, os.read(self._bus, 4096))

    def _at_the_drivers_rate(self) -> list[Any]:
        attributes = termios.tcgetattr(self._bus)
        attributes[4:6] = termios.tcgetattr(self._slave)[4:6]
        return attributes

    def close(self) -> None:
        """End the relay; the line behind it stays as it is."""
        os.write(self._end_write, b"x")
        self._thread.join()
        for descriptor in (self._master, self._slave, self._bus, self._end_read, self._end_write):
            os.close(descriptor)
