"""Closed-loop refinement against an lsqnonlin-like baseline, plain and compiled.

    python benchmarks/clie.py [--robot crane_x7] [--trajectory AG02] [--profile paper] [--full] [--json]
"""

import argparse
import json
import sys

from rich.console import Console
from rich.table import Table

from dynid.benchmarking.clie import benchmark_clie


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", default="crane_x7")
    parser.add_argument("--trajectory", default="AG02")
    parser.add_argument("--profile", default="paper")
    parser.add_argument("--interval", type=float, default=0.04, help="sampling interval [s]")
    parser.add_argument("--full", action="store_true", help="run the baselines to their end, for hours")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    figures = benchmark_clie(
        chosen.robot, chosen.trajectory, chosen.profile, chosen.interval, quick=not chosen.full,
        progress=lambda text: print(text, file=sys.stderr),
    )  # fmt: skip
    if chosen.json:
        print(json.dumps(figures))
        return
    table = Table("figure", "value")
    for name, value in figures.items():
        table.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
    Console().print(table)


if __name__ == "__main__":
    main()
