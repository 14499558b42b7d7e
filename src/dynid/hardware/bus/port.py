"""Serial port that the DYNAMIXEL SDK opens exclusively, with one error message for each cause of failure."""

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
"""Wait time of the set-up for a reply beyond its time on the wire; a USB adapter may delay a reply by 16 ms."""


class WaitingPortHandler(PortHandler):
    """The DYNAMIXEL SDK's port handler, extended by exclusive opening and by frame I/O that waits in poll()."""

    is_open: bool

    @property
    def simulated(self) -> bool:
        """Whether the port is open and carries the mark of a simulated arm; a line without it is a real arm's."""
        return self.is_open and is_simulated(self.ser.fd)

    def setupPort(self, cflag_baud: int) -> bool:
        """Open the port at `self.baudrate` with a lock that makes it 'busy' for a second process; return True.

        `cflag_baud`, the SDK's code of the baud rate, is ignored.
        """
        if self.is_open:
            self.closePort()
        self.ser = serial.Serial(self.port_name, self.baudrate, timeout=0, exclusive=True)
        if not is_pseudo_terminal(self.port_name):
            fcntl.ioctl(self.ser.fd, termios.TIOCEXCL)  # also excludes programs that ignore the lock
            with contextlib.suppress(OSError, ValueError, NotImplementedError):  # not every adapter supports it
                self.ser.set_low_latency_mode(True)  # while the port is open; an FTDI chip then waits 1 ms, not 16
        self.is_open = True
        self.is_using = False
        self.ser.reset_input_buffer()
        self._poll = select.poll()
        self._poll.register(self.ser.fd, select.POLLIN)
        return True

    def send(self, frame: bytes) -> None:
        """Write a whole frame to the serial port.

        Raises:
            OSError: the line does not accept the frame.
        """
        if os.write(self.ser.fd, frame) != len(frame):
            raise OSError("the output buffer is full")

    def receive(self, timeout_ms: float) -> bytes:
        """Return the bytes that have arrived, after waiting up to `timeout_ms` [ms] for the first; b"" on a timeout.

        Raises:
            OSError: the line is gone.
        """
        if not self._poll.poll(timeout_ms):
            return b""
        data = os.read(self.ser.fd, 4096)
        if not data:
            raise OSError("end of file")
        return data

    def discard_input(self) -> None:
        """Discard bytes that have arrived and were not read.

        Raises:
            termios.error: the line is gone.
        """
        termios.tcflush(self.ser.fd, termios.TCIFLUSH)


def is_pseudo_terminal(port: str | Path) -> bool:
    """Return whether a port, symbolic links followed, is a pseudo-terminal; it may still relay to a real arm."""
    return os.path.realpath(port).startswith("/dev/pts/")


def open_port(port: str, baudrate: int) -> WaitingPortHandler:
    """Open a serial port for this process alone.

    Args:
        port: path of the device.
        baudrate: a baud rate that the SDK supports [bit/s].

    Raises:
        BusError: the port does not exist, is not a serial port, is busy or forbidden, or does not support the baud
            rate.
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
    """Close a port in any state; its file descriptor is closed even if the adapter was unplugged."""
    handler.is_using = False
    handler.is_open = False
    if handler.ser is not None:
        with contextlib.suppress(OSError, termios.error):  # an unplugged adapter cannot be drained, only closed
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
