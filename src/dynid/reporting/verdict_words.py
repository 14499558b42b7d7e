"""Verdict on a model in plain words: whether the model can be trusted, and what to check before using the model."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynid.documents import read_yaml
from dynid.identification.data.recordings import simulated_sentence
from dynid.recording.csv_reader import is_csv
from dynid.reporting.joint_names import short_names
from dynid.reporting.result_folder import Result
from dynid.verdict import Check

CLOSE_SHARE = 0.8  # passed checks that use a larger share of their limit are listed as close to it
UNCERTAIN_SHARE = 0.3  # relative standard deviation above which a parameter is listed as uncertain
MOST_NAMES = 6
ADVICE = Path(__file__).parent / "templates" / "advice.yaml"
GEOMETRY = (
    "The geometry (lengths, axes and joint zeros) is that of the URDF, and nothing here verifies it: parameters can "
    "absorb a wrong length or a shifted zero. Compare the URDF with the arm."
)


@dataclass(frozen=True)
class Words:
    """Sentences at the top of a report.

    Attributes:
        accepted: whether the model is accepted; None if the model has no verdict.
        headline: short sentence with the verdict.
        sentences: reasons for the verdict.
        advice: remedies for failed checks.
        cautions: facts to check before using the model.
    """

    accepted: bool | None
    headline: str
    sentences: tuple[str, ...]
    advice: tuple[str, ...]
    cautions: tuple[str, ...]


def used(check: Check) -> float:
    """Return a check's value / limit, or limit / value if the limit is a lower bound ("at least").

    The result is at most 1 if the check passed. 0 is the best value, and NaN means undefined, also if the check could
    not be made.
    """
    if check.sense == "equals" or not check.limit > 0 or not check.made:
        return float("nan")
    if check.sense == "at most":
        return check.value / check.limit
    return check.limit / check.value if check.value > 0 else float("inf")


def failure(check: Check, detailed: bool = True) -> str:
    """Return a sentence on a check that failed or could not be made; `detailed` adds the check's detail in brackets."""
    if not check.made:
        return f"{check.name} was not checked" + (f" ({check.detail})" if check.detail and detailed else "")
    unit = f" {check.unit}" if check.unit else ""
    asked = {"at most": "at most ", "at least": "at least ", "equals": ""}[check.sense]
    detail = f" ({check.detail})" if check.detail and detailed else ""
    return f"{check.name} is {check.value:.4g}{unit}, required {asked}{check.limit:.4g}{unit}{detail}"


def outcome(checks: Sequence[Check]) -> str:
    """Return one line on whether a model with these checks is accepted or refused, and why."""
    if failed := [failure(check, detailed=False) for check in checks if not check.passed]:
        return f"refused, because {'; '.join(failed)}"
    return f"accepted: all {len(checks)} checks passed" if checks else "refused, because nothing was checked"


def advice(checks: Sequence[Check], recordings: Iterable[str]) -> tuple[str, ...]:
    """Return advice for each failed check, without repetitions.

    Some advice differs between bags and CSV files. `recordings` are the paths of the model's recordings, whose names
    show which of them are CSV files.
    """
    table = read_yaml(ADVICE)
    kinds = dict.fromkeys("csv" if is_csv(Path(one)) else "bag" for one in recordings)
    found: list[str] = []
    for check in checks:
        if not check.passed and check.id in table:
            one = table[check.id]
            found += [one] if isinstance(one, str) else [one[kind] for kind in kinds or ("bag",)]
    return tuple(dict.fromkeys(found))


def percent(value: float | None) -> str:
    """Return a fraction as text in per cent with at most three digits; a dash for None."""
    return "–" if value is None else f"{100 * value:.3g} %"


def joint_labels(joint_names: tuple[str, ...]) -> tuple[str, ...]:
    """Return short joint names with the joint's number from 1, such as '2 shoulder tilt'.

    A name that already ends with the joint's number is not numbered again.
    """
    names = short_names(joint_names)
    if any(name.isdecimal() for name in names):
        return joint_names
    spaced = [name.replace("_", " ") for name in names]
    return tuple(name if re.search(rf"(?<!\d){j}$", name) else f"{j} {name}" for j, name in enumerate(spaced, start=1))


def in_words(result: Result) -> Words:
    """Return the verdict of a result as sentences for the top of the report."""
    checks = result.content.verdict
    failed = [check for check in checks if not check.passed]
    if not checks:
        headline, accepted = "This model has no verdict: it was written without checks.", None
    elif result.content.accepted:
        headline, accepted = f"This model passed all {len(checks)} checks.", True
        if not all(check.passed for check in result.processing):
            headline = f"{headline[:-1]}, but its campaign did not pass all of its own."
    else:
        count = "one check" if len(failed) == 1 else f"{len(failed)} of {len(checks)} checks"
        headline, accepted = f"Do not use this model: it failed {count}.", False
    sentences = [f"Failed: {failure(check)}." for check in failed]
    simulated = simulated_sentence(result.content.provenance.get("simulated", ()))
    sentences += [text for text in (_prediction(result), _physics(result), _origin(result), simulated) if text]
    recordings = [str(row["path"]) for row in result.content.provenance.get("bags", [])]
    return Words(accepted, headline, tuple(sentences), advice(checks, recordings), tuple(_cautions(result)))


