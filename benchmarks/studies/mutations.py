"""Whether the tests detect a wrong line: a copy of the checkout with one wrong line, and a layer of the tests."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.studies.wrong_lines import WrongLine
from dynid.errors import DataError

ALONE = "alone"
LAYERS = {  # option and parts of each layer, as in ./run
    "quick": ("--quick", ("not alone",)),
    "whole": ("--promised", ("not real_time", "real_time and not alone", ALONE)),
}
NO_TESTS = 5  # pytest's code for a part without tests
LEFT_OUT = (".git", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "runs")
COMPILED = ("*.nbi", "*.nbc")
Tests = Callable[[Path], bool]


class Outcome(NamedTuple):
    """Wrong line, and whether a test failed because of it."""

    wrong: WrongLine
    caught: bool
    seconds: float


class Copy:
    """Copy of a checkout in which one line at a time is wrong."""

    def __init__(self, root: Path, folder: Path, package: str = "src/dynid") -> None:
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        self.folder, self.package, self._writes = folder, folder / package, 0

    def outcome(self, wrong: WrongLine, tests: Tests) -> Outcome:
        """Run the tests with one wrong line and return the outcome; the copy is restored afterwards."""
        path, began = self.package / wrong.path, time.monotonic()
        right = path.read_bytes()
        try:
            self._write(path, wrong.edit.applied(right))
            return Outcome(wrong, not tests(self.folder), time.monotonic() - began)
        finally:
            self._write(path, right)

    def _write(self, path: Path, text: bytes) -> None:
        """Write a file so that Python and numba notice its change.

        Both compare modification times, Python in whole seconds. numba does not recompile callers of changed functions.
        """
        path.write_bytes(text)
        self._writes += 1
        os.utime(path, (time.time() + self._writes,) * 2)
        if b"njit" in text:
            for pattern in COMPILED:
                for one in self.package.rglob(pattern):
                    one.unlink()


def study(copy: Copy, wrong: list[WrongLine], tests: Tests, told: Callable[[Outcome], None]) -> list[Outcome]:
    """Return the outcome of each wrong line.

    Raises:
        DataError: the tests fail without a wrong line.
    """
    if not tests(copy.folder):
        raise DataError(
            f"the tests fail in {copy.folder} without a wrong line: run them there, and fix the failing ones"
        )
    outcomes = []
    for one in wrong:
        outcomes.append(copy.outcome(one, tests))
        told(outcomes[-1])
    return outcomes


def layer_tests(layer: str, workers: int, longest_s: float) -> Tests:
    """Return a function that runs a layer in a folder up to the first failure and returns whether all passed."""

    def passed(folder: Path) -> bool:
        environment = os.environ | {"PYTHONPATH": str(folder / "src")}
        many = ("-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder")
        option, parts = LAYERS[layer]
        for part in parts:
            processes = () if part == ALONE else many
            command = [sys.executable, "-m", "pytest", "-q", "-x", option, "-m", part, *processes]
            try:
                done = subprocess.run(
                    command, cwd=folder, env=environment, capture_output=True, check=False, timeout=longest_s
                )
            except subprocess.TimeoutExpired:
                return False
            if done.returncode not in (0, NO_TESTS):
                return False
        return True

    return passed
