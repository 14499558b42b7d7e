"""Summaries of the recordings found in a folder, as dictionaries of plain values."""

from collections.abc import Sequence
from typing import Any

from dynid.identification.data.log_search import FoundLog

LEAST_MOTION_S = 10.0  # minimum time that a joint must move in a recording [s]


def log_row(found: FoundLog, names: Sequence[str]) -> dict[str, Any]:
    """Return the summary of one recording: number of rows, duration, rate, signals, and a sentence on missing data.

    Args:
        found: the recording.
        names: names of the joints.
    """
    row: dict[str, Any] = {"name": found.name, "kind": found.kind, "rows": 0, "seconds": 0.0, "rate_hz": None}
    row |= {"torques": False, "goals": False, "gaps": 0, "notes": [], "missing": found.problem}
    facts = found.facts
    if facts is None:
        return row
    missing = [] if facts.torques else ["torques or currents: nothing can be identified without them"]
    if not facts.goals:
        missing.append("goals: the servos' gains stay unknown")
    if still := [name for name, one in zip(names, facts.moving_s, strict=True) if one < LEAST_MOTION_S]:
        which = "all joints" if len(still) == len(names) else ", ".join(still)
        missing.append(f"motion: less than {LEAST_MOTION_S:g} s of {which}")
    return row | {
        "rows": facts.rows,
        "seconds": facts.seconds,
        "rate_hz": 1.0 / facts.interval_s,
        "jitter_s": facts.jitter_s,
        "torques": facts.torques,
        "goals": facts.goals,
        "gaps": facts.gaps,
        "notes": list(facts.notes),
        "missing": "; ".join(missing),
    }
