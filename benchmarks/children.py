"""Environment in which child processes find the package `benchmarks`."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def child_environment() -> dict[str, str]:
    """Return environment variables with which a child process finds `benchmarks` from any working folder."""
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": str(CHECKOUT) if not before else f"{CHECKOUT}{os.pathsep}{before}"}
