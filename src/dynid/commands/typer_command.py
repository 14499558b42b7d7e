"""Import of a command's function or group, and its conversion into a typer command."""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import typer

from dynid.commands.options import DEFAULT_ROBOT


def imported(package: str, name: str) -> Any:
    """Return the function or group of a command from its module in a package.

    Module and function have the command's name, with underscores in place of hyphens.
    """
    file = name.replace("-", "_")
    return getattr(import_module(f"{package}.{file}"), file)


def compiled_first(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that compiles the code for a command's robot and mount if necessary, then calls `command`."""

    @wraps(command)
    def run(**given: Any) -> Any:
        from dynid.commands.terminal import is_quiet
        from dynid.rehearsal.compiling import ensure_compiled
        from dynid.robot import load_robot

        robot = load_robot(given.get("robot") or DEFAULT_ROBOT)
        robot.gravity(given.get("mount"))  # refuses an unknown mount
        ensure_compiled(robot, given.get("mount"), (lambda _: None) if is_quiet() else None)
        return command(**given)

    return run


def typer_command(name: str, found: Any, panel: str | None = None) -> Any:
    """Return a typer command made from a function, or a command group made from a typer app.

    `panel` is the heading under which the help of the parent command lists it.
    """
    parent = typer.Typer(add_completion=False, callback=lambda: None, rich_markup_mode="markdown")
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name, rich_help_panel=panel)
    else:
        parent.command(name, rich_help_panel=panel)(found)
    made: Any = typer.main.get_command(parent)
    return made.commands[name]
