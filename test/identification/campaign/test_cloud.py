"""The cloud of parameter sets: a common basis, computed independently; the choice in three steps; a faulty stage."""

from dataclasses import replace

import numpy as np
import pytest

from dynid.errors import DataError
from dynid.identification.campaign.cloud import (
    STAGES,
    Candidate,
    analyse_cloud,
    central_distances,
    principal_basis,
    with_scatter,
)
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

NAMES = tuple(f"P{k}" for k in range(6))
INTERVALS = (0.01, 0.02, 0.04, 0.08)
TRUTH = np.array([0.1, -0.2, 0.03, 0.4, 0.005, 0.0])
MIXING = np.random.default_rng(0).normal(size=(6, 6))


def campaign(spread: tuple[float, float, float] = (1.0, 0.6, 0.2), per_interval: int = 10) -> list[Candidate]:
    rng = np.random.default_rng(1)
    runs = []
    for interval in INTERVALS:
        for k in range(per_interval):
            ols, sdp, clie = (TRUTH + 0.01 * s * rng.normal(size=6) @ MIXING for s in spread)
            runs.append(Candidate(f"T{k:02d}", interval, NAMES, ols, sdp, clie, lambda_min=1e-3, validation_error=0.1))
    return runs


def sets(runs: list[Candidate], stage: str) -> FloatArray:
    return np.array([getattr(run, stage.lower()) for run in runs])


def test_the_basis_is_that_of_the_pooled_covariance() -> None:
    runs = campaign()
    cloud = analyse_cloud(runs)
    pooled = np.concatenate([sets(runs, stage) for stage in STAGES])
    values, vectors = np.linalg.eigh(np.cov(pooled.T))  # an eigenvalue problem instead of our singular values
    np.testing.assert_allclose(cloud.explained, values[::-1] / values.sum(), atol=1e-12)
    np.testing.assert_allclose(np.abs(cloud.basis.T @ vectors[:, ::-1]), np.eye(6), atol=1e-6)
    np.testing.assert_allclose(cloud.centre, pooled.mean(axis=0), atol=1e-15)
    for stage in STAGES:
        back = cloud.scores[stage] @ cloud.basis.T + cloud.centre
        np.testing.assert_allclose(back, sets(runs, stage), atol=1e-14)


def test_signs_of_the_basis_are_fixed() -> None:
    data = np.random.default_rng(2).normal(size=(30, 6)) @ MIXING
    _, basis, _ = principal_basis(data)
    _, mirrored, _ = principal_basis(data[::-1] - 5.0)
    np.testing.assert_allclose(basis, mirrored, atol=1e-10)
    assert (basis[np.abs(basis).argmax(axis=0), range(6)] > 0).all()


def test_spreads_equal_the_traces_of_covariances() -> None:
    runs = campaign()
    cloud = analyse_cloud(runs)
    for stage in STAGES:
        assert cloud.spread(stage) == pytest.approx(np.trace(np.cov(sets(runs, stage).T)))
        for interval in INTERVALS:
            some = [run for run in runs if run.interval_s == interval]
            assert cloud.spread(stage, interval) == pytest.approx(np.trace(np.cov(sets(some, stage).T)))
    with pytest.raises(DataError, match=r"0\.03"):
        cloud.spread("OLS", 0.03)


def test_a_contracting_cloud_is_accepted_and_a_planted_bad_stage_is_not() -> None:
    good = analyse_cloud(campaign())
    assert good.verdict.accepted and len(good.verdict.checks) == 4
    assert not analyse_cloud(campaign((1.0, 0.6, 1.8))).verdict.accepted
    rng = np.random.default_rng(3)
    planted = [
        replace(run, clie=run.clie + 0.1 * rng.normal(size=6)) if run.interval_s == 0.04 else run for run in campaign()
    ]
    failed = analyse_cloud(planted).verdict.failed
    assert [check.name for check in failed] == ["spread of CLIE at 40 ms (limit: spread of OLS)"]


def test_a_single_run_at_an_interval_fails_the_spread_check() -> None:
    runs = [run for run in campaign() if run.interval_s != 0.08 or run.trajectory == "T00"]
    assert [check.name for check in analyse_cloud(runs).verdict.failed] == [
        "spread of CLIE at 80 ms (limit: spread of OLS)"
    ]


def test_one_motion_alone_has_no_spread_to_check() -> None:
    assert analyse_cloud([run for run in campaign() if run.trajectory == "T00"]).verdict.checks == ()


def chosen(runs: list[Candidate], **arguments: float) -> tuple[Candidate, str, bool]:
    representative = analyse_cloud(runs, **arguments).representative  # type: ignore[arg-type]
    return runs[representative.index], representative.reason, representative.needs_rescue


