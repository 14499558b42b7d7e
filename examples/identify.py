"""Identify a model from Python: python examples/identify.py MODEL_FOLDER BAG... [--validate BAG...]

Bags of the simulated arm: ./run simulate demo_identification V01 --out runs/bags
"""

import argparse
from pathlib import Path

import dynid


def main() -> None:
    """Identify, print the checks and the best- and worst-known parameters, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="new folder for the result")
    parser.add_argument("bags", type=Path, nargs="+", help="bags to identify from")
    parser.add_argument("--validate", type=Path, nargs="*", default=[], help="bags to judge by")
    parser.add_argument("--robot", default="crane_x7")
    arguments = parser.parse_args()

    result = dynid.identify(dynid.load_robot(arguments.robot), arguments.bags, validation=arguments.validate)
    print(result.verdict)

    rows = result.model_file().parameters
    known = [row for row in rows if row.standard_deviation is not None]
    known.sort(key=lambda row: row.standard_deviation / max(abs(row.value), 1e-12))
    for row in (known[0], known[-1]):
        print(f"{row.name} = {row.value:.4g} +- {row.standard_deviation:.2g} {row.unit}: {row.grouping}")

    print(dynid.write_result(result, arguments.out))


if __name__ == "__main__":
    main()
