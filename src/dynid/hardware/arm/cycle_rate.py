"""Highest control cycle rate that the serial line to the servos allows, measured before the first cycle.

Many cycles are timed, and means over several consecutive cycles are computed. The smallest of these means is used as
the time of a cycle, because other programs on the machine can only lengthen cycles. Whether the machine keeps the
chosen rate is tested later, see `dynid.hardware.loop.rate_trial`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.errors import BusError, ConfigurationError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm

RATES_HZ = (1000, 500, 333, 250)  # periods are whole milliseconds, like the ticks of USB adapters
# interval between two reads of slow data (temperature, errors, settings) [s]; each of them lengthens a cycle
SLOW_POLL_S = 0.020
CYCLES, SLOW_POLLS = 50, 12  # cycles and reads of slow data in one measurement
# Number of consecutive cycles, and of reads of slow data, per mean. A reply that was read late makes the next reply
# look early, and so does the phase of an adapter's tick. Both errors hardly affect the sum of several cycles.
RUN, SLOW_RUN = 10, 4
SEARCH_S = 2.0  # longest time to repeat the measurement while it shows a slow line: the host may only be busy [s]
# duration of a read of slow data above which the adapter delivers replies at ticks [s]; typical durations are a
# quarter of this value without ticks and twice this value with ticks
TICK_S = 0.0006
MARGIN = 1.1  # smallest ratio of the period to the mean time that a cycle needs


@dataclass(frozen=True)
class CycleRate:
    """A chosen cycle rate, and the measurements that justify it.

    Attributes:
        rate_hz: one of `RATES_HZ` [Hz].
        cycle_s: period of the cycle [s].
        round_trip_s: time of a read of all servos and the write of their goal currents [s].
        slow_s: time of a read of slow data (temperature, errors, settings) [s].
        allowed_hz: highest of `RATES_HZ` that the measured times allow [Hz]; 0 if they allow none.
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
        """Whether the cycle rate is higher than the line allows; this is possible if a user has fixed it."""
        return self.rate_hz > self.allowed_hz

    def __str__(self) -> str:
        took = f"all servos take {self.round_trip_s * 1e3:.2f} ms, slow data {self.slow_s * 1e3:.2f} ms"
        if self.too_fast:
            return f"{self.rate_hz} Hz as fixed, but {took}: at most {self.allowed_hz} Hz fit, so cycles may be missed"
        return f"{self.rate_hz} Hz: {took}"


def period_s(rate_hz: int) -> float:
    """Return the cycle time [s] of a rate, which must be one of `RATES_HZ`.

    Raises:
        ConfigurationError: the rate is not in `RATES_HZ`.
    """
    if rate_hz not in RATES_HZ:
        raise ConfigurationError(f"cycle rate {rate_hz} Hz: expected one of {', '.join(map(str, RATES_HZ))} Hz")
    return round(1000 / rate_hz) * 1e-3


def choose_rate(round_trip_s: float, slow_s: float) -> int:
    """Return the highest of `RATES_HZ` [Hz] that the line allows; 0 if it allows none.

    The period must suffice for a read and a write of all servos, for reads of slow data, and for a margin. Slow data
    are not read in every cycle, so only the mean time of their reads per cycle counts.

    Args:
        round_trip_s: time of a read of all servos and the write of their goal currents [s].
        slow_s: time of a read of slow data (temperature, errors, settings) [s].
    """
    for rate_hz in RATES_HZ:
        period = period_s(rate_hz)
        if MARGIN * (round_trip_s + slow_s * period / SLOW_POLL_S) <= period:
            return rate_hz
    return 0


def shortest_mean_s(durations_ns: Sequence[float], run: int) -> float:
    """Return the smallest mean of `run` consecutive durations [s], or the mean of all durations if there are fewer.

    `durations_ns` are in ns.
    """
    run = min(run, len(durations_ns))
    sums = np.convolve(np.asarray(durations_ns, dtype=np.float64), np.ones(run), mode="valid")
    return float(sums.min()) * 1e-9 / run


def find_rate(arm: DynamixelArm, fixed_hz: int = 0) -> CycleRate:
    """Measure real cycles of an open arm without torque, set the arm's cycle time accordingly, and return its rate.

    Args:
        arm: an open arm; its goal currents are written as zero during the measurement.
        fixed_hz: rate to use regardless of the measurement [Hz]; 0 chooses the highest rate that the line allows.

    Raises:
        ConfigurationError: the fixed rate is not in `RATES_HZ`.
        BusError: the port is lost, no read is complete, or no rate is fixed and even the lowest one is too fast for
            the line.
    """
    fixed_s = period_s(fixed_hz) if fixed_hz else None
    clock = arm.bus.clock
    deadline_ns = clock.line_ns() + round(SEARCH_S * 1e9)
    round_trip_s = slow_data_s = np.inf
    while True:
        arm.cycle.ticking = False
        round_trip_s = min(round_trip_s, _round_trip_s(arm))
        slow_data_s = min(slow_data_s, _slow_data_s(arm))
        allowed_hz = choose_rate(round_trip_s, slow_data_s)
        if (allowed_hz == RATES_HZ[0] and slow_data_s <= TICK_S) or clock.line_ns() > deadline_ns:
            break
    arm.cycle.ticking = slow_data_s > TICK_S  # slow data then arrive together with the states
    if not allowed_hz and not fixed_hz:
        raise BusError(
            f"a cycle on {arm.bus.port} takes {round_trip_s * 1e3:.1f} ms, too long for even {RATES_HZ[-1]} Hz: end "
            f"other programs that load this host, set a USB adapter's latency timer to 1 ms with 'dynid doctor "
            f"{arm.bus.port} --fix latency-timer', or raise the baud rate"
        )
    rate_hz = fixed_hz or allowed_hz
    arm.robot = arm.robot.at_cycle(fixed_s or period_s(rate_hz))
    return CycleRate(rate_hz, arm.robot.file.bus.cycle_s, round_trip_s, slow_data_s, allowed_hz, bool(fixed_hz))


def _round_trip_s(arm: DynamixelArm) -> float:
    """Return the time of a cycle without torque [s]: a read of all servos and the write of zero currents.

    The result is the smallest mean of `RUN` consecutive cycles.

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
            arm.bus.dialogue.settle()  # waits until a stalled host continues
    if not trips:
        raise BusError(
            f"none of {CYCLES} reads of all servos on {arm.bus.port} was complete: "
            f"{arm.bus.dialogue.lateness or 'check plugs and cable'}"
        )
    return shortest_mean_s(trips, RUN)


def _slow_data_s(arm: DynamixelArm) -> float:
    """Return the time of a read of slow data (temperature, errors, settings) [s].

    The result is the smallest mean of `SLOW_RUN` consecutive reads.

    Raises:
        BusError: the port is lost.
    """
    durations_ns: list[float] = []
    for _ in range(SLOW_POLLS):
        began_ns, timeouts = arm.bus.clock.line_ns(), arm.counters.timeouts
        arm.slow_poll()
        durations_ns.append(arm.bus.clock.line_ns() - began_ns)
        if arm.counters.timeouts > timeouts:
            arm.bus.dialogue.settle()
    return shortest_mean_s(durations_ns, SLOW_RUN)
