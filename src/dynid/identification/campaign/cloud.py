"""Cloud of a campaign's parameter sets, and choice of the set that represents the arm (arXiv:2605.15949, VI-A, VI-B).

Each run (the identification from one bag at one sampling interval) gives a set of base parameters at each of three
stages. OLS is the result of ordinary least squares. SDP is the set at which the closed-loop refinement starts: the OLS
set projected to a model with positive-definite inertia, or OLS itself if no projection was needed. CLIE is the result
of the closed-loop refinement. The sets of all stages are compared in one common principal-component basis (fig. 7 of
that paper). The spread of a stage is the trace of the covariance of its scores. The spread does not depend on the
rotation of the basis, only on the scale of the parameters.

The representative is chosen among the CLIE sets in three steps. First, the most central sets are shortlisted. Second,
infeasible sets are removed from the shortlist. If no feasible set remains, the chosen set must be projected to a
positive-definite model again (rescue). Third, the set with the smallest error on some held-out recordings is chosen.
These recordings are not used for the later check of the result. Centrality is measured by the Mahalanobis distance to
the cloud's median, which is independent of units. Median and covariance are estimated robustly, so that outliers have
little effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from dynid.errors import DataError
from dynid.identification.campaign.checks import CONTRACTION, Contraction
from dynid.identification.checks import judge
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only
from dynid.verdict import Verdict

Stage = Literal["OLS", "SDP", "CLIE"]
STAGES: tuple[Stage, ...] = get_args(Stage)
SHORTLIST_SHARE = 0.1
SHORTLIST_LEAST = 5
FEWEST_RUNS = 3
MEDIAN_TO_SIGMA = 1.4826  # standard deviation over median absolute deviation, for a normal distribution
CLIP_DEVIATIONS = 3.0  # standard deviations at which values are clipped for correlations


@dataclass(frozen=True, eq=False)
class Candidate:
    """Parameter sets of one run of a campaign (one bag at one sampling interval): initial, projected and refined.

    Attributes:
        trajectory: name of the run's bag.
        interval_s: sampling interval [s].
        names: names of the base parameters, (p,).
        ols: parameters from ordinary least squares, (p,).
        sdp: parameters from which the closed-loop refinement (CLIE) started, (p,).
        clie: parameters from the closed-loop refinement, (p,).
        lambda_min: smallest eigenvalue of the inertia matrix M for the CLIE set, found over many poses [kg m^2]; NaN if
            it was not computed.
        validation_error: relative torque error of the CLIE set on the held-out recordings by which a run is chosen; NaN
            without held-out recordings.
    """

    trajectory: str
    interval_s: float
    names: tuple[str, ...]
    ols: FloatArray
    sdp: FloatArray
    clie: FloatArray
    lambda_min: float = float("nan")
    validation_error: float = float("nan")

    @property
    def label(self) -> str:
        """Name of the run for messages: its bag and its sampling interval, such as 'AG02 at 40 ms'."""
        return f"{self.trajectory} at {self.interval_s * 1e3:g} ms"

    def stage(self, name: Stage) -> FloatArray:
        """Return the parameters (p,) of the run from one stage of the identification.

        Args:
            name: "OLS" (ordinary least squares), "SDP" (start of the refinement, projected if necessary) or "CLIE"
                (closed-loop refinement).
        """
        return {"OLS": self.ols, "SDP": self.sdp, "CLIE": self.clie}[name]


@dataclass(frozen=True)
class Spread:
    """Scatter of the parameter sets that a campaign's runs have after one stage of the identification.

    Attributes:
        stage: "OLS" (ordinary least squares), "SDP" (start of the closed-loop refinement) or "CLIE" (refinement).
        interval_s: sampling interval of the runs [s]; None means all intervals.
        trace: trace of the covariance of the sets' scores in the principal-component basis.
        runs: number of runs.
    """

    stage: Stage
    interval_s: float | None
    trace: float
    runs: int


@dataclass(frozen=True, eq=False)
class Representative:
    """Choice of the run that represents the arm.

    Attributes:
        index: index of the run among the candidates.
        rank: rank by centrality in the cloud; 1 is the most central run.
        needs_rescue: whether the smallest eigenvalue of the inertia matrix M is below its limit, so that the parameters
            must be projected to a positive-definite model again.
        reason: reason for the choice, in words.
    """

    index: int
    rank: int
    needs_rescue: bool
    reason: str


@dataclass(frozen=True, eq=False)
class Cloud:
    """Statistical analysis of the parameter sets of a campaign's runs; arrays are read-only.

    Attributes:
        candidates: the N runs.
        centre: mean of the parameter sets of all runs and stages, (p,).
        basis: principal directions as columns, (p, k), in descending order of variance.
        explained: fraction of the total variance per direction, (k,).
        scores: coordinates of the sets in this basis, per stage, (N, k).
        spreads: scatter per stage and sampling interval, and over all intervals.
        distances: Mahalanobis distances of the CLIE (refined) sets to their median, (N,) [-].
        representative: the chosen run.
        verdict: one check per sampling interval: the CLIE (refined) sets must not scatter more than the OLS
            (least-squares) sets.
    """

    candidates: tuple[Candidate, ...]
    centre: FloatArray
    basis: FloatArray
    explained: FloatArray
    scores: dict[Stage, FloatArray]
    spreads: tuple[Spread, ...]
    distances: FloatArray
    representative: Representative
    verdict: Verdict

    def spread(self, stage: Stage, interval_s: float | None = None) -> float:
        """Return the scatter (covariance trace) of the parameter sets after one stage of the identification.

        Args:
            stage: "OLS" (ordinary least squares), "SDP" (start of the closed-loop refinement) or "CLIE" (refinement).
            interval_s: sampling interval of the runs [s]; None means all intervals.

        Raises:
            DataError: no run has this interval.
        """
        for one in self.spreads:
            if one.stage == stage and one.interval_s == interval_s:
                return one.trace
        raise DataError(f"no run of the cloud has a sampling interval of {interval_s} s")


def principal_basis(sets: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean, principal directions and fractions of variance of parameter sets (N, p).

    The shapes are (p,), (p, k) with directions as columns, and (k,).

    The largest entry of each direction is positive, so that signs are equal on all machines.
    """
    centre = sets.mean(axis=0)
    _, singular, directions = np.linalg.svd(sets - centre, full_matrices=False)
    largest = np.abs(directions).argmax(axis=1)
    directions *= np.sign(directions[np.arange(len(directions)), largest])[:, None]
    power = singular**2
    return centre, directions.T, power / max(float(power.sum()), np.finfo(float).tiny)