def central(count: int = 60) -> list[Candidate]:
    """Runs whose CLIE sets lie at known distances 0, 1, 2, ... from the median, in both directions."""
    rng = np.random.default_rng(4)
    runs = []
    for k in range(count):
        offset = np.zeros(6)
        offset[k % 6] = 1e-3 * (k // 12) * (1 if (k // 6) % 2 else -1) + 1e-6 * k
        ols = TRUTH + 0.05 * rng.normal(size=6)
        runs.append(Candidate(f"T{k:02d}", 0.04, NAMES, ols, ols, TRUTH + offset, 1e-3, 0.10 + 0.001 * k))
    return runs


def test_the_best_validated_central_run_is_chosen() -> None:
    runs = central()
    order = analyse_cloud(runs).distances.argsort()
    favourite, far = int(order[3]), int(order[-1])
    runs[favourite] = replace(runs[favourite], validation_error=0.05)
    runs[far] = replace(runs[far], validation_error=0.01)  # better, but not central
    run, reason, rescue = chosen(runs)
    assert run is runs[favourite] and not rescue
    assert "rank 4" in reason and "predicts the motions that choose best" in reason and run.label in reason


def test_feasibility_comes_before_validation() -> None:
    runs = central()
    order = analyse_cloud(runs).distances.argsort()
    best, second = int(order[0]), int(order[2])
    runs[best] = replace(runs[best], validation_error=0.01, lambda_min=-1e-4)
    runs[second] = replace(runs[second], validation_error=0.02)
    run, reason, _ = chosen(runs, lambda_min_limit=1e-4)
    assert run is runs[second] and "as for 5 of these 6" in reason


def test_without_a_feasible_run_a_rescue_is_requested() -> None:
    runs = [replace(run, lambda_min=-2e-3) for run in central()]
    _, reason, rescue = chosen(runs)
    assert rescue and "must be rescued" in reason
    unaudited = [replace(run, lambda_min=float("nan")) for run in central()]
    assert chosen(unaudited)[2]


def test_without_held_out_motions_the_most_central_one_is_taken() -> None:
    runs = [replace(run, validation_error=float("nan")) for run in central()]
    run, reason, _ = chosen(runs)
    assert run is runs[int(analyse_cloud(runs).distances.argmin())] and "without motions to choose by" in reason


def test_the_choice_depends_on_no_units() -> None:
    """In kg cm instead of kg m^2, say: parameters times factors keep their distances, which are not plain ones."""
    runs, factors = campaign(), np.array([1e4, 1.0, 100.0, 1e-3, 50.0, 1.0])
    other = [replace(run, ols=run.ols * factors, sdp=run.sdp * factors, clie=run.clie * factors) for run in runs]
    plain, scaled = analyse_cloud(runs), analyse_cloud(other)
    np.testing.assert_allclose(scaled.distances, plain.distances, rtol=1e-9)
    assert scaled.representative.index == plain.representative.index
    clie = sets(runs, "CLIE")
    middle = np.linalg.norm(clie - np.median(clie, axis=0), axis=1)
    assert np.corrcoef(middle, plain.distances)[0, 1] < 0.99


def test_distances_are_mahalanobis_where_runs_are_many() -> None:
    data = np.random.default_rng(5).normal(size=(4000, 6)) @ MIXING
    left = data - np.median(data, axis=0)
    exact = np.sqrt(np.einsum("ki,ij,kj->k", left, np.linalg.inv(np.cov(data.T)), left))
    np.testing.assert_allclose(central_distances(data), exact, rtol=0.1)
    assert not central_distances(np.ones((5, 3))).any()


def test_outlier_set_does_not_shift_the_median() -> None:
    runs = central()
    before = chosen(runs)[0].trajectory
    runs.append(replace(runs[0], trajectory="STRAY", clie=TRUTH + 1e3))
    assert chosen(runs)[0].trajectory == before


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda runs: runs[:2], "at least 3 runs, got 2"),
        (lambda runs: [*runs, replace(runs[0], names=NAMES[::-1])], "another model"),
        (lambda runs: [*runs, replace(runs[0], clie=runs[0].clie * np.nan)], "T00 at 10 ms: the CLIE parameters"),
        (lambda runs: [*runs, replace(runs[0], sdp=runs[0].sdp[:3])], "6 finite values"),
    ],
)
def test_unusable_clouds_are_refused(spoil: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        analyse_cloud(spoil(campaign()))  # type: ignore[operator]


def test_deviations_hold_the_scatter_over_motions() -> None:
    covariance = np.array([[4.0, 1.0], [1.0, 1.0]])
    own = BaseParameters(("A1", "B1"), np.zeros(2), covariance)
    sets = np.array([[0.0, 0.0], [0.0, 6.0], [0.0, 3.0]])  # B scatters by 3, A not at all
    found = with_scatter(own, sets)
    np.testing.assert_allclose(found.standard_deviations, [2.0, 3.0])
    assert found.covariance is not None and found.covariance[0, 1] == pytest.approx(3.0)  # correlations stay
    assert with_scatter(own, sets[:2]) is own
    np.testing.assert_allclose(
        with_scatter(BaseParameters(("A1", "B1"), np.zeros(2)), sets).standard_deviations, [0, 3]
    )
