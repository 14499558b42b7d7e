"""Command `ros2 launch dynid FILE NAME:=VALUE ...` in a checkout: `python -m benchmarks.hostile.launched FILE ...`.

Needs `launch` and `launch_ros`, and the variables of `launched_environment`.
"""

import configparser
import contextlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import TextIO

from benchmarks.children import CHECKOUT, child_environment
from dynid.errors import NodeError

FILES = CHECKOUT / "launch"
MARKER = Path("share/ament_index/resource_index/packages/dynid")
EXECUTABLES = Path("lib/dynid")


def require_launch() -> None:
    """Raise NodeError if launch is not installed."""
    if importlib.util.find_spec("launch_ros") is None:
        raise NodeError(
            "launch files cannot be started: the Python package launch_ros is not there; source a ROS 2 installation "
            "for this Python, or put launch and launch_ros from source on PYTHONPATH"
        )


def entry_points() -> dict[str, tuple[str, str]]:
    """Return the executables of this checkout: name -> (module, function)."""
    config = configparser.ConfigParser()
    config.read(CHECKOUT / "setup.cfg", encoding="utf-8")
    lines = config["options.entry_points"]["console_scripts"].strip().splitlines()
    pairs = (line.split("=") for line in lines)
    return {name.strip(): (target.split(":")[0].strip(), target.split(":")[1].strip()) for name, target in pairs}


def install(prefix: Path, logs: Path) -> None:
    """Install the package for ROS in a new folder; the output of each executable is also written to a file.

    A process whose launch was killed prints into a closed pipe.
    """
    for folder in (logs, (prefix / MARKER).parent, prefix / EXECUTABLES):
        folder.mkdir(parents=True)
    (prefix / MARKER).touch()
    for name, (module, function) in entry_points().items():
        path = prefix / EXECUTABLES / name
        path.write_text(
            f"#!{sys.executable}\nfrom benchmarks.hostile.launched import Copied\n"
            f"Copied.to({str(logs / f'{name}.log')!r})\nfrom {module} import {function}\n{function}()\n",
            encoding="utf-8",
        )
        path.chmod(0o755)


def launched_environment(folder: Path) -> dict[str, str]:
    """Install the package in a new folder; return variables with which launch finds it and writes its files there."""
    prefix, temporary, before = folder / "prefix", folder / "tmp", os.environ.get("AMENT_PREFIX_PATH")
    install(prefix, folder / "printed")
    temporary.mkdir()
    return child_environment() | {
        "AMENT_PREFIX_PATH": str(prefix) if not before else f"{prefix}{os.pathsep}{before}",
        "ROS_LOG_DIR": str(folder / "ros"),
        "TMPDIR": str(temporary),
    }


class Copied:
    """Text stream that is also written to a file."""

    def __init__(self, stream: TextIO, copy: TextIO) -> None:
        self._stream, self._copy = stream, copy

    @classmethod
    def to(cls, path: str) -> None:
        """Write the further output of this process to a file as well."""
        copy = open(path, "a", buffering=1, encoding="utf-8")
        sys.stdout, sys.stderr = cls(sys.stdout, copy), cls(sys.stderr, copy)

    def write(self, text: str) -> int:
        """See `TextIO.write`; a closed pipe is noticed by `flush`, so that a traceback is copied as a whole."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return self._copy.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def main() -> None:
    """Launch one file and end with launch's exit code."""
    from launch import LaunchDescription, LaunchService
    from launch.actions import IncludeLaunchDescription
    from launch.launch_description_sources import PythonLaunchDescriptionSource

    file, *given = sys.argv[1:]
    service = LaunchService(argv=given, noninteractive=not sys.stdin.isatty())  # as `ros2 launch` does
    pairs = [tuple(text.split(":=", 1)) for text in given]
    service.include_launch_description(
        LaunchDescription([IncludeLaunchDescription(PythonLaunchDescriptionSource(file), launch_arguments=pairs)])
    )
    sys.exit(service.run())


if __name__ == "__main__":
    main()
