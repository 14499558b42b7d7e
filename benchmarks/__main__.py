"""Entry point of `./run` in a checkout: `dynid` with the additional command `benchmark`.

`python -m benchmarks` and `python benchmarks` start it, too.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # folder of `benchmarks`, whatever the working folder is

if __name__ == "__main__":
    from dynid.__main__ import start

    start("benchmarks.cli")
