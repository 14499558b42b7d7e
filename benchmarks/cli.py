"""Command line of `dynid` in a checkout, which includes the command `benchmark`."""

from importlib import import_module
from typing import Any

import typer

from dynid import cli
from dynid.commands import Commands
from dynid.commands.typer_command import typer_command

NAME, PANEL = "benchmark", "Measure dynid itself"
BENCHMARKS = (
    "adaptive",
    "arms",
    "attack",
    "bilateral",
    "bus",
    "callers",
    "calls",
    "changes",
    "clie",
    "compiling",
    "control",
    "cost",
    "coverage",
    "excitation",
    "faults",
    "feel",
    "friction",
    "goals",
    "gravity",
    "interrupts",
    "logs",
    "memory",
    "methods",
    "mutilations",
    "mutations",
    "parser",
    "peers",
    "plants",
    "readers",
    "recorder",
    "starts",
    "verdict",
)


class AllCommands(Commands):
    """Command group with every command of `dynid`, and `benchmark`."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands[NAME] = None  # type: ignore[assignment] # as the others: loaded when somebody names it

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with this name, or None."""
        return typer_command(NAME, benchmarks(), PANEL) if cmd_name == NAME else super().get_command(ctx, cmd_name)


def benchmarks() -> typer.Typer:
    """Return the group of all benchmarks."""
    group = typer.Typer(no_args_is_help=True, help="Measure what dynid promises, on this machine.")
    for name in BENCHMARKS:
        import_module(f"benchmarks.commands.{name}").register(group)
    return group


app = cli.app_of(AllCommands)


def main() -> None:
    """Run the command line in the same way as `dynid.cli.main`."""
    cli.run(app, "./run")
