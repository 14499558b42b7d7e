"""Commands of `dynid`, one per file; each file has a `register(app)`."""

import typer


def register_all(app: typer.Typer) -> None:
    """Add every command of this folder to the application."""
    from dynid.commands import audit, campaign, simulate, validate

    for module in (simulate, audit, validate, campaign):
        module.register(app)
