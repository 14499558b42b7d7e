"""Faults of processes in the real chain: one run of one fault, and a clock that steps."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from benchmarks.chain import fault_chain
from benchmarks.chain.fault_chain import INJECTIONS, process_outcomes
from benchmarks.chain.stepped_clock import VARIABLE
from benchmarks.children import child_environment
from benchmarks.faults.processes import PROCESS_CASES, UNPLUGGED

STEPPED = """
import os, signal, time
from benchmarks.chain import stepped_clock
from dynid.nodes import hardware_node
real = time.time_ns
def look():
    for _ in range(3):
        print(round((time.time_ns() - real()) * 1e-9), round(time.time() - real() * 1e-9))
        os.kill(os.getpid(), signal.SIGUSR1)
hardware_node.main = look
stepped_clock.main()
"""


def test_every_case_has_its_injection() -> None:
    assert set(INJECTIONS) == set(PROCESS_CASES)


@pytest.mark.slow
def test_driver_clock_steps_on_request() -> None:
    environment = {**os.environ, **child_environment(), VARIABLE: "-3600"}
    done = subprocess.run(
        [sys.executable, "-c", STEPPED], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.split() == ["0", "0", "-3600", "-3600", "-7200", "-7200"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_pulled_cable_leaves_no_current_and_is_found_again(domain: str) -> None:
    (found,) = process_outcomes("crane_x7", 1, (UNPLUGGED.name,), first_seed=2)
    if "idle machine" in "".join(found.violations):
        pytest.skip(found.violations[0])
    assert found.violations == () and 0.0 < found.stop_ms < 120.0


def test_host_that_stalls_repeatedly_is_reported(domain: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Disturbed:
        longest_standstill_s = 0.5

    monkeypatch.setattr(fault_chain, "run_process_case", lambda *_: Disturbed())
    (found,) = process_outcomes("crane_x7", 1, (UNPLUGGED.name,))
    (text,) = found.violations
    assert re.search(r"in 5 runs .* 0\.500 s; run these faults on an idle machine", text)
