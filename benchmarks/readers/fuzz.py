"""Every reader against mutated files, in processes of their own: one that hangs or dies takes nothing else along."""

import multiprocessing
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.readers.mutations import mutated
from benchmarks.readers.targets import TARGETS, Target
from benchmarks.resident import peak_mib
from dynid.errors import DynidError

HANG_S, START_S = 12.0, 120.0
Outcome = tuple[str, str]  # accepted, refused, traceback or wrong; and what it was


@dataclass
class Tally:
    """Outcomes of the inputs of one reader."""

    outcomes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    peak_mib: float = 0.0
    slowest_s: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        names = {"tracebacks": "traceback", "hangs": "hang", "wrong_accepts": "wrong"}
        counts = {key: self.outcomes[name] for key, name in names.items()}
        counts |= {"accepted": self.outcomes["accepted"], "refused": self.outcomes["refused"]}
        return counts | {"peak_mib": self.peak_mib, "slowest_s": self.slowest_s, "examples": self.examples}


def outcome(target: Target, path: Path) -> Outcome:
    """What a reader makes of a file."""
    try:
        found = target.read(path)
    except DynidError as error:
        return ("refused", "") if "\n" not in str(error) else ("traceback", "more than one line")
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return "traceback", f"{type(error).__name__}: {str(error)[:200]} ({Path(place.filename).name}:{place.lineno})"
    fault = target.fault(found)
    return ("wrong", fault) if fault else ("accepted", "")


def one_input(target: Target, folder: Path, seed: int) -> Outcome:
    """Mutation number `seed` of the good file, read."""
    path = folder / f"input.{target.suffix}"
    path.write_bytes(mutated(target.good, seed, target.mutations))
    return outcome(target, path)


def _work(name: str, first: int, count: int, pipe: Connection) -> None:
    with tempfile.TemporaryDirectory() as work:
        target = TARGETS[name](Path(work))
        good = Path(work) / f"good.{target.suffix}"
        good.write_bytes(target.good)
        pipe.send((-1, *outcome(target, good), 0.0))
        for seed in range(first, count):
            begin = time.monotonic()
            result = one_input(target, Path(work), seed)
            peak = peak_mib()
            pipe.send((seed, *result, peak, time.monotonic() - begin))
    pipe.send(None)


def fuzz(name: str, count: int, told: Callable[[str], None] = lambda text: None) -> Tally:
    """Read `count` mutated files with one reader.

    Raises:
        RuntimeError: the reader refuses the good file, so that the others would show nothing.
    """
    tally, next_seed = Tally(), 0
    while next_seed < count:
        here, there = multiprocessing.get_context("spawn").Pipe()
        child = multiprocessing.get_context("spawn").Process(target=_work, args=(name, next_seed, count, there))
        child.start()
        there.close()
        next_seed = _listen(here, child, tally, next_seed, name)
        here.close()
    return tally


def _listen(pipe: Connection, child: Any, tally: Tally, next_seed: int, name: str) -> int:
    """Take results until the child ends or hangs; returns the next input."""
    patience = START_S
    while True:
        try:
            message = pipe.recv() if pipe.poll(patience) else "hang"
        except EOFError:
            message = "dead"
        if message is None:
            child.join()
            return 2**62
        if isinstance(message, str):
            child.kill()
            child.join()
            kind = "hang" if message == "hang" else "traceback"
            tally.outcomes[kind] += 1
            tally.examples.setdefault(kind, f"input {next_seed}: {message}, exit code {child.exitcode}")
            return next_seed + 1
        patience, (seed, kind, text, *figures) = HANG_S, message
        if seed < 0:
            if kind != "accepted":
                child.kill()
                raise RuntimeError(f"the reader of {name} refuses its good file: {kind} {text}")
            continue
        next_seed = seed + 1
        tally.outcomes[kind] += 1
        tally.peak_mib, tally.slowest_s = max(tally.peak_mib, figures[0]), max(tally.slowest_s, figures[1])
        if text:
            tally.examples.setdefault(f"{kind}: {text}"[:200], f"input {seed}")