def _prediction(result: Result) -> str:
    pooled, labels = result.pooled(), joint_labels(result.robot.joint_names)
    if pooled is not None:
        worst, error = worst_moving(pooled)
        names = _counted([one.name for one in result.held_out], "motion")
        return (
            f"On {names} that the identification has not seen, predicted torques of joints in motion differ from "
            f"measured ones by {percent(pooled['moving'])}; the worst joint is {labels[worst]} with {percent(error)}. "
            f"With samples at rest it is {percent(pooled['all'])}: a joint that sticks carries any torque within its "
            "friction."
        )
    rows = [row for row in result.motion_errors() if row["kind"] == "held out"]
    if rows:
        worst_row = max(rows, key=lambda row: row["relative"])
        return (
            f"On {_counted([row['name'] for row in rows], 'motion')} that the identification has not seen, predicted "
            f"torques differ from measured torques by at most {percent(worst_row['relative'])} ({worst_row['name']}), "
            "samples at rest included."
        )
    if (crossed := result.pooled(result.cross_validated)) is not None:
        worst, error = worst_moving(crossed)
        return (
            "No motion was held out. Each block of time, predicted by a fit to all other blocks, differs from measured "
            f"torques of joints in motion by {percent(crossed['moving'])}; the worst joint is {labels[worst]} with "
            f"{percent(error)}."
        )
    return ""


def worst_moving(errors: dict[str, Any]) -> tuple[int, float | None]:
    """Return the index of the joint with the largest relative torque error during motion, and this error.

    The error is None if no joint moves. `errors` is the result of `Result.pooled`.
    """
    joints = list(errors["joints_moving"].values())
    worst = max(range(len(joints)), key=lambda j: -1.0 if joints[j] is None else joints[j])
    return worst, joints[worst]


def _counted(names: list[str], what: str) -> str:
    return f"a {what} ({names[0]})" if len(names) == 1 else f"{len(names)} {what}s ({', '.join(names)})"


def _physics(result: Result) -> str:
    """Return a sentence on the smallest eigenvalue of the inertia matrix M(q); "" if this check was not made."""
    check = result.check("inertia_eigenvalue")
    if check is None:
        return ""
    says = f"The {check.name} and after searches from the worst ones is {check.value:.3g} kg m²"
    if result.content.feasibility == "consistent" and check.passed:
        return (
            "The model is physically consistent: a real arm could have exactly these masses, centres of mass and "
            f"inertias. {says}: M(q) stays positive definite, so the model can be simulated."
        )
    return f"{says}; required is {check.limit:.3g}."


def _origin(result: Result) -> str:
    if result.campaign:
        one = result.campaign["representative"]
        ended = result.campaign["outcomes"]
        return (
            f"It was selected from {result.campaign['runs']} runs, {ended['feasible'] + ended['rescued']} of them "
            f"feasible ({ended['rescued']} after a rescue): {one['run']}, route {one['route']}."
        )
    fitted = [one.name for one in result.motions if one.kind == "fitted"]
    return f"It was identified from {_counted(fitted, 'recording')}." if fitted else ""


def _cautions(result: Result) -> list[str]:
    """Return sentences on facts that a user should check before using the model."""
    content, found = result.content, []
    kinds = {row["kind"] for row in result.motion_errors()}
    if kinds.isdisjoint(("held out", "cross-validated")) and result.check("torque_error_held_out") is None:
        found.append(
            "No motion was held out, so the error on unseen data is unknown. Validate the model on another motion "
            "(dynid validate)."
        )
    elif "cross-validated" in kinds and "held out" not in kinds:
        found.append(
            "Unseen data are other times of the fitted motions: cross-validation does not show the error on another "
            "kind of motion. Validate the model on one (dynid validate)."
        )
    close = [check for check in content.verdict if check.passed and CLOSE_SHARE < used(check) < 1.0]
    if close := [one for one in close if one.id != "pseudo_inertia"]:
        found.append(
            f"Checks close to their limits: {_listed([f'{one.name} ({percent(used(one))})' for one in close])}."
        )
    vague = [
        row.name
        for row in content.parameters
        if row.standard_deviation is not None and row.standard_deviation > UNCERTAIN_SHARE * abs(row.value)
    ]
    if vague:
        found.append(
            f"{len(vague)} of {len(content.parameters)} parameters have a standard deviation above "
            f"{percent(UNCERTAIN_SHARE)} of their value, such as {_listed(vague)}: they matter little for these "
            "motions, but may matter for others."
        )
    if result.campaign.get("failures"):
        found.append(f"Unusable bags: {_listed(list(result.campaign['failures']))}.")
    missed = [failure(check) for check in result.processing if not check.passed]
    found += [f"The campaign as a whole failed: {'; '.join(missed)}."] if missed else []
    found += [f"{one.name}: {one.delay}." for one in result.motions if one.delay]
    provenance: dict[str, Any] = content.provenance
    found += [str(provenance["torques"])] if provenance.get("torques") else []
    return [*found, GEOMETRY, *(str(note) for note in provenance.get("notes", []))]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
