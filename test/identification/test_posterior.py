"""Arms drawn from the posterior: consistent, with the stated distribution, and equal for equal seeds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad

from dynid.errors import DataError, InfeasibleError, InputNotFoundError
from dynid.identification.feasibility import posterior
from dynid.identification.feasibility.belief import BELIEF_FILE, Belief
from dynid.identification.feasibility.consistent import consistent_interior
from dynid.identification.feasibility.posterior import possible_arms
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import read_model_file
from dynid.model.parameters import StandardParameters
from dynid.model.standard import load_standard, pseudo_inertia, to_link_frame
from dynid.model.within_limits import outside
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("planar_3r")
MODEL = ArmModel.of(ROBOT)
BOUNDS = ROBOT.file.physical_bounds
NOMINAL = load_standard(ROBOT.folder / "models" / "nominal.yaml", MODEL.mdh, MODEL.regrouping.standard)


def inside() -> StandardParameters:
    """An arm between the nominal one and the one farthest from all bounds."""
    middle = consistent_interior(MODEL, MODEL.limits(BOUNDS))
    middle[10 * MODEL.chain_size :] = np.maximum(NOMINAL.values[10 * MODEL.chain_size :], 0.05)
    return replace(NOMINAL, values=0.5 * (NOMINAL.values + middle))


def belief(share: float = 2e-3, seed: int = 3, **shifts: float) -> Belief:
    """Correlated, with deviations of a share of the parameters' sizes; values shifted by so many deviations."""
    values = MODEL.regrouping.K @ inside().values
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(len(values), len(values))) + 2.0 * np.eye(len(values))
    covariance = mixing @ mixing.T
    deviations = share * np.maximum(np.abs(values), 0.05)
    scale = deviations / np.sqrt(np.diag(covariance))
    for name, shift in shifts.items():
        k = MODEL.names.index(name)
        values[k] += shift * deviations[k]
    return Belief(MODEL.names, values, covariance * np.outer(scale, scale))


@pytest.mark.slow
def test_far_inside_the_bounds_base_parameters_are_distributed_as_stated() -> None:
    """Means, quantiles and correlations of 2000 arms are those of the belief, to what chance leaves of so many."""
    told = belief()
    found = possible_arms(MODEL, told, BOUNDS, 2000, seed=5)
    off = np.linalg.solve(np.linalg.cholesky(told.covariance), (found.base - told.values).T)
    assert np.abs(off.mean(axis=1)).max() < 0.12
    assert np.abs(np.cov(off) - np.eye(len(off))).max() < 0.15
    deviations = np.sqrt(np.diag(told.covariance))
    for probability, quantile in ((0.05, -1.645), (0.25, -0.674), (0.5, 0.0), (0.75, 0.674), (0.95, 1.645)):
        below = (found.base < told.values + quantile * deviations).mean(axis=0)
        assert np.abs(below - probability).max() < 4.5 * np.sqrt(probability * (1 - probability) / 2000) + 0.01
    np.testing.assert_allclose(found.base, found.standard @ MODEL.regrouping.K.T, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.002, 0.5])
def test_every_arm_is_consistent_however_little_the_data_say(share: float) -> None:
    limits = MODEL.limits(BOUNDS)
    found = possible_arms(MODEL, belief(share), BOUNDS, 60, seed=1)
    assert len(found.standard) == 60
    for k in range(60):
        arm = found.arm(k)
        assert outside(arm, MODEL, limits) == ""
        assert sum(arm[f"M{j + 1}"] for j in range(3)) < limits.total_mass
        drive = dict(zip(arm.names[30:], arm.values[30:], strict=True))
        assert all(value > 0.0 for name, value in drive.items() if name[:2] in ("IA", "FV", "FC"))
        for j, link in enumerate(limits.links):
            body = to_link_frame(arm.link(j), MODEL.mdh.in_link[j])
            assert link.mass[0] < body.mass < link.mass[1]
            assert (body.centre_of_mass > link.centre[0]).all() and (body.centre_of_mass < link.centre[1]).all()
            covariance = (0.5 * np.trace(body.inertia) * np.eye(3) - body.inertia) / body.mass
            assert np.linalg.eigvalsh(covariance)[0] > limits.spread**2
            lower, upper = link.box
            room = (body.centre_of_mass - lower) * (upper - body.centre_of_mass)
            assert (np.diag(covariance) < room).all()
            assert np.linalg.eigvalsh(pseudo_inertia(arm.link(j)))[0] > limits.margin
    assert np.linalg.matrix_rank(found.standard - found.standard.mean(axis=0)) > len(MODEL.names)  # and they differ


