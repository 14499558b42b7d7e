"""Cutting planes within an optimiser's step: poses of cuts, and the nearest point by an independent program."""

import cvxpy as cp
import numpy as np
import pytest
from arms import arm, auditor, nominal, published

from dynid.errors import InfeasibleError
from dynid.identification.closed_loop import cuts as cuts_module
from dynid.identification.closed_loop.cut_program import RESERVE, Cuts, nearest_under_cuts
from dynid.identification.closed_loop.cuts import CutSet
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
PHI = nominal("crane_x7").values
AUDITOR = auditor("crane_x7")
P = len(MODEL.names)
NONE = (np.zeros((0, P)), np.zeros(0))


def poses(count: int, seed: int = 1) -> FloatArray:
    q = np.random.default_rng(seed).uniform(ROBOT.audit_lower, ROBOT.audit_upper, (count, 7))
    return np.c_[q, np.zeros(count)]


def eigenvalues(q: FloatArray, phi: FloatArray = PHI) -> FloatArray:
    return np.asarray(np.linalg.eigvalsh(MODEL.inertia_matrix(q, nominal("crane_x7").with_values(phi))))


def test_every_eigenvector_below_the_target_is_a_cut_and_no_other() -> None:
    q = poses(3)
    values = np.sort(eigenvalues(q).ravel())
    fixed = np.eye(P)[:2], np.array([-5.0, -6.0])
    for count in (0, 1, 5, values.size):
        middle = values[0] / 2 if not count else values[-1] * 2 if count == values.size else values[[count - 1, count]]
        found = Cuts(AUDITOR.functions, float(np.mean(middle)) - RESERVE, fixed)
        assert found.add(q, PHI) == found.count == count
        assert found.rows.shape == (2 + count, P) and len(found.bounds) == 2 + count
        np.testing.assert_array_equal(found.rows[:2], fixed[0])
        np.testing.assert_allclose(np.sort(found.rows[2:] @ PHI), values[:count], atol=1e-12)
        np.testing.assert_allclose(found.bounds[2:], np.mean(middle))
    assert found.add(q[:1], PHI) == 8 and found.count == values.size + 8  # they only grow


@pytest.mark.parametrize("with_domain", [False, True])
def test_path_pose_with_eigenvalue_below_eps_gives_a_cut(with_domain: bool) -> None:
    path = poses(5, seed=2)
    lowest = np.sort(eigenvalues(path)[:, 0])
    domain = AUDITOR if with_domain else None
    if with_domain:  # everything that the domain's own sample shows is above: only the path counts
        lowest = lowest[:1] * 0 + AUDITOR.audit(nominal("crane_x7")).lambda_min
        path = AUDITOR.audit(nominal("crane_x7")).pose[None]
    for beyond, expected in ((-0.5 * RESERVE, False), (-1e-5, False), (1e-8, True), (1e-5, True)):
        cuts = CutSet(MODEL, float(lowest[0]) + beyond, domain, NONE)
        cuts.follow(path)
        found = cuts.add_violated(PHI)
        assert found == cuts.count and bool(found) == expected
        assert found < 2 or with_domain  # the sample has the same minimum at more poses


def test_violated_poses_of_earlier_paths_stay_in_the_cut_set() -> None:
    path = poses(40, seed=3)
    lowest = eigenvalues(path)[:, 0]
    cuts = CutSet(MODEL, float(np.median(lowest)), None, NONE)
    assert cuts.add_violated(PHI) == 0
    cuts.follow(path)
    below = int((eigenvalues(path) < np.median(lowest) + RESERVE).sum())
    assert cuts.add_violated(PHI) == below >= 20
    cuts.follow(path[:0])
    assert cuts.add_violated(PHI) == below  # the poses are known, though the path is another
    assert cuts.add_violated(2.0 * PHI) == 0 and cuts.count == 2 * below
    assert CutSet(MODEL, 0.0, None, NONE).audit(nominal("crane_x7")) is None


def test_a_long_path_adds_a_limited_number_of_cuts_at_once() -> None:
    path = poses(400, seed=4)
    lowest = np.sort(eigenvalues(path)[:, 0])
    cuts = CutSet(MODEL, float(lowest[40:42].mean()) - RESERVE, None, NONE)
    cuts.follow(path)
    assert cuts.add_violated(PHI) == 32
    assert (cuts.rows @ PHI < cuts.bounds).all()


def test_the_domain_is_screened_and_audited_at_eps() -> None:
    phi = published()
    cuts = CutSet(MODEL, 1e-3, AUDITOR, NONE)
    assert cuts.add_violated(phi.values) > 0  # without any path
    assert cuts.add_violated(PHI) == 0
    lambda_min = AUDITOR.audit(nominal("crane_x7")).lambda_min
    between = CutSet(MODEL, lambda_min + 1e-4, AUDITOR, NONE)
    found = between.audit(nominal("crane_x7"))
    assert found is not None and not found.passed and found.limit == lambda_min + 1e-4
    assert between.count >= len(found.worst_poses) >= 1
    below = CutSet(MODEL, lambda_min - 0.5 * RESERVE, AUDITOR, NONE)
    found = below.audit(nominal("crane_x7"))
    assert found is not None and found.passed and below.count == 0


