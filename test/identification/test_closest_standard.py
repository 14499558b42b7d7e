"""Standard parameters closest to a-priori ones: unchanged fit, minimal distance, and report of inconsistency."""

import numpy as np
import pytest
from arms import arm, nominal, nominal_standard

from dynid.errors import DataError
from dynid.identification.estimators.closest_standard import (
    TOLERANCES,
    closest_standard,
    definite_links,
    inertia_about_com,
    is_definite,
    with_identified_drives,
)
from dynid.identification.estimators.essential import essential_parameters
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import StandardParameters
from dynid.model.standard import from_file, load_standard, six, to_file, to_link_frame
from dynid.robot import load_robot

ROBOT = load_robot("puma560")
MODEL = arm("puma560")
TRUTH = nominal_standard("puma560")
PHI = nominal("puma560")
SIGMA = np.array([0.5, 0.5, 0.3, 0.05, 0.05, 0.05])


def wrong(scale: float = 0.3, seed: int = 5) -> StandardParameters:
    """Return the true parameters with every value changed."""
    rng = np.random.default_rng(seed)
    return StandardParameters(TRUTH.names, TRUTH.values * (1 + scale * rng.uniform(-1, 1, len(TRUTH.values))), 6)


def test_the_regressor_of_standard_parameters_gives_their_torques(make_samples) -> None:
    samples = make_samples(ROBOT, PHI)
    W = MODEL.standard_regressor(samples.q, samples.dq, samples.ddq)
    assert W.shape == (300, 6, 78)
    np.testing.assert_allclose(W @ TRUTH.values, samples.tau, atol=1e-9)


def test_without_noise_the_true_base_parameters_come_out_of_any_prior(make_samples) -> None:
    samples = make_samples(ROBOT, PHI)
    for prior in (None, wrong(), TRUTH):
        for columns in ("standard", "base"):
            found = closest_standard(MODEL, samples, prior, columns=columns)  # type: ignore[arg-type]
            np.testing.assert_allclose(found.base.values, PHI.values, atol=1e-7)
            assert found.rank == 52 and found.errors.relative < 1e-9
    exact = closest_standard(MODEL, samples, TRUTH)
    np.testing.assert_allclose(exact.standard.values, TRUTH.values, atol=1e-7)
    assert exact.distance < 1e-7 and exact.consistent


def test_no_equally_good_parameters_are_nearer_to_the_prior(make_samples) -> None:
    """Eq. 30: what moved is orthogonal to all that no torque shows; eq. 26 is the pseudo-inverse."""
    samples, prior = make_samples(ROBOT, PHI, sigma=SIGMA), wrong()
    found = closest_standard(MODEL, samples, prior)
    fit = essential_parameters(MODEL, samples, np.inf)
    assert found.errors.relative == pytest.approx(fit.errors.relative, rel=1e-9)
    np.testing.assert_allclose(found.base.values, fit.base.values, atol=1e-6)
    W = MODEL.standard_regressor(samples.q, samples.dq, samples.ddq)
    rows = (W / fit.sigma[:, None]).reshape(-1, 78)
    silent = np.linalg.svd(rows)[2][52:]
    assert np.abs(rows @ silent.T).max() < 1e-9
    np.testing.assert_allclose(silent @ (found.standard.values - prior.values), 0.0, atol=1e-8)
    smallest = np.linalg.pinv(rows, rcond=1e-10) @ (samples.tau / fit.sigma).ravel()
    np.testing.assert_allclose(closest_standard(MODEL, samples).standard.values, smallest, atol=1e-7)
    assert np.isnan(closest_standard(MODEL, samples).distance)


def test_base_and_essential_versions_move_only_their_own(make_samples) -> None:
    samples, prior = make_samples(ROBOT, PHI, sigma=SIGMA), wrong()
    essential = essential_parameters(MODEL, samples)
    representatives = set(MODEL.regrouping.representatives)
    names = {MODEL.names[k]: place for k, place in enumerate(MODEL.regrouping.representatives)}
    base = closest_standard(MODEL, samples, prior, columns="base")
    found = closest_standard(MODEL, samples, prior, columns="essential", essential=essential)
    moved = [set(np.flatnonzero(np.abs(one.standard.values - prior.values) > 1e-12)) for one in (base, found)]
    assert moved[0] == representatives and moved[1] == {names[name] for name in essential.kept}
    assert found.rank == len(essential.kept) < base.rank == 52
    assert found.definite_links[0.0] > base.definite_links[0.0]
    # eq. 32 solved directly: least squares on the essential columns alone
    W = MODEL.standard_regressor(samples.q, samples.dq, samples.ddq)
    rows = (W / essential.sigma[:, None]).reshape(-1, 78)
    places = sorted(moved[1])
    step = np.linalg.lstsq(rows[:, places], (samples.tau / essential.sigma).ravel() - rows @ prior.values, rcond=None)[
        0
    ]
    np.testing.assert_allclose(found.standard.values[places], prior.values[places] + step, atol=1e-6)


