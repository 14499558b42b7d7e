"""State machine of the safety guard, and the reasons for which the guard changes commanded currents.

The safety guard limits or replaces the commanded currents of an arm. This module defines its states, the events that
change the state, and a table of all permitted changes.
"""

from enum import Enum


class GuardState(Enum):
    """State of the safety guard.

    DISABLED: torque is off. ENABLED: commands are followed. STOPPING: the arm is stopped and lowered. FAULT: the arm is
    stopped and lowered, and the state stays until the fault is cleared.
    """

    DISABLED = "disabled"
    ENABLED = "enabled"
    STOPPING = "stopping"
    FAULT = "fault"


class GuardEvent(Enum):
    """Event that changes the state of the safety guard, see `TRANSITIONS`."""

    ENABLE = "enable"
    DISABLE = "disable"
    STOPPED = "stopped"
    FAULT = "fault"
    CLEAR = "clear a fault"


TRANSITIONS: dict[tuple[GuardState, GuardEvent], GuardState] = {
    (GuardState.DISABLED, GuardEvent.ENABLE): GuardState.ENABLED,
    (GuardState.DISABLED, GuardEvent.DISABLE): GuardState.DISABLED,
    (GuardState.DISABLED, GuardEvent.CLEAR): GuardState.DISABLED,
    (GuardState.DISABLED, GuardEvent.FAULT): GuardState.FAULT,
    (GuardState.ENABLED, GuardEvent.ENABLE): GuardState.ENABLED,
    (GuardState.ENABLED, GuardEvent.DISABLE): GuardState.STOPPING,
    (GuardState.ENABLED, GuardEvent.FAULT): GuardState.FAULT,
    (GuardState.STOPPING, GuardEvent.DISABLE): GuardState.STOPPING,
    (GuardState.STOPPING, GuardEvent.STOPPED): GuardState.DISABLED,
    (GuardState.STOPPING, GuardEvent.FAULT): GuardState.FAULT,
    (GuardState.FAULT, GuardEvent.DISABLE): GuardState.FAULT,
    (GuardState.FAULT, GuardEvent.STOPPED): GuardState.FAULT,
    (GuardState.FAULT, GuardEvent.FAULT): GuardState.FAULT,
    (GuardState.FAULT, GuardEvent.CLEAR): GuardState.DISABLED,
}


class Reason(Enum):
    """Reason why the currents that flow differ from the commanded torques divided by the torque constants."""

    DISABLED = "disabled"
    STOPPING = "stopping"
    FAULT = "fault"
    NO_COMMAND = "no command yet"
    STALE_COMMAND = "command too old"
    BAD_COMMAND = "command has the wrong size or is not finite"
    HUGE_COMMAND = "command far beyond the arm's torques"
    NO_FEEDBACK = "incomplete reading of the arm"
    COMMANDS_ENDED = "commands ended"
    CURRENT_RAMP = "the command is faded in after enable and after a pause"
    JOINT_LIMIT = "joint limit"
    APPROACH_SPEED = "too fast towards a joint limit"
    VELOCITY_LIMIT = "velocity limit"
    CURRENT_LIMIT = "current limit"
    TEMPERATURE = "current limit lowered: servo warm, near its overload, or its temperature not read"
    CURRENT_RATE = "current changed too fast"
