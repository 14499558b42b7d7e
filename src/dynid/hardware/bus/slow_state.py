"""What changes slowly in the servos (torque enable, errors, watchdog, voltage, temperature), read a piece at a time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.bus.state_cycle import StateCycle
from dynid.robot import FloatArray

UNKNOWN = -2
TORQUE, WATCHDOG, CLIMATE = range(3)
_BLOCKS = (
    (table.TORQUE_ENABLE.address, table.HARDWARE_ERROR_STATUS.end - table.TORQUE_ENABLE.address),
    (table.BUS_WATCHDOG.address, table.BUS_WATCHDOG.size),
    (table.PRESENT_INPUT_VOLTAGE.address, table.PRESENT_TEMPERATURE.end - table.PRESENT_INPUT_VOLTAGE.address),
)


@dataclass
class SlowState:
    """The newest slow values, each (n,), joint order; NaN or `UNKNOWN` where a servo was not polled yet.

    `read_ns` (n, 3) is when each block was read last, on the bus' monotonic clock [ns], or when polling began; 0 is
    before that.
    """

    voltage_v: FloatArray
    temperature_deg_c: FloatArray
    hardware_error: NDArray[np.int64]
    torque_enable: NDArray[np.int64]
    watchdog: NDArray[np.int64]
    read_ns: NDArray[np.int64]

    @classmethod
    def of(cls, size: int) -> "SlowState":
        """Nothing known of so many servos."""
        unknown, nan = np.full(size, UNKNOWN, dtype=np.int64), np.full(size, np.nan)
        never = np.zeros((size, len(_BLOCKS)), dtype=np.int64)
        return cls(nan, nan.copy(), unknown, unknown.copy(), unknown.copy(), never)

    def age_s(self, now_ns: int) -> FloatArray:
        """For how long each servo has owed its oldest value at a moment [ns], (n,) [s]; 0 before polling began."""
        oldest_ns = self.read_ns.min(axis=1)
        return np.where(oldest_ns > 0, (now_ns - oldest_ns) * 1e-9, 0.0)


class SlowPoll:
    """Reads one block of one servo at a time.

    Args:
        bus: an open bus; its ids are the servos.

    Attributes:
        state: what was read so far.
    """

    def __init__(self, bus: ServoBus) -> None:
        self._bus = bus
        self.state = SlowState.of(len(bus.servo_ids))
        self._turn = self._block = 0
        self._asked: tuple[int, int, int] | None = None  # axis, block and moment of what `turn_beside` asked

    def begin(self) -> None:
        """Polling begins, or goes on after a break: nothing is overdue yet."""
        self.state.read_ns[:] = self._bus.clock.monotonic_ns()

    def turn(self) -> tuple[bool, bool]:
        """The next block in turn, a full round takes 3 n; whether it was read, and whether it was a temperature.

        Raises:
            BusError: the port is lost.
        """
        answered = self.poll(*self._next())
        return answered, answered and self._block == CLIMATE

    def turn_beside(self, cycle: StateCycle) -> tuple[bool, bool]:
        """The same, but the reply comes with the next read of states, and is taken up by the next turn."""
        answered, temperature = True, False
        if self._asked is not None:
            axis, block, asked_ns = self._asked
            data, self._asked = cycle.beside_reply(), None
            if data is not None:
                self._take(axis, block, asked_ns, data)
                temperature = block == CLIMATE
            else:  # lost, or a servo that does not answer such a read: once more, in its parts
                answered = self.poll(axis, block)
                temperature = answered and block == CLIMATE
        axis, block = self._next()
        asked_ns = self._bus.clock.monotonic_ns()
        if cycle.ask_beside(self._bus.servo_ids[axis], *_BLOCKS[block]):
            self._asked = (axis, block, asked_ns)
            return answered, temperature
        answered = self.poll(axis, block) and answered
        return answered, temperature or (answered and block == CLIMATE)

    def _next(self) -> tuple[int, int]:
        """Whose turn it is, axis and block."""
        axis, self._block = divmod(self._turn, len(_BLOCKS))
        self._turn = (self._turn + 1) % (len(self._bus.servo_ids) * len(_BLOCKS))
        return axis, self._block

    def poll(self, axis: int, block: int) -> bool:
        """One block (`TORQUE`, `WATCHDOG` or `CLIMATE`) of one servo; no answer leaves the old value.

        Returns:
            Whether it was read.

        Raises:
            BusError: the port is lost.
        """
        address, size = _BLOCKS[block]
        asked_ns = self._bus.clock.monotonic_ns()
        data = self._bus.read_block(self._bus.servo_ids[axis], address, size)
        if data is None:
            return False
        self._take(axis, block, asked_ns, data)
        return True

    def _take(self, axis: int, block: int, asked_ns: int, data: bytes) -> None:
        address = _BLOCKS[block][0]
        self.state.read_ns[axis, block] = asked_ns

        def value(register: table.Register) -> int:
            return register.from_bytes(data[register.address - address : register.end - address])

        if block == TORQUE:
            self.state.torque_enable[axis] = value(table.TORQUE_ENABLE)
            self.state.hardware_error[axis] = value(table.HARDWARE_ERROR_STATUS)
        elif block == WATCHDOG:
            self.state.watchdog[axis] = value(table.BUS_WATCHDOG)
        else:
            self.state.voltage_v[axis] = value(table.PRESENT_INPUT_VOLTAGE) * table.VOLTAGE_V_PER_COUNT
            self.state.temperature_deg_c[axis] = value(table.PRESENT_TEMPERATURE)

    def forget_torque(self) -> None:
        """What was read of torque, errors and watchdog before says nothing now, nor what was asked and is to come."""
        self._asked = None
        for values in (self.state.torque_enable, self.state.hardware_error, self.state.watchdog):
            values[:] = UNKNOWN
