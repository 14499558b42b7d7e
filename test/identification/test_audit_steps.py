"""Steps of an audit: sample, screen, walk and ranking, against sorting and plain algebra."""

from dataclasses import replace

import numpy as np
import pytest
from arms import arm, auditor, nominal, published
from scipy.stats import qmc

from dynid.errors import DataError
from dynid.identification.feasibility import audit as audit_module
from dynid.identification.feasibility.audit import CHUNK, DISTINCT_RAD, LOWEST, Auditor, _distinct, spread_points
from dynid.identification.feasibility.pose_kernels import InertiaFunctions
from dynid.identification.feasibility.quick_audit import quick_audit
from dynid.model.dynamics import ArmModel
from dynid.model.mdh import MdhChain
from dynid.robot import FloatArray, Structure, load_robot

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
PHI = nominal("crane_x7")
AUDITOR = auditor("crane_x7")
JOINTS = [1, 2, 3, 4, 5, 6]


def eigenvalues(q: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.eigvalsh(MODEL.inertia_matrix(q, PHI))[:, 0])


def test_poses_fill_the_box_of_the_joints_that_count() -> None:
    """The first joint and the hand do not change M: they stay at mid-range."""
    assert set(AUDITOR.free) <= set(JOINTS) and 1 in AUDITOR.free
    corners = AUDITOR.poses(np.array([[0.0] * len(AUDITOR.free), [1.0] * len(AUDITOR.free)]))
    for k, end in enumerate((AUDITOR.lower, AUDITOR.upper)):
        np.testing.assert_array_equal(corners[k, AUDITOR.free], end[AUDITOR.free])
    rest = [j for j in range(8) if j not in AUDITOR.free]
    middle = 0.5 * (AUDITOR.lower + AUDITOR.upper)
    np.testing.assert_array_equal(corners[:, rest], np.tile(middle[rest], (2, 1)))
    lower, upper = np.array(ROBOT.audit_lower), np.array(ROBOT.audit_upper)
    lower[2] = upper[2] = 0.3
    narrow = Auditor(MODEL, lower, upper)
    assert 2 not in narrow.free and set(narrow.free) == set(AUDITOR.free) - {2}
    assert narrow.audit(PHI, poses=500, searches=8).pose[2] == 0.3
    point = Auditor(MODEL, lower, lower)
    assert point.free == [0] and point.audit(PHI, poses=64, searches=4).pose[:7].tolist() == lower.tolist()


@pytest.mark.parametrize("count", [100, CHUNK, CHUNK + 1000])
def test_audit_samples_are_the_start_of_one_sequence(count: int) -> None:
    found = np.concatenate(list(AUDITOR._sample(5, count)))
    expected = AUDITOR.poses(spread_points(len(AUDITOR.free), 5, 0, count))
    np.testing.assert_array_equal(found, expected)
    assert np.abs(found - np.concatenate(list(AUDITOR._sample(6, count)))).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [1, 2, 5, 6, 7, 9])
def test_points_fill_the_cube_far_more_evenly_than_chance(dimensions: int) -> None:
    """By scipy's discrepancy, wherever in the sequence the points are taken from; a block of them does, too."""
    chance = qmc.discrepancy(np.random.default_rng(1).random((2048, dimensions)))
    for seed, begin in ((1, 0), (2, 5000), (3, CHUNK)):
        points = spread_points(dimensions, seed, begin, begin + 2048)
        assert points.shape == (2048, dimensions) and points.min() >= 0.0 and points.max() < 1.0
        assert qmc.discrepancy(points) < 0.3 * chance


