"""Pseudo-terminal of the emulated servos: a port that can be opened, pulled and plugged in again."""

import contextlib
import os
import termios
import tty
from pathlib import Path

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.simulated_line import mark_simulated
from dynid.resources import refuse_existing

_CODE_BY_SPEED = {
    getattr(termios, f"B{rate}"): code for code, rate in table.BAUD_RATES.items() if hasattr(termios, f"B{rate}")
}


class ServoTerminal:
    """Pseudo-terminal whose other end is the port; it carries the mark of a simulated line.

    Args:
        link: a symbolic link to the port, removed by `close`; with one, the port keeps its path when it is plugged in
            again.

    Attributes:
        port: path that a client opens.

    Raises:
        OutputExistsError: the link exists.
    """

    def __init__(self, link: Path | None = None) -> None:
        self._link = link
        self._master = self._slave = -1
        self.port = ""
        if link is not None:
            refuse_existing(link)
        self.plug()

    @property
    def plugged(self) -> bool:
        """Whether a client can open the port."""
        return self._master >= 0

    @property
    def descriptor(self) -> int:
        """File descriptor of the servos' end; -1 while the cable is out."""
        return self._master

    @property
    def baud_code(self) -> int | None:
        """Client's baud rate as a value of the baud rate register; None if servos do not support it."""
        return _CODE_BY_SPEED.get(termios.tcgetattr(self._slave)[5])

    def plug(self) -> None:
        """Create the port; do nothing if it exists."""
        if self.plugged:
            return
        self._master, self._slave = os.openpty()  # the slave stays open, so the port outlives its clients
        tty.setraw(self._slave)
        mark_simulated(self._slave)
        os.set_blocking(self._master, False)
        name = os.ttyname(self._slave)
        self.port = name if self._link is None else str(self._link)
        if self._link is not None:
            try:
                self._link.symlink_to(name)
            except BaseException:
                self._link = None  # the link belongs to another process
                self.pull()
                raise

    def pull(self) -> None:
        """Remove the port, so that clients get errors; do nothing if it does not exist."""
        if not self.plugged:
            return
        if self._link is not None and self._link.is_symlink():
            self._link.unlink()
        for descriptor in (self._master, self._slave):
            os.close(descriptor)
        self._master = self._slave = -1

    def read(self) -> bytes:
        """Return the bytes that clients have written."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._master, 4096)
        return b""

    def write(self, data: bytes) -> int:
        """Send bytes to the client; return how many were sent, fewer than given if no client reads."""
        with contextlib.suppress(BlockingIOError):
            return os.write(self._master, data)
        return 0
