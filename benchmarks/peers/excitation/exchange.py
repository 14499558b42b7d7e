"""Exchange of an excitation task and of the designed motion with a peer, as plain files in a folder.

Nothing here imports dynid, since a peer's Python need not have it.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """Limits of the n chain joints, as plain lists; speeds, accelerations and torques are absolute.

    Attributes:
        lower, upper: positions [rad].
        velocity: [rad/s].
        acceleration: [rad/s^2].
        torque: [N m].
    """

    lower: list[float]
    upper: list[float]
    velocity: list[float]
    acceleration: list[float]
    torque: list[float]


@dataclass(frozen=True)
class Task:
    """Request for a motion.

    Attributes:
        robot: name or folder of the robot, for dynid alone.
        profile: profile of excitation.yaml from which the limits are taken.
        joints: names of the chain joints, (n,).
        gravity: in the base link, (3,) [m/s^2].
        duration_s: duration of the motion [s].
        limits: limits that the motion must keep.
        apart: pairs of links that must not touch.
        programs: places of programs that no Python can import, by name.
    """

    robot: str
    profile: str
    joints: list[str]
    gravity: list[float]
    duration_s: float
    limits: Limits
    apart: list[list[str]]
    programs: dict[str, str]


@dataclass(frozen=True, eq=False)
class Given:
    """A task with the files and the time of a peer.

    Attributes:
        task: the request.
        urdf: file of the arm; all other joints are fixed, and the limits of its joints are those of the task.
        folder: folder for files of the peer's own.
        seconds: processor time that is allowed.
    """

    task: Task
    urdf: Path
    folder: Path
    seconds: float


@dataclass(frozen=True, eq=False)
class Designed:
    """A designed motion: even stamps (N,) [s], positions, velocities and accelerations (N, n) [rad, s], and a note."""

    time: Array
    q: Array
    dq: Array
    ddq: Array
    note: str = ""


def write_task(folder: Path, task: Task, urdf: str) -> None:
    """Write a task into an existing folder."""
    (folder / "arm.urdf").write_text(urdf, encoding="utf-8")
    (folder / "task.json").write_text(json.dumps(asdict(task)), encoding="utf-8")


def read_task(folder: Path, seconds: float, own: str) -> Given:
    """Return the task in a folder, with a new folder `own` within it for files of the peer's own."""
    fields: dict[str, Any] = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    task = Task(**{**fields, "limits": Limits(**fields["limits"])})
    place = folder / own
    place.mkdir()
    return Given(task, folder / "arm.urdf", place, seconds)


def save_designed(path: Path, designed: Designed) -> None:
    """Write a motion."""
    np.savez(path, **vars(designed))


def load_designed(path: Path) -> Designed:
    """Return the motion that `save_designed` wrote."""
    with np.load(path) as arrays:
        fields = {key: np.array(arrays[key], dtype=np.float64) for key in ("time", "q", "dq", "ddq")}
        return Designed(**fields, note=str(arrays["note"]))
