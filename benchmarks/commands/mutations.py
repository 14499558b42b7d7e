"""`./run benchmark mutations`: share of wrong lines that the tests detect."""

import os
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from dynid.commands.options import JsonOption
from dynid.commands.terminal import print_json, stderr, stdout


def mutations(
    count: Annotated[int, typer.Option(min=1, help="Wrong lines to draw.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 1,
    layer: Annotated[
        Literal["quick", "whole"], typer.Option(help="Tests to run: those of ./run test --quick, or of ./run test.")
    ] = "quick",
    at_least: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share that must be noticed.")] = 0.7,
    longest: Annotated[float, typer.Option(min=1.0, help="Time of each part of the tests [s].")] = 3600.0,
    as_json: JsonOption = False,
) -> None:
    """Draw wrong lines over src, and run the tests with each in a copy of this checkout.

    A sign, a limit, a constant or a condition is wrong. Exit code 1 if the detected share is below --at-least. Each
    line takes as long as the tests take up to their first failure: begin with --count 2.
    """
    from benchmarks.studies.mutations import Copy, Outcome, layer_tests, study
    from benchmarks.studies.wrong_lines import draw

    root = Path(__file__).resolve().parents[2]
    wrong = draw(root / "src/dynid", count, seed)

    def told(one: Outcome) -> None:
        noticed = "noticed" if one.caught else "NOT NOTICED"
        stderr().print(f"{one.wrong.path}:{one.wrong.edit.line}: {noticed}, {one.seconds:.0f} s", markup=False)

    with tempfile.TemporaryDirectory() as name:
        copy = Copy(root, Path(name) / "copy")
        outcomes = study(copy, wrong, layer_tests(layer, os.cpu_count() or 1, longest), told)
    caught = sum(one.caught for one in outcomes)
    rows = [
        {
            "file": one.wrong.path,
            "line": one.wrong.edit.line,
            "kind": one.wrong.edit.kind,
            "before": one.wrong.before,
            "after": one.wrong.after,
            "noticed": one.caught,
            "seconds": one.seconds,
        }
        for one in outcomes
    ]
    if as_json:
        print_json({"seed": seed, "layer": layer, "count": count, "noticed": caught, "lines": rows})
    else:
        table = Table(
            "file", "kind", "wrong line", "noticed", title=f"{caught} of {count} noticed", title_justify="left"
        )
        for row in rows:
            text = f"{row['before']} -> {row['after']}"
            table.add_row(
                f"{row['file']}:{row['line']}", str(row["kind"]), Text(text), "yes" if row["noticed"] else "NO"
            )
        stdout().print(table)
    raise typer.Exit(0 if caught >= at_least * count else 1)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(mutations)
