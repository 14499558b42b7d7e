"""A function or a group of commands as a command of typer's, made when somebody names it."""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import typer

from dynid.commands.options import DEFAULT_ROBOT


def imported(package: str, name: str) -> Any:
    """The function or group of a command: its module in the package has its name, with underscores."""
    file = name.replace("-", "_")
    return getattr(import_module(f"{package}.{file}"), file)


def compiled_first(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with a step before it that compiles what it runs on its robot and mount."""

    @wraps(command)
    def run(**given: Any) -> Any:
        from dynid.commands.terminal import is_quiet
        from dynid.rehearsal.compiling import ensure_compiled
        from dynid.robot import load_robot

        robot = load_robot(given.get("robot") or DEFAULT_ROBOT)
        robot.gravity(given.get("mount"))  # refuses a mount that there is not
        ensure_compiled(robot, given.get("mount"), (lambda _: None) if is_quiet() else None)
        return command(**given)

    return run


def typer_command(name: str, found: Any, panel: str | None = None) -> Any:
    """Return the typer command of a function, or the group of a typer app, for this panel of the parent's help."""
    parent = typer.Typer(add_completion=False, callback=lambda: None, rich_markup_mode="markdown")
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name, rich_help_panel=panel)
    else:
        parent.command(name, rich_help_panel=panel)(found)
    made: Any = typer.main.get_command(parent)
    return made.commands[name]
