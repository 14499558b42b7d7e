"""Stored load of servos after a restart of guard or driver, and after the clock was set."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from dynid.hardware.safety.load_history import KeptLoad, LoadHistory, history_file, since_start
from dynid.hardware.safety.overload import LIMITED, OverloadModel
from dynid.resources import load_validated
from dynid.robot import Robot

LOAD = np.linspace(0.2, 0.9, 8)


class Machine:
    """Simulated machine with an id of its current boot and the time since then."""

    def __init__(self, boot_id: str = "first", now_s: float = 1000.0) -> None:
        self.boot_id, self.now_s = boot_id, now_s

    def __call__(self) -> tuple[str, float]:
        return self.boot_id, self.now_s


def rested(robot: Robot, load: np.ndarray, seconds: float) -> np.ndarray:
    overload = OverloadModel.of(robot)
    assert overload is not None
    return overload.step(load, np.zeros(8), seconds)


@pytest.mark.slow
def test_load_falls_by_the_time_that_passed(robot: Robot) -> None:
    machine = Machine()
    history = LoadHistory(robot, None, machine)
    assert not history.now().any()
    history.keep(LOAD)
    machine.now_s += 0.5
    assert history.now() == pytest.approx(rested(robot, LOAD, 0.5)) and history.now().max() < 0.9
    machine.now_s += 1e6
    assert not history.now().any()


def test_load_survives_a_restart_of_the_driver(robot: Robot, tmp_path: Path) -> None:
    machine, path = Machine(), tmp_path / "state" / "load.yaml"
    LoadHistory(robot, path, machine).keep(LOAD)
    machine.now_s += 0.5
    assert LoadHistory(robot, path, machine).now() == pytest.approx(rested(robot, LOAD, 0.5), abs=1e-4)
    assert os.listdir(path.parent) == ["load.yaml"]


def test_after_another_start_only_the_time_since_then_counts(robot: Robot, tmp_path: Path) -> None:
    path = tmp_path / "load.yaml"
    LoadHistory(robot, path, Machine("first", 9e6)).keep(LOAD)
    after = LoadHistory(robot, path, Machine("second", 0.5))
    assert after.now() == pytest.approx(rested(robot, LOAD, 0.5), abs=1e-4)


def test_load_does_not_decay_without_a_known_boot_time(robot: Robot, tmp_path: Path) -> None:
    path = tmp_path / "load.yaml"
    LoadHistory(robot, path, Machine("first", 10.0)).keep(LOAD)
    assert LoadHistory(robot, path, Machine("", 1e6)).now() == pytest.approx(LOAD, abs=1e-4)


def test_setting_the_wall_clock_changes_nothing(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    history = LoadHistory(robot)
    history.keep(LOAD)
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 1e9)
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * (wall() + 1e9)))
    assert history.now().max() > 0.0 and since_start()[1] < 1e9


def test_an_idle_arm_writes_no_file_and_a_rested_one_is_written_once(robot: Robot, tmp_path: Path) -> None:
    path = tmp_path / "load.yaml"
    history = LoadHistory(robot, path, Machine())
    history.keep(0.01 * LOAD)
    assert not path.exists()
    history.keep(LOAD)
    history.keep(0.0 * LOAD)
    assert not any(load_validated(path, KeptLoad).load.values())
    path.unlink()
    history.keep(0.0 * LOAD)
    assert not path.exists()


@pytest.mark.parametrize("text", ["", "no: load", "schema_version: 1\nboot_id: x\nsince_start_s: 1\nload: {2: .nan}\n"])
def test_damaged_file_counts_as_loaded_and_is_reported(robot: Robot, tmp_path: Path, text: str) -> None:
    path = tmp_path / "load.yaml"
    path.write_text(text, encoding="utf-8")
    history = LoadHistory(robot, path, Machine())
    assert history.now().tolist() == [LIMITED] * 8
    assert str(path) in history.problem and "85% loaded" in history.problem


def test_unwritable_folder_is_reported(robot: Robot, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    history = LoadHistory(robot, tmp_path / "file" / "load.yaml", Machine())
    history.keep(LOAD)
    assert "cannot be kept for a restart" in history.problem and history.now().tolist() == LOAD.tolist()


def test_two_arms_have_two_files_by_their_adapters(
    robot: Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    names = tmp_path / "by-id"
    names.mkdir()
    for port in ("ttyUSB0", "ttyUSB1"):
        (tmp_path / port).touch()
    (names / "usb-FTDI_0042").symlink_to(tmp_path / "ttyUSB1")
    first, second = (history_file(robot, str(tmp_path / port), names) for port in ("ttyUSB0", "ttyUSB1"))
    assert second == tmp_path / "state" / "dynid" / "overload-crane_x7-usb-FTDI_0042.yaml"
    assert first != second and first.name.endswith("ttyUSB0.yaml")
    assert history_file(robot, str(names / "usb-FTDI_0042"), names) == second
