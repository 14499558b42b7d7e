"""A copy of `run` with a Python that only records its arguments."""

import re
import subprocess
import sys
from pathlib import Path

from benchmarks.lock import FILES

ROOT = Path(__file__).resolve().parents[2]
PYTHON = """#!/bin/sh
echo "$@" >>"$LOG"
case "$1 ${2:-}" in
"-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && cp "$0" "$4/bin/dynid" ;;
"-V ") echo Python 3.12.1 ;;
"-c "*) exec "$REAL" -c "import platform; platform.machine = lambda: '$MACHINE'
$( case $2 in *platform*) echo "$2" ;; esac )" ;;
esac
"""


class Newcomer:
    """A copy of `run` and its lock files beside a Python that only notes what it is asked to do."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.python = folder, folder / "log", folder / "python"
        for name in ("run", "setup.cfg", "setup.py", "pyproject.toml", *FILES.values()):
            (folder / name).write_bytes((ROOT / name).read_bytes())
        self.python.write_text(PYTHON)
        for path in (self.python, folder / "run"):
            path.chmod(0o755)

    def run(self, *arguments: str, machine: str = "x86_64") -> subprocess.CompletedProcess[str]:
        """Run a command; the log is of this command alone."""
        self.log.write_text("")
        environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(self.python), "LOG": str(self.log), "MACHINE": machine}
        command = [str(self.folder / "run"), *arguments]
        environment["REAL"] = sys.executable
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)

    @property
    def installed(self) -> list[str]:
        """Return the packages that pip was asked to install."""
        asked = re.findall(r"^-m pip install .*? --no-deps (.*)$", self.log.read_text(), re.MULTILINE)
        return [one.replace(f"{self.folder}", ".") for one in asked]
