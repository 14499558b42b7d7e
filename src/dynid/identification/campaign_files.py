"""A campaign's result as files: the model in all its forms, the tables, a summary, and the stored runs."""

import json
import shutil
from pathlib import Path
from typing import Any

from dynid import __version__
from dynid.identification.campaign import Campaign
from dynid.identification.campaign_store import run_file
from dynid.identification.campaign_tables import campaign_tables
from dynid.identification.coulomb import with_friction
from dynid.identification.held_out import errors_as_dict
from dynid.identification.model_file import ModelFile, accepted_by, friction_block, parameter_rows, save_model
from dynid.identification.representative import PathRescue
from dynid.identification.sources import torque_sentence
from dynid.identification.verdict import Verdict
from dynid.model.standard import to_file
from dynid.resources import whole_folder, write_whole
from dynid.simulation.export import write_exports


def campaign_model_file(campaign: Campaign) -> ModelFile:
    """The result as the content of model.yaml."""
    robot, study, run = campaign.robot, campaign.study, campaign.representative
    source = f"campaign of {len(campaign.runs)} runs; representative {run.label} ({run.route}), consistent projection"
    bags = {one.bag: one.bag_sha256 for one in campaign.runs}
    return ModelFile(
        robot=robot.name,
        structure_hash=campaign.model.structure_hash,
        mount=run.mount,
        torque_constants_nm_per_a=run.torque_constants_nm_per_a,
        feasibility="consistent",
        source=source,
        parameters=parameter_rows(campaign.model, study.consistent.base),
        coulomb_friction=friction_block(study.friction),
        standard=to_file(
            with_friction(study.consistent.standard, study.friction),
            campaign.model.mdh,
            robot.name,
            robot.joint_names,
            source,
        ),
        provenance={
            "dynid_version": __version__,
            "bags": [{"path": name, "sha256": digest} for name, digest in bags.items()],
            "settings": campaign.settings.model_dump(mode="json"),
            "torques": torque_sentence(run.torque_constants_nm_per_a, robot.joint_names),
            "representative": {"run": run.label, "reason": campaign.cloud.representative.reason},
            "standard_deviations": "the larger of the fit's own and the scatter over the motions of the campaign",
            "projection_distance": study.consistent.distance,
            "failures": dict(campaign.failures),
        },
        **accepted_by(study.verdict),
    )


def summary(campaign: Campaign) -> dict[str, Any]:
    """The campaign as plain values, for a program to read."""
    run, study = campaign.representative, campaign.study
    outcomes = [one.outcome for one in campaign.runs]
    return {
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
        "lambda_min": study.audit.lambda_min,
        "held_out": {
            name: {one.name: errors_as_dict(one, campaign.robot.joint_names) for one in validations}
            for name, validations in study.held_out.items()
        },
        "checks": _checks(campaign.verdict),
        "processing": _checks(campaign.processing),
        "torques": torque_sentence(run.torque_constants_nm_per_a, campaign.robot.joint_names),
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


def _checks(verdict: Verdict) -> list[dict[str, Any]]:
    return [check.model_dump(mode="json") | {"passed": check.passed} for check in verdict.checks]


def write_campaign(campaign: Campaign, folder: Path, runs: Path) -> None:
    """Write everything into a new folder, all or nothing, and move the stored runs there.

    Args:
        campaign: the result.
        folder: must not exist.
        runs: folder of the stored runs; they leave it once they are in the new folder.

    Raises:
        OutputExistsError: the folder exists.
    """
    with whole_folder(folder) as work:
        save_model(work / "model.yaml", campaign_model_file(campaign))
        write_exports(
            work, campaign.robot, campaign.model.mdh,
            with_friction(campaign.study.consistent.standard, campaign.study.friction), campaign.representative.mount,
        )  # fmt: skip
        for name, text in campaign_tables(campaign).items():
            write_whole(work / "tables" / f"{name}.csv", text)
        write_whole(work / "campaign.json", json.dumps(summary(campaign), indent=1) + "\n")
        (work / "runs").mkdir()
        stored = [runs / run_file(run.bag, run.key) for run in campaign.runs]
        for path in stored:
            shutil.copy(path, work / "runs")
    for path in stored:
        path.unlink()
    if not any(runs.iterdir()):  # runs of other settings stay
        runs.rmdir()
