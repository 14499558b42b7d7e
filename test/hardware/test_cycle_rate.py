"""The cycle rate of a line: measured, fixed by a user, and used by all other parts."""

from collections.abc import Iterator

import numpy as np
import pytest
from plain_bus import IndependentAxesPlant, running_bus

from dynid.errors import BusError, ConfigurationError
from dynid.hardware.arm.cycle_rate import RATES_HZ, CycleRate, choose_rate, find_rate, period_s
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.loop.diagnostics import driver_settings
from dynid.robot import Robot
from dynid.simulation.bus.adapter import UsbAdapter
from dynid.simulation.bus.servo_bus import EmulatedServoBus


@pytest.mark.parametrize(
    ("round_trip_ms", "slow_ms", "rate_hz"),
    [
        (0.6, 0.2, 1000),
        (0.899, 0.2, 1000),
        (0.9, 0.2, 500),  # 1.1 * (0.9 + 0.01) ms is too long for 1 ms
        (1.0, 1.0, 500),  # a U2D2 with the fast sync read
        (2.0, 1.0, 333),  # with the plain one
        (3.0, 1.0, 250),
        (16.0, 16.0, 0),
    ],
)
def test_the_highest_rate_with_a_margin_is_chosen(round_trip_ms: float, slow_ms: float, rate_hz: int) -> None:
    assert choose_rate(round_trip_ms * 1e-3, slow_ms * 1e-3) == rate_hz


def test_periods_are_whole_milliseconds() -> None:
    assert [period_s(rate) for rate in RATES_HZ] == [0.001, 0.002, 0.003, 0.004]
    with pytest.raises(ConfigurationError, match="cycle rate 200 Hz: expected one of 1000, 500, 333, 250 Hz"):
        period_s(200)


@pytest.fixture
def ticking(robot: Robot) -> Iterator[DynamixelArm]:
    """An arm behind a U2D2."""
    plant = IndependentAxesPlant(robot)
    with running_bus(EmulatedServoBus(robot, plant, adapter=UsbAdapter(), baudrate=4_000_000)) as bus:
        arm = DynamixelArm(robot, bus.port, baudrate=4_000_000, reply_margin_s=0.2)
        arm.open()
        yield arm
        arm.close()


@pytest.mark.real_time
def test_behind_an_adapter_with_ticks_the_rate_is_lower(ticking: DynamixelArm, robot: Robot) -> None:
    found = find_rate(ticking)
    assert found.allowed_hz == found.rate_hz == 500 and not found.too_fast and ticking.cycle.ticking
    assert ticking.robot.file.bus.cycle_s == found.cycle_s == 0.002 and robot.file.bus.cycle_s == 0.001
    assert driver_settings(ticking.robot, "upright", "/dev/pts/1", simulated=True).cycle_s == 0.002


@pytest.mark.slow
def test_slow_data_come_with_the_states(ticking: DynamixelArm) -> None:
    find_rate(ticking, 1000)
    ticking.cycle.ticking = True
    ticking.begin_slow_polls()
    ticking.slow.temperature_deg_c[:] = np.nan

    def lost() -> tuple[int, ...]:
        return ticking.counters.timeouts, ticking.counters.stale, ticking.bus.parser.skipped_bytes

    before, temperatures = lost(), 0  # a busy host may have lost some while the rate was measured
    for _ in range(3 * ticking.robot.size + 2):  # a reply is taken up one turn later
        temperatures += ticking.slow_poll()
        assert ticking.read().complete
    assert temperatures == ticking.robot.size and np.isfinite(ticking.slow.temperature_deg_c).all()
    assert lost() == before


def test_lost_extra_reply_is_requested_again(ticking: DynamixelArm, monkeypatch: pytest.MonkeyPatch) -> None:
    ticking.cycle.ticking = True
    ticking.slow_poll()
    monkeypatch.setattr(ticking.cycle, "_send_extra", lambda port: None)
    assert ticking.read().complete
    assert ticking.slow.torque_enable[0] < 0
    ticking.slow_poll()
    assert ticking.slow.torque_enable[0] == 0


def test_fixed_rate_that_is_too_fast_is_kept_and_reported(robot: Robot) -> None:
    rate = CycleRate(1000, 0.001, 0.00096, 0.00095, 500)
    assert rate.too_fast and "1000 Hz as fixed" in str(rate) and "at most 500 Hz fit" in str(rate)
    assert not CycleRate(250, 0.004, 0.00096, 0.00095, 500).too_fast


def test_a_latency_timer_of_16_ms_is_refused_by_name(robot: Robot) -> None:
    with running_bus(EmulatedServoBus(robot, IndependentAxesPlant(robot), adapter=UsbAdapter(16))) as bus:
        arm = DynamixelArm(robot, bus.port, reply_margin_s=0.2)
        arm.open()
        with pytest.raises(BusError, match=r"250 Hz: end other programs .* a USB adapter.s latency timer to 1 ms"):
            find_rate(arm)
        arm.close()


def test_requests_before_torque_on_are_discarded(ticking: DynamixelArm) -> None:
    ticking.cycle.ticking = True
    ticking.slow_poll()  # asks servo 2 whether its torque is on
    ticking.read()
    ticking.enable()
    ticking.slow_poll()
    assert ticking.slow.torque_enable[0] != 0
