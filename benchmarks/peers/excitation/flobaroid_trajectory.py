"""Peer FloBaRoID: its program trajectory.py in a checkout and with a Python that the user names.

The checkout's folder and the Python are the task's programs "flobaroid" and "flobaroid_python". Nothing of FloBaRoID is
imported here.
"""

import os
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree

import numpy as np
import yaml

from benchmarks.peers.excitation.exchange import Designed, Given
from benchmarks.peers.excitation.flobaroid_settings import TOLERANCE, periods, settings
from benchmarks.peers.excitation.meshes import with_meshes
from benchmarks.peers.flobaroid_program import command, environment, found_program, last_line
from benchmarks.peers.group_time import group_seconds

USED = 0.9  # share of the processor time after which it is interrupted, which makes it return its best motion
LOOK_EVERY_S = 1.0
DOWNWARDS, GRAVITY_TOLERANCE = (0.0, 0.0, -9.81), 0.01  # gravity is fixed in its source [m/s^2]


def design(given: Given) -> Designed:
    """Return FloBaRoID's motion, its period repeated, without its ramps from and to zero.

    Raises:
        ModuleNotFoundError: no checkout or no Python is named, or they do not exist.
        ValueError: the arm's gravity is not FloBaRoID's.
        RuntimeError: it found no motion; quotes its last line.
    """
    program = found_program(given.task.programs, "trajectory.py")
    if np.abs(np.subtract(given.task.gravity, DOWNWARDS)).max() > GRAVITY_TOLERANCE:
        raise ValueError(f"its gravity is {DOWNWARDS}, the arm's {tuple(given.task.gravity)}")
    folder = given.folder
    urdf, config, result = folder / "arm.urdf", folder / "config.yaml", folder / "trajectory.npz"
    urdf.write_text(slower(with_meshes(given.urdf, folder)), encoding="utf-8")
    config.write_text(yaml.safe_dump(settings(given)), encoding="utf-8")
    files = {"config": config, "model": urdf, "filename": result}
    started = command(given.task.programs, program, files)
    with (folder / "output.txt").open("w", encoding="utf-8") as output:
        child = subprocess.Popen(started, cwd=program.parent, env=environment(), stdout=output, stderr=output)
        interrupted = wait(child, USED * given.seconds)
    if not result.exists():
        said = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"ended with {child.returncode}: {last_line(said)}")
    with np.load(result, allow_pickle=False) as arrays:
        time_s, q, dq, ddq = (np.array(arrays[key]) for key in ("times", "positions", "velocities", "accelerations"))
    return repeated(Designed(time_s, q, dq, ddq, "interrupted after its time" if interrupted else ""), periods(given))


def slower(urdf: str) -> str:
    """Return the text of a URDF whose speed limits are lower by what FloBaRoID tolerates beyond them."""
    root = ElementTree.fromstring(urdf)
    for limit in root.findall("joint/limit"):
        limit.set("velocity", repr(float(limit.get("velocity", "inf")) - TOLERANCE))
    return ElementTree.tostring(root, encoding="unicode")


def repeated(period: Designed, times: int) -> Designed:
    """Return a period of a motion several times in succession; its last sample comes a step before its end."""
    step_s = period.time[1] - period.time[0]
    stamps = period.time[0] + step_s * np.arange(times * len(period.time))
    q, dq, ddq = (np.tile(one, (times, 1)) for one in (period.q, period.dq, period.ddq))
    return Designed(stamps, q, dq, ddq, period.note)


def wait(child: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Wait until a child ends; interrupt it after some processor time [s] of the group, and return whether it was."""
    interrupted = False
    while child.poll() is None:
        time.sleep(LOOK_EVERY_S)
        if not interrupted and group_seconds(os.getpgrp()) > seconds:
            child.send_signal(signal.SIGINT)
            interrupted = True
    return interrupted
