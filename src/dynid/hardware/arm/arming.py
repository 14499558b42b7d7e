"""Preparation of the servos before torque comes on (arming).

Goal currents and bus watchdogs are written by sync writes, which servos do not confirm, and are therefore read back.
"""

import numpy as np
from numpy.typing import NDArray

from dynid.errors import BusError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.bus.slow_state import ARMED, SlowState
from dynid.hardware.startup.servo_checks import required_settings
from dynid.robot import Robot

ATTEMPTS = 3
REMEDY = "configure the driver again; if it comes back, check the cable to that servo, or replace it"


class Arming:
    """Preparation of one arm's servos before torque comes on: goal current 0, bus watchdog on, settings checked.

    Args:
        bus: the open bus.
        robot: names and current limits.
        watchdog_count: timeout of the bus watchdogs, as a register value (steps of 20 ms).
        slow: newest slow values of the servos (errors, settings, temperature). `arm` reads the settings from the servos
            and stores them in `slow`; a later change of these settings is a fault.
    """

    def __init__(self, bus: ServoBus, robot: Robot, watchdog_count: int, slow: SlowState) -> None:
        self._bus, self._slow, self._ids = bus, slow, robot.all_servo_ids
        self._labels = [wired.label for wired in robot.wired_servos]
        # the startup checks permit a servo's limit to be one count below the robot's
        limits = np.ceil(robot.current_limits / robot.current_units - 1.0 - 1e-9).astype(np.int64)
        needed = []
        for wired in robot.wired_servos:
            driving = {table.BUS_WATCHDOG: watchdog_count, table.GOAL_PWM: table.FULL_PWM}
            required = required_settings(wired) | driving | {table.CURRENT_LIMIT: int(limits[wired.axis])}
            needed.append([required[register] for register in ARMED])
        self._needed = np.array(needed, dtype=np.int64)
        self._watchdog_count = watchdog_count

    def arm(self) -> None:
        """Write goal current 0 and the bus watchdog, and read back every setting that a servo needs to move its joint.

        Raises:
            BusError: a servo did not accept the values, or its settings differ from the needed ones; the message names
                all differences.
        """
        size, ids = len(self._labels), self._ids
        wrong: list[str] = []
        for attempt in range(ATTEMPTS):
            self._bus.retries += attempt > 0
            self._bus.sync_write(table.BUS_WATCHDOG, [0] * size, ids)  # a tripped watchdog would refuse the goals
            self._bus.sync_write(table.GOAL_CURRENT, [0] * size, ids)
            self._bus.sync_write(table.BUS_WATCHDOG, [self._watchdog_count] * size, ids)
            wrong = self._read_back()
            if not wrong:
                self._slow.wanted[:] = self._slow.armed
                return
        raise BusError(f"torque stays off: {'; '.join(wrong)}: {REMEDY}")

    def _read_back(self) -> list[str]:
        """Read back the goal currents and all settings that a servo needs to drive; return one line per wrong value."""
        wrong = self._compared(table.GOAL_CURRENT, np.zeros(len(self._labels), dtype=np.int64))[0]
        for column, register in enumerate(ARMED):
            found, values = self._compared(register, self._needed[:, column])
            wrong += found
            self._slow.armed[:, column] = values
        return wrong

    def _compared(self, register: table.Register, needed: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
        """Compare one register of all m servos with its needed values.

        A current limit above the needed value is not a difference.

        Args:
            register: register to read from all servos.
            needed: needed raw values, (m,).

        Returns:
            One line per servo with a wrong or unread value, and the raw values of all servos, (m,).
        """
        values, valid = self._bus.sync_read(register, self._ids)
        for _ in range(ATTEMPTS - 1):
            if all(valid):
                break
            values, valid = self._bus.sync_read(register, self._ids)
        wrong = []
        for label, value, read, wanted in zip(self._labels, values, valid, needed.tolist(), strict=True):
            if not read:
                wrong.append(f"{label} does not report its {register.name}")
            elif value < wanted or (value > wanted and register is not table.CURRENT_LIMIT):
                wrong.append(f"{label} has {register.name} {value} instead of {wanted}")
        return wrong, np.array(values, dtype=np.int64)
