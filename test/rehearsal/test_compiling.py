"""Compilation once, by one process, with progress; late compilation is reported."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dynid.codegen import cache
from dynid.errors import ConfigurationError, SafetyError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.loop.cycle import ControlLoop
from dynid.rehearsal import compiling
from dynid.rehearsal.arm import rehearse_arm
from dynid.robot import Robot

STUDY = pytest.mark.study  # one reason to compile again is promised, others are studied
SMALL = (("recording",), ("recording",))  # jobs that compile nothing


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and jobs that take no time."""
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setattr(compiling, "JOB_GROUPS", SMALL)
    cache.cache_folder.cache_clear()
    yield tmp_path / "cache"
    cache.cache_folder.cache_clear()


@pytest.mark.slow
def test_a_second_call_does_not_compile_again(folder: Path, robot: Robot) -> None:
    said: list[str] = []
    assert compiling.ensure_compiled(robot, report=said.append)
    assert not compiling.ensure_compiled(robot, report=said.append)
    assert said == [compiling.COMMON_MESSAGE]


@pytest.mark.slow
@pytest.mark.parametrize("changed", [pytest.param("cache", marks=STUDY), "cut", pytest.param("sources", marks=STUDY)])
def test_missing_files_are_compiled_again(folder: Path, robot: Robot, tmp_path: Path, changed: str) -> None:
    compiling.ensure_compiled(robot, report=lambda _: None)
    (stamp,) = folder.glob("compiled-*.json")
    content = json.loads(stamp.read_text())
    (tmp_path / "cut.nbi").write_bytes(b"123")
    more = {"cache": {"gone.nbi": 0}, "cut": {"cut.nbi": 4}}.get(changed, {})
    content["cache"] |= {str(tmp_path / name): size for name, size in more.items()}
    content["sources"] |= {__file__: [0, 0]} if changed == "sources" else {}
    stamp.write_text(json.dumps(content))
    assert compiling.ensure_compiled(robot, report=lambda _: None)


@pytest.mark.slow
def test_other_processes_wait_and_do_not_compile(folder: Path, robot: Robot) -> None:
    code = (
        "from dynid.rehearsal import compiling; from dynid.robot import load_robot\n"
        f"compiling.JOB_GROUPS = {SMALL!r}\n"
        "print(compiling.ensure_compiled(load_robot('crane_x7'), report=lambda _: None))"
    )
    children = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert sorted(child.communicate()[0].strip() for child in children) == ["False", "False", "True"]


@pytest.mark.slow
def test_job_that_fails_is_named(folder: Path, robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "JOB_GROUPS", (("no such job",),))
    with pytest.raises(ConfigurationError, match="compiling failed: KeyError: 'no such job'"):
        compiling.ensure_compiled(robot, report=lambda _: None)
    assert not list(folder.glob("compiled-*.json"))


@pytest.mark.slow
def test_work_after_ready_is_reported(tmp_path: Path) -> None:
    code = (
        "import numba\n"
        "from dynid.rehearsal.late_work import watch_late_work\n"
        "early = numba.njit(lambda x: x + 1); early(1)\n"
        "watch_late_work('me')\n"
        "early(2); numba.njit(lambda x: x * 2)(1); import turtle_that_is_not_there\n"
    )
    path = tmp_path / "late"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "DYNID_LATE_WORK": str(path)}, check=False)
    found = [(one["kind"], one["name"]) for one in map(json.loads, path.read_text().splitlines())]
    assert [kind for kind, _ in found].count("compile") == 1
    assert ("import", "turtle_that_is_not_there") in found and found[0] == ("ready", "me")


@pytest.mark.slow
def test_an_arm_that_is_not_enabled_leaves_no_loop_at_its_port(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SafetyError("no cycle rate is kept")

    closed_beside: list[list[str]] = []
    close = DynamixelArm.close

    def noted(arm: DynamixelArm) -> None:
        closed_beside.append([one.name for one in threading.enumerate() if "control" in one.name])
        close(arm)

    monkeypatch.setattr(ControlLoop, "enable", refuse)
    monkeypatch.setattr(DynamixelArm, "close", noted)
    rehearse_arm(robot)
    assert closed_beside == [[]]
