"""Benchmark `./run benchmark excitation`: every program designs a motion in its own process; one judge for all."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.excitation.exchange import Task, load_designed, write_task
from benchmarks.peers.excitation.judge import Judge, judge_of
from benchmarks.peers.excitation.table import DESIGNERS, OWN, Designer
from benchmarks.peers.excitation.task import bounded_urdf
from benchmarks.peers.processes import run_process
from dynid.robot import Robot

BETTER = {OWN[0]: ("kappa", -1.0), OWN[1]: ("log_det", 1.0)}  # what each of dynid's motions promises, and its sign


def benchmark_excitation(
    robot: Robot,
    task: Task,
    names: Sequence[str],
    work: Path,
    python: Path,
    seconds: float,
    progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Return a row for every program.

    Args:
        robot: the robot.
        task: what is asked of all programs.
        names: names of programs; () takes all.
        work: existing folder for the files of the programs.
        python: interpreter of the peers.
        seconds: processor time for each [s].
        progress: called with each step's name.
    """
    write_task(work, task, bounded_urdf(robot, task))
    judge, rows = judge_of(robot, task, work / "arm.urdf"), []
    for one in DESIGNERS:
        if not names or one.name in names:
            progress(one.name)
            rows.append(designed_row(one, judge, work, python, seconds))
    return rows


def designed_row(one: Designer, judge: Judge, work: Path, python: Path, seconds: float) -> dict[str, Any]:
    """Return the row of a program: the figures of its motion, or its error."""
    row: dict[str, Any] = {"peer": one.name, "settings": one.settings, "source": one.source, "note": ""}
    interpreter = str(python) if one.elsewhere else sys.executable
    command = [interpreter, "-m", "benchmarks.peers.excitation.child", one.function, str(work), str(seconds)]
    row |= run_process(command, seconds)
    if row["error"]:
        return row
    try:
        designed = load_designed(work / f"{one.function}.npz")
        row |= {"note": designed.note} | judge.figures(designed)
    except Exception as failed:  # a motion that cannot be judged is a row, too
        row["error"] = f"not judged: {type(failed).__name__}: {failed}"
    return row


def missed(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence for every requirement that does not hold.

    Motions of dynid keep all limits, and no peer's motion that keeps them is better by what dynid's was optimised for.
    """
    found = []
    kept = [row for row in rows if not row["error"] and row["kept"]]
    for row in rows:
        if row["peer"] not in BETTER:
            continue
        key, sign = BETTER[row["peer"]]
        if row["error"]:
            found.append(f"{row['peer']}: {row['error']}")
        elif not row["kept"]:
            found.append(f"{row['peer']} leaves limits: {row['outside']}")
        else:
            others = [one for one in kept if one["peer"] not in BETTER and sign * (one[key] - row[key]) > 0.0]
            found += [f"{row['peer']}: {key} {row[key]:.4g}, {one['peer']} has {one[key]:.4g}" for one in others]
    return found
