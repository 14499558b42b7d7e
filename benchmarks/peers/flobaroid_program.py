"""Programs of FloBaRoID, which run in a checkout and with a Python that the user names; nothing of it is imported."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

START = Path(__file__).with_name("flobaroid_start.py")


def found_program(programs: Mapping[str, str], name: str) -> Path:
    """Return a program of the checkout that `programs` names.

    Raises:
        ModuleNotFoundError: no checkout is named, or it has no such program.
    """
    if "flobaroid" not in programs:
        raise ModuleNotFoundError("no checkout: give its folder with --flobaroid")
    program = Path(programs["flobaroid"]) / name
    if not program.exists():
        raise ModuleNotFoundError(f"no {program}")
    return program


def command(programs: Mapping[str, str], program: Path, files: Mapping[str, Path]) -> list[str]:
    """Return the command line that starts a program; `files` are its options and their values."""
    options = [word for key, file in files.items() for word in (f"--{key}", str(file))]
    return [programs.get("flobaroid_python", sys.executable), str(START), str(program), *options]


def environment() -> dict[str, str]:
    """Return the environment of a program: without a screen, and without dynid's packages."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"MPLBACKEND": "Agg"}


def last_line(output: str) -> str:
    """Return the last line of a program's output that is not blank."""
    return ([one.strip() for one in output.split("\n") if one.strip()] or ["no message"])[-1]
