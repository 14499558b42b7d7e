"""Packaging entry point; the metadata lives in setup.cfg, because colcon reads only that."""

from pathlib import Path

from setuptools import setup


def share_files() -> list[tuple[str, list[str]]]:
    """Every file of the data folders, in pairs (install folder, files) as setuptools wants them."""
    pairs = [("share/ament_index/resource_index/packages", ["resource/dynid"]), ("share/dynid", ["package.xml"])]
    for top in ("config", "urdf", "launch"):
        for folder in sorted({path.parent for path in Path(top).rglob("*") if path.is_file()}):
            files = sorted(str(path) for path in folder.iterdir() if path.is_file())
            pairs.append((f"share/dynid/{folder.as_posix()}", files))
    # launch files load these without importing dynid, which may be installed for another Python
    pairs.append(("share/dynid/launch", ["src/dynid/nodes/middleware.py", "src/dynid/nodes/localhost_udp.xml"]))
    return pairs


setup(data_files=share_files(), python_requires=">=3.10")
