"""A copy of the packaged folders alone, from which a wheel or a workspace is built."""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("src", "config", "urdf", "launch", "resource")
SOURCES_ONLY = shutil.ignore_patterns("__pycache__", "*.egg-info")
FILES = ("setup.py", "setup.cfg", "pyproject.toml", "package.xml", "README.md", "LICENSE")


def copy_package(folder: Path) -> Path:
    """Copy the package's sources into a new folder, and return it."""
    folder.mkdir(parents=True)
    for name in PARTS:
        shutil.copytree(ROOT / name, folder / name, ignore=SOURCES_ONLY)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    return folder


def machine_code_of(file: Path) -> Path:
    """The folder where numba keeps the machine code of a source file: in $NUMBA_CACHE_DIR, or beside the file."""
    from numba.core.caching import _CacheLocator

    given = os.environ.get("NUMBA_CACHE_DIR")
    return Path(given, _CacheLocator.get_suitable_cache_subpath(str(file))) if given else file.parent / "__pycache__"


def bring_machine_code(package: Path, source: Path = ROOT / "src/dynid") -> None:
    """Give a copy of the package what numba has compiled for the same files here, and their times, by which it goes."""
    for path in source.rglob("*.py"):
        copy = package / path.relative_to(source)
        if not copy.is_file() or copy.read_bytes() != path.read_bytes():
            continue
        os.utime(copy, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        compiled, own = machine_code_of(path), machine_code_of(copy)
        for one in (*compiled.glob(f"{path.stem}.*.nbi"), *compiled.glob(f"{path.stem}.*.nbc")):
            own.mkdir(parents=True, exist_ok=True)
            shutil.copy2(one, own)
