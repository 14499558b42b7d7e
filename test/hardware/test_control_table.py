"""The control table against the manual's values, and its conversions."""

import itertools

import pytest

from dynid.hardware.bus import control_table as table


@pytest.mark.slow
def test_registers_have_the_manuals_addresses_and_do_not_overlap() -> None:
    expected = {
        "operating mode": (11, 1),
        "return delay time": (9, 1),
        "current limit": (38, 2),
        "torque enable": (64, 1),
        "hardware error status": (70, 1),
        "bus watchdog": (98, 1),
        "goal current": (102, 2),
        "present current": (126, 2),
        "present velocity": (128, 4),
        "present position": (132, 4),
        "present temperature": (146, 1),
    }
    found = {r.name: (r.address, r.size) for r in table.REGISTERS}
    assert expected.items() <= found.items()
    ordered = sorted(table.REGISTERS, key=lambda r: r.address)
    assert all(a.end <= b.address for a, b in itertools.pairwise(ordered))
    assert (table.STATE_ADDRESS, table.STATE_SIZE) == (126, 10)


@pytest.mark.slow
def test_signed_registers_keep_their_sign() -> None:
    assert table.GOAL_CURRENT.to_bytes(-1) == b"\xff\xff"
    assert table.PRESENT_VELOCITY.from_bytes(b"\xfd\xff\xff\xff") == -3
    assert table.CURRENT_LIMIT.from_bytes(b"\xff\xff") == 65535
    with pytest.raises(OverflowError):
        table.GOAL_CURRENT.to_bytes(40_000)


@pytest.mark.parametrize(("seconds", "count"), [(0.02, 1), (0.021, 2), (0.1, 5), (2.54, 127)])
def test_watchdog_time_is_rounded_up(seconds: float, count: int) -> None:
    assert table.watchdog_to_count(seconds) == count


@pytest.mark.parametrize("seconds", [0.0, -1.0, 2.6])
def test_watchdog_time_out_of_range_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="watchdog"):
        table.watchdog_to_count(seconds)


def test_error_texts_name_every_bit() -> None:
    assert table.status_error_text(0) == ""
    assert "limit" in table.status_error_text(6)
    assert table.status_error_text(0x80 | 7).endswith("hardware alert")
    assert table.hardware_error_text(0b100100) == "overheating, overload"
