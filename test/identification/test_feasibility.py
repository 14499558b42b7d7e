"""Consistent projection: certificates, bounds, and refusals."""

from dataclasses import replace

import numpy as np
import pytest
from arms import arm, nominal, published
from recordings import recorded

from dynid.errors import ConfigurationError, InfeasibleError
from dynid.identification.estimators.constrained import ConsistentLeastSquares
from dynid.identification.estimators.regression import Regression
from dynid.identification.feasibility.consistent import (
    MARGIN_TOLERANCE,
    consistent_projection,
    on_their_bounds,
    raised_to_bounds,
)
from dynid.identification.pipeline import identify
from dynid.identification.settings import CoulombSettings, load_identification
from dynid.model.standard import LinkInertia, from_link_frame, load_standard, pseudo_inertia, to_link_frame
from dynid.model.within_limits import link_rows, outside, spread_out
from dynid.robot import FloatArray, load_robot
from dynid.robot.link_limits import LinkLimits

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
BOUNDS = ROBOT.file.physical_bounds
PUBLISHED = published()


def test_projection_of_the_published_model() -> None:
    result = consistent_projection(MODEL, PUBLISHED, BOUNDS)
    assert result.distance == pytest.approx(0.0201, abs=5e-4)
    assert result.total_mass <= BOUNDS.total_mass_kg + 1e-6
    for j, link in enumerate(BOUNDS.links):
        parameters = result.standard.link(j)
        assert np.linalg.eigvalsh(pseudo_inertia(parameters))[0] >= BOUNDS.pseudo_inertia_margin
        body = to_link_frame(parameters, MODEL.mdh.in_link[j])
        assert link.mass_kg[0] - 1e-6 <= body.mass <= link.mass_kg[1] + 1e-6
        assert (body.centre_of_mass >= np.array(link.centre_of_mass_lower_m) - 1e-5).all()
        assert (body.centre_of_mass <= np.array(link.centre_of_mass_upper_m) + 1e-5).all()
    np.testing.assert_array_equal(result.base.values, MODEL.regrouping.K @ result.standard.values)


@pytest.mark.slow
def test_consistent_means_positive_definite_at_every_sampled_pose() -> None:
    result = consistent_projection(MODEL, PUBLISHED, BOUNDS)
    rng = np.random.default_rng(8)
    q = np.c_[rng.uniform(ROBOT.audit_lower, ROBOT.audit_upper, (5000, 7)), np.zeros(5000)]
    assert np.linalg.eigvalsh(MODEL.inertia_matrix(q, result.base)).min() > 0.004


def test_the_nominal_file_is_this_projection() -> None:
    stored = MODEL.base_parameters(load_standard(ROBOT.folder / "models" / "nominal.yaml", MODEL.mdh))
    result = consistent_projection(MODEL, PUBLISHED, BOUNDS)
    np.testing.assert_allclose(stored.values, result.base.values, atol=2e-5)


def test_a_consistent_model_is_left_where_it_is() -> None:
    inside = consistent_projection(MODEL, PUBLISHED, BOUNDS).base
    assert consistent_projection(MODEL, inside, BOUNDS).distance < 1e-5


def test_metric_decides_which_parameters_change() -> None:
    """The nearest model in a norm is not farther away in it than any other: neither the plain one nor one between."""
    known = np.isin(MODEL.names, ("ZZR1", "XXR4", "MYR2"))
    for metric in (np.diag(np.where(known, 50.0, 1.0)), np.random.default_rng(1).normal(size=(60, len(MODEL.names)))):
        plain, found = (consistent_projection(MODEL, PUBLISHED, BOUNDS, metric=one) for one in (None, metric))
        away = [np.linalg.norm(metric @ (one.base.values - PUBLISHED.values)) for one in (plain, found)]
        assert away[1] < 0.9 * away[0] and found.distance > 1.05 * plain.distance
        toward = found.base.values + np.linspace(0.0, 1.0, 11)[:, None] * (plain.base.values - found.base.values)
        lengths = np.linalg.norm((toward - PUBLISHED.values) @ metric.T, axis=1)
        assert np.argmin(lengths) == 0
        scaled = consistent_projection(MODEL, PUBLISHED, BOUNDS, metric=1e4 * metric)
        np.testing.assert_allclose(scaled.base.values, found.base.values, atol=2e-5)