def test_friction_and_rotors_of_a_prior_come_from_the_identification(make_samples) -> None:
    """A CAD set knows links only; with the right links the right drives come out, grouped rotors included."""
    samples = make_samples(ROBOT, PHI)
    cad = StandardParameters(TRUTH.names, np.where(np.arange(78) < 60, TRUTH.values, 0.0), 6)
    found = with_identified_drives(MODEL, cad, essential_parameters(MODEL, samples, np.inf).base)
    np.testing.assert_allclose(found.values, TRUTH.values, atol=1e-7)


def test_unsolvable_problems_are_refused(make_samples) -> None:
    samples = make_samples(ROBOT, PHI)
    other = ArmModel.of(load_robot("planar_3r"))
    foreign = load_standard(load_robot("planar_3r").folder / "models" / "nominal.yaml", other.mdh)
    with pytest.raises(DataError, match="belong to another model: 39 names, not 78"):
        closest_standard(MODEL, samples, foreign)
    with pytest.raises(DataError, match="need the essential parameters of this model"):
        closest_standard(MODEL, samples, TRUTH, columns="essential")
    from dataclasses import replace

    still = replace(samples, q=0 * samples.q, ddq=0 * samples.ddq)
    with pytest.raises(DataError, match="fewer than 52 parameters"):
        closest_standard(MODEL, still, TRUTH)


# -- consistency (Table III) -----------------------------------------------------------------------------------


def test_the_inertia_about_the_centre_of_mass_is_the_urdfs() -> None:
    for j in range(6):
        body = to_link_frame(TRUTH.link(j), np.eye(4))
        np.testing.assert_allclose(inertia_about_com(TRUTH.link(j)), body.inertia, atol=1e-12)
    with pytest.raises(DataError, match="without mass"):
        inertia_about_com(np.zeros(10))


def test_tolerance_has_a_sharp_limit() -> None:
    matrix = np.diag([1.0, 0.5, -0.015])
    assert not is_definite(matrix) and not is_definite(matrix, -0.01) and is_definite(matrix, -0.02)
    assert is_definite(np.eye(3)) and not is_definite(np.eye(3), 1.5)


def test_links_that_no_body_has_are_counted(make_samples) -> None:
    assert definite_links(TRUTH) == 6
    values = np.array(TRUTH.values)
    values[19] = -1.0  # a negative mass
    values[50:53] = -0.03, 0.0, 0.0  # XX6
    assert definite_links(StandardParameters(TRUTH.names, values, 6)) == 4
    assert definite_links(StandardParameters(TRUTH.names, values, 6), -0.04) == 5
    noisy = closest_standard(MODEL, make_samples(ROBOT, PHI, sigma=10 * SIGMA, count=60), TRUTH)
    counts = [noisy.definite_links[tolerance] for tolerance in TOLERANCES]
    assert counts == sorted(counts) and counts[0] < 6 and not noisy.consistent


def test_standard_parameters_of_all_terms_survive_their_file() -> None:
    robot = load_robot("tx40")
    model = ArmModel.of(robot)
    names = model.regrouping.standard
    nominal = load_standard(robot.folder / "models" / "nominal.yaml", model.mdh, names)
    changed = StandardParameters(names, nominal.values + np.where(np.arange(86) < 60, 0.0, 0.125), 6)
    content = to_file(changed, model.mdh, "tx40", robot.joint_names, "test")
    np.testing.assert_allclose(from_file(content, model.mdh, names).values, changed.values, atol=1e-9)
    assert from_file(content, model.mdh).names == names
    np.testing.assert_allclose(six(np.diag([1.0, 2.0, 3.0])), [1, 0, 0, 2, 0, 3])
    with pytest.raises(DataError, match=r"have OF1, .*FVM6, FCM6, which the robot.s structure and springs do not"):
        from_file(content, model.mdh, names[:78])
