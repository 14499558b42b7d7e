"""Latency timer of USB serial adapters: how long the chip keeps received bytes before it passes them to the host."""

import os
from pathlib import Path

from dynid.errors import BusError

GOOD_MS = 1
SYSTEM = Path("/sys")


def timer_file(port: str, system: Path = SYSTEM) -> Path | None:
    """Return the file of a port's latency timer; None for ports without one (no FTDI adapter, or no adapter at all)."""
    file = system / "class" / "tty" / Path(os.path.realpath(port)).name / "device" / "latency_timer"
    return file if file.is_file() else None


def latency_ms(port: str, system: Path = SYSTEM) -> int | None:
    """Return a port's latency timer [ms]; None for ports without one."""
    file = timer_file(port, system)
    return None if file is None else int(file.read_text(encoding="ascii"))


def set_latency(port: str, system: Path = SYSTEM) -> str:
    """Set a port's latency timer to 1 ms, until the adapter is plugged in again, and return a line that says so.

    Raises:
        BusError: the port has no latency timer, or it may not be written.
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
