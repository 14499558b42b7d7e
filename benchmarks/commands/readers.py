"""`dynid benchmark readers`: outcome of mutated files."""

from typing import Annotated

import typer

from dynid.commands.options import JsonOption
from dynid.commands.terminal import print_json, stages, stdout, table

MOST_MIB = 2048.0


def readers(
    inputs: Annotated[int, typer.Option(min=1, help="Mutated files per reader.")] = 2500,
    only: Annotated[list[str] | None, typer.Option(help="One reader; repeatable. Default: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Read mutated YAML, URDF, bag and CSV files with every reader.

    Exits 1 where an error is not one sentence, a reader takes more than 12 s or 2048 MiB, or accepts what is wrong.
    """
    from benchmarks.readers.fuzz import fuzz
    from benchmarks.readers.targets import TARGETS
    from dynid.errors import UnknownNameError

    names = only or list(TARGETS)
    for name in names:
        if name not in TARGETS:
            raise UnknownNameError("reader", name, tuple(TARGETS))
    rows = {}
    with stages("benchmark", len(names)) as begin:
        for name in names:
            begin(f"reading {inputs} mutated {name} files")
            rows[name] = fuzz(name, inputs).as_dict()
    total = {key: sum(row[key] for row in rows.values()) for key in ("tracebacks", "hangs", "wrong_accepts")}
    peak = max(row["peak_mib"] for row in rows.values())
    if as_json:
        print_json({"inputs": inputs, **total, "peak_mib": peak, "readers": rows})
    else:
        listed = table(
            None, "reader", "accepted", "refused", "tracebacks", "hangs", "wrong accepts", "MiB", "slowest, s"
        )
        for name, row in rows.items():
            counts = [row[key] for key in ("accepted", "refused", "tracebacks", "hangs", "wrong_accepts")]
            listed.add_row(name, *map(str, counts), f"{row['peak_mib']:.0f}", f"{row['slowest_s']:.2f}")
        stdout().print(listed)
    raise typer.Exit(1 if any(total.values()) or peak > MOST_MIB else 0)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(readers)
