"""A copy of the packaged folders alone, from which a wheel or a workspace is built."""

import os
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


def machine_code_only(folder: str, names: list[str]) -> list[str]:
    """What `shutil.copytree` leaves out of compiled files: all but numba's, for those who change no function of it."""
    kept = (".nbi", ".nbc") if Path(folder).name == "__pycache__" else ("",)
    return [name for name in names if name.endswith(".egg-info") or not name.endswith(kept)]


def bring_machine_code(package: Path, source: Path = ROOT / "src/dynid") -> None:
    """Give an installed package what numba has compiled for the same files here, and their times, by which it goes."""
    for path in source.rglob("*.py"):
        copy, compiled = package / path.relative_to(source), path.parent / "__pycache__"
        if not copy.is_file() or copy.read_bytes() != path.read_bytes():
            continue
        os.utime(copy, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        (copy.parent / "__pycache__").mkdir(exist_ok=True)
        for one in (*compiled.glob(f"{path.stem}.*.nbi"), *compiled.glob(f"{path.stem}.*.nbc")):
            shutil.copy2(one, copy.parent / "__pycache__")
