"""Sentences about changes of an arm: kind, time and size of the change, and the advice."""

from collections.abc import Sequence

import numpy as np

from dynid.identification.steadiness.columns import BODY, FRICTION, LOAD_FRICTION, MOUNT, OFFSET, SCALE, ZERO
from dynid.identification.steadiness.search import Change, HiddenOffset

CAUSES = {
    BODY: "a tool or load was taken up, laid down or lost",
    ZERO: "a coupling slipped, or the encoder lost counts",
    SCALE: "magnets lose torque as they warm up, or the supply changed",
    OFFSET: "a torque sensor drifts, or a cable pulls",
    FRICTION: "let the arm warm up before you record",
    LOAD_FRICTION: "let the arm warm up before you record",
    MOUNT: "the base moved",
}


def sentence(change: Change, joints: Sequence[str], units: Sequence[str], recordings: Sequence[str]) -> str:
    """Return a sentence about a change of the arm, with its kind, size, time, effect and advice.

    Args:
        change: the change.
        joints: names of all joints.
        units: position units of the joints, such as "rad" or "m".
        recordings: names of all recordings.
    """
    words = f"{_what(change, joints, units)} {_when(change, recordings)}".rstrip()
    costs = (
        f"which moves gravity torques by {100 * change.gravity:.2g} % and all torques by {100 * change.torque:.2g} %"
    )
    return f"{words}, {costs}: {_advice(change, len(recordings) > 1)}"


def _what(change: Change, joints: Sequence[str], units: Sequence[str]) -> str:
    """Return kind and size of a change of the arm in words.

    Args:
        change: the change.
        joints: names of all joints.
        units: position units of the joints, such as "rad" or "m".
    """
    of = f"joint {joints[change.axes[0]]}" if change.axes else "all joints"
    size = change.values[0]
    if change.kind == BODY:
        return f"the body at the last link changes by {size:+.2g} kg"
    if change.kind == ZERO:
        return f"the position zero of {of} moves by {-size:+.2g} {units[change.axes[0]]}"
    if change.kind == SCALE:
        return f"the torques of {of} {'rise' if size > 0 else 'fall'} by {abs(100 * size):.2g} %"
    if change.kind == FRICTION:
        return f"friction of {of} {'rises' if size > 0 else 'falls'} by {abs(100 * size):.2g} %"
    if change.kind == LOAD_FRICTION:
        changes = "rises" if size > 0 else "falls"
        return f"friction of {of} {changes} by {abs(100 * size):.2g} % of the torque that the joint bears"
    if change.kind == MOUNT:
        return f"gravity tilts by {np.degrees(np.linalg.norm(change.values)):.2g} deg"
    unit = "N" if units[change.axes[0]] == "m" else "N m"
    if change.course == "constant":
        return f"the torques of {of} hold a constant offset of {size:+.2g} {unit}"
    return f"a constant torque of {of} changes by {size:+.2g} {unit}"


def _when(change: Change, recordings: Sequence[str]) -> str:
    """Return the time of a change of the arm in words; `recordings` are the names of all recordings."""
    if change.course == "constant":
        return ""
    if change.course == "drift":
        return "from first to last"
    if change.into:
        return f"from recording {recordings[change.recording]} on"
    several = f" of {recordings[change.recording]}" if len(recordings) > 1 else ""
    return f"from {change.at:.0f} s{several} on"


def _advice(change: Change, several: bool) -> str:
    """Return the possible cause of a change of the arm, and the advice, as text.

    `several` states whether there are several recordings.
    """
    if change.course == "constant":
        return "if the offset is real, set friction_offset in the structure of robot.yaml; else correct its zero"
    if change.course == "drift":
        return CAUSES[change.kind]
    if change.into or several:
        return f"{CAUSES[change.kind]}; identify the recordings before and after it alone"
    parts = f"'--until {change.at:.0f}' and '--from {change.at:.0f}' identify each part alone"
    load = f", and 'dynid payload RECORDING --change-at {change.at:.0f}' the load" if change.kind == BODY else ""
    return f"{CAUSES[change.kind]}; {parts}{load}"


def hidden_offset(found: Sequence[HiddenOffset], joints: Sequence[str]) -> str:
    """Return a sentence about torque offsets that the data do not separate from gravity; "" without any.

    Args:
        found: the offsets.
        joints: names of all joints.
    """
    if not found:
        return ""
    each = ", ".join(f"{size:.2g} N m at {joints[axis]} ({100 * moved:.2g} %)" for axis, size, moved in found)
    return (
        f"a constant torque is not distinguished from gravity: two standard deviations are {each} of gravity torques; "
        "record postures in which gravity changes its sign, or hold a known mass"
    )
