"""The tables of a report as plain rows of text and numbers."""

from typing import Any

import numpy as np

from dynid.reporting.arm_view import link_margins
from dynid.reporting.residuals import joint_residual
from dynid.reporting.result_folder import Result
from dynid.reporting.tables import number
from dynid.reporting.verdict_words import check_group, joint_labels, percent, used

_SIGNS = {"at most": "≤", "at least": "≥", "equals": "="}
STAGES = ("ols", "sdp", "clie", "final")


def pretty_unit(unit: str) -> str:
    """A unit as people write it: kg m² for kg*m^2."""
    return unit.replace("*", " ").replace("^2", "²")


def check_rows(result: Result) -> list[dict[str, Any]]:
    """All checks with value, limit, the share of the limit that is used, outcome and detail."""
    rows = []
    for check in (*result.content.verdict, *result.processing):
        share = min(used(check), 0.99 if check.passed else 1.0)  # a full bar is a failure
        unit = f" {pretty_unit(check.unit)}" if check.unit else ""
        rows.append(
            {
                "group": check_group(check) if check in result.content.verdict else "Campaign", "name": check.name,
                "value": f"{number(check.value)}{unit}", "limit": f"{_SIGNS[check.sense]} {number(check.limit)}{unit}",
                "share": None if np.isnan(share) else share, "passed": check.passed, "detail": check.detail,
            }
        )  # fmt: skip
    order = ["Prediction", "Physics", "Estimation", "Data", "Campaign", "Other"]
    return sorted(rows, key=lambda row: (bool(row["passed"]), order.index(str(row["group"]))))


def tiles(result: Result) -> list[dict[str, str]]:
    """The few figures that people ask for first."""
    pooled, labels = result.pooled(), joint_labels(result)
    found = []
    if pooled is not None:
        joints = list(pooled["joints"].values())
        worst = int(np.argmax(joints))
        found.append({"value": percent(pooled["all"]), "name": "torque error on held-out motions"})
        found.append({"value": percent(joints[worst]), "name": f"at the worst joint, {labels[worst]}"})
    else:
        errors = [row["relative"] for row in result.motion_errors()]
        if errors:
            found.append({"value": percent(max(errors)), "name": "torque error on the worst held-out motion"})
    wanted = {
        "smallest eigenvalue of M": "smallest eigenvalue of the inertia matrix",
        "condition number": "condition number of the regressor",
    }
    for begin, name in wanted.items():
        check = next((one for one in result.content.verdict if one.name.startswith(begin)), None)
        if check is not None:
            found.append({"value": f"{check.value:.3g} {pretty_unit(check.unit)}".strip(), "name": name})
    checks = result.content.verdict
    found.append({"value": f"{sum(one.passed for one in checks)} of {len(checks)}", "name": "checks passed"})
    return found


def residual_rows(result: Result) -> list[dict[str, str]]:
    """Residuals of every motion and joint in figures."""
    labels = joint_labels(result)
    rows = []
    for motion in result.motions:
        for j, label in enumerate(labels):
            one = joint_residual(motion, j)
            rows.append(
                {
                    "motion": motion.name, "joint": label, "sd": f"{one.deviation:.3g}", "mean": f"{one.mean:.2g}",
                    "friction": _or_dash(one.friction), "slope": _or_dash(one.slope),
                    "outside": percent(one.outside),
                }
            )  # fmt: skip
    return rows


def _or_dash(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2g}"


