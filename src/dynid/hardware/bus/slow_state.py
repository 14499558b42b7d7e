"""Slow values of the servos (torque enable, errors, settings, voltage, temperature), read one block at a time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.bus.state_cycle import StateCycle
from dynid.robot import FloatArray, Robot
from dynid.robot.servo_fields import mismatch_deg

UNKNOWN = -2
TORQUE, WATCHDOG, CLIMATE, MODE, LIMITS, PLACE = range(6)  # indices of register blocks, see `_BLOCKS`
# blocks read from every servo in each round; a round ends with one EEPROM block of one servo
ROUND = (TORQUE, WATCHDOG, CLIMATE)
IN_EEPROM = (MODE, LIMITS)
FOLLOWER_BLOCKS = (
    PLACE,
    TORQUE,
)  # blocks of a joint's further servos, read in every other call; the reads of states do not cover these servos
# Registers that must be correct before a servo may drive its joint. With a secondary ID it obeys another servo's goals;
# the goal PWM limits its torque.
ARMED = (
    table.DRIVE_MODE,
    table.OPERATING_MODE,
    table.SECONDARY_ID,
    table.PWM_LIMIT,
    table.CURRENT_LIMIT,
    table.BUS_WATCHDOG,
    table.GOAL_PWM,
)
_WATCHDOG_COLUMN = ARMED.index(table.BUS_WATCHDOG)


def _block(first: table.Register, last: table.Register) -> tuple[int, int]:
    """Return address and size of the block of registers from first to last."""
    return first.address, last.end - first.address


_BLOCKS = (
    _block(table.TORQUE_ENABLE, table.HARDWARE_ERROR_STATUS),
    _block(table.BUS_WATCHDOG, table.GOAL_PWM),
    _block(table.PRESENT_INPUT_VOLTAGE, table.PRESENT_TEMPERATURE),
    _block(table.DRIVE_MODE, table.SECONDARY_ID),
    _block(table.PWM_LIMIT, table.CURRENT_LIMIT),
    _block(table.PRESENT_POSITION, table.PRESENT_POSITION),
)
_ARMED_IN = tuple(  # per block: columns of `SlowState.armed` and their registers
    [
        (column, register)
        for column, register in enumerate(ARMED)
        if address <= register.address and register.end <= address + size
    ]
    for address, size in _BLOCKS
)


@dataclass
class SlowState:
    """Newest slow values of all m servos (torque enable, errors, settings, voltage, temperature).

    The order is that of `Robot.wired_servos`: the first servo of each joint, then the other servos of joints that have
    several. Values are NaN or `UNKNOWN` before they are read for the first time.

    Attributes:
        voltage_v: input voltages, (m,) [V].
        temperature_deg_c: temperatures, (m,) [deg C].
        hardware_error: hardware error status registers, (m,).
        torque_enable: torque enable registers, (m,).
        armed: last read values of the registers `ARMED`, which a servo needs to drive its joint, (m, len(ARMED)).
        wanted: values that the registers `ARMED` had when the arm was enabled, (m, len(ARMED)); `UNKNOWN` before that.
        read_ns: time of the last read of the three blocks in `ROUND` from each servo, (m, 3), on the bus' monotonic
            clock [ns]. Every round of polling reads these blocks. Until a block is read for the first time, its value
            is the time at which polling began, or 0 before that.
        mismatch_deg: position of a servo minus that of its joint's first servo, (m,) [deg]; 0 for first servos.
        place_ns: time at which `mismatch_deg` was read last, (m,) [ns]. Until its first read, this is the time at which
            polling began. It stays 0 for the first servo of each joint.
    """

    voltage_v: FloatArray
    temperature_deg_c: FloatArray
    hardware_error: NDArray[np.int64]
    torque_enable: NDArray[np.int64]
    armed: NDArray[np.int64]
    wanted: NDArray[np.int64]
    read_ns: NDArray[np.int64]
    mismatch_deg: FloatArray
    place_ns: NDArray[np.int64]

    @classmethod
    def of(cls, size: int) -> "SlowState":
        """Return the state of `size` servos before any read: values NaN or `UNKNOWN`, mismatches and times 0."""
        unknown, nan = np.full(size, UNKNOWN, dtype=np.int64), np.full(size, np.nan)
        settings = np.full((size, len(ARMED)), UNKNOWN, dtype=np.int64)
        read_ns = np.zeros((size, len(ROUND)), dtype=np.int64)
        zero = np.zeros(size, dtype=np.int64)
        return cls(nan, nan.copy(), unknown, unknown.copy(), settings, settings.copy(), read_ns, np.zeros(size), zero)

    @property
    def watchdog(self) -> NDArray[np.int64]:
        """Last read values of the servos' bus watchdog registers, (m,); a view of an array that reads update."""
        return self.armed[:, _WATCHDOG_COLUMN]

    def different(self) -> NDArray[np.bool_]:
        """Return a mask (m, len(ARMED)) of the servos' settings that have changed since the arm was enabled."""
        return np.asarray((self.armed != self.wanted) & (self.armed != UNKNOWN) & (self.wanted != UNKNOWN))

    def age_s(self, now_ns: int) -> FloatArray:
        """Return the age of each servo's oldest slow value at the time `now_ns` [ns], (m,) [s].

        The age is 0 before polling began. Only the three blocks that each round of polling reads from every servo
        (`ROUND`) count.
        """
        oldest_ns = self.read_ns.min(axis=1)
        return np.where(oldest_ns > 0, (now_ns - oldest_ns) * 1e-9, 0.0)


