"""Emulated servo bus that is served by a thread in the process of its driver."""

import contextlib
import threading
from collections.abc import Iterator

from dynid.simulation.bus.servo_bus import EmulatedServoBus


@contextlib.contextmanager
def running_bus(bus: EmulatedServoBus) -> Iterator[EmulatedServoBus]:
    """Serve an emulated servo bus in a thread while the block runs, then stop and close it."""
    thread = threading.Thread(target=bus.run, name="servo bus", daemon=True)
    thread.start()
    try:
        yield bus
    finally:
        bus.stop()
        thread.join()
        bus.close()
