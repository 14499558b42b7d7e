"""Conic programs against cvxpy, which builds them independently; and a solver that stalls."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from arms import arm, published

from dynid.errors import InfeasibleError
from dynid.identification.feasibility import conic
from dynid.identification.feasibility.conic import ATTEMPTS, minimise, norm_below, positive, semidefinite, zero
from dynid.identification.feasibility.consistent import (
    BOX_RESERVE,
    FRICTION,
    MARGIN_RESERVE,
    SPREAD_RESERVE,
    consistent_interior,
    consistent_projection,
    largest_room,
)
from dynid.model.parameters import MINIMUM_ROTOR_INERTIA
from dynid.model.standard import pseudo_inertia
from dynid.model.within_limits import link_rows
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
BOUNDS = ROBOT.file.physical_bounds
PUBLISHED = published()
Attempt = Callable[[Any, dict[str, float]], tuple[str, FloatArray]]


@pytest.mark.parametrize("seed", range(6))
def test_every_kind_of_cone_is_as_cvxpy_has_it(seed: int) -> None:
    """A random bounded program with all of them, each of which decides: without it the minimum is lower."""
    rng = np.random.default_rng(seed)
    n, k = 7, 4
    c, inside = rng.normal(size=n), rng.normal(size=n)
    rows, equal, ball = rng.normal(size=(3, n)), rng.normal(size=(2, n)), rng.normal(size=(n, n))
    matrices = rng.normal(size=(n, k, k))
    matrices += matrices.swapaxes(1, 2)
    here = np.tensordot(inside, matrices, 1)
    constant = np.eye(k) * 0.3 - here
    cones = [
        positive(rows, 0.2 - rows @ inside),
        zero(equal, -equal @ inside),
        norm_below(ball, -ball @ inside, np.zeros(n), 3.0),
        semidefinite(matrices.reshape(n, -1).T, constant.ravel()),
    ]
    x = cp.Variable(n)
    constraints = [
        rows @ (x - inside) + 0.2 >= 0,
        equal @ (x - inside) == 0,
        cp.norm(ball @ (x - inside)) <= 3.0,
        sum(x[i] * matrices[i] for i in range(n)) + constant >> 0,
    ]
    found = minimise(c, cones, "it", "no cure")
    least = cp.Problem(cp.Minimize(c @ x), constraints).solve(solver=cp.CLARABEL)
    assert c @ found == pytest.approx(least, abs=1e-6) and c @ found < c @ inside - 0.01
    assert max(one.violation(found) for one in cones) < 1e-6
    for one in cones:
        assert one.violation(inside) <= 1e-12
    away = inside + 10.0 * np.linalg.svd(np.vstack([rows, equal]))[2][0]
    assert max(one.violation(away) for one in cones) > 0.1


def reference(phi: FloatArray | None) -> tuple[float, FloatArray]:
    """By cvxpy, from the definitions: the distance of the nearest consistent model to phi, or the largest room."""
    names, limits = MODEL.regrouping.standard, MODEL.limits(BOUNDS)
    pi, room = cp.Variable(len(names)), cp.Variable()
    constraints, unit = [room == 0.0] if phi is not None else [room <= 1.0], np.diag([0.01, 0.01, 0.01, 0.1])
    for j, link in enumerate(limits.links):
        ten = pi[10 * j : 10 * j + 10]
        entries = np.array([pseudo_inertia(one) for one in np.eye(10)]).reshape(10, 16)
        J = cp.reshape(entries.T @ ten, (4, 4), order="C")
        spread = (limits.spread * SPREAD_RESERVE) ** 2 * np.diag([1.0, 1.0, 1.0, 0.0])
        # room counts in tenths of a kilogram and a metre
        constraints.append(J - ten[9] * spread - limits.margin * MARGIN_RESERVE * np.eye(4) >> room * unit * 0.1)
        G, h = link_rows(link, MODEL.mdh.in_link[j], BOX_RESERVE)
        constraints.append(G @ ten >= h + room)
    constraints.append(limits.total_mass - cp.sum(pi[9 : 10 * MODEL.chain_size : 10]) >= 0.1 * room)
    for k, name in enumerate(names):
        kind = name.rstrip("0123456789")
        if kind == "IA":
            constraints.append((pi[k] - MINIMUM_ROTOR_INERTIA) * 1000.0 >= room)
        elif kind in FRICTION:
            constraints.append(pi[k] * 10.0 >= room)
        elif kind in ("XY", "XZ", "YZ"):
            constraints.append(pi[k] == 0.0)
    if phi is None:
        problem = cp.Problem(cp.Maximize(room), [*constraints, pi <= 100.0, pi >= -100.0])
    else:
        problem = cp.Problem(cp.Minimize(cp.norm(MODEL.regrouping.K @ pi - phi)), constraints)
    return float(problem.solve(solver=cp.CLARABEL)), np.asarray(pi.value)


def test_the_projection_is_the_nearest_model_by_cvxpy() -> None:
    rng = np.random.default_rng(0)
    for size in (0.0, 0.3, 0.8):
        disturbed = PUBLISHED.with_values(PUBLISHED.values * (1.0 + size * rng.normal(size=len(PUBLISHED.values))))
        found = consistent_projection(MODEL, disturbed, BOUNDS)
        least, pi = reference(disturbed.values)
        assert found.distance == pytest.approx(least, rel=1e-4, abs=1e-5)
        np.testing.assert_allclose(found.base.values, MODEL.regrouping.K @ pi, atol=1e-4)


def test_the_largest_room_is_that_of_cvxpy() -> None:
    limits = MODEL.limits(BOUNDS)
    assert largest_room(MODEL, limits) == pytest.approx(reference(None)[0], rel=1e-4)
    assert np.isfinite(consistent_interior(MODEL, limits)).all()


def attempts(monkeypatch: pytest.MonkeyPatch, attempt: Attempt) -> list[dict[str, float]]:
    """Replace the solver; returns the options of the attempts made."""
    tried: list[dict[str, float]] = []

    def recorded(data: Any, options: dict[str, float]) -> tuple[str, FloatArray]:
        tried.append(options)
        return attempt(data, options)

    monkeypatch.setattr(conic, "_attempt", recorded)
    return tried


def test_a_stall_of_the_solver_costs_another_attempt_but_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed, real = consistent_projection(MODEL, PUBLISHED, BOUNDS), conic._attempt
    tried = attempts(
        monkeypatch,
        lambda data, options: real(data, options) if options else ("InsufficientProgress", np.zeros(len(data[1]))),
    )
    again = consistent_projection(MODEL, PUBLISHED, BOUNDS)
    np.testing.assert_allclose(again.base.values, undisturbed.base.values, atol=1e-6)
    assert len(tried) == 4  # of two stages


def test_solver_without_a_solution_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = attempts(monkeypatch, lambda data, _: ("NumericalError", np.full(len(data[1]), np.nan)))
    with pytest.raises(InfeasibleError, match=r"first stage: the solver gave up 3 times \(NumericalError\)"):
        consistent_projection(MODEL, PUBLISHED, BOUNDS)
    assert tried == list(ATTEMPTS)


def test_an_inaccurate_solution_is_improved_by_another_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed, real = consistent_projection(MODEL, PUBLISHED, BOUNDS), conic._attempt

    def inaccurate_at_the_default(data: Any, options: dict[str, float]) -> tuple[str, FloatArray]:
        status, x = real(data, options)
        return (status, x) if options else ("AlmostSolved", 1.001 * x)

    tried = attempts(monkeypatch, inaccurate_at_the_default)
    again = consistent_projection(MODEL, PUBLISHED, BOUNDS)
    np.testing.assert_allclose(again.base.values, undisturbed.base.values, atol=1e-6)
    assert len(tried) >= 4


@pytest.mark.parametrize(
    ("values", "best"),
    [
        ([[1.0, 1.0], [3.0, 3.0], [2.0, 2.0]], [3.0, 3.0]),
        ([[4.0, 2.5], [3.5, 3.0], [30.0, 5.0]], [3.5, 3.0]),  # of all entries of all cones
    ],
)
def test_of_inaccurate_solutions_the_least_violation_counts(
    monkeypatch: pytest.MonkeyPatch, values: list[list[float]], best: list[float]
) -> None:
    left = list(values)
    attempts(monkeypatch, lambda *_: ("AlmostSolved", np.array(left.pop(0))))
    eye = np.eye(2)
    cones = [positive(eye, np.full(2, -4.0)), positive(-eye, np.full(2, 9.0))]
    assert minimise(np.ones(2), cones, "it", "no cure").tolist() == best and not left


def test_every_attempt_has_settings_of_its_own_that_the_solver_takes() -> None:
    """Shorter and shorter steps to the boundary, which is at 1."""
    steps = [options.get("max_step_fraction", 0.99) for options in ATTEMPTS]
    assert steps == sorted(set(steps), reverse=True) and steps[0] < 1.0
    data = conic._standard_form(np.ones(1), [positive(np.eye(1), np.array([-4.0]))])
    for options in ATTEMPTS:
        status, x = conic._attempt(data, options)
        assert status == "Solved" and x[0] == pytest.approx(4.0, abs=1e-6)


def test_a_proof_ends_the_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver itself returns the proof of infeasibility."""
    tried = attempts(monkeypatch, conic._attempt)
    one = np.eye(1)
    with pytest.raises(InfeasibleError, match="it: infeasible; no cure"):
        minimise(np.ones(1), [positive(one, np.array([-4.0])), positive(-one, np.array([3.0]))], "it", "no cure")
    with pytest.raises(InfeasibleError, match="it: unbounded; no cure"):
        minimise(-np.ones(1), [positive(one, np.array([-4.0]))], "it", "no cure")
    assert len(tried) == 2


def test_a_program_that_was_proven_infeasible_has_no_inaccurate_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses = ["AlmostSolved", "PrimalInfeasible"]
    attempts(monkeypatch, lambda *_: (statuses.pop(0), np.ones(2)))
    with pytest.raises(InfeasibleError, match="it: infeasible; no cure"):
        minimise(np.ones(2), [positive(np.eye(2), np.full(2, -4.0))], "it", "no cure")
    assert statuses == []


def test_unproven_solution_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = attempts(monkeypatch, lambda data, _: ("AlmostPrimalInfeasible", np.zeros(len(data[1]))))
    with pytest.raises(InfeasibleError, match="gave up 3 times"):
        minimise(np.ones(1), [positive(np.eye(1), np.array([-4.0]))], "it", "no cure")
    assert len(tried) == 3
