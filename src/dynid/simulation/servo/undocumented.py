"""Switches for servo behaviour that the e-manual leaves open, and the error numbers of a status packet."""

from dataclasses import dataclass

RESULT_FAIL, INSTRUCTION_ERROR, CRC_ERROR, RANGE_ERROR, LENGTH_ERROR, LIMIT_ERROR, ACCESS_ERROR = range(1, 8)


@dataclass
class UndocumentedBehaviour:
    """Switches for servo behaviour that the e-manual does not define, or that users observed to be different.

    Tests try both values of each switch.

    Attributes:
        gaps_readable: whether a read may span addresses that the control table does not list. Such addresses read as 0;
            a read that contains no listed address is always refused.
        unlisted_error: status error of an access to unlisted addresses; the e-manual states 7, an MX-28 returned 4
            (DynamixelSDK issue 456).
        crc_error_answered: whether an instruction with a wrong CRC is answered, with status error 3.
        rearms_while_tripped: whether a tripped watchdog accepts a new time without a prior write of 0.
        goals_survive_trip: whether goals from before a trip of the watchdog are effective again after it is cleared.
        registered_at_once: whether a Reg Write instruction is checked on arrival; if False, at the Action instruction.
        reset_with_torque: whether a factory reset is executed while torque is on.
        torque_on_holds: whether a servo in a position mode adopts the present position as goal when torque is switched
            on. Otherwise it moves to the goal in its register.
        new_id_answers: whether the confirmation of an ID change contains the new ID; if False, the old ID.
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
