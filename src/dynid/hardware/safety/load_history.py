"""How much of the servos' overload is used up, kept while no guard runs: over deactivate, reopen and a restart.

A guard counts from zero. A servo that was near its overload would get its full current again after the driver was
stopped for a moment, so the load is kept, and falls as it does at rest. Time is counted since the machine's start,
which nobody can set; after another start it is at least the time since then.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from dynid.errors import ConfigurationError
from dynid.hardware.bus.clock import boot_id
from dynid.hardware.safety.overload import LIMITED, OverloadModel
from dynid.resources import load_validated, yaml_text
from dynid.robot import FloatArray, NonNegative, Robot, Strict

STABLE_NAMES = Path("/dev/serial/by-id")  # links by the adapter's serial number; /dev/ttyUSB0 may be another one's
WRITTEN_FROM = 0.05  # of what trips: less is worth no file

Moment = tuple[str, float]
"""Which start of the machine, '' where that cannot be read, and the time since then [s]."""


def since_start() -> Moment:
    """Return the present moment; a suspended machine's time counts."""
    return boot_id(), time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def history_file(robot: Robot, port: str, names: Path = STABLE_NAMES) -> Path:
    """Return where the load of the arm at a port is kept: $XDG_STATE_HOME/dynid, else ~/.local/state/dynid.

    Two arms have two files, by the serial numbers of their adapters, or by their ports where there are none.
    """
    device = os.path.realpath(port)
    links = sorted(names.iterdir()) if names.is_dir() else []
    name = next((one.name for one in links if os.path.realpath(one) == device), device.strip("/").replace("/", "-"))
    base = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser())
    return base / "dynid" / f"overload-{robot.name}-{name}.yaml"


class KeptLoad(Strict):
    """The schema of the file: shares of what trips, by servo id, and when they were so."""

    schema_version: Literal[1] = 1
    boot_id: str
    since_start_s: NonNegative
    load: dict[int, NonNegative]


class LoadHistory:
    """The load of one arm's servos.

    Args:
        robot: servo ids and overload figures.
        path: the file over restarts; None keeps the load in this object only.
        moment: returns the present moment.

    Attributes:
        problem: why the file could not be used, '' if it could.
    """

    def __init__(self, robot: Robot, path: Path | None = None, moment: Callable[[], Moment] = since_start) -> None:
        self.path, self.problem = path, ""
        self._ids, self._overload, self._moment = robot.servo_ids, OverloadModel.of(robot), moment
        self._kept: tuple[FloatArray, Moment] | None = None
        self._on_disk = False
        if path is not None and path.is_file():
            self._on_disk = True
            self._read(path)

    def _read(self, path: Path) -> None:
        """Take up a file; servos of one that cannot be read count as near their overload."""
        try:
            found = load_validated(path, KeptLoad)
        except ConfigurationError as error:
            self.problem = f"{error}: all servos count as {LIMITED:.0%} loaded, which falls while they rest"
            self._kept = np.full(len(self._ids), LIMITED), self._moment()
            return
        load = np.array([found.load.get(servo_id, 0.0) for servo_id in self._ids])
        self._kept = load, (found.boot_id, found.since_start_s)

    def now(self) -> FloatArray:
        """Return the load that is left at this moment, (n,): servos that carry no current recover."""
        if self._kept is None or self._overload is None:
            return np.zeros(len(self._ids))
        load, (boot_id, then_s) = self._kept
        present_id, now_s = self._moment()
        if present_id:
            passed_s = now_s - then_s if present_id == boot_id else now_s
        else:
            passed_s = 0.0  # nobody can say: what is left falls while the driver runs
        return self._overload.step(load, np.zeros(len(load)), max(0.0, passed_s))

    def keep(self, load: FloatArray) -> None:
        """Keep the load (n,) of this moment; `problem` says why a file could not be written."""
        self._kept = np.array(load, dtype=np.float64), self._moment()
        if self.path is None or not (self._on_disk or load.max(initial=0.0) >= WRITTEN_FROM):
            return
        boot_id, now_s = self._kept[1]
        shares = dict(zip(self._ids, (round(float(one), 4) for one in load), strict=True))
        content = KeptLoad(boot_id=boot_id, since_start_s=now_s, load=shares)
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}-{threading.get_ident()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(yaml_text(content.model_dump()), encoding="utf-8")
            os.replace(temporary, self.path)
        except OSError as error:
            self.problem = f"the servos' load cannot be kept for a restart: {self.path}: {error.strerror}"
            return
        self._on_disk = load.max(initial=0.0) >= WRITTEN_FROM  # an idle arm is written as such once
