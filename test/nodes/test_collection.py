"""A collection of motions: order, cooling, resumption, and results after an interruption; nodes are stubs."""

import json
from pathlib import Path
from typing import Any

import pytest

from dynid.errors import ConfigurationError, NodeError

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from dynid.hardware.loop.diagnostics import SERVOS, WARMEST
from dynid.nodes import collection as module
from dynid.nodes.chain import ChainOptions
from dynid.nodes.collection import Collection, CollectionOptions, run_collection
from dynid.recording.completeness import Completeness
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
DURATIONS = {"V01": 10.0, "V02": 20.0, "V03": 30.0}


class Arm:
    """Stands in for the chain and its supervisor: servos that cool by a degree per look."""

    def __init__(self, warmest: float | None = 40.0) -> None:
        self.warmest, self.started, self.failing = warmest, 0, ""
        self.run: list[str] = []
        self.begun_at: list[float | None] = []

    def __call__(self, *_: object) -> "Arm":
        self.started += 1
        return self

    supervisor = property(lambda self: self)

    def __enter__(self) -> "Arm":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def bring_up(self) -> None:
        self.run.append("torque on")

    def set_enabled(self, node: str, enabled: bool) -> None:
        self.run.append(f"{node} {'on' if enabled else 'off'}")

    def trigger(self, service: str) -> None:
        self.run.append(service)

    def run_trajectory(self, name: str, profile: str, bag: Path, report: object) -> float:
        bag.mkdir(parents=True)
        if name == self.failing:
            raise NodeError("cancelled")
        self.run.append(name)
        self.begun_at.append(self.warmest)
        return DURATIONS[name]

    def reported(self, name: str, key: str) -> str:
        assert (name, key) == (SERVOS, WARMEST)
        return "" if self.warmest is None else f"{self.warmest:.0f}"

    def wait(self, condition: Any, timeout_s: float, what: str) -> None:
        for _ in range(100):
            if condition():
                return
            if self.warmest is not None:
                self.warmest -= 1.0
        raise NodeError(f"{what} did not happen within {timeout_s:.0f} s")


@pytest.fixture(autouse=True)
def bags_that_hold_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "completeness", lambda bag: Completeness(recorded=999, published=1000, missed=0))


def options(folder: Path, *names: str, **changes: Any) -> CollectionOptions:
    given = {"profile": "limited", "chain": ChainOptions("crane_x7"), "cool_to_deg_c": 50.0} | changes
    return CollectionOptions(names=names, folder=folder, **given)


def start(chosen: CollectionOptions, arm: Arm, told: list[str]) -> Collection:
    return run_collection(ROBOT, chosen, DURATIONS, lambda *_: None, told.append, make=arm)  # type: ignore[arg-type]


def test_an_interrupted_collection_resumes_at_the_failed_motion(tmp_path: Path) -> None:
    chosen, arm, told = options(tmp_path / "c", "V02", "V01", "V03"), Arm(), []
    arm.failing = "V01"
    with pytest.raises(NodeError, match="cancelled"):
        start(chosen, arm, told)
    assert arm.run == ["torque on", "V02"] and told == [
        "V02: 1 of 3, about 2 min remain",
        "V01: 2 of 3, about 1 min remain",
    ]
    arm.failing = ""
    found = start(chosen, arm, told)
    assert arm.run[2:] == ["torque on", "V01", "V03", "hardware off", "executor/release"] and found.remaining == ()
    bags = {path.name for path in (tmp_path / "c" / "bags").iterdir()}
    assert bags == {"V01", "V02", "V03", "V01.unfinished-1"}
    assert "the incomplete recording of V01 is kept as V01.unfinished-1" in told
    assert found.done["V03"] == {"duration_s": 30.0, "states": 1000, "lost": 1, "missed_fraction": 0.001}
    assert start(chosen, arm, told).remaining == () and arm.started == 2  # nothing to do, nothing started


def test_collection_can_be_extended_but_not_changed(tmp_path: Path) -> None:
    arm = Arm()
    start(options(tmp_path, "V01"), arm, [])
    start(options(tmp_path, "V01", "V02"), arm, [])
    assert [name for name in arm.run if name in DURATIONS] == ["V01", "V02"]
    with pytest.raises(ConfigurationError, match="profile 'limited', not 'paper'"):
        start(options(tmp_path, "V03", profile="paper"), Arm(), [])
    with pytest.raises(ConfigurationError, match="real_port None, not '/dev/x'"):
        start(options(tmp_path, "V03", chain=ChainOptions("crane_x7", "/dev/x")), Arm(), [])
    with pytest.raises(ConfigurationError, match="friction None, not 'M6'"):
        start(options(tmp_path, "V03", chain=ChainOptions("crane_x7", friction="M6")), Arm(), [])
    stored = json.loads((tmp_path / "collection.json").read_text())
    assert stored["profile"] == "limited"
    former = {key: value for key, value in stored.items() if key not in ("friction", "motor", "held_kg")}
    (tmp_path / "collection.json").write_text(json.dumps(former))
    for friction in (None, "M6"):  # not known any more
        start(options(tmp_path, "V01", "V02", chain=ChainOptions("crane_x7", friction=friction)), Arm(), [])


def test_a_motion_begins_with_cool_servos_only(tmp_path: Path) -> None:
    arm = Arm(58.0)
    start(options(tmp_path / "warm", "V01"), arm, [])
    assert arm.begun_at == [50.0]
    with pytest.raises(NodeError, match=r"cooling down to 50 deg C did not happen"):
        start(options(tmp_path / "hot", "V01"), Arm(1000.0), [])
    with pytest.raises(NodeError, match="a report of all servos' temperatures did not happen"):
        start(options(tmp_path / "silent", "V01"), Arm(None), [])
