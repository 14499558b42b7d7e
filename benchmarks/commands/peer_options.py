"""Options and tables that benchmarks beside other software share."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dynid.errors import UnknownNameError

FlobaroidOption = Annotated[Path | None, typer.Option(help="Checkout of FloBaRoID.")]
FlobaroidPythonOption = Annotated[Path | None, typer.Option(help="Interpreter that has what FloBaRoID needs.")]


def chosen_peers(given: Sequence[str] | None, known: list[str]) -> tuple[str, ...]:
    """Return the peers that an option names, () without the option.

    Raises:
        UnknownNameError: a name is not among the known ones.
    """
    for one in given or ():
        if one not in known:
            raise UnknownNameError("peer", one, known)
    return tuple(given or ())


def cells(row: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    """Return figures of a row as cells of a table: numbers with three figures, yes or no, and "-" for none."""
    shown = [row.get(key) for key in keys]
    return ["-" if x is None else f"{x:.3g}" if isinstance(x, float) else "yes" if x else "no" for x in shown]


def named_programs(flobaroid: Path | None, flobaroid_python: Path | None) -> dict[str, str]:
    """Return the places of the programs that are named, as absolute paths."""
    places = {"flobaroid": flobaroid, "flobaroid_python": flobaroid_python}
    return {key: str(place.absolute()) for key, place in places.items() if place is not None}
