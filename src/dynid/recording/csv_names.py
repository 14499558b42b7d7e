"""Interpretation of CSV column names: quantity, joint or its number, unit, and whether the column holds a command.

Names come from many loggers: `pos_1_deg`, `joint1_position_rad`, `/joint_states/joint_1/position`, `tau_J[0]`,
`actual_q_3`, `field.effort2`, `dof_vel_4`, `shoulder_pan.pos`. A name is split into words and numbers. Words that are
in none of this module's lists form the remainder of the name. All columns of one series, which is one quantity of all
joints, have the same remainder.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

KINDS = {
    "position": "q pos position positions angle angles theta jointposition actualq jointangle",
    "velocity": "dq qd vel velocity velocities qdot speed speeds dtheta omega actualqd w",
    "torque": "tau torque torques effort efforts eff trq tq moment force forces u t",
    "current": "i iq cur curr current currents amp amps actualcurrent",
}
OTHER_WORDS = (
    "ddq qdd acc accel acceleration accelerations temperature temp voltage volt pwm error err stamp frame id seq "
    "status tcp ee eef tool wrench contact"
)
COMMAND_WORDS = (
    "cmd command commanded commands desired des d target targ goal ref reference setpoint set sp planned demand "
    "demanded wanted limit max min ff"
)
SHARES = "ext external gravity grav coriolis friction residual disturbance computed model"  # parts of a motor torque
MEASURED_WORDS = "actual measured meas present feedback fb sensor state states observation obs"
FILLER_WORDS = "joint joints j axis axes a robot arm dof field msg data value values name the link"
UNITS = {
    "rad": "rad", "radian": "rad", "radians": "rad", "mrad": "0.001 rad", "deg": "deg", "degree": "deg",
    "degrees": "deg", "°": "deg", "rev": "rev", "turns": "rev", "m": "m", "mm": "mm", "rad/s": "rad/s",
    "rads": "rad/s", "radps": "rad/s", "mrad/s": "0.001 rad/s", "deg/s": "deg/s", "degs": "deg/s", "°/s": "deg/s",
    "dps": "deg/s", "rpm": "rpm", "nm": "N m", "mnm": "mN m", "nmm": "mN m", "ncm": "0.01 N m", "knm": "1000 N m",
    "newtonmeter": "N m", "n": "N", "a": "A", "ampere": "A", "ma": "mA", "kgcm": "kg cm", "%": "%", "percent": "%",
    "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "ms": "ms", "msec": "ms", "milliseconds": "ms",
    "us": "us", "µs": "us", "usec": "us", "ns": "ns", "nsec": "ns",
}  # fmt: skip
UNKNOWN = "?"  # precedes a unit in brackets that is not in `UNITS`
UNITS_OF_KIND = {
    "position": ("rad", "0.001 rad", "deg", "rev", "m", "mm"),
    "velocity": ("rad/s", "0.001 rad/s", "deg/s", "rpm"),
    "torque": ("N m", "mN m", "0.01 N m", "1000 N m", "kg cm", "N", "A", "mA", "%"),
    "current": ("A", "mA"),
    "time": ("s", "ms", "us", "ns"),
}
TIME_WORDS = "t time times timestamp timestamps stamp stamps clock elapsed datetime date secs seconds sec"
CLOCK_FILLER = "field header msg ros ros2 elapsed since from start wall sim simulation system host pc robot"
PARTS = "nsec nsecs nanosec nanosecs nanosecond nanoseconds usec usecs microseconds"  # fraction of a stamp's second
_LISTS = {word: kind for kind, words in KINDS.items() for word in words.split()}
_WORD = re.compile(r"[a-z]+|\d+")


@dataclass(frozen=True)
class ColumnName:
    """Interpretation of the name of a CSV column.

    Attributes:
        name: name of the column.
        kind: kind of quantity, a key of `KINDS`; "" if the name states none.
        joint: index of the joint whose name the column's name contains; None if it contains none.
        number: joint number as written in the name; None if there is none.
        unit: unit as written in a mapping file; "" if the name states none; "?" (`UNKNOWN`) followed by the text in
            brackets if this text is not a known unit.
        commanded: whether the name states something other than the measured quantity: a command, a limit, or a part of
            the motor torque, such as gravity, friction or a torque computed by a model.
        measured: whether the name states that the column holds a measurement.
        rest: words with no known meaning, which distinguish several series of columns of one quantity.
    """

    name: str
    kind: str
    joint: int | None
    number: int | None
    unit: str
    commanded: bool
    measured: bool
    rest: tuple[str, ...]


def column_name(name: str, joints: Sequence[str]) -> ColumnName:
    """Interpret the name of a CSV column for a robot with the given joint names."""
    text, unit = _without_unit(name, joints)
    joint, text = _without_joint(text, joints)
    words = _words(text)
    last = len(words) - 2 if len(words) > 2 and words[-1].isdecimal() and len(words[-2]) > 1 else len(words) - 1
    if unit == "" and last > 0 and words[last] in UNITS and words[last] not in _LISTS:
        unit = UNITS[words.pop(last)]
    elif unit == "" and len(words) > 2 and words[-2:] in (["n", "m"], ["rad", "s"], ["deg", "s"], ["m", "s"]):
        unit, words = {"n": "N m", "rad": "rad/s", "deg": "deg/s", "m": "m/s"}[words[-2]], words[:-2]
    numbers = [int(one) for one in words if one.isdecimal()]
    letters = [one for one in words if not one.isdecimal()]
    kind = _kind(letters, bool(numbers) or joint is not None)
    known = {*FILLER_WORDS.split(), *COMMAND_WORDS.split(), *MEASURED_WORDS.split(), *_LISTS}
    left_out = {*COMMAND_WORDS.split(), *SHARES.split()}
    return ColumnName(
        name,
        kind,
        joint,
        numbers[-1] if numbers and joint is None else None,
        unit,
        any(one in left_out for one in letters),
        any(one in MEASURED_WORDS.split() for one in letters),
        tuple(one for one in letters if one not in known),
    )


def clock_unit(name: str) -> str | None:
    """Return the unit in the name of a time column, "" without a unit; None if it is not a time column."""
    text, unit = _without_unit(name, ())
    words = [one for one in _words(text) if one not in CLOCK_FILLER.split()]
    if len(words) == 2 and words[1] in UNITS and UNITS[words[1]] in UNITS_OF_KIND["time"]:
        unit, words = UNITS[words[1]], words[:1]
    if words == [] and "elapsed" in text.lower():
        words = ["elapsed"]
    return unit if len(words) == 1 and words[0] in TIME_WORDS.split() else None


def joint_number(joint: str) -> int | None:
    """Return the number in a joint name such as `joint_1`; None for other names.

    Besides one number, the name may contain only words such as "joint", "axis" or "robot".
    """
    words = _words(joint)
    numbers = [int(one) for one in words if one.isdecimal()]
    return numbers[0] if len(numbers) == 1 and {*words} - {str(numbers[0])} <= {*FILLER_WORDS.split()} else None


def stamp_part(name: str) -> bool:
    """Return whether a column's name shows that the column contains only the fractional seconds of time stamps.

    Another column then contains the whole seconds.
    """
    words = [one for one in _words(name) if one not in (*CLOCK_FILLER.split(), *TIME_WORDS.split())]
    return len(words) == 1 and words[0] in PARTS.split()


def _words(text: str) -> list[str]:
    """Split a name into lower-case words and numbers, at camelCase, punctuation and digits; units are not split."""
    whole = re.sub(r"[A-Za-z]+", lambda found: found[0].lower() if found[0].lower() in UNITS else found[0], text)
    return _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", whole).lower())


def _without_unit(name: str, joints: Sequence[str]) -> tuple[str, str]:
    """Separate a column name from the unit in brackets at its end; return both.

    The unit is written as in `ColumnName`; it is "" if the name has none. Brackets with a joint's name or another word
    of this module's lists, such as "cmd", do not state a unit.

    Args:
        name: name of the column.
        joints: names of the robot's joints.
    """
    found = re.fullmatch(r"(.*?)[\s_]*[\[({]\s*([^\])}\d]+?)\s*[\])}]\s*", name)
    if found is None:
        return name, ""
    stated = re.sub(r"[\s*.·^-]|per", lambda m: "/" if m[0] == "per" else "", found[2].lower()).replace("//", "/")
    if stated in UNITS:
        return found[1], UNITS[stated]
    parts = {
        *FILLER_WORDS.split(),
        *COMMAND_WORDS.split(),
        *MEASURED_WORDS.split(),
        *_LISTS,
        *OTHER_WORDS.split(),
        *SHARES.split(),
    }
    parts |= {word for joint in joints for word in _words(joint)}
    return (name, "") if {*_words(found[2])} & parts else (found[1], UNKNOWN + found[2])


def _without_joint(text: str, joints: Sequence[str]) -> tuple[int | None, str]:
    """Separate a column name from the joint name that it contains; return the joint's index and the rest of the name.

    The index is None if the name contains no joint name. Longer joint names are searched first.

    Args:
        text: name of the column.
        joints: names of the robot's joints.
    """
    for index in sorted(range(len(joints)), key=lambda k: -len(joints[k])):
        words = [re.escape(one) for one in _words(joints[index])]
        if not words or (len(words) == 1 and words[0].isdecimal()):
            continue
        pattern = r"(?<![A-Za-z0-9])" + r"[^A-Za-z0-9]*".join(words) + r"(?![0-9])"
        if (found := re.search(pattern, text, re.IGNORECASE)) is not None:
            return index, f"{text[: found.start()]} {text[found.end() :]}"
    return None, text


def _kind(letters: list[str], of_joint: bool) -> str:
    """Return the kind of quantity, a key of `KINDS`, from the words of a column's name; "" if it is unknown.

    Args:
        letters: words of the column's name, without numbers.
        of_joint: whether the name also contains a joint's name or a number. If it does, and `letters` has no words
            other than "joint" or "axis", the column is assumed to contain the position.
    """
    if any(one in OTHER_WORDS.split() for one in letters):
        return ""
    stated = {_LISTS[one] for one in letters if one in _LISTS}
    for kind in ("velocity", "torque", "current", "position"):
        strong = {one for one in letters if len(one) > 1 and _LISTS.get(one) == kind}
        if strong:
            return kind
    if len(stated) == 1:
        return stated.pop()
    alone = of_joint and not stated and all(one in ("joint", "joints", "j", "axis", "a") for one in letters)
    return "position" if alone else ""
