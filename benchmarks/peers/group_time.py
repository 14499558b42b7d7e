"""Processor time of a process together with its workers, which a limit for each process alone does not bound."""

import os
import subprocess
import time
from pathlib import Path

LOOK_EVERY_S = 1.0
MARGIN_S, WAITING = 60.0, 4.0  # largest time on the clock: a margin [s], and a multiple of the processor time
_GROUP, _TIMES = 2, slice(11, 15)  # process group; user and system time, own and of ended children, in clock ticks


class Late(Exception):
    """The processes of a group did not end within their time."""


def output_within(child: "subprocess.Popen[str]", seconds: float) -> tuple[str, str]:
    """Wait for a child that leads its own process group; return what it printed to standard output and error.

    Raises:
        Late: the group has used more processor time than `seconds`, or waits for something.
    """
    end_s = time.monotonic() + MARGIN_S + WAITING * seconds
    while True:
        try:
            return child.communicate(timeout=LOOK_EVERY_S)
        except subprocess.TimeoutExpired:
            if group_seconds(child.pid) > seconds:
                raise Late(f"no result in {seconds:g} s of processor time") from None
            if time.monotonic() > end_s:
                raise Late(f"no result in {MARGIN_S + WAITING * seconds:.0f} s") from None


def group_seconds(group: int) -> float:
    """Return the processor time [s] of all processes in a group, and of their children that have ended."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended since
            continue
        if int(fields[_GROUP]) == group:
            ticks += sum(map(int, fields[_TIMES]))
    return ticks / os.sysconf("SC_CLK_TCK")