def test_a_screen_keeps_the_worst_of_every_block_and_of_the_grid() -> None:
    """With as many blocks as poses it keeps everything; with one, the worst of all."""
    grid = 3 ** len(AUDITOR.free)
    checked, found = AUDITOR.screen(PHI, 0.0, 1000, 1, 1)
    poses = np.concatenate([AUDITOR.poses(np.array(np.meshgrid(*[[0, 0.5, 1]] * len(AUDITOR.free))).reshape(6, -1).T)])
    sample = np.concatenate(list(AUDITOR._sample(1, 1000)))
    margins = AUDITOR.kernels.margins(np.concatenate([poses, sample]), PHI.values, 0.0)
    assert checked == grid + 1000 and len(found) == 1
    assert AUDITOR.kernels.margins(found, PHI.values, 0.0)[0] == pytest.approx(margins.min(), rel=1e-12)
    _, all_of_them = AUDITOR.screen(PHI, 0.0, 300, 10_000, 1)
    assert len(all_of_them) == max(grid, 300)
    blocks = AUDITOR.screen(PHI, 0.0, 1000, 8, 1)[1]
    assert len(blocks) == 8
    best = np.sort(AUDITOR.kernels.margins(poses, PHI.values, 0.0))[:8]
    own = AUDITOR.kernels.margins(sample, PHI.values, 0.0).reshape(8, 125).min(axis=1)
    kept = AUDITOR.kernels.margins(blocks, PHI.values, 0.0)
    np.testing.assert_allclose(kept, np.minimum(best, own), rtol=1e-12)


def test_the_lowest_are_sorted_by_their_eigenvalue() -> None:
    q = AUDITOR.poses(np.random.default_rng(1).uniform(size=(300, len(AUDITOR.free))))
    found, values = AUDITOR._lowest(q, PHI, float(eigenvalues(q).min()) - 1e-5)
    assert len(found) == len(values) == LOWEST == 128 and (np.diff(values) >= 0.0).all()
    np.testing.assert_allclose(values, eigenvalues(found), atol=1e-12)
    assert values[0] == pytest.approx(eigenvalues(q).min(), abs=1e-12)
    twice = np.concatenate([q[:5], q[:5] + 0.4 * DISTINCT_RAD])
    assert (
        len(AUDITOR._lowest(twice, PHI, 0.0, distinct=True)[0]) == 5 and len(AUDITOR._lowest(twice, PHI, 0.0)[0]) == 10
    )


def test_poses_near_an_earlier_one_in_every_joint_are_the_same() -> None:
    poses = np.zeros((5, 3))
    poses[1] = 0.9 * DISTINCT_RAD
    poses[2, 1] = 1.1 * DISTINCT_RAD
    poses[3] = -1.5 * DISTINCT_RAD
    poses[4, 1] = 1.2 * DISTINCT_RAD  # near the third
    np.testing.assert_array_equal(_distinct(poses, 9), poses[[0, 2, 3]])
    np.testing.assert_array_equal(_distinct(poses, 2), poses[[0, 2]])
    assert len(_distinct(poses[:1], 1)) == 1 and len(_distinct(poses[:0], 4)) == 0


def test_walks_go_downhill_and_stay_in_the_box() -> None:
    q = AUDITOR.poses(np.random.default_rng(2).uniform(size=(40, len(AUDITOR.free))))
    eps = float(AUDITOR.audit(PHI).lambda_min) - 1e-4
    before = AUDITOR.kernels.margins(q, PHI.values, eps)
    found = AUDITOR._walk(q, PHI.values, eps)
    after = AUDITOR.kernels.margins(found, PHI.values, eps)
    assert (after <= before).all() and np.median(after) < 0.8 * np.median(before)
    assert (found >= AUDITOR.lower).all() and (found <= AUDITOR.upper).all()
    rest = [j for j in range(8) if j not in AUDITOR.free]
    np.testing.assert_array_equal(found[:, rest], q[:, rest])
    # where it ends no joint that is free to move has a slope
    _, slope = AUDITOR.kernels.slopes(found, PHI.values, eps)
    inside = (found[:, :7] > AUDITOR.lower[:7] + 1e-9) & (found[:, :7] < AUDITOR.upper[:7] - 1e-9)
    assert np.median(np.abs(np.where(inside, slope, 0.0)).max(axis=1)) < 1e-6


def test_earlier_findings_are_used_within_the_box() -> None:
    worst = AUDITOR.audit(published()).pose
    few = AUDITOR.audit(published(), poses=64, searches=0, extra=worst[None] + 1e-9)
    assert few.certificate == "counterexample" and few.lambda_min < -0.00207
    beyond = AUDITOR.audit(PHI, poses=64, searches=0, extra=AUDITOR.upper[None] + 1.0)
    assert (beyond.worst_poses <= AUDITOR.upper).all()
    none = AUDITOR.audit(PHI, poses=64, searches=0, extra=np.zeros((0, 8)))
    assert none.certificate == "sampled" and none.poses_checked == 3 ** len(AUDITOR.free) + 64
    assert none.seed == 1 and none.limit == 0.0 and len(none.worst_poses) == 1
    assert replace(none, limit=none.lambda_min).passed


