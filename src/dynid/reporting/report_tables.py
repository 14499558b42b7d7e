"""Tables of the HTML report as plain rows of text and numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dynid.model.friction import TERMS
from dynid.reporting.result_folder import Result
from dynid.reporting.tables import number
from dynid.reporting.verdict_words import UNCERTAIN_SHARE, joint_labels, percent, used, worst_moving

_SIGNS = {"at most": "≤", "at least": "≥", "equals": "="}
STAGES = ("ols", "sdp", "clie", "final")


def pretty_unit(unit: str) -> str:
    """Return a unit in printed form, such as kg m² for kg*m^2."""
    return unit.replace("*", " ").replace("^2", "²")


def digits(value: float | None, count: int) -> str:
    """Return a number with `count` significant digits; a dash for None and NaN."""
    return "–" if value is None or np.isnan(value) else f"{value:.{count}g}"


def check_rows(result: Result) -> list[dict[str, Any]]:
    """Return one row for each check of a result, failed checks first.

    A row has group, name, value, limit, outcome and detail. Its entry `share` is the length of a bar: value / limit, or
    limit / value if the limit is a lower bound. It is at most 0.99 if the check passed and at most 1 otherwise; None if
    the ratio is undefined or the check could not be made.
    """
    rows = []
    for check in (*result.content.verdict, *result.processing):
        share = min(used(check), 0.99 if check.passed else 1.0)  # the bar is full only if the check failed
        unit = f" {pretty_unit(check.unit)}" if check.unit else ""
        rows.append(
            {
                "group": check.group or "Other",
                "name": check.name,
                "value": f"{number(check.value)}{unit}",
                "limit": f"{_SIGNS[check.sense]} {number(check.limit)}{unit}",
                "share": None if np.isnan(share) else share,
                "passed": check.passed,
                "outcome": "✓ passed" if check.passed else "✗ FAILED" if check.made else "– not checked",
                "detail": check.detail,
            }
        )
    order = ["Prediction", "Physics", "Estimation", "Data", "Campaign", "Chain", "Other"]
    return sorted(rows, key=lambda row: (bool(row["passed"]), order.index(str(row["group"]))))


def tiles(result: Result) -> list[dict[str, str]]:
    """Return the key figures of a result for the head of the report, each with its value and name as text."""
    labels, found = joint_labels(result.robot.joint_names), []
    judged = "torque error on held-out motions, joints in motion"
    pooled = result.pooled()
    if pooled is None and not any(row["kind"] == "held out" for row in result.motion_errors()):
        pooled, judged = result.pooled(result.cross_validated), "cross-validated torque error, joints in motion"
    if pooled is not None:
        worst, error = worst_moving(pooled)
        found.append({"value": percent(pooled["moving"]), "name": judged})
        found.append({"value": percent(error), "name": f"at the worst joint, {labels[worst]}"})
    else:
        rows = result.motion_errors()
        held = [row["relative"] for row in rows if row["kind"] == "held out"]
        fitted = [one.errors.moving for one in result.motions]
        if held:
            name = "torque error on the worst held-out motion, samples at rest included"
            found.append({"value": percent(max(held)), "name": name})
        elif fitted:
            name = "torque error on the fitted data, joints in motion; no motion was held out"
            found.append({"value": percent(max(fitted)), "name": name})
    wanted = {
        "inertia_eigenvalue": "smallest eigenvalue of the inertia matrix",
        "condition_number": "condition number of the regressor",
    }
    for key, name in wanted.items():
        if (check := result.check(key)) is not None:
            found.append({"value": f"{check.value:.3g} {pretty_unit(check.unit)}".strip(), "name": name})
    checks = result.content.verdict
    found.append({"value": f"{sum(one.passed for one in checks)} of {len(checks)}", "name": "checks passed"})
    return found


def parameter_rows(result: Result) -> list[dict[str, Any]]:
    """Return a row for each base parameter: unit, value, standard deviation, and the value after each stage.

    Stages are the steps of the identification method, such as least squares and closed-loop refinement. The entry
    `moved` states for each stage the value after this stage minus the final value, in standard deviations.
    """
    path = {row["parameter"]: row for row in result.tables.get("parameters", [])}
    before = result.content.provenance.get("unconstrained", {})
    known = {one["name"]: one["parameters"] for one in result.content.provenance.get("stages", [])}
    hidden = {name for one in result.content.not_determined for name in one.parameters}
    rows = []
    for row in result.content.parameters:
        stored, sd = path.get(row.name, {}), row.standard_deviation
        stages = {stage: float(stored[stage]) if stored.get(stage) else None for stage in STAGES}
        stages |= {stage: own[row.name] for stage, own in known.items() if row.name in own}
        if row.name in before:
            stages["ols"] = before[row.name]
        relative = None if sd is None or not row.value else sd / abs(row.value)
        own = {"name": row.name, "unit": pretty_unit(row.unit), "grouping": row.grouping, "value": row.value, "sd": sd}
        moved = {k: (v - row.value) / sd for k, v in stages.items() if v is not None and sd}
        rows.append(
            own | {"relative": relative, "vague": (relative or 0.0) > UNCERTAIN_SHARE, "stages": stages, "moved": moved}
        )
        rows[-1]["hidden"] = row.name in hidden
    return rows


def method_stages(result: Result, names: Mapping[str, str]) -> list[dict[str, str]]:
    """Return a row of key figures for each stage of the identification method; the last row is the final model.

    Stages are, for example, least squares and closed-loop refinement. The list is empty for results of older versions.
    `names` are the printed names of the stages.
    """
    return [
        {
            "name": names.get(one["name"], "consistent model (the result)"),
            "lambda_min": digits(one["lambda_min"], 3),
            "rmse": digits(one["rmse_nm"], 3),
            "relative": percent(one["relative"]),
            "seconds": digits(one["seconds"], 3),
        }
        for one in result.content.provenance.get("stages", [])
    ]


def used_stages(rows: list[dict[str, Any]]) -> list[str]:
    """Return the stages (such as least squares) for which at least one row of `parameter_rows` has a value."""
    return [stage for stage in STAGES if any(row["stages"][stage] is not None for row in rows)]


def friction_rows(result: Result) -> list[dict[str, str]]:
    """Return a row for each non-zero parameter of the friction law that was estimated in addition to base parameters.

    The list is empty if there is no such law.
    """
    law = result.content.friction()
    if law is None:
        return []
    labels, rows = joint_labels(result.robot.joint_names), []
    for term, values in zip(TERMS, law.values, strict=True):
        for j in np.flatnonzero(values):
            deviation = np.nan if law.deviations is None else law.deviations[TERMS.index(term)][j]
            rows.append(
                {
                    "name": f"{term.prefix}{j + 1}",
                    "joint": labels[j],
                    "value": f"{values[j]:.4g}",
                    "unit": term.unit,
                    "sd": "–" if np.isnan(deviation) else f"{deviation:.2g}",
                }
            )
    return rows


def ladder_rows(result: Result) -> list[dict[str, Any]]:
    """Return a row for each friction structure (set of friction terms) that the identification compared.

    The row states the cross-validated torque error of this structure, and whether this structure was chosen.
    """
    block = result.content.friction_law
    return [
        {
            "name": one.name,
            "parameters": one.parameters,
            "error": f"{100 * one.held_out:.2f} %",
            "excess": f"{100 * one.excess:.2g} ± {100 * one.standard_error:.2g} %",
            "chosen": one.chosen,
        }
        for one in (() if block is None else block.ladder)
    ]


def set_rows(result: Result) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the names of a campaign's held-out motions, and one row of errors on these motions per parameter set.

    Errors are relative torque errors. Most parameter sets are results of the identification's stages. For comparison,
    two sets are fitted to the held-out motions themselves; the errors of "direct fit" are lower bounds.
    """
    stored = result.campaign.get("held_out", {})
    motions = list(next(iter(stored.values()), {}))
    names = {
        "CLIE": "closed-loop refinement (CLIE)",
        "path CLIE": "CLIE constrained along the path only (the paper's)",
        "rescue": "the paper's CLIE after the rescue",
        "result": "consistent model (the result)",
        "direct fit": "direct fit to all held-out motions (lower bound of the error)",
        "direct fit of base parameters": "direct fit without Coulomb friction",
    }
    rows = [
        {"name": names.get(key, key), "own": key == "result", "errors": [sets[m]["relative"] for m in motions]}
        for key, sets in stored.items()
        if sets
    ]
    return motions, rows


