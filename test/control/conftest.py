"""Fixtures of the controllers: settings and robot folders."""

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def robot_folder(tmp_path):
    """A copy of a shipped robot, to be changed."""
    for part in ("config", "urdf"):
        shutil.copytree(ROOT / part / "crane_x7", tmp_path / part / "crane_x7")
    return tmp_path / "config" / "crane_x7"
