"""A verdict in plain words: whether to trust the model, what for, and what to look at first."""

import re
from dataclasses import dataclass
from typing import Any

from dynid.identification.verdict import Check
from dynid.reporting.result_folder import Result
from dynid.reporting.trajectory_figure import short_names

CLOSE = 0.8  # a check that uses more of its limit than this is named
VAGUE = 0.3  # a deviation above this part of the value
FEW = 6
_GROUPS = (
    ("Data", ("missed cycles", "stamp jitter", "samples dropped", "smallest joint motion", "largest torque of its",
              "saturated", "recorded over derived", "states published", "shortest time at speed")),
    ("Estimation", ("condition number", "closed-loop refinement", "parameters from", "viscous friction that")),
    ("Physics", ("smallest eigenvalue", "smallest pseudo-inertia")),
    ("Prediction", ("relative torque error", "held-out torque error")),
)  # fmt: skip


@dataclass(frozen=True)
class Words:
    """What the top of a report says.

    Attributes:
        accepted: the verdict; None where the model has none.
        headline: one short sentence.
        sentences: what that rests on.
        cautions: what to look at before the model is used.
    """

    accepted: bool | None
    headline: str
    sentences: tuple[str, ...]
    cautions: tuple[str, ...]


def check_group(check: Check) -> str:
    """Which question a check answers: Data, Estimation, Physics, Prediction or Other."""
    return next((group for group, begins in _GROUPS if check.name.startswith(begins)), "Other")


def used(check: Check) -> float:
    """How much of its limit a check uses: below 1 passed, 0 is perfect; NaN where that has no meaning."""
    if check.sense == "equals" or not check.limit > 0:
        return float("nan")
    if check.sense == "at most":
        return check.value / check.limit
    return check.limit / check.value if check.value > 0 else float("inf")


def failure(check: Check) -> str:
    """A failed check in words."""
    unit = f" {check.unit}" if check.unit else ""
    asked = {"at most": "at most ", "at least": "at least ", "equals": ""}[check.sense]
    detail = f" ({check.detail})" if check.detail else ""
    return f"{check.name} is {check.value:.4g}{unit}, {asked}{check.limit:.4g}{unit} is asked for{detail}"


def percent(value: float) -> str:
    """A part as per cent with three digits at most."""
    return f"{100 * value:.3g} %"


def joint_labels(result: Result) -> tuple[str, ...]:
    """Short joint names with their numbers, such as '2 shoulder tilt'."""
    names = short_names(result.robot.joint_names)
    return tuple(f"{j + 1} {name.replace('_', ' ')}" for j, name in enumerate(names))


def in_words(result: Result) -> Words:
    """The verdict of a result in plain words."""
    checks = result.content.verdict
    failed = [check for check in checks if not check.passed]
    if not checks:
        headline, accepted = "This model has no verdict: nothing was checked when it was made.", None
    elif result.content.accepted:
        headline, accepted = f"This model passed every one of its {len(checks)} checks.", True
        if not all(check.passed for check in result.processing):
            headline = f"{headline[:-1]}; the campaign that it comes from did not pass all of its own."
    else:
        count = "one check" if len(failed) == 1 else f"{len(failed)} of {len(checks)} checks"
        headline, accepted = f"Do not use this model: it failed {count}.", False
    sentences = [f"Failed: {failure(check)}." for check in failed]
    sentences += [text for text in (_prediction(result), _physics(result), _origin(result)) if text]
    return Words(accepted, headline, tuple(sentences), tuple(_cautions(result)))


def _prediction(result: Result) -> str:
    pooled, labels = result.pooled(), joint_labels(result)
    if pooled is not None:
        joints = list(pooled["joints"].values())
        worst = max(range(len(joints)), key=lambda j: joints[j])
        names = _counted([one.name for one in result.held_out], "motion")
        return (
            f"On {names} that the identification has not seen, predicted torques differ from measured ones by "
            f"{percent(pooled['all'])} of the torque; most at joint {labels[worst]}, by {percent(joints[worst])}."
        )
    rows = [row for row in result.motion_errors() if row["kind"] == "held out"]
    if rows:
        worst_row = max(rows, key=lambda row: row["relative"])
        return (
            f"On {_counted([row['name'] for row in rows], 'motion')} that the identification has not seen, predicted "
            f"torques differ from measured ones by at most {percent(worst_row['relative'])} ({worst_row['name']})."
        )
    return ""


def _counted(names: list[str], what: str) -> str:
    return f"a {what} ({names[0]})" if len(names) == 1 else f"{len(names)} {what}s ({', '.join(names)})"


def _physics(result: Result) -> str:
    """What is known of the inertia matrix."""
    checks = [one for one in result.content.verdict if one.name.startswith("smallest eigenvalue of M")]
    if not checks:
        return ""
    poses = re.search(r"over (\d+)", checks[0].name)
    where = f" {int(poses[1]):,} poses and searches from the worst of them" if poses else " the audit"
    says = f"In{where}, the inertia matrix never had an eigenvalue below {checks[0].value:.3g} kg m²"
    if result.content.feasibility == "consistent" and checks[0].passed:
        return (
            f"Some physical arm has exactly these parameters: every link's mass, centre of mass and inertia fit "
            f"together. {says}, so a simulation with it cannot explode for want of inertia."
        )
    return f"{says}; {checks[0].limit:.3g} is asked for."


def _origin(result: Result) -> str:
    if result.campaign:
        one = result.campaign["representative"]
        ended = result.campaign["outcomes"]
        return (
            f"It was chosen from {result.campaign['runs']} runs, {ended['feasible'] + ended['rescued']} of which ended "
            f"feasible ({ended['rescued']} after a rescue): {one['run']}, route {one['route']}."
        )
    fitted = [one.name for one in result.motions if one.kind == "fitted"]
    return f"It was identified from {_counted(fitted, 'recording')}." if fitted else ""


def _cautions(result: Result) -> list[str]:
    """What a careful reader would point at."""
    content, found = result.content, []
    if not any(row["kind"] == "held out" for row in result.motion_errors()):
        found.append(
            "No motion was held out: nothing says how the model does on data that it was not fitted to. "
            "Validate it on another motion (dynid validate)."
        )
    close = [check for check in content.verdict if check.passed and CLOSE < used(check) < 1.0]
    if close := [one for one in close if not one.name.startswith("smallest pseudo-inertia")]:
        found.append(f"Close to their limits: {_listed([f'{one.name} ({percent(used(one))})' for one in close])}.")
    vague = [
        row.name for row in content.parameters
        if row.standard_deviation is not None and row.standard_deviation > VAGUE * abs(row.value)
    ]  # fmt: skip
    if vague:
        found.append(
            f"{len(vague)} of {len(content.parameters)} parameters are known to worse than {percent(VAGUE)} "
            f"of their value, such as {_listed(vague)}: they matter little for these motions, and may for others."
        )
    if result.campaign.get("failures"):
        found.append(f"Bags that could not be used: {_listed(list(result.campaign['failures']))}.")
    missed = [failure(check) for check in result.processing if not check.passed]
    found += [f"Not passed by the campaign as a whole: {'; '.join(missed)}."] if missed else []
    provenance: dict[str, Any] = content.provenance
    found += [str(provenance["torques"])] if provenance.get("torques") else []
    return found + [str(note) for note in provenance.get("notes", [])]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more
