"""Exchange of data with a peer as plain arrays in a folder, so that it runs in a Python of its own.

Nothing here imports dynid, since a peer's Python need not have it.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
PROGRAMS = "programs.json"
PER_LINK = 10  # mass, first moments, then xx, xy, yy, xz, yz, zz about the joint frame's origin: pinocchio's order


@dataclass(frozen=True, eq=False)
class Given:
    """A recorded motion of the chain joints, and the arm.

    Attributes:
        urdf: file of the arm, all other joints being fixed; inertias are the manufacturer's.
        joints: names, (n,).
        gravity: (3,) in the base link [m/s^2].
        time: even stamps (N,) [s].
        q, dq, tau: positions, velocities and torques, (N, n) [rad, rad/s, N m].
        limits: torque limits (n,) [N m].
        seconds: time that is allowed.
        folder: for files of the peer's own.
        programs: places of programs that no Python can import, by name.
    """

    urdf: Path
    joints: tuple[str, ...]
    gravity: Array
    time: Array
    q: Array
    dq: Array
    tau: Array
    limits: Array
    seconds: float
    folder: Path
    programs: dict[str, str] = field(default_factory=dict)

    @property
    def step_s(self) -> float:
        """Sampling interval [s]."""
        return float(self.time[1] - self.time[0])


@dataclass(frozen=True, eq=False)
class Found:
    """Identified parameters in pinocchio's order: links (n, 10), then drives (n,) each, SI; `note` has remarks."""

    links: Array
    armature: Array
    viscous: Array
    coulomb: Array
    offset: Array
    note: str = ""


def write_given(
    folder: Path, urdf: str, joints: tuple[str, ...], gravity: Array, limits: Array, **columns: Array
) -> None:
    """Write the input data of peers; columns are `time`, `q`, `dq` and `tau`."""
    (folder / "arm.urdf").write_text(urdf, encoding="utf-8")
    named = {"joints": joints, "gravity": gravity.tolist(), "limits": limits.tolist()}
    (folder / "arm.json").write_text(json.dumps(named), encoding="utf-8")
    np.savez(folder / "identification.npz", **columns)  # type: ignore[arg-type]


def write_programs(folder: Path, programs: dict[str, str]) -> None:
    """Write the places of programs that no Python can import into the folder of the input data."""
    (folder / PROGRAMS).write_text(json.dumps(programs), encoding="utf-8")


def read_given(folder: Path, seconds: float) -> Given:
    """Return the input data that `write_given` wrote, with the programs if `write_programs` wrote some."""
    named = json.loads((folder / "arm.json").read_text(encoding="utf-8"))
    with np.load(folder / "identification.npz") as columns:
        time, q, dq, tau = (np.array(columns[key]) for key in ("time", "q", "dq", "tau"))
    joints, gravity, limits = tuple(named["joints"]), np.array(named["gravity"]), np.array(named["limits"])
    place = folder / PROGRAMS
    programs = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    return Given(folder / "arm.urdf", joints, gravity, time, q, dq, tau, limits, seconds, folder, programs)


def save_found(path: Path, found: Found) -> None:
    """Write a peer's result."""
    np.savez(path, **vars(found))


def load_found(path: Path) -> Found:
    """Return the result that `save_found` wrote."""
    with np.load(path) as arrays:
        fields = {key: np.array(arrays[key]) for key in ("links", "armature", "viscous", "coulomb", "offset")}
        return Found(**fields, note=str(arrays["note"]))
