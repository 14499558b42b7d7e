"""HTML report on the trustworthiness of an identified model, with reasons, in one self-contained file.

The file contains its styles, scripts and data. Its content security policy forbids loading anything else.
"""

import json
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2

from dynid import __version__
from dynid.errors import DataError
from dynid.reporting.adaptive_section import adaptive_section
from dynid.reporting.arm_view import link_margins, worst_pose
from dynid.reporting.friction_curves import drawings
from dynid.reporting.report_comparison import comparison
from dynid.reporting.report_series import MOST_MOTIONS, chart_data
from dynid.reporting.report_tables import (
    check_rows,
    digits,
    friction_rows,
    ladder_rows,
    method_stages,
    parameter_rows,
    projection_sentence,
    set_rows,
    spread_rows,
    tiles,
    used_stages,
)
from dynid.reporting.residuals import residuals
from dynid.reporting.result_folder import Result
from dynid.reporting.tracking_table import tracking_rows
from dynid.reporting.verdict_words import in_words, joint_labels, percent
from dynid.resources import guarded, write_whole, yaml_text

FILE_NAME = "report.html"
LARGEST_BYTES = 5_000_000
TEMPLATES = Path(__file__).parent / "templates"
LIBRARIES = ("numpy", "scipy", "clarabel", "pin", "casadi", "numba")
STAGE_NAMES = {"ols": "OLS", "sdp": "SDP", "clie": "CLIE", "final": "rescued"}
METHOD_WORDS = {
    "regression": "Least squares, then the nearest physically consistent model.",
    "closed-loop": "From the regression's model, the closed loops of all recordings were refined together (CLIE), M(q) "
    "staying positive definite; then the nearest physically consistent model.",
    "campaign": "The stages of the representative, which was chosen from the runs of all recordings at all sampling "
    "intervals; then the nearest physically consistent model.",
}


def render_report(result: Result, others: Sequence[Result] = (), tracked: Sequence[Path] = ()) -> str:
    """Return the report on a result as HTML text, with a comparison if other results are given.

    Args:
        result: result to report.
        others: results with which it is compared.
        tracked: bags of motions whose tracking errors are reported.

    Raises:
        DataError: the other results have different parameters, a bag contains no reference trajectory, or the text
            would exceed 5 MB.
    """
    context = _context(result, others) | {"tracking": tracking_rows(result.robot, tracked)}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"percent": percent, "digits": digits, "residuals": residuals}
    text = environment.get_template("report.html").render(context)
    if len(text.encode()) > LARGEST_BYTES:
        raise DataError(
            f"the report of {result.folder} would have {len(text.encode()) / 1e6:.1f} MB, more than the "
            f"{LARGEST_BYTES / 1e6:.0f} MB allowed: compare fewer results at once"
        )
    return text


def write_report(result: Result, path: Path, others: Sequence[Result] = (), tracked: Sequence[Path] = ()) -> None:
    """Write the report on a result to a new file; if this fails, no file remains.

    Args:
        result: result to report.
        path: the new file.
        others: results with which it is compared.
        tracked: bags of motions whose tracking errors are reported.

    Raises:
        OutputExistsError: the file exists.
        DataError: a result folder is damaged or of another version, the results cannot be compared, or a bag contains
            no reference trajectory.
    """
    with guarded(result.folder, "result folder"):
        write_whole(path, render_report(result, others, tracked))


def _context(result: Result, others: Sequence[Result]) -> dict[str, Any]:
    labels, content = joint_labels(result.robot.joint_names), result.content
    pose = worst_pose(result.robot, content)
    compared = comparison([result, *others]) if others else None
    rows = parameter_rows(result)
    stages = used_stages(rows)
    names = STAGE_NAMES | ({} if result.campaign else {"ols": "unconstrained"})
    data = chart_data(result, pose, labels) | {
        "comparison": compared and compared["charts"],
        "path": {
            "names": [row["name"] for row in rows],
            "stages": {names[one]: [row["moved"].get(one) for row in rows] for one in stages},
        },
    }
    motions, sets = set_rows(result)
    return {
        "title": result.robot.file.title,
        "name": result.name,
        "words": in_words(result),
        "tiles": tiles(result),
        "checks": check_rows(result),
        "labels": labels,
        "content": content,
        "campaign": result.campaign,
        "motion_errors": result.motion_errors(),
        "motions": result.motions,
        "shown": MOST_MOTIONS,
        "parameters": rows,
        "stages": stages,
        "stage_names": names,
        "method": content.provenance.get("method"),
        "method_words": METHOD_WORDS.get(content.provenance.get("method", ""), ""),
        "method_stages": method_stages(result, names),
        "data_cloud": data["cloud"],
        "data_conditioning": data["conditioning"],
        "frictions": friction_rows(result),
        "friction_curves": drawings(result, labels),
        "ladder": ladder_rows(result),
        "adaptive": adaptive_section(content.provenance.get("adaptive")),
        "margins": link_margins(result.robot, content),
        "slides": result.robot.prismatic,
        "pose": pose,
        "held_motions": motions,
        "sets": sets,
        "projection": projection_sentence(result),
        "spreads": spread_rows(result),
        "settings": yaml_text(content.provenance.get("settings", {})),
        "written": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "versions": {"dynid (this report)": __version__, "Python": platform.python_version()}
        | {name: version(name) for name in LIBRARIES},
        "comparison": compared,
        "data": embedded(data),
        "style": _asset("report.css"),
        "scripts": [_asset("charts.js"), _asset("report.js")],
    }


def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def embedded(data: Any) -> str:
    """Return data as JSON in which "<" is escaped, so that it cannot end the script element that contains it."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
