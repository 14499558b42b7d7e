"""Rows of the fault table about disks and consent: dynid passes, and each row detects a faulty product."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.faults import file_cases
from benchmarks.faults.driver_cases import DriverCase
from benchmarks.faults.file_cases import DISK_CASES
from benchmarks.faults.table_run import case_names

from dynid import durable
from dynid.recording import bag_storage
from dynid.robot import Robot


@pytest.mark.parametrize("case", DISK_CASES, ids=lambda case: case.name)
def test_product_passes_every_row(robot: Robot, case: DriverCase) -> None:
    assert [text for seed in range(3) for text in case.check(robot, seed)] == []
    assert case.name in case_names()


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing; replaces a protecting function."""


@pytest.mark.parametrize("storage", [0, 1], ids=["sqlite3", "mcap"])
def test_recorder_that_leaves_data_to_the_system_is_found(
    robot: Robot, storage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bag_storage, "sync_file", nothing)
    monkeypatch.setattr(bag_storage._Appended, "sync", nothing)
    assert file_cases.closed_bag(robot, storage)


def test_results_left_to_the_system_are_found(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "sync_folder", nothing)
    assert sorted(file_cases.written_results(robot, 0)) == ["a/one.txt is lost", "b/two.txt is lost"]


def test_results_by_hard_links_are_found(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_link(path: Path, content: str) -> None:
        (path.parent / "temporary").write_text(content)
        os.link(path.parent / "temporary", path)

    monkeypatch.setattr(file_cases, "write_whole", by_link)
    with pytest.raises(PermissionError):
        file_cases.without_links(robot, 0)
    monkeypatch.setattr(file_cases, "write_whole", lambda path, content: path.write_text(content))
    assert "what was there was written over" in file_cases.without_links(robot, 0)


@pytest.mark.parametrize(
    ("name", "check"),
    [("refuse_existing", file_cases.unwritable_place), ("ask_before_moving", file_cases.asked_before_moving)],
)
def test_a_disabled_check_is_detected(
    robot: Robot, name: str, check: Callable[[Robot, int], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_cases, name, nothing)
    assert check(robot, 0)


def test_pseudo_terminal_taken_for_simulated_is_found(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynid.hardware.bus.simulated_line.is_simulated_port", lambda port: True)
    assert "it was not asked" in file_cases.asked_before_moving(robot, 0)
