"""Processor time of one identification by the command, compared with the same by a Python program."""

import os
import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dynid.errors import DataError
from dynid.threads import THREAD_VARIABLES

MOST_RATIO = 1.1  # processor time of the Python program over that of the command, median of the pairs
PROGRAM = (
    "import sys, dynid; robot, bag, judge, out = sys.argv[1:]; "
    "found = dynid.identify(dynid.load_robot(robot), [bag], validation=[judge]); dynid.write_result(found, out)"
)


def processor_seconds(words: Sequence[str]) -> float:
    """Run a command without any setting of threads; return the processor time of it and its children [s].

    Raises:
        DataError: it ended with another exit code than 0 or 1, which is that of a model that is not accepted.
    """
    free = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, env=free, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise DataError(f"{' '.join(words[:3])} could not identify: {reason}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(
    robot: str, bags: tuple[Path, Path], work: Path, pairs: int, progress: Callable[[str], None] = lambda stage: None
) -> dict[str, Any]:
    """Identify from one bag and validate on another by the command and by a Python program, in turns.

    Args:
        robot: name or folder.
        bags: bags for identification and for validation.
        work: folder for results, which are removed.
        pairs: number of measured pairs; one more before them fills the caches and does not count.
        progress: function that is called before every pair.
    """
    out = work / "result"
    command = ["-m", "dynid", "identify", str(bags[0]), "--validate", str(bags[1]), "--robot", robot, "--out", str(out)]
    program = ["-c", PROGRAM, robot, *map(str, bags), str(out)]
    found: list[tuple[float, float]] = []
    for pair in range(pairs + 1):
        progress(f"pair {pair} of {pairs}" if pair else "filling caches")
        spent = []
        for words in (command, program):
            spent.append(processor_seconds([sys.executable, *words]))
            shutil.rmtree(out)
        found.append((spent[0], spent[1]))
    counted = found[1:]
    return {
        "command_processor_seconds": [one for one, _ in counted],
        "program_processor_seconds": [other for _, other in counted],
        "command_median_seconds": statistics.median(one for one, _ in counted),
        "ratio": statistics.median(other / one for one, other in counted),
    }
