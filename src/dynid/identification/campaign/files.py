"""Files that a campaign's result contains in addition to the model: tables, a summary, and the records of all runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from dynid.identification.campaign.campaign import Campaign
from dynid.identification.campaign.representative import PathRescue
from dynid.identification.campaign.run import RunRecord, StageRecord, phi_of
from dynid.identification.campaign.store import run_file, run_text
from dynid.identification.campaign.tables import campaign_tables
from dynid.identification.result import Identification
from dynid.identification.stages import CampaignFiles, Stage, StageName


def identification_of(campaign: Campaign, stored: Path | None = None) -> Identification:
    """Return the result of a campaign as an `Identification` with intermediate results and additional files.

    The intermediate results (stages) are the parameters from least squares, projection and closed-loop refinement, from
    the run that was chosen to represent all runs.

    Args:
        campaign: the campaign.
        stored: folder of the stored runs, which are deleted after the result has been written; None if the folder is
            temporary.
    """
    run = campaign.representative
    files = CampaignFiles(
        provenance=_provenance(campaign),
        summary=summary(campaign),
        tables=campaign_tables(campaign),
        runs={run_file(one.bag, one.key): run_text(one) for one in campaign.runs},
        processing=campaign.processing,
        stored=stored,
    )
    how = f"{run.clie_reason.replace('_', ' ')} after {run.clie_steps} steps over {run.label}"
    stages = _stages(run, campaign.result.base.names)
    return replace(campaign.result, method="campaign", stages=stages, refinement=how, campaign=files)


def _stages(run: RunRecord, names: tuple[str, ...]) -> tuple[Stage, ...]:
    """Return the intermediate results of the run that was chosen to represent all runs of a campaign.

    They are the parameters from least squares ("ols"), projection ("sdp") and closed-loop refinement ("clie"). "final"
    is included only after a rescue, which projects refined parameters again if their inertia matrix is not positive
    definite.

    Args:
        run: record of the chosen run.
        names: names of the base parameters, (p,).
    """
    records: dict[StageName, StageRecord | None] = {"ols": run.ols, "sdp": run.sdp, "clie": run.clie}
    records["final"] = run.final if run.outcome == "rescued" else None
    return tuple(
        Stage(name, phi_of(one, names), one.rmse_nm, one.relative, one.lambda_min, one.seconds)
        for name, one in records.items()
        if one is not None
    )


def _provenance(campaign: Campaign) -> dict[str, Any]:
    """Return the entries of model.yaml that describe how a campaign computed the model.

    They are the chosen run, the origin of the parameters' standard deviations, the distance by which the projection to
    a physically consistent model changed the parameters, and the bags that could not be used.
    """
    run = campaign.representative
    return {
        "representative": {"run": run.label, "reason": campaign.cloud.representative.reason},
        "standard_deviations": "the larger of the fit's own and the scatter over the campaign's motions",
        "projection_distance": campaign.result.consistent.distance,
        "failures": dict(campaign.failures),
    }


def summary(campaign: Campaign) -> dict[str, Any]:
    """Return a summary of the campaign as plain values, which other programs can read as JSON."""
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
