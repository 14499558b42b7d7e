"""Single steps of the refinement: accepted trials, starting point, bounds and standard deviations."""

from dataclasses import replace

import numpy as np
import pytest
from arms import arm, auditor, nominal, published

from dynid.control.controller import load_controller
from dynid.errors import DataError
from dynid.identification.closed_loop.clie import (
    FIRST_DAMPING,
    MOST_DAMPING,
    ClieOptions,
    _feasible_start,
    _fixed_bounds,
)
from dynid.identification.closed_loop.clie import _Refinement as Refinement
from dynid.identification.closed_loop.loop_data import ClosedLoopData
from dynid.identification.closed_loop.simulation import ClosedLoop
from dynid.identification.estimators.uncertainty import score_covariance
from dynid.model.parameters import physical_lower_bounds
from dynid.robot import FloatArray, load_robot
from dynid.trajectory.families import load_excitation

pytestmark = pytest.mark.slow  # its kernels take a quarter of a minute to compile

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
PHI = nominal("crane_x7")
SETTINGS = load_controller(ROBOT)
MOTION = load_excitation(ROBOT).trajectory("PA02", "limited")
OPTIONS = ClieOptions(coarse_stride=8, fine_stride=8)  # one Jacobian for all steps


@pytest.fixture(scope="module")
def data() -> ClosedLoopData:
    """The nominal arm's commands, with noise of 0.05 N m."""
    times = np.arange(0.0, MOTION.duration, 0.001)
    q, dq, ddq = MOTION.sample_all(times)
    samples = np.arange(0.5, times[-1], 0.04)
    plain = ClosedLoopData(q, dq, ddq, samples, np.zeros((len(samples), 8)), np.array([q[0], dq[0]]))
    tau = ClosedLoop(MODEL, SETTINGS, plain).simulate(PHI).tau
    return replace(plain, tau=tau + np.random.default_rng(4).normal(0.0, 0.05, tau.shape))


def refinement(data: ClosedLoopData, share: float = 0.0, options: ClieOptions = OPTIONS) -> Refinement:
    """At the nominal parameters, all but those of friction off by a share."""
    loop = ClosedLoop(MODEL, SETTINGS, data, options.loop)
    return Refinement(loop, PHI.with_values((1.0 + share) * PHI.values), options, None)


def cost(search: Refinement, phi: FloatArray) -> float:
    return float(np.sum((search.loop.data.tau - search.loop.simulate(phi).tau) ** 2))


def test_a_worse_trial_raises_the_damping_and_a_better_one_is_taken(data: ClosedLoopData) -> None:
    search = refinement(data, 0.02)
    before, first = search.cost, search.phi
    assert before == pytest.approx(cost(search, first), rel=1e-12) and search.damping == FIRST_DAMPING
    for factor, damping in ((1.0200001, 10 * FIRST_DAMPING), (1.03, 100 * FIRST_DAMPING)):
        assert cost(search, factor * PHI.values) > before
        assert search._try(factor * PHI.values, 0.5 * before, 0.5)
        assert search.cost == before and search.phi is first
        assert search.damping == pytest.approx(damping, rel=1e-12)
    better, linear = PHI.values, cost(search, PHI.values)
    search._linearise()
    assert search.linearised  # once per point
    assert search._try(better, linear, 0.5)
    assert search.cost == linear and search.phi is better and not search.linearised
    assert search.damping == pytest.approx(10 * FIRST_DAMPING)  # it kept its promise: a tenth
    assert [one.accepted for one in search.iterations] == [False, False, True]
    assert [one.cost for one in search.iterations] == [before] * 3
    assert [one.found for one in search.iterations] == [
        pytest.approx(cost(search, factor * PHI.values), rel=1e-12) for factor in (1.0200001, 1.03, 1.0)
    ]
    assert [one.outcome for one in search.iterations] == ["completed"] * 3


