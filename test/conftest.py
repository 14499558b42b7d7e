"""What a shared machine asks of the tests."""

from pathlib import Path

import pytest

TEST = Path(__file__).parent
DRIVER = ("bus", "cycle", "doctor", "dynamixel_arm", "handshake", "state_cycle", "written_bytes")
# A driver's deadlines are milliseconds, and a shared host may stand still for longer. What talks to a servo bus in
# real time is tried again then; pytest counts it as rerun. The whole chain needs none: its arm waits for the host.
REAL_TIME = [
    *(TEST / "hardware" / f"test_{name}.py" for name in DRIVER),
    TEST / "simulation" / "test_servo_bus.py",
    TEST / "benchmarking" / "test_soak.py",
    *TEST.joinpath("nodes").glob("test_*.py"),
]
RERUNS = 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the real-time tests their reruns."""
    assert all(path.is_file() for path in REAL_TIME)
    for item in items:
        if item.path in REAL_TIME:
            item.add_marker(pytest.mark.flaky(reruns=RERUNS))
