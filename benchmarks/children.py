"""What a Python process needs to find this folder."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def child_environment() -> dict[str, str]:
    """Variables with which a child finds the package `benchmarks`, whatever folder it is started from."""
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": str(CHECKOUT) if not before else f"{CHECKOUT}{os.pathsep}{before}"}
