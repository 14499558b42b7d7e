"""Emulated servo bus that a thread serves, in the same process as its driver."""

import contextlib
import threading
from collections.abc import Iterator

from dynid.simulation.bus.servo_bus import EmulatedServoBus


@contextlib.contextmanager
def running_bus(bus: EmulatedServoBus) -> Iterator[EmulatedServoBus]:
    """Serve an emulated servo bus in a thread inside the `with` block, then stop and close it."""
    thread = threading.Thread(target=bus.run, name="servo bus", daemon=True)
    thread.start()
    try:
        yield bus
    finally:
        bus.stop()
        thread.join()
        bus.close()