def parameter_rows(result: Result) -> list[dict[str, Any]]:
    """Every parameter: unit, value, deviation, and its way through the stages, each also in deviations from the end."""
    path = {row["parameter"]: row for row in result.tables.get("parameters", [])}
    before = result.content.provenance.get("unconstrained", {})
    rows = []
    for row in result.content.parameters:
        stored, sd = path.get(row.name, {}), row.standard_deviation
        stages = {stage: float(stored[stage]) if stored.get(stage) else None for stage in STAGES}
        if row.name in before:
            stages["ols"] = before[row.name]
        relative = None if sd is None or not row.value else sd / abs(row.value)
        rows.append(
            {
                "name": row.name, "unit": pretty_unit(row.unit), "grouping": row.grouping,
                "value": f"{row.value:.5g}", "sd": None if sd is None else f"{sd:.2g}",
                "relative": None if relative is None else percent(relative), "vague": (relative or 0.0) > 0.3,
                "stages": {k: None if v is None else f"{v:.5g}" for k, v in stages.items()},
                "moved": {k: (v - row.value) / sd for k, v in stages.items() if v is not None and sd},
            }
        )  # fmt: skip
    return rows


def used_stages(rows: list[dict[str, Any]]) -> list[str]:
    """The stages that at least one parameter has a value of."""
    return [stage for stage in STAGES if any(row["stages"][stage] is not None for row in rows)]


def friction_rows(result: Result) -> list[dict[str, str]]:
    """Coulomb friction beside the base parameters."""
    block = result.content.coulomb_friction
    if block is None:
        return []
    labels = joint_labels(result)
    return [
        {
            "name": row.name, "joint": labels[j], "value": f"{row.value:.4g}",
            "sd": "–" if row.standard_deviation is None else f"{row.standard_deviation:.2g}",
        }
        for j, row in enumerate(block.axes_nm)
    ]  # fmt: skip


def margin_rows(result: Result) -> list[dict[str, Any]]:
    """Margins of every link against what is physically possible."""
    labels = joint_labels(result)
    return [
        {
            "joint": label, "mass": f"{one.mass:.4g}", "bounds": f"{one.lowest:g} to {one.highest:g}",
            "at_bound": one.at_bound, "eigenvalue": f"{one.eigenvalue:.3g}", "required": f"{one.required:.3g}",
        }
        for one, label in zip(link_margins(result.robot, result.content), labels, strict=False)
    ]  # fmt: skip


def set_rows(result: Result) -> tuple[list[str], list[dict[str, Any]]]:
    """Relative errors on held-out motions of every parameter set of a campaign: motion names, and rows."""
    stored = result.campaign.get("held_out", {})
    motions = list(next(iter(stored.values()), {}))
    names = {
        "CLIE": "closed-loop refinement (CLIE)", "path CLIE": "CLIE that looks at the path alone (the paper's)",
        "rescue": "the paper's CLIE, rescued", "result": "consistent model: the result",
        "direct fit": "fit to all held-out motions themselves: the least that is possible over all of them",
        "direct fit of base parameters": "the same without Coulomb friction",
    }  # fmt: skip
    rows = [
        {"name": names.get(key, key), "own": key == "result", "errors": [percent(sets[m]["relative"]) for m in motions]}
        for key, sets in stored.items() if sets
    ]  # fmt: skip
    return motions, rows


def spread_rows(result: Result) -> dict[str, Any]:
    """The spread of a campaign's clouds: stages, and per sampling interval the runs and each stage's trace."""
    table = result.tables.get("cloud_spread", [])
    stages = list(dict.fromkeys(row["stage"] for row in table))
    traces = {(row["sampling_ms"], row["stage"]): f"{float(row['trace_of_covariance']):.4g}" for row in table}
    runs = {row["sampling_ms"]: row["runs"] for row in table}
    rows = [
        {
            "name": "all" if name == "all" else f"{float(name):g} ms", "runs": count,
            "traces": [traces.get((name, stage), "–") for stage in stages],
        }
        for name, count in runs.items()
    ]  # fmt: skip
    return {"stages": stages, "rows": rows}


def projection_sentence(result: Result) -> str:
    """What it cost to make the parameters those of a physical arm."""
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
            f"The consistent projection moved the predicted torques by at most {percent(value)} of the measured ones "
            f"({name})."
        )
    return ""
