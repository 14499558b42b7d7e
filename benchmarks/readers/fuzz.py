"""Test of every reader with mutated files, in separate processes, so that a hang or crash affects only one input."""

import multiprocessing
import os
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import hypothesis

from benchmarks.readers.builders import Built
from benchmarks.readers.limits import Writes, limited_memory
from benchmarks.readers.mutations import mutated
from benchmarks.readers.structures import STRUCTURES, Structure
from benchmarks.readers.targets import TARGETS, Target
from benchmarks.resident import forget_peak, peak_mib
from dynid.errors import DynidError

HANG_S, START_S = 10.0, 120.0  # limits of processor time [s]; a sleeping process gets four times as long
CHECK_INTERVAL_S = 0.5
MOST_OF_ONE_PROCESS = 1000  # number of inputs: memory that generators and libraries keep would count for later files
Outcome = tuple[str, str]  # accepted, refused, traceback or wrong; and a description


@dataclass
class Tally:
    """Outcomes of the inputs of one reader."""

    outcomes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    peak_mib: float = 0.0
    slowest_s: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        names = {"tracebacks": "traceback", "hangs": "hang", "wrong_accepts": "wrong"}
        counts = {key: self.outcomes[name] for key, name in names.items()}
        counts |= {"accepted": self.outcomes["accepted"], "refused": self.outcomes["refused"]}
        return counts | {"peak_mib": self.peak_mib, "slowest_s": self.slowest_s, "examples": self.examples}


def outcome(target: Target, path: Path) -> Outcome:
    """Return the outcome of reading a file."""
    return judged(lambda: target.read(path), target.fault)


def judged(read: Callable[[], Any], fault_of: Callable[[Any], str]) -> Outcome:
    """Return the outcome of a reading function, whose result is checked by `fault_of`."""
    try:
        found = read()
    except DynidError as error:
        text = str(error)
        return ("traceback", f"more than one line: {text[-300:]!r}") if "\n" in text else ("refused", "")
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return "traceback", f"{type(error).__name__}: {str(error)[:400]} ({Path(place.filename).name}:{place.lineno})"
    fault = fault_of(found)
    return ("wrong", fault) if fault else ("accepted", "")


def one_input(target: Target, folder: Path, seed: int) -> Outcome:
    """Return the outcome of reading mutation number `seed` of the valid file."""
    path = folder / f"input.{target.suffix}"
    path.write_bytes(mutated(target.good, seed, target.mutations))
    return outcome(target, path)


def built_outcome(structure: Structure, built: Built, work: Path, writes: Writes, *, limited: bool) -> Outcome:
    """Return the outcome of reading generated files; `work` is the only folder where the reader may write.

    If `limited`, the reader has 1 GiB of memory; the first files also load libraries and compile.
    """
    folder, out = work / "in", work / "out"
    for path, content in built.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    out.mkdir()
    there = set(work.iterdir())
    try:
        writes.watching = True
        forget_peak()  # the memory of the generator does not count
        with limited_memory() if limited else nullcontext():
            found = judged(lambda: structure.read(folder / built.entry, out), structure.fault)
        writes.watching = False
        left = {one.name for one in set(work.iterdir()) - there}
        if left or writes.outside:
            found = ("wrong", f"wrote {', '.join([*left, *writes.outside])[:150]}")
    finally:
        writes.watching = False
        writes.outside.clear()
        for one in work.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    return found


def _work_built(name: str, seed: int, first: int, count: int, pipe: Connection) -> None:
    """Generate and read files; a restarted process uses another seed, so it does not repeat the fatal example."""
    with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryDirectory() as work:
        structure = STRUCTURES[name](Path(kept))
        tempfile.tempdir = work
        os.chdir(work)
        writes, place = Writes(Path(work)), first

        @hypothesis.seed(seed + first)
        @hypothesis.given(structure.built)
        @hypothesis.settings(
            max_examples=count - first,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        def read(built: Built) -> None:
            nonlocal place
            begin = time.monotonic()
            if place >= count:
                return
            result = built_outcome(structure, built, Path(work), writes, limited=place > first)
            pipe.send((place, *result, peak_mib(), time.monotonic() - begin))
            place += 1

        pipe.send((-1, "accepted", "", 0.0))
        read()
    pipe.send(None)


def _work(name: str, seed: int, first: int, count: int, pipe: Connection) -> None:
    if name in STRUCTURES:
        return _work_built(name, seed, first, count, pipe)
    with tempfile.TemporaryDirectory() as work:
        target = TARGETS[name](Path(work))
        good = Path(work) / f"good.{target.suffix}"
        good.write_bytes(target.good)
        pipe.send((-1, *outcome(target, good), 0.0))
        for place in range(first, count):
            begin = time.monotonic()
            with limited_memory() if place > first else nullcontext():  # the first one loads libraries and compiles
                result = one_input(target, Path(work), seed + place)
            pipe.send((place, *result, peak_mib(), time.monotonic() - begin))
    pipe.send(None)


def fuzz(name: str, count: int, seed: int = 0) -> Tally:
    """Read `count` mutated or generated files with one reader; other seeds give other files.

    Raises:
        RuntimeError: the reader refuses the valid file, so the others would show nothing.
    """
    tally, place = Tally(), 0
    while place < count:
        here, there = multiprocessing.get_context("spawn").Pipe()
        last = min(count, place + MOST_OF_ONE_PROCESS)
        child = multiprocessing.get_context("spawn").Process(target=_work, args=(name, seed, place, last, there))
        child.start()
        there.close()
        place = _listen(here, child, tally, place, last, name)
        here.close()
    return tally


def _heard(pipe: Connection, child: Any, patience: float) -> bool:
    """Return whether the child sent a result within `patience` of processor time [s], or of four times as much sleep.

    A process that waits for a processor, on a busy machine, does not count as hanging.
    """
    begin_s, slept_s = _processor(child.pid)[0], 0.0
    while not pipe.poll(CHECK_INTERVAL_S):
        used_s, runs = _processor(child.pid)
        slept_s += 0.0 if runs else CHECK_INTERVAL_S
        if used_s - begin_s > patience or slept_s > 4.0 * patience:
            return False
    return True


def _processor(process: int) -> tuple[float, bool]:
    """Return a process's processor time [s], and whether it runs or waits for a processor; (0, False) after its end."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0, False
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), fields[0] == "R"


def _listen(pipe: Connection, child: Any, tally: Tally, next_place: int, last: int, name: str) -> int:
    """Receive results until the child ends or hangs; return the number of the next input."""
    patience = START_S
    while True:
        try:
            message = pipe.recv() if _heard(pipe, child, patience) else "hang"
        except EOFError:
            message = "dead"
        if message is None:
            child.join()
            return last
        if isinstance(message, str):
            child.kill()
            child.join()
            kind = "hang" if message == "hang" else "traceback"
            tally.outcomes[kind] += 1
            tally.examples.setdefault(kind, f"input {next_place}: {message}, exit code {child.exitcode}")
            return next_place + 1
        patience, (place, kind, text, *figures) = HANG_S, message
        if place < 0:
            if kind != "accepted":
                child.kill()
                raise RuntimeError(f"the reader of {name} refuses its good file: {kind} {text}")
            continue
        next_place = place + 1
        tally.outcomes[kind] += 1
        tally.peak_mib, tally.slowest_s = max(tally.peak_mib, figures[0]), max(tally.slowest_s, figures[1])
        if text:
            tally.examples.setdefault(f"{kind}: {text}"[:400], f"input {place}")