def analyse_cloud(candidates: Sequence[Candidate], *, lambda_min_limit: float = 0.0) -> Cloud:
    """Analyse the parameter sets of a campaign's runs, and choose the run that represents all of them.

    A run is the identification from one bag at one sampling interval.

    Args:
        candidates: the runs.
        lambda_min_limit: smallest permitted eigenvalue of the inertia matrix M [kg m^2]. A run is not feasible if M has
            a smaller eigenvalue for its refined (CLIE) parameters.

    Raises:
        DataError: there are fewer than three runs, the runs have different base parameters, or values are not finite.
    """
    runs = tuple(candidates)
    _refuse_unusable(runs)
    stacked = np.array([[run.stage(stage) for run in runs] for stage in STAGES])  # (3, N, p)
    pooled = stacked.reshape(-1, stacked.shape[-1])
    centre, basis, explained = principal_basis(pooled)
    scores: dict[Stage, FloatArray] = {
        stage: read_only((stacked[k] - centre) @ basis) for k, stage in enumerate(STAGES)
    }
    spreads = _spreads(runs, scores)
    distances = central_distances(stacked[STAGES.index("CLIE")])
    return Cloud(
        candidates=runs,
        centre=read_only(centre),
        basis=read_only(basis),
        explained=read_only(explained),
        scores=scores,
        spreads=spreads,
        distances=read_only(distances),
        representative=_choose(runs, distances, lambda_min_limit),
        verdict=judge(CONTRACTION, _contractions(spreads)),
    )


def central_distances(sets: FloatArray) -> FloatArray:
    """Return the Mahalanobis distances (N,) of parameter sets (N, p) to their median.

    Median and covariance are robust against outliers: standard deviations are estimated from median absolute
    deviations, and correlations from values clipped at `CLIP_DEVIATIONS`. Correlations are shrunk towards zero
    (Schaefer and Strimmer 2005), because there are often fewer sets than parameters. A parameter without scatter is
    ignored.
    """
    left = sets - np.median(sets, axis=0)
    deviations = MEDIAN_TO_SIGMA * np.median(np.abs(left), axis=0)
    deviations = np.where(deviations > 0.0, deviations, left.std(axis=0))
    z = left[:, deviations > 0.0] / deviations[deviations > 0.0]
    if not z.shape[1]:
        return np.zeros(len(sets))
    inner = np.clip(z, -CLIP_DEVIATIONS, CLIP_DEVIATIONS)
    inner = (inner - inner.mean(axis=0)) / np.maximum(inner.std(axis=0), np.finfo(float).tiny)
    correlation, count = inner.T @ inner / len(inner), len(inner)
    products = inner[:, :, None] * inner[:, None, :]
    chance = np.sum((products - correlation) ** 2, axis=0) / (count * (count - 1))
    apart = ~np.eye(len(correlation), dtype=bool)
    whole = float(np.sum(correlation[apart] ** 2))
    share = min(1.0, float(chance[apart].sum()) / whole) if whole > 0.0 else 1.0
    shrunk = np.where(apart, (1.0 - share) * correlation, 1.0)
    return np.asarray(np.sqrt(np.einsum("ki,ki->k", z, z @ np.linalg.pinv(shrunk, hermitian=True))))


def _refuse_unusable(runs: tuple[Candidate, ...]) -> None:
    if len(runs) < FEWEST_RUNS:
        raise DataError(f"a cloud needs at least {FEWEST_RUNS} runs, got {len(runs)}")
    for run in runs:
        if run.names != runs[0].names:
            raise DataError(f"{run.label} belongs to another model than {runs[0].label}; a cloud needs one model")
        for stage in STAGES:
            values = run.stage(stage)
            if np.shape(values) != (len(run.names),) or not np.isfinite(values).all():
                raise DataError(f"{run.label}: the {stage} parameters must be {len(run.names)} finite values")


