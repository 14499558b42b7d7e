"""Record of the servos' used overload capacity that survives restarts of the driver.

Without this record, a new safety guard would assume that no capacity is used. A servo near overload would then get its
full current again after a short stop of the driver. The used capacity decays after it was stored, as in a servo at
rest. For this decay, time is measured from the machine's boot, because the wall clock can be set. After a reboot, only
the time since boot counts.
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

STABLE_NAMES = Path("/dev/serial/by-id")  # links by serial number of the adapter; /dev/ttyUSB0 may be another adapter
WRITTEN_FROM = 0.05  # smallest share of overload capacity for which a file is written

Moment = tuple[str, float]
"""ID of the machine's boot, '' if it cannot be read, and the time since that boot [s]."""


def since_start() -> Moment:
    """Return the present moment as (boot ID, time since boot [s]); the time includes suspension of the machine."""
    return boot_id(), time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def history_file(robot: Robot, port: str, names: Path = STABLE_NAMES) -> Path:
    """Return the path of the file that stores the used overload capacity of the servos of the arm at a port.

    The file is in $XDG_STATE_HOME/dynid, else in ~/.local/state/dynid. Two arms have two files, named after the serial
    numbers of their adapters, or after their ports if the adapters have none.

    Args:
        robot: robot whose name is part of the file name.
        port: device file of the port.
        names: folder with links to ports, named by serial number.
    """
    device = os.path.realpath(port)
    links = sorted(names.iterdir()) if names.is_dir() else []
    name = next((one.name for one in links if os.path.realpath(one) == device), device.strip("/").replace("/", "-"))
    base = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser())
    return base / "dynid" / f"overload-{robot.name}-{name}.yaml"


class KeptLoad(Strict):
    """Schema of a `LoadHistory` file.

    Attributes:
        schema_version: version of the schema.
        boot_id: ID of the machine's boot during which the file was written.
        since_start_s: time from that boot to the writing of the file [s].
        load: used fraction of overload capacity, 0 to 1, by servo ID.
    """

    schema_version: Literal[1] = 1
    boot_id: str
    since_start_s: NonNegative
    load: dict[int, NonNegative]


class LoadHistory:
    """Record of the used overload capacity of one arm's servos, in memory and in a file.

    Args:
        robot: robot with servo IDs, and overload data in motors.yaml.
        path: file for the record; None keeps the record in this object only.
        moment: function that returns the present moment as (boot ID, time since boot [s]).

    Attributes:
        path: file for the record, or None.
        problem: reason why the file could not be read or written; '' if there was no such error.
    """

    def __init__(self, robot: Robot, path: Path | None = None, moment: Callable[[], Moment] = since_start) -> None:
        self.path, self.problem = path, ""
        self._ids, self._overload, self._moment = robot.servo_ids, OverloadModel.of(robot), moment
        self._stored: tuple[FloatArray, Moment] | None = None
        self._on_disk = False
        if path is not None and path.is_file():
            self._on_disk = True
            self._read(path)

    def _read(self, path: Path) -> None:
        """Read the used overload capacity from an existing file; servos that it does not contain have used none.

        If the file cannot be read, or its content is invalid, all servos are assumed to be near overload (`LIMITED`).
        """
        try:
            found = load_validated(path, KeptLoad)
        except ConfigurationError as error:
            self.problem = f"{error}: all servos count as {LIMITED:.0%} loaded, which falls while they rest"
            self._stored = np.full(len(self._ids), LIMITED), self._moment()
            return
        load = np.array([found.load.get(servo_id, 0.0) for servo_id in self._ids])
        self._stored = load, (found.boot_id, found.since_start_s)

    def now(self) -> FloatArray:
        """Return the fraction of each servo's overload capacity that is still used now, (n,).

        The fraction has decayed since it was stored, because servos without current recover.
        """
        if self._stored is None or self._overload is None:
            return np.zeros(len(self._ids))
        load, (boot_id, stored_s) = self._stored
        present_id, now_s = self._moment()
        if present_id:
            passed_s = now_s - stored_s if present_id == boot_id else now_s
        else:
            passed_s = 0.0  # elapsed time unknown: assume no recovery before the driver runs
        return self._overload.step(load, np.zeros(len(load)), max(0.0, passed_s))

    def keep(self, load: FloatArray) -> None:
        """Store the fraction of each servo's overload capacity that is used now, (n,).

        If the file cannot be written, `problem` contains the reason.
        """
        self._stored = np.array(load, dtype=np.float64), self._moment()
        if self.path is None or not (self._on_disk or load.max(initial=0.0) >= WRITTEN_FROM):
            return
        boot_id, now_s = self._stored[1]
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
        self._on_disk = load.max(initial=0.0) >= WRITTEN_FROM  # once the load is low, a last write records it
