"""Bringing the servos of an arm into the state in which the 1 kHz cycle may start: checked, current mode, no torque."""

import math

from dynid.errors import BusError, BusTimeoutError
from dynid.hardware import control_table as table
from dynid.hardware.bus import ServoBus
from dynid.hardware.control_table import Register
from dynid.robot import Robot

# What the cycle relies on: set in the servos where it differs. Drive mode 0 is: not reversed, torque only on request.
REQUIRED: tuple[tuple[Register, int], ...] = (
    (table.RETURN_DELAY_TIME, 0),
    (table.DRIVE_MODE, 0),
    (table.OPERATING_MODE, table.CURRENT_MODE),
)


def check_servos(bus: ServoBus, robot: Robot) -> None:
    """Ping all servos of the robot and compare their models.

    Raises:
        BusError: one message with every servo that is missing or of another model.
    """
    missing, wrong = [], []
    for joint, servo_id, expected in zip(robot.file.joints, robot.servo_ids, robot.model_numbers, strict=True):
        try:
            model = bus.ping(servo_id)
        except BusTimeoutError:
            missing.append(f"{servo_id} ({joint.name})")
            continue
        if model != expected:
            wrong.append(f"{servo_id} ({joint.name}) is model {model} instead of {expected} ({joint.servo_model})")
    if len(missing) == robot.size:
        raise BusError(
            f"no servo answers on {bus.port} at {bus.baudrate} bit/s: it is not the servo bus of {robot.name}, its "
            "power is off, or its servos have another baud rate"
        )
    problems = [f"missing servos: {', '.join(missing)}"] if missing else []
    problems += [f"wrong servos: {', '.join(wrong)}"] if wrong else []
    if problems:
        raise BusError(f"servos on {bus.port} are not those of {robot.name}: {'; '.join(problems)}; check the wiring")


def check_health(bus: ServoBus, robot: Robot) -> None:
    """Refuse servos with a live hardware error, a current limit below the robot's, or a homing offset.

    Raises:
        BusError: one message with every such servo and what to do.
    """
    problems = []
    for joint, servo_id, wanted_a in zip(robot.file.joints, robot.servo_ids, robot.current_limits, strict=True):
        error = bus.read(servo_id, table.HARDWARE_ERROR_STATUS)
        if error:
            text = table.hardware_error_text(error)
            problems.append(f"servo {servo_id} ({joint.name}) reports {text}: find the cause, then reboot it")
        offset = bus.read(servo_id, table.HOMING_OFFSET)
        if offset:
            degrees = math.degrees(offset * table.POSITION_RAD_PER_COUNT)
            problems.append(
                f"servo {servo_id} ({joint.name}) has homing offset {offset} ({degrees:.2f} deg) instead of 0, "
                "which shifts its zero: set it to 0, then check the zero pose"
            )
        limit_a = bus.read(servo_id, table.CURRENT_LIMIT) * table.CURRENT_A_PER_COUNT
        if wanted_a > limit_a + table.CURRENT_A_PER_COUNT:
            problems.append(
                f"servo {servo_id} ({joint.name}) is limited to {limit_a:.2f} A, below current_limit_a "
                f"{wanted_a} in robot.yaml: lower that"
            )
    if problems:
        raise BusError("; ".join(problems))


def configure(bus: ServoBus, robot: Robot) -> list[str]:
    """Torque off, current mode, goal current 0, watchdog off; EEPROM is written only where it differs.

    Returns:
        One line for each EEPROM register that was changed.
    """
    changed = []
    for joint, servo_id in zip(robot.file.joints, robot.servo_ids, strict=True):
        bus.write(servo_id, table.TORQUE_ENABLE, 0)
        for register, wanted in REQUIRED:
            found = bus.read(servo_id, register)
            if found != wanted:
                bus.write(servo_id, register, wanted)
                changed.append(f"servo {servo_id} ({joint.name}): {register.name} {found} -> {wanted}")
        bus.write(servo_id, table.BUS_WATCHDOG, 0)  # a tripped watchdog would refuse the goal
        bus.write(servo_id, table.GOAL_CURRENT, 0)  # after the mode, whose change sets it to the current limit
    return changed


def require_replies(bus: ServoBus, robot: Robot) -> None:
    """Have the servos answer every instruction; one that answers only pings and reads is told so unheard."""
    for servo_id in robot.servo_ids:
        if bus.read(servo_id, table.STATUS_RETURN_LEVEL) != table.STATUS_RETURN_ALL:
            bus.sync_write(table.STATUS_RETURN_LEVEL, [table.STATUS_RETURN_ALL] * robot.size)
            return
