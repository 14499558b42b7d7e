"""Whether the tests notice a wrong line: a copy of the checkout, one line wrong in it, and a layer of the suite."""

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
LAYERS = {  # option, and parts, as ./run has them
    "quick": ("--quick", ("not alone",)),
    "whole": ("--promised", ("not real_time", "real_time and not alone", ALONE)),
}
NO_TESTS = 5  # pytest's code for a part without tests
LEFT_OUT = (".git", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "runs")
COMPILED = ("*.nbi", "*.nbc")
Tests = Callable[[Path], bool]


class Outcome(NamedTuple):
    """A wrong line, and whether a test failed because of it."""

    wrong: WrongLine
    caught: bool
    seconds: float


class Copy:
    """A copy of a checkout, in which one line at a time is wrong."""

    def __init__(self, root: Path, folder: Path, package: str = "src/dynid") -> None:
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        self.folder, self.package, self._writes = folder, folder / package, 0

    def outcome(self, wrong: WrongLine, tests: Tests) -> Outcome:
        """Run the tests with one wrong line; the copy is right again afterwards."""
        path, began = self.package / wrong.path, time.monotonic()
        right = path.read_bytes()
        try:
            self._write(path, wrong.edit.applied(right))
            return Outcome(wrong, not tests(self.folder), time.monotonic() - began)
        finally:
            self._write(path, right)

    def _write(self, path: Path, text: bytes) -> None:
        """Write a file that Python and numba take for another one.

        Both compare times, Python in whole seconds; and numba keeps callers of a changed function as they were.
        """
        path.write_bytes(text)
        self._writes += 1
        os.utime(path, (time.time() + self._writes,) * 2)
        if b"njit" in text:
            for pattern in COMPILED:
                for one in self.package.rglob(pattern):
                    one.unlink()


def study(copy: Copy, wrong: list[WrongLine], tests: Tests, told: Callable[[Outcome], None]) -> list[Outcome]:
    """Return what the tests say to each wrong line.

    Raises:
        DataError: they fail without any.
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
    """Return what runs a layer in a folder up to the first failure, and whether all passed; too long is a failure."""

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
