"""Position mode with goal current 0, in which the driver leaves all servos when it ends.

After power-on, and after a change of mode, a servo itself sets its goal current to its current limit. A servo that was
left in current mode would therefore run away, beyond all position limits, as soon as any program switches its torque
on. In position mode a servo stays where it is.
"""

from collections.abc import Iterable

from dynid.errors import BusError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.servo_bus import ServoBus

CONFIRM_ATTEMPTS = 3
CONSEQUENCE = (
    "in current mode they would run with full current at the next torque on; switch their power off, and start and end "
    "the driver once"
)


def leave_position_mode(bus: ServoBus, servo_ids: Iterable[int]) -> list[int]:
    """Set servos whose torque is off to position mode with goal current 0; return the IDs that did not confirm it."""
    unconfirmed = list(servo_ids)
    for _ in range(CONFIRM_ATTEMPTS):
        unconfirmed = [servo_id for servo_id in unconfirmed if not _took_position_mode(bus, servo_id)]
    return unconfirmed


def write_position_mode(bus: ServoBus, servo_id: int) -> None:
    """Set one servo to position mode with goal current 0.

    Raises:
        BusError: the servo did not confirm it.
    """
    bus.write(servo_id, table.OPERATING_MODE, table.POSITION_MODE)
    bus.write(servo_id, table.GOAL_CURRENT, 0)  # the change of mode has set it to the limit


def _took_position_mode(bus: ServoBus, servo_id: int) -> bool:
    try:
        write_position_mode(bus, servo_id)
    except BusError:
        return False
    return True