@pytest.mark.slow
def test_an_estimate_that_no_arm_has_still_gives_arms() -> None:
    """The published parameters of the CRANE-X7: the nearest consistent ones are on many bounds at once."""
    robot = load_robot("crane_x7")
    model = ArmModel.of(robot)
    values = read_model_file(robot.folder / "models" / "paper.yaml").base_parameters(model).values
    told = Belief(model.names, values, np.diag(np.square(0.02 * np.maximum(np.abs(values), 0.01))))
    bounds = robot.file.physical_bounds
    found, limits = possible_arms(model, told, bounds, 40, seed=2), model.limits(bounds)
    assert [outside(found.arm(k), model, limits) for k in range(40)] == [""] * 40


def test_friction_below_zero_gives_friction_above() -> None:
    name = "FC2"
    told = belief(FC2=-600.0)
    assert told.values[told.names.index(name)] < 0.0
    found = possible_arms(MODEL, told, BOUNDS, 20, seed=1)
    assert (found.base[:, found.base_names.index(name)] > 0.0).all()
    with pytest.raises(InfeasibleError, match="or the estimate contradicts them"):
        possible_arms(MODEL, belief(FC2=-1e5), BOUNDS, 20)


def with_additional_friction(deviation: float) -> tuple[ArmModel, Belief, int]:
    """A structure without Coulomb friction, FC2 beside its base parameters with this deviation."""
    structure = MODEL.structure.model_copy(update={"coulomb_friction": False})
    model = ArmModel.of(ROBOT, structure=structure)
    told = belief()
    places = [told.names.index(name) for name in model.names]
    covariance = np.zeros((len(places) + 1,) * 2)
    covariance[1:, 1:], covariance[0, 0] = told.covariance[np.ix_(places, places)], deviation**2
    values = np.append(0.3, told.values[places])
    return model, Belief(("FC2", *model.names), values, covariance), model.regrouping.standard.index("FC2")


@pytest.mark.slow
def test_additional_friction_is_drawn_unless_fixed() -> None:
    model, told, place = with_additional_friction(0.01)
    found = possible_arms(model, told, BOUNDS, 200, seed=4)
    assert found.base[:, 0].std() == pytest.approx(0.01, rel=0.25)
    assert found.base[:, 0].mean() == pytest.approx(0.3, abs=0.004)
    np.testing.assert_array_equal(found.base[:, 0], found.standard[:, place])
    model, told, place = with_additional_friction(0.0)
    start = np.zeros(len(model.regrouping.standard))
    start[place] = 0.25
    held = possible_arms(model, told, BOUNDS, 10, start=start, seed=4)
    assert set(held.standard[:, place]) == {0.25}
    assert not held.standard[:, model.regrouping.standard.index("FC1")].any()


