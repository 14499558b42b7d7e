"""The serial port: opened by the DYNAMIXEL SDK, exclusively, with one clear sentence for whatever can go wrong."""

import contextlib
import errno
import fcntl
import os
import select
import stat
import termios
from pathlib import Path

import serial
from dynamixel_sdk import PortHandler

from dynid.errors import BusError
from dynid.hardware.bus.simulated_line import is_simulated

REPLY_LATENCY_MS = 20.0
"""How long the set-up waits for a reply beyond its time on the wire; a USB adapter may sit on one for 16 ms."""


class WaitingPortHandler(PortHandler):
    """The SDK's port handler, which opens and sets the line, exclusively; frames go past it, waiting in poll()."""

    is_open: bool

    @property
    def simulated(self) -> bool:
        """Whether the open line has proved that it is simulated; every other one counts as that of a real arm."""
        return self.is_open and is_simulated(self.ser.fd)

    def setupPort(self, cflag_baud: int) -> bool:
        """Open the port with a lock that a second process meets as 'busy'."""
        if self.is_open:
            self.closePort()
        self.ser = serial.Serial(self.port_name, self.baudrate, timeout=0, exclusive=True)
        if not is_pseudo_terminal(self.port_name):
            fcntl.ioctl(self.ser.fd, termios.TIOCEXCL)  # also keeps out programs that do not look at the lock
            with contextlib.suppress(OSError, ValueError, NotImplementedError):  # not every adapter knows it
                self.ser.set_low_latency_mode(True)  # for as long as it is open; an FTDI chip then waits 1 ms, not 16
        self.is_open = True
        self.is_using = False
        self.ser.reset_input_buffer()
        self._poll = select.poll()
        self._poll.register(self.ser.fd, select.POLLIN)
        return True

    def send(self, frame: bytes) -> None:
        """Write a whole frame; OSError if the line does not take it."""
        if os.write(self.ser.fd, frame) != len(frame):
            raise OSError("the output buffer is full")

    def receive(self, timeout_ms: float) -> bytes:
        """What has arrived, waiting for it; nothing when the time is over. OSError when the line is gone."""
        if not self._poll.poll(timeout_ms):
            return b""
        data = os.read(self.ser.fd, 4096)
        if not data:
            raise OSError("end of file")
        return data

    def discard_input(self) -> None:
        """Forget what has arrived and was not read; termios.error when the line is gone."""
        termios.tcflush(self.ser.fd, termios.TCIFLUSH)


def is_pseudo_terminal(port: str | Path) -> bool:
    """Return whether a port, symbolic links followed, is a pseudo-terminal; what is behind it may be a real arm."""
    return os.path.realpath(port).startswith("/dev/pts/")


def open_port(port: str, baudrate: int) -> WaitingPortHandler:
    """Open a serial port for this process alone.

    Args:
        port: path of the device.
        baudrate: one that the SDK knows [bit/s].

    Raises:
        BusError: it does not exist, is no serial port, is busy or forbidden, or cannot do the baud rate.
    """
    try:
        mode = os.stat(port).st_mode
    except FileNotFoundError:
        raise BusError(
            f"port {port} does not exist; connect the adapter and find it with 'ls /dev/ttyUSB* /dev/serial/by-id'"
        ) from None
    except OSError as error:
        raise BusError(_sentence(port, error.errno)) from error
    if not stat.S_ISCHR(mode):
        raise BusError(f"port {port} is a file or folder, not a serial port; give the adapter's device")
    handler = WaitingPortHandler(port)
    try:
        if not handler.setBaudRate(baudrate):
            raise BusError(f"the DYNAMIXEL SDK does not know baud rate {baudrate}; use 1, 2, 3 or 4 million bit/s")
    except BusError:
        raise
    except (OSError, termios.error) as error:
        close_port(handler)
        number = error.errno if isinstance(error, OSError) else error.args[0]
        raise BusError(_sentence(port, number)) from error
    return handler


def close_port(handler: WaitingPortHandler) -> None:
    """Close a port whatever state it is in; the descriptor is gone afterwards."""
    handler.is_using = False
    handler.is_open = False
    if handler.ser is not None:
        with contextlib.suppress(OSError, termios.error):  # a pulled adapter cannot be drained; closing is the point
            handler.ser.close()


def _sentence(port: str, number: int | None) -> str:
    if number in (errno.EACCES, errno.EPERM):
        return (
            f"no permission to open port {port}; add yourself to its group with 'sudo usermod -aG dialout $USER' "
            "and log in again"
        )
    if number in (errno.EBUSY, errno.EAGAIN):
        return f"port {port} is busy: another process has opened it; end that process first"
    if number in (errno.ENOTTY, errno.EINVAL, None):  # pyserial gives no number when it cannot configure the device
        return f"port {port} is not a usable serial port; give the adapter's device"
    return f"port {port} cannot be opened: {os.strerror(number)}"