class SlowPoll:
    """Poll of the slow values (temperature, errors, settings), one block of one servo at a time.

    Args:
        bus: an open bus.
        robot: robot whose `wired_servos` are polled.
        cycle: exchange of states in every control cycle; it provides the positions of the joints' first servos.

    Attributes:
        state: newest slow values of all servos.
    """

    def __init__(self, bus: ServoBus, robot: Robot, cycle: StateCycle) -> None:
        self._bus, self._cycle, self._wired, self._joints = bus, cycle, robot.wired_servos, robot.size
        self.state = SlowState.of(len(self._wired))
        self._turn = self._setting = self._block = self._follower_turn = 0
        self._followers_next = False
        # axis, block and time [ns] of the pending request of `poll_with_cycle`
        self._pending: tuple[int, int, int] | None = None

    def begin(self) -> None:
        """Start or resume the polling of slow values; their ages count from now, so that no value is overdue yet."""
        self.state.read_ns[:] = self._bus.clock.monotonic_ns()
        self.state.place_ns[self._joints :] = self._bus.clock.monotonic_ns()

    def poll_next(self) -> tuple[bool, bool]:
        """Read the next block of slow values; return whether it was read, and whether it contains a temperature.

        A round takes 3 m + 1 calls: three blocks of each of the m servos, and one EEPROM block of one servo. If there
        are joints with several servos, calls of the round alternate with additional calls. Each of these reads position
        or torque enable of a servo that is not the first of its joint.

        Raises:
            BusError: the port is lost.
        """
        answered = self.poll(*self._next())
        return answered, answered and self._block == CLIMATE

    def poll_with_cycle(self, cycle: StateCycle) -> tuple[bool, bool]:
        """Process the reply to the previous request, and schedule the request of the next block of slow values.

        The next read of states by `cycle` sends the scheduled request. If `cycle` cannot send an extra request now, the
        next block is read at once.

        Returns:
            Whether this call was free of failed reads, and whether it received a temperature.

        Raises:
            BusError: the port is lost.
        """
        answered, temperature = True, False
        if self._pending is not None:
            axis, block, requested_ns = self._pending
            data, self._pending = cycle.take_extra_reply(), None
            if data is not None:
                self._take(axis, block, requested_ns, data)
                temperature = block == CLIMATE
            else:  # lost, or the servo refuses such a read: read it again, if needed in parts
                answered = self.poll(axis, block)
                temperature = answered and block == CLIMATE
        axis, block = self._next()
        requested_ns = self._bus.clock.monotonic_ns()
        if cycle.schedule_extra_read(self._wired[axis].servo_id, *_BLOCKS[block]):
            self._pending = (axis, block, requested_ns)
            return answered, temperature
        answered = self.poll(axis, block) and answered
        return answered, temperature or (answered and block == CLIMATE)

    def _next(self) -> tuple[int, int]:
        """Return the indices of the servo and of the block that are polled next."""
        size, followers = len(self._wired), len(self._wired) - self._joints
        self._followers_next = bool(followers) and not self._followers_next
        if self._followers_next:
            step, self._follower_turn = self._follower_turn, (self._follower_turn + 1) % (2 * followers)
            self._block = FOLLOWER_BLOCKS[step % 2]
            return self._joints + step // 2, self._block
        step, self._turn = self._turn, (self._turn + 1) % (size * len(ROUND) + 1)
        if step < size * len(ROUND):
            axis, self._block = divmod(step, len(ROUND))
            return axis, self._block
        axis, setting = divmod(self._setting, len(IN_EEPROM))
        self._setting = (self._setting + 1) % (size * len(IN_EEPROM))
        self._block = IN_EEPROM[setting]
        return axis, self._block

    def poll(self, axis: int, block: int) -> bool:
        """Read one block of slow values of one servo; without an answer the old values stay.

        Args:
            axis: index of the servo in `Robot.wired_servos`.
            block: index of the block: `TORQUE` (torque enable to hardware error), `WATCHDOG` (bus watchdog to goal
                PWM), `CLIMATE` (input voltage, temperature), `MODE` (drive mode to secondary ID), `LIMITS` (PWM and
                current limit) or `PLACE` (position).

        Returns:
            Whether the block was read.

        Raises:
            BusError: the port is lost.
        """
        address, size = _BLOCKS[block]
        requested_ns = self._bus.clock.monotonic_ns()
        data = self._bus.read_block(self._wired[axis].servo_id, address, size)
        if data is None:
            return False
        self._take(axis, block, requested_ns, data)
        return True

    def _take(self, axis: int, block: int, requested_ns: int, data: bytes) -> None:
        address = _BLOCKS[block][0]
        if block in ROUND:
            self.state.read_ns[axis, block] = requested_ns

        def value(register: table.Register) -> int:
            return register.from_bytes(data[register.address - address : register.end - address])

        for column, register in _ARMED_IN[block]:
            self.state.armed[axis, column] = value(register)
        if block == TORQUE:
            self.state.torque_enable[axis] = value(table.TORQUE_ENABLE)
            self.state.hardware_error[axis] = value(table.HARDWARE_ERROR_STATUS)
        elif block == PLACE:
            wired = self._wired[axis]
            first = int(self._cycle.position_count[wired.axis])
            self.state.mismatch_deg[axis] = mismatch_deg(
                wired, self._wired[wired.axis], value(table.PRESENT_POSITION), first
            )
            self.state.place_ns[axis] = requested_ns
        elif block == CLIMATE:
            self.state.voltage_v[axis] = value(table.PRESENT_INPUT_VOLTAGE) * table.VOLTAGE_V_PER_COUNT
            self.state.temperature_deg_c[axis] = value(table.PRESENT_TEMPERATURE)

    def forget_torque(self) -> None:
        """Reset torque enable, errors and settings of all servos to `UNKNOWN`, and drop a pending request."""
        self._pending = None
        for values in (self.state.torque_enable, self.state.hardware_error, self.state.armed, self.state.wanted):
            values[:] = UNKNOWN
