"""Servo behaviour that the e-manual leaves open, as switches; and the error numbers of a status packet."""

from dataclasses import dataclass

RESULT_FAIL, INSTRUCTION_ERROR, CRC_ERROR, RANGE_ERROR, LENGTH_ERROR, LIMIT_ERROR, ACCESS_ERROR = range(1, 8)


@dataclass
class UndocumentedBehaviour:
    """Behaviour that the e-manual omits, or states differently from users' observations; tests try both values of each.

    Attributes:
        gaps_readable: a read may span unlisted addresses, which read as 0; a read of only such addresses is refused.
        unlisted_error: status of an access to unlisted addresses; 7 by e-manual, 4 from an MX-28 (DynamixelSDK 456).
        crc_error_answered: a damaged instruction is answered with status 3; else not at all.
        rearms_while_tripped: a tripped watchdog accepts a new time without a prior write of 0.
        goals_survive_trip: after the watchdog is cleared, the goals from before the trip are effective again.
        registered_at_once: a reg write is checked on arrival; else only at the action.
        reset_with_torque: a factory reset is executed although torque is on.
        torque_on_holds: a servo in a position mode takes the present position as goal when torque comes on; else it
            moves to the goal in its register.
        new_id_answers: the confirmation of an ID change has the new ID; else the old one.
    """

    gaps_readable: bool = True
    unlisted_error: int = ACCESS_ERROR
    crc_error_answered: bool = True
    rearms_while_tripped: bool = False
    goals_survive_trip: bool = True
    registered_at_once: bool = True
    reset_with_torque: bool = False
    torque_on_holds: bool = True
    new_id_answers: bool = False
