"""Expansion of xacro files with their arguments, by the `xacro` package."""

import os
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from dynid.errors import ConfigurationError, InputNotFoundError

SUFFIX = ".xacro"


def expanded(path: Path, arguments: Mapping[str, str]) -> str:
    """Return the URDF that a xacro file expands to, with absolute paths of meshes beside it.

    Raises:
        InputNotFoundError: no such file.
        ConfigurationError: xacro is not installed, or cannot expand the file; quotes its message.
    """
    if not path.is_file():
        raise InputNotFoundError(f"no such xacro file: {path}")
    try:
        import xacro  # slow to import, and part of ROS
    except ImportError:
        raise ConfigurationError(
            f"{path} is a xacro file, and xacro is not installed: expand it where ROS is, by 'xacro {path.name} > "
            "robot.urdf'"
        ) from None
    try:
        text = xacro.process_file(str(path), mappings=dict(arguments)).toxml()
    except Exception as error:  # xacro evaluates expressions of the file, so any exception is possible
        given = ", ".join(f"{name}:={value}" for name, value in arguments.items()) or "none"
        raise ConfigurationError(
            f"xacro cannot expand {path} (arguments: {given}): {error}; packages that it names must be in "
            f"AMENT_PREFIX_PATH, which is '{os.environ.get('AMENT_PREFIX_PATH', '')}'"
        ) from error
    root = ElementTree.fromstring(text)  # noqa: S314 - made by xacro just now
    for mesh in root.iter("mesh"):
        name = mesh.get("filename", "")
        if "://" not in name and not name.startswith("/"):
            mesh.set("filename", str((path.parent / name).resolve()))
    return ElementTree.tostring(root, encoding="unicode")
