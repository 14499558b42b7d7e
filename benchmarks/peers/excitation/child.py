"""Process of one peer: `python -m benchmarks.peers.excitation.child MODULE.FUNCTION FOLDER SECONDS` designs a motion.

The last line of its output is that of `benchmarks.peers.child`.
"""

import importlib
import sys
from pathlib import Path

from benchmarks.peers.child import report
from benchmarks.peers.excitation.exchange import read_task, save_designed


def main() -> None:
    """Run the peer that the command line names."""
    name, folder, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])

    def design() -> None:
        module, _, function = name.rpartition(".")
        work = getattr(importlib.import_module(f"benchmarks.peers.excitation.{module}"), function)
        save_designed(folder / f"{name}.npz", work(read_task(folder, seconds, name)))

    report(design)


if __name__ == "__main__":
    main()