@pytest.mark.parametrize(
    ("gain", "damping", "expected"),
    [(0.1, 1e-2, 1e-1), (0.1, 1e-9, FIRST_DAMPING), (0.5, 1e-2, 1e-2), (0.74, 1e-2, 1e-2), (0.9, 1e-2, 1e-3)],
)
def test_damping_follows_actual_over_predicted_cost_reduction(
    data: ClosedLoopData, gain: float, damping: float, expected: float
) -> None:
    search = refinement(data, 0.02)
    search.damping = damping
    search._linearise()
    promised = search.cost - (search.cost - cost(search, PHI.values)) / gain
    assert search._try(PHI.values, promised, 0.5)
    assert search.damping == pytest.approx(expected)


def test_a_trial_that_cannot_be_simulated_is_never_taken_and_too_much_damping_ends_it(data: ClosedLoopData) -> None:
    search = refinement(data, 0.02)
    indefinite = np.array(PHI.values)
    indefinite[PHI.names.index("ZZR1")] = -0.5
    search.restoring = True
    before = search.cost
    assert search._try(indefinite, 0.5 * before, np.inf)
    assert search.cost == before and search.restoring and not search.iterations[-1].accepted
    assert search.iterations[-1].found == np.inf and search.iterations[-1].outcome == "indefinite"
    search.damping = MOST_DAMPING / 10
    assert search._try(indefinite, 0.5 * before, np.inf)
    assert not search._try(indefinite, 0.5 * before, np.inf)


def test_a_step_that_restores_feasibility_may_cost_more(data: ClosedLoopData) -> None:
    search = refinement(data, 0.02)
    search.restoring, search.damping = True, 1e-2
    worse = 1.03 * PHI.values
    before = search.cost
    assert search._try(worse, 0.5 * before, np.inf)
    assert search.cost > before and search.phi is worse and not search.restoring
    assert search.damping == 1e-2 and search.expected == np.inf


def test_the_next_reduction_is_predicted_only_after_accurate_predictions(data: ClosedLoopData) -> None:
    """As far as the last one fell, and not before a first one."""
    for last, kept, expected in ((np.inf, 1.0, np.inf), (0.04, 1.0, 0.0025), (0.001, 1.0, 0.01), (0.04, 0.7, np.inf)):
        search = refinement(data, 0.02)
        search.last_promise = last
        search._linearise()
        promised = search.cost - (search.cost - cost(search, PHI.values)) / kept
        assert search._try(PHI.values, promised, 0.01)
        assert search.expected == pytest.approx(expected) and search.last_promise == 0.01
    coarse = refinement(data, 0.02, ClieOptions(coarse_stride=8, fine_stride=4))
    coarse.last_promise = 0.04
    assert coarse._try(PHI.values, cost(coarse, PHI.values), 0.01) and coarse.expected == np.inf


def test_a_trial_minimises_the_damped_linear_model(data: ClosedLoopData) -> None:
    search = refinement(data, 0.02)
    search.damping = 3e-2
    search._linearise()
    J = search.loop.jacobian(search.simulation, search.phi, 8).reshape(-1, len(search.phi))
    r = (data.tau - search.simulation.tau).ravel()
    D = np.diag((J**2).sum(axis=0))
    step = np.linalg.solve(J.T @ J + 3e-2 * D, J.T @ r)
    trial, promised = search._trial()
    np.testing.assert_allclose(trial - search.phi, step, rtol=1e-6, atol=1e-9)
    assert promised == pytest.approx(np.sum((r - J @ step) ** 2), rel=1e-9)
    assert promised < search.cost


