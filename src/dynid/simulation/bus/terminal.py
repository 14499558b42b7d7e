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
    """Pseudo-terminal between emulated servos and a driver, marked as the port of a simulated arm.

    Args:
        link: a symbolic link to the port, removed by `pull`. With a link, the port keeps its path when it is plugged in
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
        """Whether the port exists, so that a client can open it."""
        return self._master >= 0

    @property
    def descriptor(self) -> int:
        """File descriptor of the servos' end of the pseudo-terminal; -1 while the cable is unplugged."""
        return self._master

    @property
    def baud_code(self) -> int | None:
        """Baud rate that the client has set, as a value of the baud rate register; None if servos do not support it."""
        return _CODE_BY_SPEED.get(termios.tcgetattr(self._slave)[5])

    def plug(self) -> None:
        """Create the port and its link; do nothing if the port exists.

        Raises:
            FileExistsError: a file exists at the path of the link.
        """
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
        """Remove the port and its link, so that clients get errors; do nothing if the port does not exist."""
        if not self.plugged:
            return
        if self._link is not None and self._link.is_symlink():
            self._link.unlink()
        for descriptor in (self._master, self._slave):
            os.close(descriptor)
        self._master = self._slave = -1

    def read(self) -> bytes:
        """Return the bytes that clients have written since the last call, at most 4096; b"" if there are none."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._master, 4096)
        return b""

    def write(self, data: bytes) -> int:
        """Send bytes to the client; return the number of bytes sent, which is below `len(data)` if no client reads."""
        with contextlib.suppress(BlockingIOError):
            return os.write(self._master, data)
        return 0
