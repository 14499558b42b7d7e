"""Causes that sentences about a recording name, compared with the true cause of a change."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.studies.changes_kinds import DRIVERS, KINDS, NOISE
from dynid.errors import DynidError
from dynid.identification.diagnosis.effort_meaning import UNSIGNED
from dynid.identification.result import Identification
from dynid.identification.steadiness.columns import FRICTION, LOAD_FRICTION, OFFSET, ZERO
from dynid.recording.held_efforts import HELD

TOLERANCE = 0.1  # tolerance of the stated moment, as a share of the time


@dataclass(frozen=True)
class Named:
    """Cause that a sentence names.

    Attributes:
        cause: kind of the cause; "" if it is none of those that are judged.
        joints: names of the joints concerned; () for all.
        over: function of time: "step", "drift" or "constant".
        at_s: moment of a step [s].
    """

    cause: str
    joints: tuple[str, ...] = ()
    over: str = "constant"
    at_s: float = 0.0


def named_causes(found: Identification | DynidError, joints: Sequence[str]) -> list[tuple[str, Named]]:
    """Return all sentences about a recording, first the most important one, with the causes that they name.

    Args:
        found: the identification, or the error if there is none.
        joints: names of all joints, (n,).
    """
    if isinstance(found, DynidError):
        words = str(found)
        return [(words, Named(ZERO, tuple(one for one in joints if f"{one} jumps" in words), "step"))]
    by_words = {one.words: Named(one.kind, one.joints) for one in found.diagnosis.suspicions}
    by_words |= dict(_changes(found, joints))
    by_words |= {found.noise: Named(NOISE)} if found.noise else {}
    notes = [(one, Named(DRIVERS)) for one in found.notes if HELD in one]
    by_words |= dict(notes)
    return [(words, by_words.get(words, Named(""))) for words in found.suspicions]


def _changes(found: Identification, joints: Sequence[str]) -> Iterator[tuple[str, Named]]:
    """Yield the sentence about every change that was found, and the cause that it names."""
    for steady in (found.steadiness, found.steadiness_to_the_end):
        for one, words in zip(steady.changes, steady.sentences, strict=True):
            kind = FRICTION if one.kind == LOAD_FRICTION else one.kind  # the part by load is friction, too
            yield words, Named(kind, tuple(joints[k] for k in one.axes), one.course, one.at)


def is_true(named: Named, kind: str, joint: str) -> bool:
    """Return whether a cause is the true one of a kind; `joint` is the changed joint, "" for all."""
    if named.cause == UNSIGNED:  # its sentence lists the joints
        return KINDS[kind].cause == UNSIGNED
    return named.cause == KINDS[kind].cause and named.joints == ((joint,) if joint else ())


def is_placed(named: Named, kind: str, at_s: float, seconds: float) -> bool:
    """Return whether a true cause has the true function of time, with the moment `at_s` [s] of a step."""
    true = {"until": "step"}.get(KINDS[kind].over, KINDS[kind].over)
    return named.over == true and (true != "step" or abs(named.at_s - at_s) <= TOLERANCE * seconds)


def is_stated(found: Identification | DynidError, kind: str, joint: str) -> bool:
    """Return whether a note on a model names the true cause of a kind; `joint` is the changed joint, "" for all."""
    if isinstance(found, DynidError):
        return False
    cause = KINDS[kind].cause
    if cause == DRIVERS:
        return any(HELD in note for note in found.notes)
    if any(is_true(named, kind, joint) for _, named in _changes(found, found.robot.joint_names)):
        return True
    return bool(cause == OFFSET and np.isfinite(stated_uncertainty(found, joint)))


def stated_uncertainty(found: Identification | DynidError, joint: str) -> float:
    """Return the relative uncertainty of gravity torques by a constant torque of a joint, as a note states it.

    Args:
        found: the identification, or the error if there is none.
        joint: name of the joint; "" gives the largest of all joints.

    Returns:
        Share of the gravity torques (two standard deviations) [-]; NaN without such a note.
    """
    if isinstance(found, DynidError):
        return float("nan")
    name = re.escape(joint) if joint else r"\w+"
    shares = re.findall(rf" at {name} \(([0-9.e+-]+) %\)", found.steadiness.hidden)
    return max((float(one) / 100.0 for one in shares), default=float("nan"))