@pytest.mark.slow
def test_equal_seeds_give_equal_arms_and_other_seeds_other_arms() -> None:
    first, again, other = (possible_arms(MODEL, belief(), BOUNDS, 10, seed=seed).standard for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-6


def line(pull: float) -> "posterior._Density":
    """One coordinate z > -0.5 that the data put at -1 with the deviation 1; a link's matrix that does not change."""
    parts = (np.ones((1, 1)), np.array([0.5]), np.zeros((16, 1)), np.eye(4).ravel(), np.ones((1, 1)), np.ones(1))
    return posterior._Density(parts, (np.array([pull]), np.zeros(16)))


@pytest.mark.slow
def test_the_chains_draw_from_the_density_by_quadrature() -> None:
    def density(z: float) -> float:
        return float((z + 0.5) * np.exp(-0.5 * (z + 1.0) ** 2 - 0.8 * (z + 0.5)))

    whole = quad(density, -0.5, 20.0)[0]
    mean = quad(lambda z: z * density(z), -0.5, 20.0)[0] / whole
    square = quad(lambda z: z**2 * density(z), -0.5, 20.0)[0] / whole
    drawn, _ = posterior._draw(line(0.8), 8000, np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(mean, abs=0.02)
    assert drawn.std() == pytest.approx(np.sqrt(square - mean**2), rel=0.04)
    below = quad(density, -0.5, mean)[0] / whole
    assert (drawn < mean).mean() == pytest.approx(below, abs=0.025)


def test_slopes_and_curvature_are_those_of_the_value() -> None:
    limits = MODEL.limits(BOUNDS)
    start = consistent_interior(MODEL, limits)
    arm = posterior._Arm(MODEL, belief(0.1), limits, start)
    z = start[arm.free] / arm.units
    density = arm.density.pulled_to(1.01 * z)
    rng = np.random.default_rng(2)
    for _ in range(3):
        step = 1e-5 * rng.normal(size=len(z))
        (ahead, behind), slopes = density(np.array([z + step, z - step]))
        assert ahead - behind == pytest.approx(2.0 * density(z[None])[1][0] @ step, rel=1e-5)
        np.testing.assert_allclose(slopes[0] - slopes[1], 2.0 * density.curvature(z) @ step, rtol=1e-4, atol=1e-9)


def made_up(seed: int = 4) -> tuple["posterior._Density", FloatArray]:
    """Three coordinates, five bounds, two links' matrices, four values of the data; and a point inside."""
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=(4, 4, 2, 3))
    shapes = (raw + raw.transpose(1, 0, 2, 3)).reshape(32, 3)
    inertias = np.repeat(5.0 * np.eye(4)[:, :, None], 2, axis=2).reshape(32)
    parts = (rng.normal(size=(5, 3)), np.full(5, 2.0), shapes, inertias, rng.normal(size=(4, 3)), rng.normal(size=4))
    pull = rng.normal(size=(4, 4, 2))
    pulls = rng.uniform(0.1, 1.0, 5), (pull + pull.transpose(1, 0, 2)).reshape(32)
    return posterior._Density(parts, pulls), 0.1 * rng.normal(size=3)


def by_definition(density: "posterior._Density", z: FloatArray) -> float:
    slacks = density.slopes @ z + density.levels
    value = 0.5 * np.sum((density.fit @ z + density.misses) ** 2) - np.sum(np.log(slacks)) + density.slack_pull @ slacks
    S = (density.shapes @ z + density.inertias).reshape(4, 4, 2)
    pull = density.inertia_pull.reshape(4, 4, 2)
    for k in range(2):
        value += np.trace(pull[:, :, k] @ S[:, :, k]) - np.linalg.slogdet(S[:, :, k])[1]
    return float(value)


def test_the_density_is_that_of_its_definition_in_any_coordinates() -> None:
    density, z = made_up()
    others = np.array([z, -z, 2.0 * z])
    expected = [by_definition(density, one) for one in others]
    np.testing.assert_allclose(density(others)[0], expected, rtol=1e-12)
    origin, axes = 0.05 * np.ones(3), np.array([[1.0, 0.2, 0.0], [0.0, 0.5, 0.1], [0.3, 0.0, 2.0]])
    moved = density.moved(origin, axes)
    there = np.linalg.solve(axes, (others - origin).T).T
    np.testing.assert_allclose(moved(there)[0], expected, rtol=1e-12)
    np.testing.assert_allclose(moved(there)[1], density(others)[1] @ axes, rtol=1e-10)
    pulled = density.pulled_to(z)
    np.testing.assert_allclose(pulled.slack_pull, 1.0 / (density.slopes @ z + density.levels), rtol=1e-12)
    S = (density.shapes @ z + density.inertias).reshape(4, 4, 2)
    found = pulled.inertia_pull.reshape(4, 4, 2)
    for k in range(2):
        np.testing.assert_allclose(found[:, :, k], np.linalg.inv(S[:, :, k]), atol=1e-12)
    fresh = posterior._Density(density.parts)
    assert not fresh.slack_pull.any() and not fresh.inertia_pull.any()


def test_the_density_outside_the_bounds_is_infinite_with_zero_slope() -> None:
    """On a bound as beyond it, and where one matrix of one link is not positive definite; other chains do not mind."""
    value, slope = line(0.8)(np.array([[-0.5 + 1e-9], [-0.5], [-0.5 - 1e-9], [1.0]]))
    np.testing.assert_array_equal(np.isfinite(value), [True, False, False, True])
    np.testing.assert_array_equal(slope[:, 0] != 0.0, [True, False, False, True])
    density, z = made_up()
    density.inertias[0] = density.inertias[0] - 100.0  # of the first link only
    value, slope = density(z[None])
    assert value[0] == np.inf and not slope.any()


def test_batched_inverses_and_determinants_equal_numpys() -> None:
    rng = np.random.default_rng(3)
    raw = rng.normal(size=(2, 5, 4, 4))
    S = raw @ raw.transpose(0, 1, 3, 2) + 0.1 * np.eye(4)
    S[1, 2] -= 50.0 * np.eye(4)
    logarithms, inverse = posterior._inverse(np.moveaxis(S, (2, 3), (0, 1)))
    for n in range(2):
        for c in range(5):
            if (n, c) == (1, 2):
                assert np.isnan(logarithms[n, c])
                continue
            assert logarithms[n, c] == pytest.approx(np.linalg.slogdet(S[n, c])[1], abs=1e-9)
            np.testing.assert_allclose(inverse[:, :, n, c], np.linalg.inv(S[n, c]), rtol=1e-7, atol=1e-9)


def test_chains_begin_inside_and_draws_that_are_one_have_a_little_deviation() -> None:
    density = line(0.8)
    start = posterior._start(density, 500, np.random.default_rng(1))
    assert (start > -0.5).all() and start.std() > 0.3
    correlation = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    W = posterior._whitening(correlation)
    expected = np.linalg.inv(correlation + 0.5e-9 * np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0.0]]))
    np.testing.assert_allclose(W.T @ W, expected, rtol=1e-4)


