"""`./run benchmark calls`: time of a call of `Model` in a loop, and equality with the reference."""

from typing import Annotated

import typer

from benchmarks.commands.figures import figure_table, report_figures
from dynid.commands.options import JsonOption
from dynid.commands.terminal import stages


def calls(
    states: Annotated[int, typer.Option(min=1, help="Random states for each robot and law of friction.")] = 100_000,
    as_json: JsonOption = False,
) -> None:
    """Time the calls of a model for one state, and compare them and the exported C with the reference.

    Exit code 1 if a median is over its limit (on an idle machine), or a difference over 1e-9 (1e-4 for C with float).
    """
    from benchmarks.speed.calls import benchmark_calls, missed

    with stages("benchmark", 7) as begin:
        figures = benchmark_calls(states, begin)
    report_figures(figures, [figure_table("calls", figures)], missed(figures), as_json)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(calls)
