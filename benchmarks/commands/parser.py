"""`./run benchmark parser`: the packet parser with a million random, mutated and split packets."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import Progress
from rich.table import Table

from dynid.commands.options import JsonOption
from dynid.commands.terminal import print_json, stderr, stdout

PACKETS = 1_000_000
QUICK_PACKETS = 20_000


def parser(
    packets: Annotated[int, typer.Option(min=1, help="Number of packets, intact or damaged.")] = PACKETS,
    quick: Annotated[bool, typer.Option("--quick", help=f"Feed {QUICK_PACKETS} packets.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the random packets.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Fuzz the packet parser; exit code 1 if it crashes, hangs, or accepts an invalid packet."""
    from benchmarks.faults.parser import DEFECTS, ParserFuzzer

    count = QUICK_PACKETS if quick else packets
    with Progress(console=stderr(), transient=True) as bar:
        task = bar.add_task("packets", total=count)
        figures = ParserFuzzer(seed).run(count, lambda more: bar.update(task, advance=more))
    if as_json:
        print_json(asdict(figures))
    else:
        table = Table("figure", "value", title="./run benchmark parser", title_justify="left")
        for name, value in asdict(figures).items():
            if name != "examples":
                table.add_row(
                    name, f"{value:.1f}" if isinstance(value, float) else str(value), end_section=name in DEFECTS
                )
        stdout().print(table)
        for example in figures.examples:
            print(example)
    raise typer.Exit(1 if figures.bad else 0)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(parser)