def spread_rows(result: Result) -> dict[str, Any]:
    """Return the spread of a campaign's models as a table: a row per sampling interval, a column per stage.

    Stages are the steps of the identification, such as least squares and closed-loop refinement. The values are traces
    of the covariance matrix of the parameters.
    """
    table = result.tables.get("cloud_spread", [])
    stages = list(dict.fromkeys(row["stage"] for row in table))
    traces = {(row["sampling_ms"], row["stage"]): f"{float(row['trace_of_covariance']):.4g}" for row in table}
    runs = {row["sampling_ms"]: row["runs"] for row in table}
    rows = [
        {
            "name": "all" if name == "all" else f"{float(name):g} ms",
            "runs": count,
            "traces": [traces.get((name, stage), "–") for stage in stages],
        }
        for name, count in runs.items()
    ]
    return {"stages": stages, "rows": rows}


def projection_sentence(result: Result) -> str:
    """Return a sentence on how the projection to physically consistent parameters changed the predicted torques.

    The sentence is empty if the change is unknown.
    """
    stored = result.campaign.get("held_out", {})
    if stored.get("CLIE") and stored.get("result"):
        changes = [stored["result"][name]["relative"] - errors["relative"] for name, errors in stored["CLIE"].items()]
        return (
            f"The consistent projection changed the relative torque error on held-out motions by "
            f"{100 * min(changes):+.2g} to {100 * max(changes):+.2g} percentage points."
        )
    moved = [(one.moved, one.name) for one in result.motions if not np.isnan(one.moved)]
    if moved:
        value, name = max(moved)
        return (
            f"The consistent projection changed the predicted torques by at most {percent(value)} of the measured ones "
            f"({name})."
        )
    return ""
