"""A copy of what is packaged: the folders that a wheel or a workspace is built from, nothing else of the checkout."""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("src", "config", "urdf", "launch", "resource")
FILES = ("setup.py", "setup.cfg", "pyproject.toml", "package.xml", "README.md", "LICENSE")


def copy_package(folder: Path) -> Path:
    """Copy the package's sources into a new folder, and return it."""
    folder.mkdir(parents=True)
    for name in PARTS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    return folder