def test_a_trial_at_a_bound_is_the_best_within_it(data: ClosedLoopData) -> None:
    """In the metric of the damped model: no other point within the bounds has a lower value."""
    search = refinement(data, 0.05, OPTIONS.model_copy(update={"bound_factor": 1.0, "eps": 0.0}))
    search._linearise()
    free = search.phi + search.scale**2 * search.gradient / (1 + search.damping)
    J = search.loop.jacobian(search.simulation, search.phi, 8).reshape(-1, len(search.phi))
    H, r = J.T @ J, (data.tau - search.simulation.tau).ravel()
    H += search.damping * np.diag(np.diag(H))
    trial, _ = search._trial()
    size = np.maximum(np.abs(1.05 * PHI.values), 1e-4)
    assert (np.abs(trial) <= size + 1e-8).all() and (np.abs(free) > size).any()

    def value(phi: FloatArray) -> float:
        step = phi - search.phi
        return float(step @ H @ step - 2.0 * (J.T @ r) @ step)

    rng, best = np.random.default_rng(1), value(trial)
    lower = np.maximum(-size, physical_lower_bounds(PHI.names))
    for spread in (1e-4, 1e-3, 1e-2):
        for _ in range(100):
            other = np.clip(trial + spread * rng.normal(size=len(trial)) * search.scale, lower, size)
            assert value(other) >= best - 1e-7 * abs(best)


def test_steps_stay_within_the_factor_of_the_first_values_and_friction_positive() -> None:
    rows, bounds = _fixed_bounds(PHI, ClieOptions(bound_factor=3.0))

    def within(name: str, value: float) -> bool:
        return bool((rows @ np.where(np.array(PHI.names) == name, value, PHI.values) >= bounds).all())

    for name, value in zip(PHI.names, PHI.values, strict=True):
        size = 3.0 * max(abs(value), 1e-4)
        assert within(name, 0.999 * size) and not within(name, 1.001 * size)
        assert within(name, -0.999 * size) != name.startswith(("IA", "FV")) and not within(name, -1.001 * size)
    _, tiny = _fixed_bounds(PHI.with_values(np.full(39, 1e-9)), ClieOptions(bound_factor=3.0))
    np.testing.assert_allclose(tiny[39:], -3e-4)


def test_the_start_keeps_margin_and_bounds() -> None:
    values = np.array(published().values)
    values[[PHI.names.index("IA7"), PHI.names.index("FV3")]] = [-1e-3, -0.02]
    phi, lower = PHI.with_values(values), physical_lower_bounds(PHI.names)
    clipped = _feasible_start(phi, OPTIONS, None).values
    np.testing.assert_array_equal(clipped, np.maximum(values, lower))
    options = ClieOptions(eps=3e-3)
    found = _feasible_start(phi, options, auditor("crane_x7"))
    assert (found.values >= lower - 1e-8).all()
    assert auditor("crane_x7").audit(found, limit=3e-3 - 1e-6, seed=9).passed


@pytest.mark.parametrize("weighted", [False, True])
def test_deviations_count_the_parameters_and_only_rows_that_are_trusted(data: ClosedLoopData, weighted: bool) -> None:
    """Against the sandwich by plain algebra, all of it: freedom, weights, and the load's own deviation."""
    if weighted:
        rng = np.random.default_rng(2)
        weights = np.where(rng.uniform(size=data.tau.shape) < 0.7, 1.0, 0.2)
        data = replace(data, weights=weights, load_deviation=rng.uniform(0.0, 0.1, data.tau.shape))
    search = refinement(data)
    found = search.covariance()
    weights = np.ones_like(data.tau) if data.weights is None else data.weights
    J = search.loop.jacobian(search.simulation, PHI.values, 8) * weights[:, :, None]
    residual = weights * (data.tau - search.simulation.tau)
    trusted = int((weights == 1.0).sum())
    inverse = np.linalg.inv(np.einsum("knp,knq->pq", J, J))
    scores = np.einsum("knp,kn->kp", J, residual)
    expected = trusted / (trusted - 39) * inverse @ score_covariance(scores, 0.04) @ inverse
    if data.load_deviation is not None:
        for axis in range(8):
            moved = inverse @ (J[:, axis].T @ (weights * data.load_deviation)[:, axis])
            expected = expected + np.outer(moved, moved)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert np.diag(found).min() > 0.0


def test_defaults_are_those_that_were_measured() -> None:
    """Those of the convergence that docs and benchmarks state."""
    assert ClieOptions().model_dump(exclude={"loop"}) == {
        "maximum_iterations": 40,
        "tolerance": 1e-7,
        "deviation_share": 0.1,
        "coarse_tolerance": 1e-4,
        "coarse_stride": 8,
        "fine_stride": 4,
        "bound_factor": 100.0,
        "eps": 1e-4,
    }


