"""Proof that a serial line is simulated: a mark that the simulated arm puts on its own pseudo-terminal.

A pseudo-terminal may be a relay to a real arm, such as one made by `socat PTY TCP:robot`, so a pseudo-terminal alone
proves nothing. The simulated arm therefore writes a mark as the terminal's window size. The kernel stores the window
size for this device alone: no byte stream carries it, and no servo can reply with it. The mark contains the device's
number, so a window size that is copied to another terminal is not a valid mark there. The mark vanishes when the
simulated arm ends.
"""

import fcntl
import os
import stat
import struct
import termios
from pathlib import Path

FIRST_SLAVE_MAJOR, LAST_SLAVE_MAJOR = 136, 143  # device numbers of pseudo-terminals' slaves on Linux
_WINDOW = struct.Struct("<HHHH")  # rows, columns, and width and height in pixels
_ROWS, _COLUMNS = 0xD1D5, 0x51AA  # more than any real window has


def mark_simulated(slave: int) -> None:
    """Mark an open pseudo-terminal, with file descriptor `slave`, as a simulated line.

    Only the simulator of the servos behind it may call this.
    """
    fcntl.ioctl(slave, termios.TIOCSWINSZ, _mark(os.fstat(slave).st_rdev))


def is_simulated(descriptor: int) -> bool:
    """Return whether the open line with this file descriptor carries the mark of a simulated arm."""
    try:
        device = os.fstat(descriptor)
        if not _is_slave(device):
            return False
        window = fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(_WINDOW.size))
    except OSError:
        return False
    return bool(window == _mark(device.st_rdev))


def is_simulated_port(port: str | Path) -> bool:
    """Return whether the line at a path carries the mark of a simulated arm, see `mark_simulated`.

    Symbolic links are followed. A pseudo-terminal is opened briefly to check; any other device is not touched.
    """
    try:
        if not _is_slave(os.stat(port)):
            return False
        descriptor = os.open(port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return is_simulated(descriptor)
    finally:
        os.close(descriptor)


def _is_slave(device: os.stat_result) -> bool:
    major = os.major(device.st_rdev)
    return stat.S_ISCHR(device.st_mode) and FIRST_SLAVE_MAJOR <= major <= LAST_SLAVE_MAJOR


def _mark(device: int) -> bytes:
    return _WINDOW.pack(_ROWS, _COLUMNS, device & 0xFFFF, (device >> 16) & 0xFFFF)
