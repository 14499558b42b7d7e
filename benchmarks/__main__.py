"""`./run` in a checkout: `dynid` with the command `benchmark`; also `python -m benchmarks`, or `python benchmarks`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # where `benchmarks` is, whatever folder this is started from

if __name__ == "__main__":
    from dynid.__main__ import start

    start("benchmarks.cli")
