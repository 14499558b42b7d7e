"""A first mapping of a CSV recording, drafted from its header and its values."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import DataError
from dynid.recording.csv_table import read_table
from dynid.robot import FloatArray, Robot

TIME = re.compile(r"(t|time|stamp|timestamp|secs?|seconds)[ _]*[\[(]?(s|sec|ms|us|ns)?[\])]?", re.IGNORECASE)
WORDS = {
    "position": ("q", "pos", "position", "positions", "angle", "theta", "joint", "j", "jointposition", "actualq"),
    "velocity": ("dq", "qd", "vel", "velocity", "velocities", "qdot", "speed", "actualqd"),
    "torque": ("tau", "torque", "torques", "effort", "efforts", "eff", "t", "u"),
    "current": ("i", "cur", "current", "currents", "amp", "actualcurrent"),
}
STEPS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def header_of(csv: Path) -> tuple[list[str], str]:
    """The names of the columns and the delimiter.

    Raises:
        DataError: the first line holds numbers, or one column only.
    """
    for delimiter, sign in ((",", ","), (";", ";"), ("tab", "\t"), ("space", None)):
        with csv.open(encoding="utf-8-sig") as stream:
            line = next((one for one in stream if one.strip() and not one.startswith("#")), "")
        names = [name.strip().strip('"') for name in line.split(sign)]
        if len(names) > 2 and not any(re.fullmatch(r"[-+.\deE]+", name) for name in names):
            return names, delimiter
    raise DataError(f"{csv} has no header with names of columns: write the mapping by hand, columns by number")


def _series(names: list[str], kind: str, joints: tuple[str, ...]) -> list[str]:
    """The columns of one kind in joint order: by the joints' names, or a word with ascending numbers; [] without."""

    def word(text: str) -> str:
        return re.sub(r"[^a-z]", "", text.lower())

    by_joint = []
    for joint in joints:
        own = [name for name in names if joint in name and word(name.replace(joint, "")) in WORDS[kind]]
        by_joint += own[:1]
    if len(by_joint) == len(joints):
        return by_joint
    numbered: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        found = re.fullmatch(
            r"(.*?)[ _\[(.]*(\d+)[\])]*", re.sub(r"[ _]*[\[(](rad|deg|Nm|A|N m)[^\])]*[\])]$", "", name)
        )
        if found and word(found[1]) in WORDS[kind]:
            numbered.setdefault(found[1], []).append((int(found[2]), name))
    fitting = [sorted(one) for one in numbered.values() if len(one) == len(joints)]
    return [name for _, name in fitting[0]] if fitting else []


def _length_units(values: FloatArray, robot: Robot) -> list[str]:
    """Units that bring positions (N, n) within the joints' limits, the SI unit first."""
    units = []
    for column, low, high, slides in zip(values.T, robot.lower, robot.upper, robot.prismatic, strict=True):
        inside = column.min() >= low - 0.2 and column.max() <= high + 0.2
        units.append(("m" if inside else "mm") if slides else ("rad" if inside else "deg"))
    turning = {unit for unit, slides in zip(units, robot.prismatic, strict=True) if not slides}
    return [("deg" if "deg" in turning else unit) if unit in ("rad", "deg") else unit for unit in units]


def draft_mapping(csv: Path, robot: Robot, rate_hz: float | None) -> dict[str, Any]:
    """The content of a mapping file.

    Raises:
        DataError: no columns that look like time, positions or torques; says which were looked for.
    """
    names, delimiter = header_of(csv)
    groups = {kind: _series(names, kind, robot.joint_names) for kind in WORDS}
    torque = groups["torque"] or groups["current"]
    for kind, found in (("position", groups["position"]), ("torque", torque)):
        if not found:
            raise DataError(
                f"{csv} has no {robot.size} {kind} columns by name ({', '.join(WORDS[kind][:3])} with a number, or "
                f"with the joints' names); its columns are {', '.join(names)}: write the mapping by hand"
            )
    content: dict[str, Any] = {"schema_version": 1, "delimiter": delimiter}
    clock = next((name for name in names if TIME.fullmatch(name) and name not in torque), None)
    if clock is not None:
        stamps = read_table(csv, [clock], delimiter=delimiter).values[:, 0]
        step, stated = float(np.median(np.diff(stamps))), TIME.fullmatch(clock)
        unit = (
            stated[2]
            if stated and stated[2] in STEPS_S
            else next((one for one in STEPS_S if step * STEPS_S[one] <= 0.5), "s")
        )
        content["time"] = {"column": clock, "unit": unit}
    elif rate_hz is not None:
        content["rate_hz"] = rate_hz
    else:
        raise DataError(f"{csv} has no column of time: give the rate of its rows with --rate-hz")
    values = read_table(csv, groups["position"], delimiter=delimiter).values
    content["position"] = {"columns": groups["position"], "unit": _length_units(values, robot)}
    units = ["N" if slides else "N m" for slides in robot.prismatic]
    content["torque"] = {"columns": torque, "unit": units if groups["torque"] else ["A"] * robot.size}
    if groups["velocity"]:
        rates = [f"{unit}/s" for unit in content["position"]["unit"]]
        content["velocity"] = {"columns": groups["velocity"], "unit": rates}
    return content
