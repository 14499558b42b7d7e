"""Short names of joints, for tables and figures."""

from itertools import takewhile


def short_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return joint names without the words (separated by "_") that all names have in common at start and end.

    If a name consists only of common words, all names are returned unchanged.
    """
    words = [name.split("_") for name in names]
    first = _shared(words)
    last = _shared([row[first:][::-1] for row in words])
    shortened = ["_".join(row[first : len(row) - last]) for row in words]
    return tuple(shortened) if all(shortened) else names


def _shared(words: list[list[str]]) -> int:
    """Return the number of words at the start that all lists of words have in common."""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*words, strict=False)))
