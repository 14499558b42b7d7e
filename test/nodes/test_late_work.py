"""A chain with empty caches compiles everything before its first process is ready, and nothing later."""

import json
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from dynid.codegen import cache
from dynid.nodes.chain import Chain, ChainOptions
from dynid.rehearsal.late_work import VARIABLE
from dynid.robot import Robot

MOTION = """
schema_version: 1
name: nod
waypoints_deg:
  - [0, 0, 0, -90, 0, 0, 0, 0]
  - [10, 0, 0, -90, 0, 0, 0, 0]
speed_factor: 0.5
"""


@pytest.mark.slow
def test_nothing_is_compiled_or_imported_after_ready(
    robot: Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, path = tmp_path / "late", tmp_path / "nod.yaml"
    path.write_text(MOTION)
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setenv(VARIABLE, str(log))
    cache.cache_folder.cache_clear()
    try:
        with Chain(robot, ChainOptions("crane_x7", identification=False), tmp_path / "logs") as chain:
            chain.bring_up()
            chain.run_trajectory(str(path), "limited", tmp_path / "bag", lambda *_: None)
    finally:
        cache.cache_folder.cache_clear()
    found = [json.loads(line) for line in log.read_text().splitlines()]
    ready = {one["process"] for one in found if one["kind"] == "ready"}
    assert ready == {"simulated_arm", "hardware", "executor", "recorder"}
    late = [f"{one['process']}: {one['kind']} {one['name']}" for one in found if one["kind"] != "ready"]
    assert late == []
