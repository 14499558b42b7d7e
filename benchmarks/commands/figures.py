"""Output of a benchmark's figures as tables or JSON, with the limits that they miss."""

from collections.abc import Iterable, Mapping
from typing import Any

import typer
from rich.table import Table

from dynid.commands.terminal import print_json, stderr, stdout


def figure_table(benchmark: str, figures: Mapping[str, object]) -> Table:
    """Return a table of the numbers among the figures, one per row; callers may add rows."""
    table = Table("figure", "value", title=f"./run benchmark {benchmark}", title_justify="left")
    for key, value in figures.items():
        if isinstance(value, float | int):
            table.add_row(key, f"{value:.4g}")
    return table


def report_figures(figures: Any, tables: Iterable[Table], missed: Iterable[str], as_json: bool) -> None:
    """Print figures and missed limits; exit with code 1 if a limit is missed.

    Args:
        figures: figures as plain values.
        tables: the same figures as tables.
        missed: a sentence for every missed limit.
        as_json: print one JSON object instead of the tables.
    """
    if as_json:
        print_json(figures)
    else:
        for table in tables:
            stdout().print(table)
    if reasons := tuple(missed):
        for reason in reasons:
            stderr().print(reason)
        raise typer.Exit(1)
