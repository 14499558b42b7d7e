"""A DYNAMIXEL program's view of an emulated servo bus."""

from collections.abc import Iterator

import pytest
from dynamixel_sdk import PortHandler

from dynid.simulation.bus.servo_bus import EmulatedServoBus


@pytest.fixture
def port(bus: EmulatedServoBus) -> Iterator[PortHandler]:
    """The SDK's own port handler, as any DYNAMIXEL program uses it."""
    handler = PortHandler(bus.port)
    assert handler.setBaudRate(3_000_000)
    yield handler
    handler.closePort()
