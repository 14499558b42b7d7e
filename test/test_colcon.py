"""The package in a colcon workspace: recognised as ament_python, built, installed where ROS searches, and tested."""

import shutil
import subprocess
from pathlib import Path

import pytest
from installed import COLCON, built_workspace
from made import Made

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workspace(made: Made) -> Path:
    """A workspace with this package, built."""
    return built_workspace(made)


def colcon(workspace: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COLCON, *words], cwd=workspace, capture_output=True, text=True, timeout=800)


def test_colcon_recognises_an_ament_python_package(workspace: Path) -> None:
    rows = [line.split("\t") for line in colcon(workspace, "list").stdout.splitlines()]
    assert rows == [["dynid", "src/dynid", "(ros.ament_python)"]]


def test_ros_finds_the_installed_package(workspace: Path) -> None:
    prefix = workspace / "install" / "dynid"
    assert (prefix / "share/ament_index/resource_index/packages/dynid").is_file()
    for folder in ("launch", "config", "urdf"):
        wanted = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()}
        wanted = {path for path in wanted if "__pycache__" not in path.parts}
        assert {path for path in wanted if not (prefix / "share/dynid" / path).is_file()} == set()
    executables = {path.name for path in (prefix / "lib/dynid").iterdir()}
    assert {"hardware_node", "executor_node", "recorder_node", "identification_node", "collect_client"} <= executables


def test_colcon_test_passes(workspace: Path, tmp_path: Path) -> None:
    # colcon writes beside what it built, and the workspace of all tests is read-only
    copied = shutil.copytree(workspace / "build", tmp_path / "build", copy_function=shutil.copyfile, symlinks=True)
    words = ("--event-handlers", "console_direct+", "--return-code-on-test-failure", "--build-base", str(copied))
    tested = colcon(workspace, "--log-base", str(tmp_path / "log"), "test", *words)
    assert tested.returncode == 0 and " passed" in tested.stdout, tested.stdout + tested.stderr
