"""The rate of the control cycle: the highest that the line to the servos allows, measured before the first cycle.

What the line takes is the shortest time of several cycles in sequence: programs that run beside only lengthen them.
Whether the machine keeps that rate is judged later, by the cycle itself, see `dynid.hardware.loop.rate_trial`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.errors import BusError, ConfigurationError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm

RATES_HZ = (1000, 500, 333, 250)  # whole milliseconds, as the ticks of USB adapters
SLOW_POLL_S = 0.020  # one piece of slow data is read so often; it lengthens that cycle
CYCLES, SLOW_POLLS = 50, 12  # of one measurement
# Cycles in sequence whose mean counts. A reply that was taken up late makes the next one look early; so does the phase
# of an adapter's tick. In the sum of several cycles both hardly count.
RUN, SLOW_RUN = 10, 4
SEARCH_S = 2.0  # a line that seems slow is measured again for so long: the host may be busy
TICK_S = 0.0006  # a quick reply takes a quarter of it, behind a USB adapter almost twice as long
MARGIN = 1.1


@dataclass(frozen=True)
class CycleRate:
    """A rate that was chosen, and why.

    Attributes:
        rate_hz: one of `RATES_HZ`.
        cycle_s: its period [s].
        round_trip_s: what a read of all servos with the write of their goal currents took [s].
        slow_s: what a read of slow data took [s].
        allowed_hz: the highest rate that these allow; 0 for none.
        fixed: whether a user has fixed the rate.
    """

    rate_hz: int
    cycle_s: float
    round_trip_s: float
    slow_s: float
    allowed_hz: int
    fixed: bool = False

    @property
    def too_fast(self) -> bool:
        """Whether a rate that a user fixed is above what the line allows."""
        return self.rate_hz > self.allowed_hz

    def __str__(self) -> str:
        took = f"all servos take {self.round_trip_s * 1e3:.2f} ms, slow data {self.slow_s * 1e3:.2f} ms"
        if self.too_fast:
            return f"{self.rate_hz} Hz as fixed, but {took}: at most {self.allowed_hz} Hz fit, so cycles may be missed"
        return f"{self.rate_hz} Hz: {took}"


def period_s(rate_hz: int) -> float:
    """The cycle of a rate of `RATES_HZ` [s].

    Raises:
        ConfigurationError: another rate.
    """
    if rate_hz not in RATES_HZ:
        raise ConfigurationError(f"cycle rate {rate_hz} Hz: expected one of {', '.join(map(str, RATES_HZ))} Hz")
    return round(1000 / rate_hz) * 1e-3


def choose_rate(round_trip_s: float, slow_s: float) -> int:
    """The highest rate whose cycle has room for a mean round trip, its share of slow data and a margin; 0 for none."""
    for rate_hz in RATES_HZ:
        period = period_s(rate_hz)
        if MARGIN * (round_trip_s + slow_s * period / SLOW_POLL_S) <= period:
            return rate_hz
    return 0


def shortest_mean_s(durations_ns: Sequence[float], run: int) -> float:
    """Return the smallest mean of `run` consecutive durations [s]; of all where there are fewer."""
    run = min(run, len(durations_ns))
    sums = np.convolve(np.asarray(durations_ns, dtype=np.float64), np.ones(run), mode="valid")
    return float(sums.min()) * 1e-9 / run


def find_rate(arm: DynamixelArm, fixed_hz: int = 0) -> CycleRate:
    """Measure real cycles of an open arm without torque, and set the arm's cycle.

    Args:
        arm: its goal currents are written as zero meanwhile.
        fixed_hz: this rate, whatever the measurement says; 0 takes the highest that it allows.

    Raises:
        ConfigurationError: no such rate.
        BusError: the port is lost, no read is complete, or even the lowest rate is too fast for the line.
    """
    fixed_s = period_s(fixed_hz) if fixed_hz else None
    clock = arm.bus.clock
    until_ns = clock.line_ns() + round(SEARCH_S * 1e9)
    trip_s = slow_s = np.inf
    while True:
        arm.cycle.ticking = False
        trip_s = min(trip_s, _round_trip_s(arm))
        slow_s = min(slow_s, _slow_data_s(arm))
        allowed_hz = choose_rate(trip_s, slow_s)
        if (allowed_hz == RATES_HZ[0] and slow_s <= TICK_S) or clock.line_ns() > until_ns:
            break
    arm.cycle.ticking = slow_s > TICK_S  # from now on slow data come with the states
    if not allowed_hz and not fixed_hz:
        raise BusError(
            f"a cycle on {arm.bus.port} takes {trip_s * 1e3:.1f} ms, too long for even {RATES_HZ[-1]} Hz: set the "
            f"adapter's latency timer to 1 ms with 'dynid doctor {arm.bus.port} --fix latency-timer', or raise the "
            "baud rate"
        )
    rate_hz = fixed_hz or allowed_hz
    arm.robot = arm.robot.at_cycle(fixed_s or period_s(rate_hz))
    return CycleRate(rate_hz, arm.robot.file.bus.cycle_s, trip_s, slow_s, allowed_hz, bool(fixed_hz))


def _round_trip_s(arm: DynamixelArm) -> float:
    """Return the shortest mean of consecutive cycles: a read of all servos and the write of zero currents [s].

    Raises:
        BusError: the port is lost, or no read is complete.
    """
    none, trips = np.zeros(arm.robot.size), list[float]()
    for _ in range(CYCLES):
        began_ns = arm.bus.clock.line_ns()
        sample = arm.read()
        arm.write_currents(none)
        if sample.complete:
            trips.append(arm.bus.clock.line_ns() - began_ns)
        else:
            arm.bus.dialogue.settle()  # waits for a host that stands still
    if not trips:
        raise BusError(
            f"none of {CYCLES} reads of all servos on {arm.bus.port} was complete: "
            f"{arm.bus.dialogue.lateness or 'check plugs and cable'}"
        )
    return shortest_mean_s(trips, RUN)


def _slow_data_s(arm: DynamixelArm) -> float:
    """Return the shortest mean of consecutive reads of slow data [s]; BusError if the port is lost."""
    slow: list[float] = []
    for _ in range(SLOW_POLLS):
        began_ns, timeouts = arm.bus.clock.line_ns(), arm.counters.timeouts
        arm.slow_poll()
        slow.append(arm.bus.clock.line_ns() - began_ns)
        if arm.counters.timeouts > timeouts:
            arm.bus.dialogue.settle()
    return shortest_mean_s(slow, SLOW_RUN)