@pytest.mark.slow
def test_arms_have_names_and_count_and_some_trajectories_are_refused() -> None:
    told = belief()
    for count in (1, 7, posterior.CHAINS + 3):
        found = possible_arms(MODEL, told, BOUNDS, count, seed=2)
        assert found.standard.shape == (count, len(found.names)) and found.base.shape == (count, len(told.names))
        assert found.names == MODEL.regrouping.standard and found.base_names == told.names
        assert 0.5 < found.acceptance < 1.0
        assert len(np.unique(found.base[:, 0])) == count
        last = found.arm(count - 1)
        assert last.names == found.names and (last.values == found.standard[-1]).all()
    with pytest.raises(ValueError, match="read-only"):
        found.base[0] = 0.0


def test_models_without_a_posterior_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    told = belief()
    with pytest.raises(DataError, match="expected at least 1"):
        possible_arms(MODEL, told, BOUNDS, 0)
    with pytest.raises(DataError, match="XX9 is not a parameter of this model"):
        possible_arms(MODEL, replace(told, names=("XX9", *told.names[1:])), BOUNDS, 1)
    covariance = np.array(told.covariance)
    covariance[0], covariance[:, 0] = 0.0, 0.0
    with pytest.raises(DataError, match=f"no deviation for {told.names[0]}"):
        possible_arms(MODEL, replace(told, covariance=covariance), BOUNDS, 1)
    least = sum(link.mass_kg[0] for link in BOUNDS.links if link.mass_kg)
    with pytest.raises(InfeasibleError):
        possible_arms(MODEL, told, BOUNDS.model_copy(update={"total_mass_kg": least}), 1)
    monkeypatch.setattr(posterior, "STEP", 3.0)
    with pytest.raises(InfeasibleError, match="% of the trajectories"):
        possible_arms(MODEL, told, BOUNDS, 1)


def test_a_mode_outside_the_bounds_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="mode of the posterior was not found"):
        posterior._mode(line(0.0), np.array([-0.6]))
    assert posterior._mode(line(0.0), np.array([3.0])) == pytest.approx((-1.5 + np.sqrt(4.25)) / 2, abs=1e-6)


def test_a_belief_is_saved_and_loaded_unchanged(tmp_path: Path) -> None:
    told = belief()
    told.save(tmp_path)
    again = Belief.load(tmp_path)
    assert again.names == told.names
    np.testing.assert_array_equal(again.values, told.values)
    np.testing.assert_array_equal(again.covariance, told.covariance)
    with pytest.raises(InputNotFoundError, match=f"holds no {BELIEF_FILE} with the covariance .* identify again"):
        Belief.load(tmp_path / "old")
    (tmp_path / BELIEF_FILE).write_bytes(b"nothing")
    with pytest.raises(DataError, match="is not a valid file of arrays, or is damaged"):
        Belief.load(tmp_path)


@pytest.mark.parametrize(
    ("values", "covariance", "words"),
    [
        (np.zeros(3), np.eye(2), "do not fit"),
        (np.zeros(2), np.eye(3), "do not fit"),
        (np.array([0.0, np.nan]), np.eye(2), "not finite"),
        (np.zeros(2), np.full((2, 2), np.inf), "not finite"),
    ],
)
def test_invalid_beliefs_are_refused(values: FloatArray, covariance: FloatArray, words: str) -> None:
    with pytest.raises(DataError, match=words):
        Belief(("a", "b"), values, covariance)
