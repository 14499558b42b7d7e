"""Latency timer of USB serial adapters: how long the chip keeps received bytes before it passes them to the host."""

import os
from pathlib import Path

from dynid.errors import BusError

GOOD_MS = 1
SYSTEM = Path("/sys")


def timer_file(port: str, system: Path = SYSTEM) -> Path | None:
    """Return the file below `system` (sysfs) that holds the latency timer of a port.

    The result is None if the port has no latency timer, because its adapter is not an FTDI adapter.
    """
    file = system / "class" / "tty" / Path(os.path.realpath(port)).name / "device" / "latency_timer"
    return file if file.is_file() else None


def latency_ms(port: str, system: Path = SYSTEM) -> int | None:
    """Return the latency timer of a port [ms], read from sysfs at `system`; None if the port has no such timer."""
    file = timer_file(port, system)
    return None if file is None else int(file.read_text(encoding="ascii"))


def set_latency(port: str, system: Path = SYSTEM) -> str:
    """Set the latency timer of a port to 1 ms; return a line with its old and new value.

    The setting lasts until the adapter is unplugged.

    Args:
        port: path of the serial device.
        system: root of sysfs.

    Raises:
        BusError: the port has no latency timer, or this process may not write it.
    """
    file = timer_file(port, system)
    if file is None:
        raise BusError(f"port {port} has no latency timer; only FTDI adapters have one")
    before = file.read_text(encoding="ascii").strip()
    try:
        file.write_text(str(GOOD_MS), encoding="ascii")
    except PermissionError:
        raise BusError(
            f"the latency timer of {port} cannot be written; write it as root: echo {GOOD_MS} | sudo tee {file}"
        ) from None
    return f"latency timer {before} ms -> {GOOD_MS} ms"
