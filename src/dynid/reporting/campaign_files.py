"""A campaign's result as files: the model in all its forms, the tables, a summary, and the stored runs."""

import json
import shutil
from pathlib import Path
from typing import Any

from dynid.identification.campaign.campaign import Campaign
from dynid.identification.campaign.representative import PathRescue
from dynid.identification.campaign.store import run_file
from dynid.identification.campaign.tables import campaign_tables
from dynid.identification.pipeline import write_model
from dynid.model.model_file import ModelFile
from dynid.reporting.bars import write_campaign_figures
from dynid.reporting.result_writer import add_report
from dynid.resources import whole_folder, write_whole


def campaign_model_file(campaign: Campaign) -> ModelFile:
    """The result as the content of model.yaml."""
    content, run = campaign.result.model_file(), campaign.representative
    more = {
        "representative": {"run": run.label, "reason": campaign.cloud.representative.reason},
        "standard_deviations": "the larger of the fit's own and the scatter over the campaign's motions",
        "projection_distance": campaign.result.consistent.distance,
        "failures": dict(campaign.failures),
    }
    return content.model_copy(update={"provenance": content.provenance | more})


def summary(campaign: Campaign) -> dict[str, Any]:
    """The campaign as plain values, for a program to read."""
    run, study = campaign.representative, campaign.study
    outcomes = [one.outcome for one in campaign.runs]
    return {
        "schema_version": 1,
        "accepted": campaign.verdict.accepted,
        "representative": {"run": run.label, "rank": campaign.cloud.representative.rank, "route": run.route},
        "reason": campaign.cloud.representative.reason,
        "runs": len(campaign.runs),
        "reused": campaign.reused,
        "outcomes": {name: outcomes.count(name) for name in ("feasible", "rescued", "refused")},
        "refusals": {one.label: one.refusal for one in campaign.runs if not one.accepted},
        "failures": dict(campaign.failures),
        "routing": {f"{interval * 1e3:g}": row for interval, row in campaign.routing().items()},
        "spread": [
            {"stage": one.stage, "sampling_ms": one.interval_s and one.interval_s * 1e3, "trace": one.trace}
            for one in campaign.cloud.spreads
        ],
        "rescue": _rescue(study.path_rescue),
        "lambda_min": campaign.result.audit.lambda_min,
        "held_out": {
            name: {one.name: one.as_dict(campaign.robot.joint_names) for one in motions}
            for name, motions in study.held_out.items()
        },
        "checks": campaign.verdict.as_dict()["checks"],
        "processing": campaign.processing.as_dict()["checks"],
        "torques": campaign.result.torque_sentence,
        "seconds": campaign.seconds,
    }


def _rescue(way: PathRescue | str) -> dict[str, Any]:
    if isinstance(way, str):
        return {"failed": way}
    return {
        "lambda_min_before": way.clie_audit.lambda_min,
        "lambda_min_after": way.rescued_audit.lambda_min,
        "largest_change": float(abs(way.rescued.values - way.clie.values).max()),
    }


def write_campaign(campaign: Campaign, folder: Path, runs: Path, *, report: bool = False) -> None:
    """Write everything into a new folder, all or nothing, and move the stored runs there.

    Args:
        campaign: the result.
        folder: must not exist.
        runs: folder of the stored runs; they leave it once they are in the new folder.
        report: write report.html, too.

    Raises:
        OutputExistsError: the folder exists.
    """
    with whole_folder(folder) as work:
        write_model(work, campaign.result, campaign_model_file(campaign))
        for name, text in campaign_tables(campaign).items():
            write_whole(work / "tables" / f"{name}.csv", text)
        write_campaign_figures(work / "figures", found := summary(campaign))
        write_whole(work / "campaign.json", json.dumps(found, indent=1) + "\n")
        if report:
            add_report(campaign.robot, work, campaign.result.motions, folder)
        (work / "runs").mkdir()
        stored = [runs / run_file(run.bag, run.key) for run in campaign.runs]
        for path in stored:
            shutil.copy(path, work / "runs")
    for path in stored:
        path.unlink()
    if not any(runs.iterdir()):  # runs of other settings stay
        runs.rmdir()
