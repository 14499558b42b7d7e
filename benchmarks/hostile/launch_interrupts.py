"""Launch files interrupted at random moments: half of them while they start, the others during a motion."""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.children import child_environment
from benchmarks.hostile.interrupts import PYTHON, TRACE, Ended, interrupt
from benchmarks.hostile.launched import FILES, launched_environment, require_launch
from dynid.nodes.domain import PrivateDomain

# A terminal's Ctrl-C or end reaches the whole group of processes; `kill` reaches one process.
WAYS = ((signal.SIGINT, True), (signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGHUP, True))
START_S = 15.0
MOTION, BAG = "demo_identification", "V01"
FIRST_LINE = "[launch]"
OF_A_CHILD = re.compile(r"^\[\w+-\d+\] ")


@dataclass(frozen=True)
class LaunchFile:
    """Launch file to be interrupted, see `interrupts.Subject`.

    Attributes:
        file: its name without `.launch.py`.
        arguments: launch arguments; `{folder}` is the run's.
        moving: whether the interrupt comes in a motion, with the time counted from the opening of its bag.
    """

    file: str
    arguments: tuple[str, ...]
    moving: bool = False

    def command(self, folder: Path) -> list[str]:
        """Return the launch command."""
        given = [one.format(folder=folder) for one in self.arguments]
        return [sys.executable, "-m", "benchmarks.hostile.launched", str(FILES / f"{self.file}.launch.py"), *given]

    def environment(self, folder: Path) -> dict[str, str]:
        """Return an environment in which launch finds the package and writes its files."""
        return dict(os.environ) | launched_environment(folder)

    def begun(self, folder: Path) -> bool:
        """Return whether launch runs its file, or, for a motion, the arm is about to be enabled."""
        if self.moving:
            return (folder / "bag").exists()
        return FIRST_LINE in (folder / "output.txt").read_text(encoding="utf-8", errors="replace")

    def texts(self, folder: Path) -> dict[str, str]:
        """Return the output of launch itself, and the output and logs of each of its processes."""
        output = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")
        own = "\n".join(line for line in output.splitlines() if not OF_A_CHILD.match(line))
        printed = {
            path.stem: path.read_text(encoding="utf-8", errors="replace")
            for part in ("printed", "ros")
            for path in (folder / part).glob("*.log")
        }
        early = [line for line in output.splitlines() if OF_A_CHILD.match(line) and TRACE in line]
        if early and not any(TRACE in text for text in printed.values()):
            printed[PYTHON] = "\n".join(early)
        return printed | {"launch": own}


def interrupted_launches(runs: int, latest_s: float, seed: int, in_motion: bool = False) -> Iterator[Ended]:
    """Start launch files `runs` times and interrupt each one, in a motion up to `latest_s` after it was prepared.

    Every second one is interrupted during its start, or none with `in_motion`.

    Raises:
        NodeError: launch is not installed.
    """
    require_launch()
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="dynid-recorded-") as name, PrivateDomain():
        bag = Path(name) / BAG
        command = [sys.executable, "-m", "dynid", "simulate", BAG, "--out", name]
        subprocess.run(command, check=True, capture_output=True, env=dict(os.environ) | child_environment())
        starting, moving = _files(bag)
        for k in range(runs):
            starts = k % 2 == 0 and not in_motion
            subject = starting[k // 2 % len(starting)] if starts else moving
            after_s = rng.uniform(0.0, START_S if starts else latest_s)
            number, everybody = rng.choice(WAYS)
            what = f"{subject.file}.launch.py {'in its motion' if subject.moving else 'at its start'}"
            yield interrupt(subject, what, after_s, number, everybody=everybody)


def _files(bag: Path) -> tuple[list[LaunchFile], LaunchFile]:
    """Return the launch files that are interrupted during their start, and the one interrupted during a motion."""
    motion = (f"trajectory:={MOTION}", "output:={folder}/bag", "use_sim:=true")
    starting = [
        LaunchFile("bringup", ("use_sim:=true",)),
        LaunchFile("collect", motion),
        LaunchFile("control", ("use_sim:=true",)),
        LaunchFile("identify", (f"bags:={bag}", "output:={folder}/model")),
    ]
    return starting, LaunchFile("collect", motion, moving=True)