def test_a_trial_keeps_the_path_above_eps(data: ClosedLoopData) -> None:
    """Data of a lighter hand, whose rotor inertia is the smallest eigenvalue everywhere."""
    k = PHI.names.index("IA8")
    lighter = PHI.with_values(np.where(np.arange(39) == k, 0.7 * PHI["IA8"], PHI.values))
    told = replace(data, tau=ClosedLoop(MODEL, SETTINGS, data).simulate(lighter).tau)
    for share, least in ((0.9, 0.9), (0.5, 0.7)):
        search = refinement(told, options=OPTIONS.model_copy(update={"eps": share * PHI["IA8"]}))
        search._linearise()
        trial, promised = search._trial()
        assert trial[k] == pytest.approx(least * PHI["IA8"], rel=0.02)
        assert bool(search.cuts.count) == (share == 0.9)
        assert promised < search.cost


def test_a_cost_below_round_off_counts_as_converged(data: ClosedLoopData) -> None:
    search = refinement(data)
    search.cost = 0.99e-18 * float(np.sum(data.tau**2))
    assert search.run() == "converged" and search.iterations == []
    search.cost = 1.01e-18 * float(np.sum(data.tau**2))
    search.run()
    assert search.iterations


def test_iterations_are_limited_and_a_tolerance_ends_them(data: ClosedLoopData) -> None:
    short = refinement(data, 0.05, OPTIONS.model_copy(update={"maximum_iterations": 1}))
    assert short.run() == "iteration_limit" and len(short.iterations) == 1
    lax = refinement(data, 0.05, OPTIONS.model_copy(update={"tolerance": 0.9999, "coarse_tolerance": 0.9999}))
    assert lax.run() == "converged" and not lax.iterations
    done = refinement(data, 0.05)
    assert done.run() == "converged" and done.cost <= cost(refinement(data), PHI.values)
    assert all(one.accepted for one in done.iterations) and 2 <= len(done.iterations) <= 8


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_a_parameter_that_hardly_moves_the_torques_is_refused_in_any_unit(
    data: ClosedLoopData, unit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hardly: 1e-12 of what the parameter with the most effect does."""
    search, jacobian = refinement(data), ClosedLoop.jacobian
    search._linearise()
    lengths, k = 1.0 / search.scale, PHI.names.index("XXR4")
    for share, refused in ((1.5e-12, False), (0.9e-12, True), (0.0, True)):
        weak = np.full(len(lengths), unit)
        weak[k] *= share * lengths.max() / lengths[k]
        monkeypatch.setattr(ClosedLoop, "jacobian", lambda *given, weak=weak: weak * jacobian(*given))
        if refused:
            with pytest.raises(DataError, match="do not depend on XXR4, so"):
                search._linearise()
        else:
            search._linearise()
            assert 1.0 / search.scale[k] == pytest.approx(share * unit * lengths.max(), rel=1e-9)


def test_as_many_trusted_torques_as_parameters_are_too_few(data: ClosedLoopData) -> None:
    for count in (39, 40):
        weights = np.full(data.tau.shape, 0.5)
        weights.ravel()[np.linspace(0, weights.size - 1, count, dtype=int)] = 1.0
        search = refinement(replace(data, weights=weights))
        if count == 40:
            assert (np.diag(search.covariance()) > 0.0).all()
        else:
            with pytest.raises(DataError, match="39 torques at speed do not determine 39 parameters; record longer"):
                search.covariance()


def test_the_fine_jacobian_takes_over_when_predicted_gains_are_small(data: ClosedLoopData) -> None:
    search = refinement(data, 0.05, ClieOptions(coarse_stride=8, fine_stride=4))
    assert search.stride == 8 and search.run() == "converged"
    strides = [one.stride for one in search.iterations]
    assert strides[0] == 8 and strides == sorted(strides, reverse=True) and search.stride == 4
    assert all(one.cost - one.promised >= 1e-4 * one.cost for one in search.iterations if one.stride == 8)
