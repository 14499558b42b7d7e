"""Tables of a campaign as CSV (arXiv:2605.15949, Tables III, VI, VII and Appendix A)."""

import csv
import io
from collections.abc import Iterable, Sequence

import numpy as np

from dynid.identification.campaign.campaign import Campaign
from dynid.identification.campaign.representative import PathRescue
from dynid.identification.campaign.run import RunRecord, StageRecord
from dynid.model.parameters import parameter_unit

STAGES = ("ols", "sdp", "clie", "final")
Cell = str | float | int | bool | None


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return CSV text of a header and rows; None becomes an empty cell, and numbers have full precision."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return stream.getvalue()


def campaign_tables(campaign: Campaign) -> dict[str, str]:
    """Return all tables of a campaign as CSV text, by file name without suffix."""
    tables = {
        "runs": runs_table(campaign.runs),
        "run_parameters": run_parameters_table(campaign.runs, campaign.result.base.names),
        "routing": _routing(campaign),
        "cloud_spread": _spread(campaign),
        "cloud_scores": _scores(campaign),
        "validation": _validation(campaign),
        "parameters": _parameters(campaign),
        "failures": csv_text(("bag", "reason"), sorted(campaign.failures.items())),
    }
    if isinstance(campaign.study.path_rescue, PathRescue):
        tables["rescue"] = _rescue(campaign, campaign.study.path_rescue)
    return tables


def runs_table(runs: Sequence[RunRecord]) -> str:
    """Return a CSV table with one line per run of a campaign.

    The columns include the condition number of the regressor (kappa), and whether the inertia matrix M(q) is positive
    definite for the least-squares parameters (ols_pd). The column route is "O-C" if these parameters were refined
    directly, "O-S-C" if they were projected first; eps_pd is the smallest eigenvalue of M that the projection permitted
    [kg m^2]. Further columns contain the smallest eigenvalue of M, torque errors and duration of each stage: least
    squares ("ols"), projection ("sdp"), closed-loop refinement ("clie") and end of the run ("final"). The last columns
    describe the refinement in the closed loop, and the duration, refusal and failed data checks of the run.
    """
    header = ["bag", "trajectory", "sampling_ms", "samples", "kappa", "ols_pd", "route", "eps_pd", "outcome"]
    header += [f"{stage}_{what}" for stage in STAGES for what in ("lambda_min", "rmse_nm", "relative", "seconds")]
    header += ["closed_loop_rmse_before_nm", "closed_loop_rmse_nm", "clie_reason", "clie_steps", "seconds", "refusal"]
    header.append("findings")
    rows: list[list[Cell]] = []
    for run in runs:
        pd = "" if run.ols is None else ("Y" if run.ols.lambda_min > 0 else "N")
        row: list[Cell] = [run.bag, run.trajectory, _ms(run), run.samples, run.kappa, pd, run.route, run.eps_kg_m2]
        row.append(run.outcome)
        for stage in _stages(run):
            row += [None] * 4 if stage is None else [stage.lambda_min, stage.rmse_nm, stage.relative, stage.seconds]
        row += run.closed_loop_rmse_nm or (None, None)
        row += [run.clie_reason, run.clie_steps, run.seconds, run.refusal, " | ".join(run.findings)]
        rows.append(row)
    return csv_text(header, rows)


def _ms(run: RunRecord) -> float:
    return round(run.interval_s * 1e3, 6)


def _stages(run: RunRecord) -> tuple[StageRecord | None, ...]:
    return run.ols, run.sdp, run.clie, run.final


