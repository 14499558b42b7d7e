"""Conversion of a function or a group into a typer command when it is requested."""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import typer

from dynid.commands.options import DEFAULT_ROBOT


def imported(package: str, name: str) -> Any:
    """Return the function or group of a command from the package's module of the same name, with underscores."""
    file = name.replace("-", "_")
    return getattr(import_module(f"{package}.{file}"), file)


def compiled_first(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with a preceding step that compiles its programs for the robot and mount."""

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
    """Return a function as a typer command, or a typer app as a group, for a panel of the parent's help."""
    parent = typer.Typer(add_completion=False, callback=lambda: None, rich_markup_mode="markdown")
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name, rich_help_panel=panel)
    else:
        parent.command(name, rich_help_panel=panel)(found)
    made: Any = typer.main.get_command(parent)
    return made.commands[name]
