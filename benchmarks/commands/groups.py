"""`dynid benchmark`: figures that anybody can measure again; one file per benchmark, each with a `register(group)`."""

from functools import cache
from importlib import import_module
from typing import Any

import typer

from dynid.commands.typer_command import imported

group = typer.Typer(no_args_is_help=True)
BENCHMARKS = (
    "adaptive",
    "attack",
    "bilateral",
    "bus",
    "clie",
    "compiling",
    "control",
    "coverage",
    "faults",
    "feel",
    "friction",
    "goals",
    "interrupts",
    "logs",
    "memory",
    "methods",
    "parser",
    "plants",
    "readers",
    "recorder",
    "starts",
    "verdict",
)


@group.callback()
def benchmark() -> None:
    """Measure what dynid promises, on this machine."""


def find(name: str) -> Any:
    """The study or benchmark of a name: a function, or a group of commands."""
    return _benchmarks() if name == "benchmark" else imported("benchmarks.commands", name)


@cache
def _benchmarks() -> typer.Typer:
    for name in BENCHMARKS:
        import_module(f"benchmarks.commands.{name}").register(group)
    return group


@cache
def extend(robot: typer.Typer) -> None:
    """Add the studies of a robot's structure to `dynid robot`."""
    from benchmarks.commands.mapping import mapping
    from benchmarks.commands.minimal_set import minimal_set

    robot.command("minimal-set")(minimal_set)
    robot.command("mapping")(mapping)
