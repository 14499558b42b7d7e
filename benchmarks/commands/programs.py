"""Options that name programs which no Python can import, for benchmarks beside other software."""

from pathlib import Path
from typing import Annotated

import typer

FlobaroidOption = Annotated[Path | None, typer.Option(help="Checkout of FloBaRoID.")]
FlobaroidPythonOption = Annotated[Path | None, typer.Option(help="Interpreter that has what FloBaRoID needs.")]


def named_programs(flobaroid: Path | None, flobaroid_python: Path | None) -> dict[str, str]:
    """Return the places of the programs that are named, as absolute paths."""
    places = {"flobaroid": flobaroid, "flobaroid_python": flobaroid_python}
    return {key: str(place.absolute()) for key, place in places.items() if place is not None}
