"""Report section that compares identified models: verdicts, key figures, errors on common motions, and parameters."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynid.errors import DataError
from dynid.reporting.report_series import MOST_MOTIONS, packed, rounded, thinning
from dynid.reporting.report_tables import pretty_unit, tiles
from dynid.reporting.result_folder import Result
from dynid.reporting.verdict_words import in_words, joint_labels, percent

HIGHLIGHT_Z = 3.0  # a larger difference of a parameter is highlighted [standard deviations]
LARGEST_Z = 1e4


def comparison(results: Sequence[Result]) -> dict[str, Any]:
    """Return the table rows and chart data that compare two or more results; the first result is the reference.

    Raises:
        DataError: the results have different parameters, so they cannot be compared.
    """
    first = results[0]
    names = [row.name for row in first.content.parameters]
    for other in results[1:]:
        if [row.name for row in other.content.parameters] != names:
            raise DataError(
                f"{other.folder} (robot '{other.content.robot}') has other parameters than {first.folder} "
                f"('{first.content.robot}'): compare only models with the same structure"
            )
    titles = _titles(results)
    return {
        "titles": titles,
        "verdicts": [in_words(one) for one in results],
        "figures": _figures(results),
        "motions": _motions(results),
        "parameters": _parameters(results),
        "setting_rows": _settings(results),
        "charts": {
            "titles": titles,
            "joints": list(joint_labels(first.robot.joint_names)),
            "errors": _joint_errors(results),
            "names": names,
            "differences": [_differences(first, other) for other in results[1:]],
            "curves": [_curves(first, other) for other in results[1:]],
        },
    }


def _titles(results: Sequence[Result]) -> list[str]:
    """Return a unique title for each result: the folder's name, with a number if several folders have this name."""
    names = [one.name for one in results]
    return [f"{name} ({k + 1})" if names.count(name) > 1 else name for k, name in enumerate(names)]


def _curves(first: Result, other: Result) -> list[list[dict[str, Any]] | None]:
    """Return the torques that the model of `other` predicts for the motions of `first`, as curves for charts.

    Each motion has one entry: a list with one curve per joint, encoded by `packed`. The entry is None if `other` does
    not contain this motion at the same times.
    """
    found: list[list[dict[str, Any]] | None] = []
    for motion in first.motions[:MOST_MOTIONS]:
        same = [one for one in other.motions if (one.sha256, one.name) == (motion.sha256, motion.name)]
        if not same or not np.array_equal(same[0].time, motion.time):  # absent, or at other times
            found.append(None)
            continue
        every = thinning(motion)
        found.append([packed(same[0].predicted[::every, j]) for j in range(motion.measured.shape[1])])
    return found


def _figures(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return one row for each key figure, with its name and its values in all results."""
    found: dict[str, list[str]] = {}
    for k, one in enumerate(results):
        for tile in tiles(one):
            name = "torque error at the worst joint" if tile["name"].startswith("at the worst") else tile["name"]
            found.setdefault(name, ["–"] * len(results))[k] = tile["value"]
    return [{"name": name, "values": values} for name, values in found.items()]


def _motions(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return a row for each motion that is held out in at least one result, with its relative torque error per result.

    The error is a dash for results in which the motion is not held out.
    """
    found: dict[str, list[str]] = {}
    for k, one in enumerate(results):
        for row in one.motion_errors():
            if row["kind"] == "held out":
                found.setdefault(row["name"], ["–"] * len(results))[k] = percent(row["relative"])
    return [{"name": name, "values": values} for name, values in found.items()]


def _joint_errors(results: Sequence[Result]) -> list[list[float]]:
    """Return the relative torque error of each joint, as one list of n errors per result.

    The error of a joint is the root mean square of its relative torque errors in the result's held-out motions. The
    list of a result without held-out motions is empty.
    """
    found = []
    for one in results:
        rows = [row["joints"] for row in one.motion_errors() if row["kind"] == "held out"]
        found.append(rounded(np.sqrt(np.mean(np.square(rows), axis=0)), 4) if rows else [])
    return found


def _z(a: float, b: float, sd_a: float | None, sd_b: float | None) -> float | None:
    """Return the difference b - a in units of its standard deviation; None if the deviation is unknown.

    `sd_a` and `sd_b` are the standard deviations of a and b.
    """
    if sd_a is None or sd_b is None or not (sd_a or sd_b):
        return None
    return float(np.clip((b - a) / np.hypot(sd_a, sd_b), -LARGEST_Z, LARGEST_Z))


def _differences(first: Result, other: Result) -> list[float | None]:
    pairs = zip(first.content.parameters, other.content.parameters, strict=True)
    return [_z(a.value, b.value, a.standard_deviation, b.standard_deviation) for a, b in pairs]


def _parameters(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return one row for each base parameter: its values in all results, and the differences from the first result.

    Each difference is divided by its standard deviation, which follows from those of the two values.
    """
    rows = []
    for k, row in enumerate(results[0].content.parameters):
        ones = [result.content.parameters[k] for result in results]
        z = [_z(row.value, one.value, row.standard_deviation, one.standard_deviation) for one in ones[1:]]
        rows.append(
            {
                "name": row.name,
                "unit": pretty_unit(row.unit),
                "values": [f"{one.value:.5g}" for one in ones],
                "z": ["–" if one is None else f"{one:+.1f}" for one in z],
                "notable": any(one is not None and abs(one) > HIGHLIGHT_Z for one in z),
            }
        )
    return rows


def _settings(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return one row for each property (such as robot, mount, version or a setting) in which the results differ."""
    flat = [_flat(one.content.provenance.get("settings", {})) for one in results]
    for values, one in zip(flat, results, strict=True):
        values |= {
            "robot": one.content.robot,
            "mount": one.content.mount,
            "made by": one.content.source,
            "dynid": one.content.provenance.get("dynid_version"),
            "torque constants [N m/A]": list(one.robot.motor_constants(one.content.torque_constants_nm_per_a)),
        }
    names = list(dict.fromkeys(name for values in flat for name in values))
    rows = [{"name": name, "values": [str(values.get(name, "–")) for values in flat]} for name in names]
    return [row for row in rows if len(set(row["values"])) > 1]


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found
