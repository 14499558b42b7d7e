"""Commands of `dynid`, one module each: the function or the group of commands that has the module's name."""

import os
from importlib import import_module

import typer

from dynid.commands import checkout
from dynid.threads import one_thread_each

one_thread_each()  # the libraries read it when they are loaded, which is when the first command is
os.environ.setdefault("MUJOCO_GL", "disable")  # no command draws; looking for a display takes time

# in the order of `dynid --help`
COMMANDS = (
    "trajectories",
    "simulate",
    "identify",
    "adaptive",
    "audit",
    "validate",
    "feel",
    "posterior",
    "robot",
    "collect",
    "teach",
    "replay",
    "report",
    "doctor",
    "logs",
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