def independent(target: FloatArray, rows: FloatArray, bounds: FloatArray, metric: FloatArray) -> FloatArray:
    x = cp.Variable(len(target))
    cp.Problem(cp.Minimize(cp.sum_squares(metric @ (x - target))), [rows @ x >= bounds]).solve(solver=cp.CLARABEL)
    return np.asarray(x.value)


@pytest.mark.parametrize("count", [30, 200])
def test_the_nearest_point_in_a_metric_is_that_of_all_cuts_at_once(count: int) -> None:
    """Also where more cuts are violated than join a program at once, and again from where it ended."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(count, P))
    inside, target = 3.0 * rng.normal(size=P), rng.normal(size=P)
    bounds = rows @ inside - rng.uniform(0.0, 1.0, count)
    mixing = rng.normal(size=(P, P)) + 4.0 * np.diag(rng.uniform(0.2, 3.0, P))
    scale = 10.0 ** rng.uniform(-2, 1, P)
    cuts = CutSet(MODEL, 0.0, None, (rows, bounds))
    for metric in (mixing, np.eye(P)):
        expected = independent(target, rows, bounds, metric)
        for _ in range(2):
            found = cuts.nearest(target, metric, scale)
            assert (rows @ found - bounds).min() > -1e-7
            np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_array_equal(cuts.nearest(inside, mixing, scale), inside / scale * scale)
    moved = 2.0 * target - inside  # and from another target the cuts that held the last one need not hold it
    np.testing.assert_allclose(cuts.nearest(moved, mixing, scale), independent(moved, rows, bounds, mixing), atol=5e-5)


def test_a_cut_that_the_solution_barely_violates_is_met() -> None:
    rows, bounds = np.zeros((2, P)), np.array([1.0, -(1.0 - 5e-8)])
    rows[0, 0], rows[1, :2] = 1.0, (-1.0, 1.0)
    cuts = CutSet(MODEL, 0.0, None, (rows, bounds))
    found = cuts.nearest(np.zeros(P), np.eye(P), np.ones(P))
    assert (rows @ found - bounds).min() > -5e-9
    assert found[0] == pytest.approx(1.0, abs=1e-6) and np.abs(found[1:]).max() < 2e-5


def test_a_point_exactly_on_a_cut_stays_and_the_solver_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    on = np.array([1.0, 2.0])
    with np.errstate(all="raise"):  # a shortfall of zero is no unit
        found = nearest_under_cuts(on, np.eye(2), np.array([1.0, -5.0]))
    np.testing.assert_array_equal(found, on)
    found[0] = 9.0
    assert on[0] == 1.0  # a copy
    nearest_under_cuts(on, np.eye(2), np.array([3.0, -5.0]))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("size", [1e-12, 1e-4, 1.0, 1e6, 1e12])
def test_the_unit_of_a_metric_does_not_matter(size: float) -> None:
    rng = np.random.default_rng(8)
    cuts, bounds, metric = rng.normal(size=(3, 3)), np.array([1.0, 2.0, 0.5]), rng.normal(size=(3, 3))
    expected = independent(np.zeros(3), cuts, bounds, metric)
    np.testing.assert_allclose(nearest_under_cuts(np.zeros(3), cuts, bounds, size * metric), expected, atol=1e-5)


def test_cuts_that_exclude_everything_are_refused() -> None:
    rows = np.zeros((2, P))
    rows[:, 0] = 1.0, -1.0
    with pytest.raises(InfeasibleError, match="quadratic program"):
        CutSet(MODEL, 0.0, None, (rows, np.ones(2))).nearest(np.zeros(P), np.eye(P), np.ones(P))
    with pytest.raises(InfeasibleError, match="no parameter of this model changes the inertia"):
        CutSet(MODEL, 0.0, None, (np.eye(P)[:2] * [[0], [1]], np.ones(2))).nearest(np.zeros(P), np.eye(P), np.ones(P))


def test_a_stalled_solver_takes_shorter_steps_and_a_wrong_answer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from dynid.identification.closed_loop import cut_program

    fractions, solver = [], cut_program.clarabel.DefaultSolver

    class Stalling:
        def __init__(self, *arguments: object) -> None:
            fractions.append(arguments[-1].max_step_fraction)  # type: ignore[attr-defined]
            self.solved = solver(*arguments).solve()

        def solve(self) -> object:
            if len(fractions) < 3:
                self.solved = type("Stalled", (), {"status": cut_program.clarabel.SolverStatus.NumericalError, "x": []})
            return self.solved

    monkeypatch.setattr(cut_program.clarabel, "DefaultSolver", Stalling)
    found = nearest_under_cuts(np.zeros(2), np.eye(2), np.array([1.0, -1.0]))
    np.testing.assert_allclose(found, [1.0, 0.0], atol=1e-8)
    assert fractions == sorted(fractions, reverse=True) and len(set(fractions)) == 3 and max(fractions) < 1.0
    with pytest.raises(InfeasibleError, match="PrimalInfeasible"):  # proven: nothing is gained by another attempt
        nearest_under_cuts(np.zeros(1), np.array([[1.0], [-1.0]]), np.ones(2))
    assert len(fractions) == 4


@pytest.mark.parametrize(
    ("bound", "short", "met"), [(1.0, 2.4e-10, True), (1.0, 1e-10, False), (99.0, 1.5e-8, True), (99.0, 5e-9, False)]
)
def test_a_cut_counts_as_met_within_the_tolerance_of_its_own_size(bound: float, short: float, met: bool) -> None:
    """1e-10 of 1 + | bound |, of a row of unit length: what is within it is left exactly where it is."""
    row = np.eye(P)[:1]
    target = (bound - short) * row[0]
    found = CutSet(MODEL, 0.0, None, (7.0 * row, np.array([7.0 * bound]))).nearest(target, np.eye(P), np.ones(P))
    assert (found[0] > target[0]) == met and (found[1:] == 0.0).all()
    assert found[0] == pytest.approx(bound if met else target[0], rel=0, abs=0.1 * short)


def test_few_cuts_join_a_program_at_once_and_those_that_held_begin_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, sizes = np.random.default_rng(6), []

    def counted(start: FloatArray, rows: FloatArray, bounds: FloatArray, metric: FloatArray) -> FloatArray:
        sizes.append(len(rows))
        return nearest_under_cuts(start, rows, bounds, metric)

    monkeypatch.setattr(cuts_module, "nearest_under_cuts", counted)
    rows, inside = rng.normal(size=(200, P)), 3.0 * rng.normal(size=P)
    bounds = rows @ inside - rng.uniform(0.0, 1.0, 200)
    bounds *= 30.0  # also after scaling most are beyond 1
    cuts, target = CutSet(MODEL, 0.0, None, (rows, bounds)), rng.normal(size=P)
    found = cuts.nearest(target, np.eye(P), np.ones(P))
    slack = (rows @ found - bounds) / np.linalg.norm(rows, axis=1)
    assert len(sizes) > 1 and sizes[0] == 40 and (np.diff(sizes) > 0).all() and sizes[-1] < 200
    held = int((slack < 1e-5).sum())
    sizes.clear()
    np.testing.assert_allclose(cuts.nearest(target, np.eye(P), np.ones(P)), found, atol=1e-5)
    assert sizes == [held + 40] and 0 < held < 40  # and the worst at the target, once


def test_a_cut_that_held_the_last_solution_holds_the_next_too() -> None:
    """Where it is the only one that the target violates, beside one that is loose."""
    cuts = CutSet(MODEL, 0.0, None, (np.eye(P)[:2], np.array([1.0, -5.0])))
    for target in (0.0, 0.5, 0.5):
        found = cuts.nearest(np.full(P, target), np.eye(P), np.ones(P))
        np.testing.assert_allclose(found, np.r_[1.0, np.full(P - 1, target)], atol=1e-6)


def test_the_last_512_poses_stay_in_the_cut_set() -> None:
    q = poses(40, seed=3)
    lowest = eigenvalues(q)[:, 0]
    good, bad = q[[np.argmax(lowest)]], q[[np.argmin(lowest)]]
    for count, seen in ((511, 1), (512, 0)):
        cuts = CutSet(MODEL, float(np.mean([lowest.min(), lowest.max()])), None, NONE)
        assert cuts.add(np.concatenate([np.tile(good, (count, 1)), bad]), PHI) == 1
        assert cuts.add_violated(PHI) == seen
        assert cuts.add(bad, PHI) == 1 and cuts.add_violated(PHI) == 1 + seen  # the newest come first


def test_eigenvalues_within_two_millionths_of_the_target_give_a_cut() -> None:
    q = poses(1)
    lowest = float(eigenvalues(q)[0, 0])
    for inside, expected in ((1.9e-6, 1), (2.1e-6, 0)):
        assert Cuts(AUDITOR.functions, lowest - inside, NONE).add(q, PHI) == expected
    exact = float(np.linalg.eigh(AUDITOR.functions.matrices(q, PHI))[0][0, 0])
    eps = exact - RESERVE
    while eps + RESERVE < exact:
        eps = float(np.nextafter(eps, 1.0))
    assert eps + RESERVE == exact and Cuts(AUDITOR.functions, eps, NONE).add(q, PHI) == 0
