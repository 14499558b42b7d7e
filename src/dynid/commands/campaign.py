"""`dynid campaign`: every bag at every sampling interval, then one accepted model."""

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
