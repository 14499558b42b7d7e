"""`./run benchmark readers`: outcome of damaged files."""

from typing import Annotated

import typer

from dynid.commands.options import JsonOption
from dynid.commands.terminal import print_json, stages, stdout, table

MOST_MIB = 2048.0
OUTCOMES = ("accepted", "refused", "tracebacks", "hangs", "wrong_accepts")


def readers(
    inputs: Annotated[int, typer.Option(min=1, help="Files per reader.")] = 2500,
    seed: Annotated[int, typer.Option(min=0, help="Seed of each reader's first file; each further file adds one.")] = 0,
    only: Annotated[list[str] | None, typer.Option(help="One reader; repeatable. Default: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Read hostile files with every reader: YAML, URDF, STL, bags, LeRobot, CSV and arrays, mutated or built.

    Exit code 1 if an error is not one sentence, a reader takes more than 10 s of a processor or 1 GiB more than its
    libraries, writes outside of its folder, or accepts wrong content.
    """
    from benchmarks.readers.fuzz import fuzz
    from benchmarks.readers.structures import STRUCTURES
    from benchmarks.readers.targets import TARGETS
    from dynid.errors import UnknownNameError

    known = (*TARGETS, *STRUCTURES)
    names = only or list(known)
    for name in names:
        if name not in known:
            raise UnknownNameError("reader", name, known)
    rows = {}
    with stages("benchmark", len(names)) as begin:
        for name in names:
            begin(f"reading {inputs} {name if name in STRUCTURES else f'mutated {name}'} files")
            rows[name] = fuzz(name, inputs, seed).as_dict()
    read = sum(row[key] for row in rows.values() for key in OUTCOMES)
    total = {key: sum(row[key] for row in rows.values()) for key in ("tracebacks", "hangs", "wrong_accepts")}
    peak = max(row["peak_mib"] for row in rows.values())
    if as_json:
        print_json({"inputs": inputs, "seed": seed, "read": read, **total, "peak_mib": peak, "readers": rows})
    else:
        listed = table(
            None, "reader", "accepted", "refused", "tracebacks", "hangs", "wrong accepts", "MiB", "slowest, s"
        )
        for name, row in rows.items():
            counts = [row[key] for key in ("accepted", "refused", "tracebacks", "hangs", "wrong_accepts")]
            listed.add_row(name, *map(str, counts), f"{row['peak_mib']:.0f}", f"{row['slowest_s']:.2f}")
        stdout().print(listed)
        stdout().print(f"{read} files read")
    raise typer.Exit(1 if any(total.values()) or peak > MOST_MIB else 0)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(readers)