def _spreads(runs: tuple[Candidate, ...], scores: dict[Stage, FloatArray]) -> tuple[Spread, ...]:
    """Return the scatter of parameter sets, first over all runs, then for each sampling interval.

    There is one entry for each stage of the identification: "OLS" (ordinary least squares), "SDP" (start of the
    closed-loop refinement) and "CLIE" (refinement). The scatter is the trace of the covariance; it is NaN for an
    interval with only one run.

    Args:
        runs: the N runs.
        scores: coordinates of the sets in the principal-component basis, per stage, (N, k).
    """
    interval = np.array([run.interval_s for run in runs])
    rows = []
    for chosen in (None, *sorted(set(interval.tolist()))):
        member = np.ones(len(runs), dtype=bool) if chosen is None else interval == chosen
        for stage in STAGES:
            count = int(member.sum())
            trace = float(scores[stage][member].var(axis=0, ddof=1).sum()) if count > 1 else float("nan")
            rows.append(Spread(stage, chosen, trace, count))
    return tuple(rows)


def with_scatter(base: BaseParameters, sets: FloatArray) -> BaseParameters:
    """Return parameters whose standard deviations are at least the scatter of parameter sets from several motions.

    Stiction changes an estimate differently for each motion, because joints stick at different times. The standard
    deviations of a single estimate do not show this effect, but the scatter of several estimates does. Standard
    deviations of zero stay zero. If there are fewer than `FEWEST_RUNS` sets, the parameters are returned unchanged.

    Args:
        base: the parameters.
        sets: parameter sets from k motions, (k, p) [SI].
    """
    if len(sets) < FEWEST_RUNS:
        return base
    scatter, own = sets.std(axis=0, ddof=1), base.standard_deviations
    if own is None:
        return BaseParameters(base.names, base.values, np.diag(scatter**2))
    assert base.covariance is not None
    factor = np.maximum(1.0, np.divide(scatter, own, np.ones_like(own), where=own > 0.0))
    return BaseParameters(base.names, base.values, base.covariance * np.outer(factor, factor))


def _contractions(spreads: tuple[Spread, ...]) -> list[Contraction]:
    """Return the scatter of a campaign's parameter sets, one entry per sampling interval.

    An entry contains the scatter after least squares (OLS), projection (SDP) and closed-loop refinement (CLIE).

    The list is empty if every interval has only one run, because one set has no scatter.
    """
    if max(one.runs for one in spreads if one.interval_s is not None) < 2:
        return []
    trace = {(one.stage, one.interval_s): one.trace for one in spreads}
    counts = {one.interval_s: one.runs for one in spreads if one.interval_s is not None}
    return [
        Contraction(1e3 * interval, runs, *(trace[stage, interval] for stage in STAGES))
        for interval, runs in counts.items()
    ]


def _choose(runs: tuple[Candidate, ...], distances: FloatArray, limit: float) -> Representative:
    """Choose the run that represents all runs: by centrality, then feasibility, then error on held-out recordings.

    Args:
        runs: the N runs.
        distances: Mahalanobis distances of the runs' refined sets to the median, (N,).
        limit: lower limit of the inertia matrix's eigenvalues for a feasible run [kg m^2].
    """
    order = np.argsort(distances, kind="stable")
    shortlist = order[: max(SHORTLIST_LEAST, round(SHORTLIST_SHARE * len(runs)))]
    feasible = [int(k) for k in shortlist if runs[k].lambda_min >= limit]
    pool = feasible or [int(k) for k in shortlist]
    validated = [k for k in pool if np.isfinite(runs[k].validation_error)]
    # without recordings to choose by, the most central set is taken
    index = min(validated, key=lambda k: runs[k].validation_error) if validated else pool[0]
    rank = int(np.flatnonzero(order == index)[0]) + 1
    run = runs[index]
    sentences = [
        f"{run.label} lies {distances[index]:.3g} deviations from the median of the {len(runs)} CLIE sets: rank {rank} "
        f"by distance, and so one of the {len(shortlist)} most central"
    ]
    if feasible:
        sentences.append(
            f"its inertia matrix is positive definite over the audit domain (lambda_min {run.lambda_min:.3g} kg m^2), "
            f"as for {len(feasible)} of these {len(shortlist)}"
        )
    else:
        sentences.append(
            f"none of these {len(shortlist)} reaches a lambda_min of {limit:.3g} kg m^2 (this one: "
            f"{run.lambda_min:.3g}), so it must be rescued"
        )
    if validated:
        sentences.append(
            f"of the remaining {len(validated)} it predicts the motions that choose best, with a relative torque error "
            f"of {run.validation_error:.3g}"
        )
    else:
        sentences.append("without motions to choose by, the most central set was chosen")
    return Representative(index, rank, not feasible, "; ".join(sentences) + ".")
