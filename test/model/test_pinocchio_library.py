"""Pinocchio without a system library that its wheel needs: one message, and only for this error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dynid.errors import DynidError, MissingLibraryError
from dynid.model.pinocchio_library import missing_library

MISSING = "libgomp.so.1: cannot open shared object file: No such file or directory"


def test_a_missing_library_is_named_with_its_package() -> None:
    found = missing_library(ImportError(MISSING))
    assert isinstance(found, MissingLibraryError) and isinstance(found, DynidError)
    assert "libgomp.so.1" in str(found) and "apt install libgomp1" in str(found)


def test_another_import_error_stays_as_it_is() -> None:
    error = ImportError("cannot import name 'Model' from 'pinocchio'")
    assert missing_library(error) is error


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["robot", "check", "crane_x7"], ["simulate", "demo_identification", "--out", "bags"]]
)
def test_commands_print_one_sentence_if_it_is_missing(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "pinocchio.py").write_text(f"raise ImportError({MISSING!r})\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    ended = subprocess.run(
        [sys.executable, "-m", "dynid", *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 1 and ended.stderr.startswith("error: pinocchio needs the system library libgomp.so.1")
    assert ended.stderr.count("\n") == 1