def test_bad_poses_are_distinct_and_sorted() -> None:
    found = AUDITOR.audit(PHI, limit=0.0045, poses=4096, searches=64)
    values = eigenvalues(found.worst_poses)
    assert len(values) > 3 and (values < 0.0045).all() and values[0] == pytest.approx(values.min())
    np.testing.assert_array_equal(found.pose, found.worst_poses[0])
    rest = found.worst_poses[1:]  # the worst itself has been polished since
    apart = np.abs(rest[:, None] - rest).max(axis=2) + np.eye(len(rest))
    assert len(rest) > 1 and apart.min() >= DISTINCT_RAD


def test_a_box_with_swapped_limits_is_refused_and_the_default_seed_is_one() -> None:
    lower, upper = np.array(ROBOT.audit_lower), np.array(ROBOT.audit_upper)
    assert audit_module.audit(MODEL, PHI, lower, upper, poses=64, searches=4).seed == 1
    lower[3] = upper[3] + 0.1
    with pytest.raises(DataError, match="7 ordered pairs"):
        Auditor(MODEL, lower, upper)


def test_local_minimum_moves_only_the_given_joints_within_their_limits() -> None:
    functions = InertiaFunctions(MODEL)
    start = AUDITOR.poses(np.full((1, len(AUDITOR.free)), 0.4))[0]
    joints = [1, 3]
    lower, upper = start[joints] - 0.2, start[joints] + 0.2
    pose, value = functions.local_minimum(start, PHI.values, joints, lower, upper)
    still = [j for j in range(8) if j not in joints]
    np.testing.assert_array_equal(pose[still], start[still])
    assert (pose[joints] >= lower).all() and (pose[joints] <= upper).all()
    assert value == pytest.approx(eigenvalues(pose[None])[0], abs=1e-12) and value < eigenvalues(start[None])[0]
    around = np.tile(pose, (200, 1))
    around[:, joints] = np.clip(around[:, joints] + np.random.default_rng(3).normal(0.0, 0.01, (200, 2)), lower, upper)
    assert eigenvalues(around).min() >= value - 1e-7
    _, same = functions.local_minimum(pose, PHI.values, joints, lower, upper)
    assert same <= value


@pytest.mark.slow
def test_quick_audit_descends_from_its_lowest_sample() -> None:
    box = ROBOT.audit_lower, ROBOT.audit_upper
    one, again, other = (quick_audit(MODEL, PHI, *box, poses=300, seed=seed) for seed in (1, 1, 2))
    assert one.lambda_min == again.lambda_min and (one.pose == again.pose).all()
    assert (one.pose != other.pose).any() and (one.poses_checked, one.seed, other.seed, one.limit) == (300, 1, 2, 0.0)
    q = np.zeros((300, 8))
    q[:, :7] = np.random.default_rng(1).uniform(*box, (300, 7))
    assert one.lambda_min < eigenvalues(q).min() and one.certificate == "searched"
    limit = one.lambda_min + 2e-5
    bad = quick_audit(MODEL, PHI, *box, poses=300, limit=limit)
    assert bad.certificate == "counterexample" and not bad.passed and bad.limit == limit
    values = eigenvalues(bad.worst_poses)
    assert (values < limit).all() and values[0] == pytest.approx(bad.lambda_min, abs=1e-12)
    assert (np.diff(values) >= -1e-12).all() and len(one.worst_poses) == 1
    exactly = quick_audit(MODEL, PHI, *box, poses=300, limit=one.lambda_min)
    assert exactly.passed and exactly.certificate == "searched"
    many = quick_audit(MODEL, PHI, *box, poses=5001)
    assert many.poses_checked == 5001 and many.lambda_min <= one.lambda_min + 1e-6


def test_search_resumes_below_its_last_minimum() -> None:
    """Of few poses the first walks end on the way; going on they reach what a thousand walks find."""
    start = published()
    phi = start.with_values(start.values + 3e-3 * np.random.default_rng(2).normal(size=39))
    few, many = AUDITOR.audit(phi, poses=64, searches=4), AUDITOR.audit(phi)
    assert few.lambda_min == pytest.approx(many.lambda_min, abs=1e-5)
    assert AUDITOR.audit(PHI).certificate == "searched"


