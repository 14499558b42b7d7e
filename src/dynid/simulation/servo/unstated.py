"""What the e-manual leaves open about a servo, as switches; and the error numbers of a status packet."""

from dataclasses import dataclass

RESULT_FAIL, INSTRUCTION_ERROR, CRC_ERROR, RANGE_ERROR, LENGTH_ERROR, LIMIT_ERROR, ACCESS_ERROR = range(1, 8)


@dataclass
class Unstated:
    """What the e-manual does not say, or says otherwise than users observed; tests try both values of each.

    Attributes:
        gaps_readable: a read may reach across unlisted addresses, which are 0; one of nothing else is always refused.
        unlisted_error: of an access to unlisted addresses; the e-manual says 7, an MX-28 sent 4 (DynamixelSDK 456).
        crc_error_answered: an instruction that arrives damaged is answered with status 3; else not at all.
        rearms_while_tripped: a tripped watchdog takes a new time without a 0 before.
        goals_survive_trip: when the watchdog is cleared, the goals from before it tripped are in force again.
        registered_at_once: a reg write is checked when it arrives; else only when the action comes.
        reset_with_torque: a factory reset is carried out although torque is on.
        torque_on_holds: a servo that controls its position takes the present one as goal when torque comes on; else it
            goes to the goal in its register.
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
