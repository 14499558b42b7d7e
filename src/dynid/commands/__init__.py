"""Commands of `dynid`, one module each: the function or the group of commands that has the module's name."""

from importlib import import_module

import typer

from dynid.commands import checkout

# in the order of `dynid --help`
COMMANDS = (
    "trajectories",
    "simulate",
    "identify",
    "audit",
    "validate",
    "posterior",
    "robot",
    "joint_id",
    "regressor",
    "collect",
    "report",
    "doctor",
)


def register_all(app: typer.Typer) -> None:
    """Add every command of this folder to the application."""
    for name in COMMANDS:
        found = getattr(import_module(f"dynid.commands.{name}"), name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command()(found)
    checkout.register(app)
