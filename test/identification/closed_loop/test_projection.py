"""Projections: feasible at new poses, nearest by the optimality conditions, and failures with a message."""

import numpy as np
import pytest
from arms import arm, auditor, nominal, published
from scipy.optimize import nnls

from dynid.errors import DataError, InfeasibleError
from dynid.identification.closed_loop.cut_program import nearest_under_cuts
from dynid.identification.closed_loop.projection import ProjectionResult, project
from dynid.model.parameters import BaseParameters, physical_lower_bounds
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
PUBLISHED = published()
AUDITOR = auditor("crane_x7")


def disturbed(scale: float, seed: int = 3) -> BaseParameters:
    noise = np.random.default_rng(seed).normal(size=39)
    return PUBLISHED.with_values(PUBLISHED.values + scale * noise)


def independent_minimum(result: ProjectionResult) -> float:
    """lambda_min over fresh random poses and another seed's search, by the reference model's matrices."""
    q = np.random.default_rng(21).uniform(ROBOT.audit_lower, ROBOT.audit_upper, (4000, 7))
    searched = AUDITOR.audit(result.base, poses=200_000, seed=99).pose
    q = np.r_[np.c_[q, np.zeros(len(q))], searched[None]]
    return float(np.linalg.eigvalsh(MODEL.inertia_matrix(q, result.base)).min())


@pytest.mark.slow
@pytest.mark.parametrize("eps", [0.0, 2e-4, 1e-3, 5e-3])
@pytest.mark.parametrize("scale", [0.0, 3e-3])
def test_the_result_is_feasible_on_fresh_poses(eps: float, scale: float) -> None:
    result = project(AUDITOR, disturbed(scale), eps)
    assert result.audit.passed and result.audit.certificate == "searched" and result.eps == eps
    assert independent_minimum(result) >= eps - 2e-5
    assert result.audit.lambda_min < eps + 2.5e-6  # and hardly more than asked for
    assert result.cuts > 0 and result.rounds > 0


def test_the_correction_of_the_published_model_is_small() -> None:
    result = project(AUDITOR, PUBLISHED, 0.0)
    assert result.distance == pytest.approx(7.7e-4, abs=1e-5)
    assert result.distance == np.linalg.norm(result.base.values - PUBLISHED.values)


def rows_of_active_poses(phi: BaseParameters, eps: float) -> FloatArray:
    """v' dM v rows by the reference model, at minima that lie within a hair of eps; one sample does not show all."""
    poses = np.concatenate([AUDITOR.audit(phi, limit=eps + 1e-5, seed=seed).worst_poses for seed in range(1, 5)])
    M = MODEL.inertia_matrix(poses, phi)
    values, vectors = np.linalg.eigh(M)
    at, which = np.nonzero(values < eps + 1e-5)
    v = vectors[at, :, which]
    return np.einsum("na,nabp,nb->np", v, MODEL.inertia_regressor(poses[at]), v)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.0, 1e-3])
def test_the_projection_satisfies_the_kkt_conditions(scale: float) -> None:
    """phi - phi0 is a non-negative combination of active constraints' gradients (Karush-Kuhn-Tucker)."""
    start, eps = disturbed(scale, 4), 1e-3
    result = project(AUDITOR, start, eps)
    correction = result.base.values - start.values
    rows = rows_of_active_poses(result.base, eps)
    _, residual = nnls(rows.T, correction)
    assert residual < 0.05 * np.linalg.norm(correction)


def test_the_quadratic_program_meets_its_optimality_conditions() -> None:
    rng = np.random.default_rng(5)
    phi0, cuts, bounds = rng.normal(size=6), rng.normal(size=(15, 6)), rng.normal(size=15)
    cuts[:, 0] += 3.0  # a feasible direction exists
    phi = nearest_under_cuts(phi0, cuts, bounds)
    slack = cuts @ phi - bounds
    assert slack.min() > -1e-7
    _, residual = nnls(cuts[slack < 1e-6].T, phi - phi0)
    assert residual < 1e-6
    weight = np.diag([10.0, 1, 1, 1, 1, 1])
    weighted = nearest_under_cuts(phi0, cuts, bounds, weight)
    assert np.linalg.norm(weight @ (weighted - phi0)) < np.linalg.norm(weight @ (phi - phi0))
    assert np.linalg.norm(weighted - phi0) > np.linalg.norm(phi - phi0)


