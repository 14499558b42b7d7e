"""Process of one peer: `python -m benchmarks.peers.child MODULE FOLDER SECONDS` runs it and reports its cost.

The last line of its output is a JSON object: processor time [s], peak memory [MB], and the error, if there is one.
"""

import importlib
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.peers.exchange import Found, read_given, save_found
from benchmarks.resident import peak_mib, peak_of_children_mib


def main() -> None:
    """Run the peer that the command line names."""
    module, folder, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])

    def identify() -> None:
        found = importlib.import_module(f"benchmarks.peers.{module}").identify(read_given(folder, seconds))
        if isinstance(found, Found):
            save_found(folder / f"{module}.npz", found)

    report(identify)


def report(work: Callable[[], None]) -> None:
    """Call a function, and print its cost and its error as the last line."""
    error = ""
    try:
        work()
    except ImportError as missing:
        error = f"not installed: {missing}"
    except Exception as failed:  # a peer's failure is a row of the table, whatever it is
        error = f"{type(failed).__name__}: {failed}"
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds_used = sum(one.ru_utime + one.ru_stime for one in used)
    most = max(peak_mib(), peak_of_children_mib())  # own getrusage would report the size of the benchmark
    figures = {"processor_s": seconds_used, "memory_mb": most, "error": error}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
