"""The bus benchmark with a complete chain: its output, and an unchanged machine afterwards."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from benchmarks.cli import app
from typer.testing import CliRunner

pytest.importorskip("rclpy")

from benchmarks.chain import bus_benchmark

from dynid.nodes.chain import ChainOptions

SECONDS = 5  # the shortest that is judged


def raised_kernel_workers() -> set[int]:
    """Kernel workers under SCHED_FIFO, as far as they are seen from here."""
    found = set()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            worker = comm.read_text().startswith("kworker/u")
            if worker and os.sched_getscheduler(int(comm.parent.name)) == os.SCHED_FIFO:
                found.add(int(comm.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_a_short_run_prints_its_figures_and_restores_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def patient(*arguments: Any, **named: Any) -> ChainOptions:
        """The arm waits for a host that is late: what is looked at here is not its speed."""
        return ChainOptions(*arguments, **(named | {"wire_time": False, "paused_clock": True}))

    monkeypatch.setattr(bus_benchmark, "ChainOptions", patient)
    before = raised_kernel_workers()
    done = CliRunner().invoke(
        app, ["benchmark", "bus", "--seconds", str(SECONDS), "--json", "--realtime", "--out", str(tmp_path / "o")]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {"rate_hz", "missed_states", "uncounted_missed_states", "seconds", "realtime"} < set(found)
    assert 0.0 < found["cycle_p50_us"] <= found["cycle_p99_us"] <= found["cycle_p999_us"]
    assert found["seconds"] > 0.0 and found["rate_hz"] > 0.0
    assert set(found["realtime"]) == {
        "processors and SCHED_FIFO",
        "kernel workers first",
        "SCHED_FIFO",
        "CPU idle disabled",
    }
    assert raised_kernel_workers() <= before
    assert (tmp_path / "o" / "bag").is_dir()


def test_a_run_that_is_too_short_to_be_judged_is_refused() -> None:
    done = CliRunner().invoke(app, ["benchmark", "bus", "--seconds", "4"])
    assert done.exit_code == 2 and "at least 5" in done.output