def test_a_feasible_model_stays_where_it_is() -> None:
    inside = project(AUDITOR, PUBLISHED, 2e-3).base
    again = project(AUDITOR, inside, 1e-3)
    assert again.distance == 0.0 and again.cuts == 0 and again.rounds == 0
    np.testing.assert_array_equal(again.base.values, inside.values)


@pytest.mark.slow
def test_metric_keeps_well_determined_parameters() -> None:
    known = np.array([name in ("ZZR1", "IA7", "XXR4") for name in MODEL.names])
    L = np.diag(np.where(known, 100.0, 1.0))
    plain, weighted = project(AUDITOR, PUBLISHED, 1e-3), project(AUDITOR, PUBLISHED, 1e-3, metric=L)
    moved = [np.abs(result.base.values - PUBLISHED.values)[known].max() for result in (plain, weighted)]
    assert moved[1] < 0.02 * moved[0]
    assert weighted.audit.passed and weighted.distance > plain.distance


def test_the_projection_keeps_lower_bounds() -> None:
    values = np.array(PUBLISHED.values)
    values[[MODEL.names.index("IA7"), MODEL.names.index("FV3")]] = [-1e-3, -0.02]
    lower = physical_lower_bounds(MODEL.names)
    result = project(AUDITOR, PUBLISHED.with_values(values), 1e-3, lower=lower)
    assert result.base["IA7"] > 0 and result.base["FV3"] > -1e-8 and result.audit.passed
    free = project(AUDITOR, PUBLISHED.with_values(values), 1e-3)
    assert free.base["FV3"] == pytest.approx(-0.02, abs=1e-9)


@pytest.mark.slow
def test_a_bound_alone_moves_a_feasible_model_and_its_own_margin_judges_it() -> None:
    inside = project(AUDITOR, PUBLISHED, 2e-4).base
    again = project(AUDITOR, inside, 1e-3)  # positive definite is not enough
    assert again.audit.limit == 1e-3 and again.audit.lambda_min >= 1e-3 and again.distance > 0.0
    lower = np.full(len(MODEL.names), -np.inf)
    k = MODEL.names.index("FV2")
    lower[k] = again.base["FV2"] + 0.01
    bounded = project(AUDITOR, again.base, 1e-3, lower=lower)
    assert bounded.base["FV2"] == pytest.approx(lower[k], abs=1e-8) and bounded.rounds >= 1
    assert bounded.distance == pytest.approx(0.01, rel=1e-3)
    assert project(AUDITOR, bounded.base, 1e-3, lower=lower).rounds == 0


def test_a_bound_is_met_within_the_accuracy_of_the_program() -> None:
    """1e-9: a model so near its bounds stays as it is."""
    phi, lower = nominal("crane_x7"), np.full(len(MODEL.names), -np.inf)
    k = MODEL.names.index("FV2")
    for short, moves in ((-1e-10, False), (0.9e-9, False), (1.5e-9, True)):
        lower[k] = phi["FV2"] + short
        found = project(AUDITOR, phi, 1e-3, lower=lower)
        assert bool(found.rounds) == (found.distance > 0.0) == moves and found.base["FV2"] >= lower[k] - 1e-9


def test_infeasible_projections_are_refused() -> None:
    with pytest.raises(InfeasibleError, match="in 1 rounds"):
        project(AUDITOR, disturbed(1e-2), 1e-3, maximum_rounds=1)
    with pytest.raises(InfeasibleError, match="2 cuts failed"):
        nearest_under_cuts(np.zeros(2), np.array([[1.0, 0.0], [-1.0, 0.0]]), np.ones(2))
    with pytest.raises(DataError, match="margin eps"):
        project(AUDITOR, PUBLISHED, -1e-3)
