"""Expansion of xacro files to URDF text, by the `xacro` package.

Macros in a xacro file may recurse, and expressions may take any time. So a child process with limits of time and memory
expands the file.
"""

import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from dynid.errors import ConfigurationError, InputNotFoundError, cut, one_line
from dynid.foreign_files import MEMORY_BYTES
from dynid.limited import in_child
from dynid.robot.urdf_text import MOST_URDF_BYTES

SUFFIX = ".xacro"
CPU_S, WALL_S = 20, 60  # limits of an expansion; the largest robots take 2 s


def expanded(path: Path, arguments: Mapping[str, str]) -> str:
    """Expand a xacro file to URDF text.

    `arguments` are the xacro arguments by name.

    Raises:
        InputNotFoundError: the file does not exist.
        ConfigurationError: xacro is not installed, or cannot expand the file; the message quotes the error of
            xacro.
    """
    if not path.is_file():
        raise InputNotFoundError(f"no such xacro file: {path}")
    if find_spec("xacro") is None:  # part of ROS
        raise ConfigurationError(
            f"{path} is a xacro file, and xacro is not installed: expand it where ROS is, by 'xacro {path.name} > "
            "robot.urdf'"
        )
    text, fault = _expanded_in_child(path, arguments)
    if fault:
        given = ", ".join(f"{name}:={value}" for name, value in arguments.items()) or "none"
        raise ConfigurationError(
            f"xacro cannot expand {path} (arguments: {given}): {fault}; packages that it names must be in "
            f"AMENT_PREFIX_PATH, which is '{os.environ.get('AMENT_PREFIX_PATH', '')}'"
        )
    return text


def _expanded_in_child(path: Path, arguments: Mapping[str, str]) -> tuple[str, str]:
    """Expand a xacro file in a child process; return the URDF text and "", or "" and the reason for the failure."""
    request = {"path": str(path.absolute()), "arguments": dict(arguments), "cpu_s": CPU_S, "wall_s": WALL_S}
    output, code = in_child("xacro", request, 2 * WALL_S)
    if code != 0:
        return "", f"it takes more than {CPU_S} s or {MEMORY_BYTES // 2**20} MiB, or ends Python ({code})"
    found = json.loads(output)
    text = str(found.get("text", ""))
    if len(text) > MOST_URDF_BYTES:
        return "", f"it becomes a URDF of {len(text)} characters, expected at most {MOST_URDF_BYTES}"
    return text, cut(one_line(str(found.get("error", ""))), 300)
