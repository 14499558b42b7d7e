"""Executables of launch files: they end without traceback on any signal, and start no additional threads."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from dynid.nodes import entry
from dynid.nodes.entry import ENDING
from dynid.threads import THREAD_VARIABLES

LOADING = """
import signal
signal.raise_signal({number:d})
print("goes on")
def main(): print("runs")
"""
LEAVING = """
import os, signal, sys
from dynid.nodes.common import StopFlag, leave
class Last:
    def __del__(self, kill=os.kill, own=os.getpid()):
        kill(own, {number:d})
last, flag = Last(), StopFlag()
{leave}(3)
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *sys.path])
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=os.environ | {"PYTHONPATH": path}
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", ENDING)
def test_a_node_that_is_still_loading_ends_silently(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "loading.py").write_text(LOADING.format(number=number))
    ended = run("from dynid.nodes.entry import _run; _run('loading')", tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_node_whose_library_is_missing_ends_with_one_sentence(tmp_path: Path) -> None:
    raising = "from dynid.errors import MissingLibraryError\nraise MissingLibraryError('install libgomp1')\n"
    (tmp_path / "lacking.py").write_text(raising)
    ended = run("from dynid.nodes.entry import _run; _run('lacking')", tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "error: install libgomp1\n")


MULTIPLYING = """
import os
import numpy as np
a = np.ones((600, 600))
a @ a
print("threads", len(os.listdir("/proc/self/task")))
def main(): pass
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="one core, where the library starts no threads anyway")
def test_linear_algebra_in_a_node_starts_no_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a cycle of 1 ms they would only spin; the operating system counts them."""
    for variable in THREAD_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "multiplying.py").write_text(MULTIPLYING)
    assert run("from dynid.nodes.entry import _run; _run('multiplying')", tmp_path).stdout == "threads 1\n"
    assert run("import multiplying", tmp_path).stdout != "threads 1\n"


def test_import_interrupted_without_the_handler_prints_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "loading.py").write_text(LOADING.format(number=signal.SIGINT))
    assert "KeyboardInterrupt" in run("import loading", tmp_path).stderr


@pytest.mark.parametrize(("leave", "code"), [("leave", 3), ("sys.exit", -signal.SIGTERM)])
def test_second_signal_after_the_end_is_ignored(tmp_path: Path, leave: str, code: int) -> None:
    ended = run(LEAVING.format(number=signal.SIGTERM, leave=leave), tmp_path)
    assert (ended.returncode, ended.stderr) == (code, "")


CREATING = """
import signal
from dynid.nodes.common import run_node
run_node(lambda: signal.raise_signal({number:d}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_a_node_during_its_construction(tmp_path: Path, number: signal.Signals) -> None:
    ended = run(CREATING.format(number=number), tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_every_executable_has_a_main() -> None:
    made = {name: one.args[0] for name, one in vars(entry).items() if isinstance(one, partial)}
    assert len(made) == 13
    for module in made.values():
        source = Path(entry.__file__).parents[2].joinpath(*module.split(".")).with_suffix(".py")
        assert "\ndef main() -> None:" in source.read_text(encoding="utf-8")
