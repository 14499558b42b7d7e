"""Ruff's rules, its layout, and mypy's types hold for the whole tree, as pyproject.toml sets them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMANDS = {
    "rules": ("ruff", "check", "--no-cache"),
    "layout": ("ruff", "format", "--check", "--no-cache"),
    "types": ("mypy",),
}
WRONG = {
    "rules": "import os\n",
    "layout": "x = [ 1,2 ]\n",
    "types": 'def f() -> int:\n    return "one"\n',
}  # one file each that its tool refuses


def lint(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A tool by this project's settings, in this tree; skipped where it is not installed."""
    tool, *options = COMMANDS[name]
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed: pip install -e '.[dev]'")
    command = [sys.executable, "-m", tool, *options, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=800)


NAMES = ["rules", "layout", pytest.param("types", marks=pytest.mark.study)]


@pytest.mark.parametrize("name", NAMES)
def test_the_tree_is_clean(name: str) -> None:
    done = lint(name)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_file_against_the_settings_is_found(name: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG[name], encoding="utf-8")
    done = lint(name, "--config-file" if name == "types" else "--config", str(ROOT / "pyproject.toml"), str(path))
    assert done.returncode == 1 and "wrong.py" in done.stdout