def run_parameters_table(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    """Return a CSV table of all base parameters, with one line per run and stage.

    A run is the identification from one bag at one sampling interval. Its stages are least squares ("ols"), projection
    to a positive-definite inertia matrix ("sdp"), closed-loop refinement ("clie") and the end of the run ("final").

    Args:
        runs: the runs of a campaign.
        names: names of the base parameters, (p,).
    """
    rows: list[list[Cell]] = [
        [run.bag, _ms(run), stage, *record.phi]
        for run in runs
        for stage, record in zip(STAGES, _stages(run), strict=True)
        if record is not None
    ]
    return csv_text(["bag", "sampling_ms", "stage", *names], rows)


def _routing(campaign: Campaign) -> str:
    """Return Table III of arXiv:2605.15949 as CSV, with additional columns for failed and refused runs.

    The table contains the number of runs by sampling interval, and by whether the least-squares parameters ("ols") were
    projected to a positive-definite inertia matrix ("sdp") before the closed-loop refinement ("clie"). The column
    "unrouted" counts the other runs, which failed before or during the refinement. "refused" counts all runs without a
    feasible result, whichever of these columns they belong to.
    """
    header = ("sampling_ms", "ols_pd_to_clie", "ols_to_sdp_to_clie", "unrouted", "refused", "total")
    counts = {round(interval * 1e3, 6): list(row.values()) for interval, row in campaign.routing().items()}
    rows: list[list[Cell]] = [[interval, *row] for interval, row in counts.items()]
    sums = [sum(column) for column in zip(*counts.values(), strict=True)]
    return csv_text(header, [*rows, ["all", *sums]])


def _spread(campaign: Campaign) -> str:
    rows = [
        ["all" if one.interval_s is None else round(one.interval_s * 1e3, 6), one.stage, one.trace, one.runs]
        for one in campaign.cloud.spreads
    ]
    return csv_text(("sampling_ms", "stage", "trace_of_covariance", "runs"), rows)


def _scores(campaign: Campaign) -> str:
    """Return a CSV table of the parameter sets' first three principal components (arXiv:2605.15949, Fig. 7)."""
    cloud = campaign.cloud
    count = min(3, cloud.basis.shape[1])
    header = ["bag", "sampling_ms", "stage", *(f"pc{k + 1}" for k in range(count)), "distance_to_median"]
    rows = [
        [run.trajectory, round(run.interval_s * 1e3, 6), stage, *scores[k, :count].tolist(), distance]
        for stage, scores in cloud.scores.items()
        for k, run in enumerate(cloud.candidates)
        for distance in [float(cloud.distances[k]) if stage == "CLIE" else None]
    ]
    return csv_text(header, rows)


def _rescue(campaign: Campaign, way: PathRescue) -> str:
    """Return Table VI of arXiv:2605.15949 as CSV: the change of each parameter by the rescue, largest change first.

    The rescue is the projection of the refined parameters to the nearest model with positive-definite inertia.

    Args:
        campaign: the campaign.
        way: result of that paper's method, with the parameters before and after the rescue.
    """
    names, clie, rescued = campaign.result.base.names, way.clie.values, way.rescued.values
    change = rescued - clie
    rows = [
        [names[k], parameter_unit(names[k]), float(clie[k]), float(rescued[k]), float(change[k])]
        for k in np.argsort(-np.abs(change), kind="stable").tolist()
    ]
    return csv_text(("parameter", "unit", "clie", "rescued", "change"), rows)


def _validation(campaign: Campaign) -> str:
    """Return Table VII of arXiv:2605.15949 as CSV: the errors of every parameter set on every held-out bag.

    RMSE, MNE (mean absolute error divided by the range of the torque) and relative error are given for all axes
    together and per axis.
    """
    joints = campaign.robot.joint_names
    rows: list[list[Cell]] = []
    for name, validations in campaign.study.held_out.items():
        for one in validations:
            errors = one.errors
            rows.append([name, one.name, "all", errors.rmse, errors.mne, errors.relative])
            rows += [
                [name, one.name, joint, *map(float, values)]
                for joint, *values in zip(
                    joints, errors.rmse_per_axis, errors.mne_per_axis, errors.relative_per_axis, strict=True
                )
            ]
    return csv_text(("parameters", "bag", "axis", "rmse_nm", "mne", "relative"), rows)


def _parameters(campaign: Campaign) -> str:
    """Return a CSV table of the parameters of the campaign's result, with their standard deviations.

    The result was computed from one run (identification from one bag at one sampling interval), which was chosen to
    represent all runs. Further columns contain the parameters of this run from least squares ("ols"), from their
    projection to a positive-definite inertia matrix ("sdp"), from the closed-loop refinement ("clie"), and at the end
    of the run ("final").
    """
    base = campaign.result.base
    deviations = base.standard_deviations
    stages = [None if stage is None else stage.phi for stage in _stages(campaign.representative)]
    rows = [
        [
            name,
            parameter_unit(name),
            float(base.values[k]),
            None if deviations is None else float(deviations[k]),
            *(None if phi is None else phi[k] for phi in stages),
        ]
        for k, name in enumerate(base.names)
    ]
    return csv_text(("parameter", "unit", "value", "standard_deviation", *STAGES), rows)