def test_estimator_weighs_by_the_torques() -> None:
    """Its fit is nearer to the torques than the plain projection of the same estimate is."""
    robot = load_robot("planar_3r")
    samples = recorded(robot, seconds=8.0, coulomb=0.0, noise=3.0).samples(load_identification(robot))
    model = arm("planar_3r")
    regression = Regression.of(model, samples, CoulombSettings(treatment="ignored"))
    loose = regression.solve().phi
    plain = consistent_projection(model, nominal("planar_3r").with_values(loose), robot.file.physical_bounds)
    found = ConsistentLeastSquares().estimate(model, samples, CoulombSettings(treatment="ignored"))
    missed = [np.linalg.norm(regression.W @ (one - loose)) for one in (plain.base.values, found.base.values)]
    assert plain.distance > 1e-3 and missed[1] < 0.9 * missed[0]
    ignored = {"coulomb_friction": CoulombSettings(treatment="ignored"), "estimator": "ols"}
    settings = load_identification(robot).model_copy(update=ignored)
    result = identify(robot, [recorded(robot, seconds=8.0, coulomb=0.0, noise=3.0)], settings=settings)
    assert np.linalg.norm(regression.W @ (result.base.values - loose)) < 0.9 * missed[0]


def test_impossible_bounds_are_refused_with_a_sentence() -> None:
    heavy = BOUNDS.model_copy(update={"total_mass_kg": 0.1})
    with pytest.raises(InfeasibleError, match="widen"):
        consistent_projection(MODEL, PUBLISHED, heavy)


@pytest.mark.parametrize("missing", [0.03, 0.9 * MARGIN_TOLERANCE])
def test_a_link_a_hair_outside_is_lifted_onto_the_margin(missing: float) -> None:
    margin = 1e-6
    rng = np.random.default_rng(0)
    for _ in range(20):
        link = from_link_frame(
            LinkInertia(rng.uniform(0.1, 1.0), rng.uniform(-0.1, 0.1, 3), np.diag(rng.uniform(1.1, 1.9, 3)) * 1e-3),
            np.eye(4),
        )
        lowest = np.linalg.eigvalsh(pseudo_inertia(link))[0]
        link -= (lowest - (1 - missing) * margin) * np.array([2.0, 0, 0, 2.0, 0, 2.0, 0, 0, 0, 1.0])
        found = raised_to_bounds(link, margin)
        assert np.linalg.eigvalsh(pseudo_inertia(link))[0] == pytest.approx((1 - missing) * margin, rel=1e-6)
        assert margin <= np.linalg.eigvalsh(pseudo_inertia(found))[0] < margin * (1 + 1e-5)
        assert np.abs(found - link).max() < 2.1 * missing * margin


def test_a_link_far_outside_or_inside_is_left_as_it_is() -> None:
    inside = consistent_projection(MODEL, PUBLISHED, BOUNDS).standard.link(0)
    assert raised_to_bounds(inside, 1e-6) is inside
    lowest = float(np.linalg.eigvalsh(pseudo_inertia(inside))[0])
    assert raised_to_bounds(inside, 1.2 * lowest) is inside