@pytest.mark.slow
@pytest.mark.parametrize(("twist", "free"), [(0.0, [2]), (1e-10, [2]), (1e-7, [1, 2])])
def test_a_joint_that_matters_by_the_rounding_of_its_axis_alone_is_not_free(twist: float, free: list[int]) -> None:
    """Of two coaxial joints neither changes M; what the second does is relative to what the third does."""
    zero, frames = np.zeros(3), (np.eye(4), np.tile(np.eye(4), (3, 1, 1)))
    mdh = MdhChain(np.array([0.0, twist, 1.0]), np.array([0.0, 0.0, 0.3]), zero, zero, *frames)
    arm_of_three = ArmModel(mdh, 3, Structure(), np.array([0.0, 0.0, -9.81]))
    assert Auditor(arm_of_three, -np.ones(3), np.ones(3)).free == free


def test_grid_is_added_up_to_a_number_of_joints(monkeypatch: pytest.MonkeyPatch) -> None:
    joints = len(AUDITOR.free)
    assert audit_module.GRID_JOINTS == 8 and joints == 6
    for most, extra in ((joints, 3**joints), (joints - 1, 1)):
        monkeypatch.setattr(audit_module, "GRID_JOINTS", most)
        assert AUDITOR.screen(PHI, 0.0, 100, 4, 1)[0] == extra + 100
    centre = AUDITOR.poses(np.full((1, joints), 0.5))
    kept = []
    for seed in range(1, 9):  # of the centre and one other pose the worse one is kept
        both = np.concatenate([centre, *AUDITOR._sample(seed, 1)])
        (worst,) = AUDITOR.screen(PHI, 0.0, 1, 4, seed)[1]
        kept.append(int(np.argmin(AUDITOR.kernels.margins(both, PHI.values, 0.0))))
        np.testing.assert_array_equal(worst, both[kept[-1]])
    assert set(kept) == {0, 1}


def test_a_search_looks_from_a_quarter_below_a_negative_eigenvalue(monkeypatch: pytest.MonkeyPatch) -> None:
    """And from SEARCH_BELOW below any other; it ends with the walks that find nothing below that."""
    walked, walk = [], Auditor._walk

    def watched(self: Auditor, q: FloatArray, phi: FloatArray, eps: float) -> FloatArray:
        walked.append((float(np.linalg.eigvalsh(self.functions.matrices(q, phi)).min()), eps))
        return walk(self, q, phi, eps)

    monkeypatch.setattr(Auditor, "_walk", watched)
    far = PHI.with_values(PHI.values - 0.05 * np.array([name == "ZZR1" for name in PHI.names]))
    for phi, below in ((far, 0.25), (PHI, None)):
        walked.clear()
        q = AUDITOR.poses(np.random.default_rng(2).uniform(size=(40, len(AUDITOR.free))))
        found, eps = AUDITOR._search(q, phi, float(AUDITOR._lowest(q, phi, -1.0)[1][0]) - 1e-5)
        lowest, first = walked[0]
        assert first == pytest.approx(lowest - (1e-4 if below is None else -below * lowest), abs=1e-12)
        assert eps == walked[-1][1] and AUDITOR.kernels.margins(found, phi.values, eps).min() > 0.0
        ended = [AUDITOR.kernels.margins(walk(AUDITOR, q, phi.values, first), phi.values, first).min() > 0.0]
        assert (len(walked) == 1) == ended[0]


@pytest.mark.parametrize("row", [0, 100])
def test_positions_out_of_the_kernels_range_are_refused(row: int) -> None:
    q = np.zeros((101, 8))
    q[row, 3] = -20.0
    with pytest.raises(DataError, match=f"joint 4 is at -20.0 rad in state {row}; expected"):
        AUDITOR.kernels.margins(q, PHI.values, 0.0)
    with pytest.raises(DataError, match=f"joint 4 is at -20.0 rad in state {row}; expected"):
        AUDITOR.kernels.slopes(q, PHI.values, 0.0)
    q[row, 3], q[row, 7] = 0.0, -20.0  # the hand is not looked at
    assert np.isfinite(AUDITOR.kernels.margins(q, PHI.values, 0.0)).all()
