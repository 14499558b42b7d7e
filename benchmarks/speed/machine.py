"""Description of the machine on which a benchmark ran, which its figures depend on."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dynid import __version__
from dynid.parallel import cores

LIBRARIES = ("casadi", "mujoco", "numba", "numpy", "pin", "scipy")


def machine() -> dict[str, Any]:
    """Return processor, number of usable cores, present load average (1 min), and versions."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "load_average": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": ".".join(map(str, sys.version_info[:3])),
        "dynid": __version__,
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _processor() -> str:
    """Return the processor's name if the system reports it, else its architecture."""
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
