"""Sequential and simultaneous programs for arms with many joints: true parameters, feasibility, refusals."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.studies.many_joints import Setting, Study, chain, growth, motion

from dynid.errors import ConfigurationError, DataError, InfeasibleError
from dynid.identification.estimators import sequential
from dynid.identification.estimators.sequential import lightest, owners, samples_alike, sequential_fit
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import StandardParameters
from dynid.model.standard import load_standard, pseudo_inertia, ten_parameters
from dynid.robot import load_robot

QUIET = Setting(duration_s=10.0, interval_s=0.02, noise=0.0, disturbance=0.0)
NOISY = Setting(duration_s=20.0, interval_s=0.02)


def of_robot(name: str, setting: Setting) -> Study:
    robot = load_robot(name)
    model = ArmModel.of(robot)
    true = load_standard(robot.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    return Study.of(model, true, setting, robot)


def test_torque_of_a_joint_ignores_parameters_owned_by_earlier_joints() -> None:
    for name in ("tx40", "crane_x7", "serial_9dof"):
        model = ArmModel.of(load_robot(name))
        W = model.standard_regressor(*np.random.default_rng(0).uniform(-1.0, 1.0, (3, 30, model.axes)))
        owner = owners(model)
        for axis in range(model.axes):
            assert not W[:, axis, owner < axis].any()


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 9])
def test_both_estimators_are_exact_without_noise(size: int) -> None:
    study = Study.of(*chain(size), QUIET)
    one_by_one, at_once = study.sequential(), study.simultaneous()
    assert one_by_one.torque_error < 1e-5 and at_once.torque_error < 1e-5
    for fit in (one_by_one, at_once):
        for j in range(size):
            assert np.linalg.eigvalsh(pseudo_inertia(fit.standard.link(j)))[0] > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["puma_3dof", "serial_9dof"])
def test_with_noise_and_disturbance_the_torques_are_explained_to_a_fraction_of_the_noise(name: str) -> None:
    study = of_robot(name, NOISY)
    assert study.sequential().torque_error < 0.01
    assert study.simultaneous().torque_error < 0.01


@pytest.mark.slow
def test_noise_increases_the_errors() -> None:
    model, true = chain(4)
    quiet, noisy = (Study.of(model, true, replace(NOISY, noise=noise)).sequential() for noise in (0.0, 0.3))
    assert noisy.torque_error > 3.0 * quiet.torque_error


def test_correlated_errors_count_as_fewer_samples() -> None:
    white = np.random.default_rng(0).normal(size=4000)
    assert samples_alike(white) < 1.5
    lasting = np.zeros(4000)
    for k in range(1, 4000):
        lasting[k] = 0.9 * lasting[k - 1] + white[k]
    assert samples_alike(lasting) == pytest.approx(1.9 / 0.1, rel=0.3)  # (1 + rho) / (1 - rho)
    assert samples_alike(np.zeros(100)) == 1.0


@pytest.mark.slow
def test_errors_of_outer_joints_do_not_spoil_inner_joints() -> None:
    """What outer joints leave lasts, and fits no link: believed to the last digit, it made 35 % of the torque."""
    study = Study.of(*chain(25))
    assert study.sequential().torque_error < 0.06


@pytest.mark.parametrize("slides", [False, True])
def test_lightest_link_is_lighter_than_all_equivalent_links(slides: bool) -> None:
    """In the sense of definite matrices, which is what leaves the link before all that it needs."""
    rng = np.random.default_rng(0)
    felt = [3] if slides else [0, 1]
    other = [k for k in range(4) if k not in felt]
    for _ in range(100):
        root = rng.normal(size=(4, 4))
        J = root @ root.T + 1e-3 * np.eye(4)
        light = pseudo_inertia(lightest(ten_parameters(J), 1e-6, slides))
        np.testing.assert_allclose(light[felt], J[felt], atol=1e-12)
        assert np.linalg.eigvalsh(light)[0] == pytest.approx(1e-6, rel=1e-3)
        assert np.linalg.eigvalsh((J - light)[np.ix_(other, other)])[0] > -1e-9


def test_a_link_that_is_not_the_lightest_spoils_the_fit_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why it must be the lightest: with the solver's own choice the fit of the same data is worthless."""
    study = Study.of(*chain(3), QUIET)
    monkeypatch.setattr(
        sequential, "lightest", lambda link, margin, slides=False: link + 0.3 * np.eye(10)[[0, 3, 9]].sum(0)
    )
    assert study.sequential().torque_error > 0.1


def test_bounds_that_exclude_every_link_are_named() -> None:
    study = Study.of(*chain(3), QUIET)
    bounds = study.model.bounds
    assert bounds is not None
    crowded = bounds.model_copy(update={"total_mass_kg": 1e-7})
    with pytest.raises(InfeasibleError, match="joint 3: infeasible; no physically possible link satisfies"):
        sequential_fit(study.model, study.W, study.tau, crowded)


@pytest.mark.parametrize("changed", ["sliding", "coupled"])
def test_sliding_and_coupled_joints_are_identified_without_noise(changed: str) -> None:
    model, true = chain(5)
    mdh, coupling = model.mdh, np.eye(5)
    if changed == "sliding":
        mdh = replace(mdh, prismatic=(False, False, True, False, False))
    else:
        coupling[4, 3] = 0.5
    structure = model.structure.model_copy(update={"rotor_inertia": True})
    arm = ArmModel(mdh, 5, structure, model.gravity, coupling, bounds=model.bounds)
    names = arm.regrouping.standard
    values = np.array([dict(zip(true.names, true.values, strict=True)).get(name, 0.3) for name in names])
    values += np.array([0.2 if name.startswith("IA") else 0.0 for name in names])
    study = Study.of(arm, StandardParameters(names, values, 5), QUIET)
    assert study.sequential().torque_error < 1e-4


def test_a_structure_without_products_is_refused() -> None:
    model = ArmModel.of(load_robot("crane_x7"))
    W = np.zeros((100, model.axes, len(model.regrouping.standard)))
    assert model.bounds is not None
    with pytest.raises(ConfigurationError, match="needs products of inertia"):
        sequential_fit(model, W, np.zeros((100, model.axes)), model.bounds)


def test_data_that_cannot_be_used_are_refused() -> None:
    study = Study.of(*chain(3), QUIET)
    assert study.model.bounds is not None
    with pytest.raises(DataError, match="expected \\(N, 3, "):
        sequential_fit(study.model, study.W[..., :-1], study.tau, study.model.bounds)
    with pytest.raises(DataError, match="not finite"):
        sequential_fit(study.model, study.W, study.tau * np.nan, study.model.bounds)
    with pytest.raises(DataError, match="10 samples do not determine the 12 parameters of joint 3"):
        sequential_fit(study.model, study.W[:10], study.tau[:10], study.model.bounds)
    with pytest.raises(DataError, match="does not excite joint 3: move it"):
        sequential_fit(study.model, 0.0 * study.W, study.tau, study.model.bounds)


def test_motions_keep_a_robots_limits_and_growth_is_an_exponent() -> None:
    robot = load_robot("puma_3dof")
    q, dq, _ = motion(ArmModel.of(robot), NOISY, robot)
    assert (q >= robot.lower - 1e-9).all() and (q <= robot.upper + 1e-9).all()
    assert (np.abs(dq).max(axis=0) <= robot.velocity_limits + 1e-9).all()
    sizes = np.array([3.0, 9.0, 30.0])
    assert growth(sizes, 0.2 * sizes**1.5) == pytest.approx(1.5)