def test_a_solution_below_the_margin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused even if the solver reports success."""
    monkeypatch.setattr("dynid.identification.feasibility.consistent.MARGIN_RESERVE", 0.5)
    with pytest.raises(
        InfeasibleError, match=r"smallest pseudo-inertia eigenvalue 5\S* of link \d is below the required"
    ):
        consistent_projection(MODEL, PUBLISHED, BOUNDS)


def weighed(points: FloatArray, masses: FloatArray) -> FloatArray:
    """Ten standard parameters of point masses (k,) at points (k, 3), by the definition of an inertia."""
    tensor = sum(m * (x @ x * np.eye(3) - np.outer(x, x)) for m, x in zip(masses, points, strict=True))
    return np.concatenate([tensor[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]], masses @ points, [masses.sum()]])


def test_rows_hold_for_all_mass_inside_the_box_and_not_for_mass_outside() -> None:
    rng = np.random.default_rng(5)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    placement = np.eye(4)
    placement[:3, :3], placement[:3, 3] = turn * np.linalg.det(turn), (0.1, -0.2, 0.05)
    box = (np.array([-0.1, -0.05, -0.3]), np.array([0.2, 0.04, 0.1]))
    link = LinkLimits((0.1, 5.0), box, box, "here")
    G, h = link_rows(link, placement)
    back = np.linalg.inv(placement)

    def rows(points: FloatArray) -> FloatArray:
        local = points @ back[:3, :3].T + back[:3, 3]
        return np.asarray(G @ weighed(local, np.full(len(points), 1.0 / len(points))) - h)

    for count in (1, 2, 50):
        for _ in range(30):
            assert rows(rng.uniform(*box, (count, 3))).min() >= -1e-12
    corners = np.array([box[0], box[1]])
    assert rows(corners).min() >= -1e-12
    # two masses with their centre in the box and a second moment beyond it, along every axis
    for axis in range(3):
        for beyond in (1.001, 3.0):
            apart = np.zeros(3)
            apart[axis] = beyond * 0.5 * (box[1] - box[0])[axis]
            middle = 0.5 * (box[0] + box[1])
            assert rows(np.array([middle + apart, middle - apart])).min() < 0.0
    # each moment for itself would fit; that mass is at (0.9, 0.1) and correlated as of a corner would not
    size = box[1] - box[0]
    cornered = box[0] + size * np.array([[1, 1, 0.5], *[[1, 0, 0.5]] * 7, [0, 0, 0.5], [1, 1.6, 0.5]])
    assert rows(cornered).min() < 0.0


def test_radii_of_gyration_stay_within_the_box_and_links_have_spread() -> None:
    """Both bounds are active for the published parameters, and both are held; without them both are broken."""
    limits = MODEL.limits(BOUNDS)
    found = consistent_projection(MODEL, PUBLISHED, BOUNDS).standard
    assert outside(found, MODEL, limits) == ""
    for j, link in enumerate(limits.links):
        body = to_link_frame(found.link(j), MODEL.mdh.in_link[j])
        far = np.maximum(*np.abs(np.array(link.box) - body.centre_of_mass)) ** 2
        assert (np.diag(body.inertia) / body.mass <= far.sum() - far + 1e-9).all()
        covariance = 0.5 * np.trace(body.inertia) * np.eye(3) - body.inertia
        assert np.linalg.eigvalsh(covariance)[0] >= BOUNDS.minimal_spread_m**2 * body.mass
    wide = [one.model_copy(update={"box_lower_m": (-9, -9, -9), "box_upper_m": (9, 9, 9)}) for one in BOUNDS.links]
    free = consistent_projection(MODEL, PUBLISHED, BOUNDS.model_copy(update={"links": tuple(wide)})).standard
    assert "radii of gyration" in outside(free, MODEL, limits)
    rods = consistent_projection(MODEL, PUBLISHED, BOUNDS.model_copy(update={"minimal_spread_m": 0.0})).standard
    assert "beyond a spread of 0.005 m" in outside(rods, MODEL, limits)


def test_a_spread_is_the_same_in_every_frame() -> None:
    link = from_link_frame(LinkInertia(2.0, np.array([0.1, 0.0, -0.2]), np.diag([2.0, 2.0, 2.0]) * 1e-2), np.eye(4))
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    placement = np.eye(4)
    placement[:3, :3], placement[:3, 3] = turn * np.linalg.det(turn), (0.3, -0.1, 0.2)
    moved = from_link_frame(to_link_frame(link, np.eye(4)), placement)
    spread = float(np.sqrt(0.01 / 2.0))  # this ball's own
    for one in (link, moved):
        assert np.linalg.eigvalsh(spread_out(one, 0.999 * spread))[0] > 0.0
        assert np.linalg.eigvalsh(spread_out(one, 1.001 * spread))[0] < 0.0


def test_bodies_outside_bounds_are_named() -> None:
    limits, inside = MODEL.limits(BOUNDS), consistent_projection(MODEL, PUBLISHED, BOUNDS).standard
    heavy = np.array(inside.values)
    heavy[:10] *= 10.0
    assert "link 1 with mass" in outside(on_their_bounds(MODEL, heavy, limits.margin), MODEL, limits)
    assert "total mass" in outside(inside, MODEL, replace(limits, total_mass=1.0))


def test_bounds_without_a_total_mass_or_without_room_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"has no physical_bounds\.total_mass_kg"):
        consistent_projection(MODEL, PUBLISHED, BOUNDS.model_copy(update={"total_mass_kg": None}))
    thick = BOUNDS.model_copy(update={"minimal_spread_m": 0.06})
    with pytest.raises(ConfigurationError, match=r"link 2: the box .* has no room for a spread of 0.06 m"):
        consistent_projection(MODEL, PUBLISHED, thick)


def test_a_link_without_bounds_of_its_mass_has_those_of_the_arm() -> None:
    free = BOUNDS.model_copy(update={"links": tuple(one.model_copy(update={"mass_kg": None}) for one in BOUNDS.links)})
    assert {link.mass for link in MODEL.limits(free).links} == {(0.002, 2.0)}
    assert consistent_projection(MODEL, PUBLISHED, free).total_mass <= 2.0 * (1 + 1e-3)
