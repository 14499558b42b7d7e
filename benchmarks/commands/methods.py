"""`./run benchmark methods`: many joints, elastic joints, minimal set, optimised excitation."""

from typing import Annotated

import typer
from rich.table import Table

from dynid.commands.options import JsonOption
from dynid.commands.terminal import print_json, stages, stdout


def methods(
    quick: Annotated[bool, typer.Option("--quick", help="Measure fewer sizes, without repetition.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the methods of docs/methods.md on their example arms."""
    from benchmarks.studies.methods import method_figures

    with stages("benchmark", 4) as begin:
        figures = method_figures(quick, begin)
    if as_json:
        print_json(figures)
        return
    table = Table("figure", "value", title="./run benchmark methods", title_justify="left")
    for name, value in figures.items():
        table.add_row(name, f"{value:.6g}")
    stdout().print(table)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(methods)
