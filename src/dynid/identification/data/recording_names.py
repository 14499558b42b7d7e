"""Distinct names for recordings that are used together: checks, notes and results refer to recordings by name."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dynid.identification.data.deferred_signals import Recorded


def distinct_names(recordings: Sequence[Recorded]) -> list[str]:
    """Return a name for each recording: its file name, with as many parent folders as make it differ from all others.

    Paths of array recordings are only names. If they are equal, but the data differ, the second one is named "run (2)".
    Recordings with equal paths and data keep equal names.
    """
    names, seen = _shortest([one.path for one in recordings]), dict[str, list[str]]()
    found = []
    for name, one in zip(names, recordings, strict=True):
        hashes = seen.setdefault(name, [])
        if one.sha256 not in hashes:
            hashes.append(one.sha256)
        place = hashes.index(one.sha256)
        found.append(f"{name} ({place + 1})" if place else name)
    return found


def _shortest(paths: Sequence[Path]) -> list[str]:
    """Return the shortest end of each path that differs from those of all other paths; equal paths stay equal."""
    parts = [1] * len(paths)
    while True:
        names = [Path(*path.parts[-count:]).as_posix() for path, count in zip(paths, parts, strict=True)]
        often = Counter(names)
        longer = [k for k, name in enumerate(names) if often[name] > 1 and parts[k] < len(paths[k].parts)]
        if not longer:
            return names
        for k in longer:
            parts[k] += 1
