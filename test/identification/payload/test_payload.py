"""Changes between two runs: a payload with correct standard deviations; torque constants from a known mass."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from arms import RECORD, arm, nominal_standard
from geared_arms import CONSTANTS, variant
from recordings import motion, recorded
from scipy.signal import lfilter

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import ConfigurationError, DataError
from dynid.export.mjcf import default_stops
from dynid.identification.changes import beyond_chance, parameter_changes
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.essential import essential_parameters
from dynid.identification.payload.known_mass import JointScale, check_torque_constants, pooled
from dynid.identification.payload.mass_alone import FAR_M, check_with_mass_alone
from dynid.identification.payload.payload import changes_between, find_payload
from dynid.identification.payload.two_runs import load_two_runs
from dynid.identification.settings import load_identification
from dynid.identification.setup import estimate_setup
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.model.regressor import LINK_PARAMETERS
from dynid.model.standard import LinkInertia, from_link_frame, load_standard
from dynid.robot import load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("puma560")
MODEL = arm("puma560")
EMPTY = nominal_standard("puma560")
BODY = LinkInertia(2.0, np.array([0.02, -0.01, 0.08]), np.diag([0.004, 0.005, 0.003]))
LOAD = from_link_frame(BODY, MODEL.mdh.in_link[-1])
SIGMA = np.array([0.5, 0.5, 0.3, 0.05, 0.05, 0.05])


def carrying(load: np.ndarray = LOAD, friction: float = 0.0) -> BaseParameters:
    """The arm's base parameters with something at the last link, and friction that grew with it."""
    values = np.array(EMPTY.values)
    values[50:60] += load
    values[[EMPTY.names.index(f"FC{j}") for j in (4, 5, 6)]] += friction
    return MODEL.base_parameters(StandardParameters(EMPTY.names, values, 6))


@pytest.fixture
def runs(make_samples) -> tuple[Samples, Samples]:
    return tuple(
        make_samples(ROBOT, phi, seed=seed, sigma=SIGMA, count=400)
        for seed, phi in enumerate((MODEL.base_parameters(EMPTY), carrying(friction=0.2)))
    )


def test_payload_is_found_with_correct_deviations(runs) -> None:
    found = find_payload(MODEL, *runs)
    assert found.names == ("XX6", "XY6", "XZ6", "YY6", "YZ6", "ZZ6", "MX6", "MY6", "MZ6", "M6") and found.unseen == ()
    assert np.abs((found.values - LOAD) / found.deviations).max() < 4.0
    mass, deviation = found.value("M")
    assert mass == pytest.approx(2.0, abs=0.1) and 0.001 < deviation < 0.1
    np.testing.assert_allclose(found.centre_of_mass, BODY.centre_of_mass, atol=0.01)
    assert found.physical


def test_payload_is_exact_without_noise(make_samples) -> None:
    runs = [make_samples(ROBOT, phi, seed=k) for k, phi in enumerate((MODEL.base_parameters(EMPTY), carrying()))]
    np.testing.assert_allclose(find_payload(MODEL, *runs).values, LOAD, atol=1e-6)


@pytest.mark.slow
def test_two_runs_without_a_payload_find_none(make_samples) -> None:
    runs = [make_samples(ROBOT, MODEL.base_parameters(EMPTY), seed=k, sigma=SIGMA, count=1600) for k in range(2)]
    found = find_payload(MODEL, *runs)
    assert (np.abs(found.values) < 4 * found.deviations).all()
    assert beyond_chance(changes_between(MODEL, *runs)) == ()


def test_undetermined_changes_are_named(make_samples) -> None:
    planar = load_robot("planar_3r")
    model = ArmModel.of(planar)
    phi = model.base_parameters(load_standard(planar.folder / "models" / "nominal.yaml", model.mdh))
    found = find_payload(model, make_samples(planar, phi, seed=1), make_samples(planar, phi, seed=2))
    assert found.names == ("ZZ3", "MX3", "MY3", "M3") and found.physical is None
    assert found.unseen == ("XX3", "XY3", "XZ3", "YY3", "YZ3", "MZ3") and found.value("MZ") is None
    still = make_samples(planar, phi, seed=2)
    still = replace(still, q=0 * still.q, dq=0 * still.dq, ddq=0 * still.ddq)
    with pytest.raises(DataError, match="do not determine"):
        find_payload(model, still, still)


def test_combined_changes_are_undetermined(make_samples) -> None:
    """While the wrist rests, inertias of the load act in combinations only; its mass and its place act alone."""
    before, after = (
        make_samples(ROBOT, phi, seed=k) for k, phi in enumerate((MODEL.base_parameters(EMPTY), carrying()))
    )
    moves = np.array([0.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    q = after.q * moves + np.array([0.1, 0.0, 0.0, 0.4, 0.7, 0.2])
    states = q, after.dq * moves, after.ddq * moves
    tau = MODEL.inverse_dynamics(*states, carrying())
    found = find_payload(MODEL, before, Samples(ROBOT.joint_names, after.time, *states, tau, RECORD))
    assert found.names == ("MX6", "MY6", "MZ6", "M6") and found.unseen == ("XX6", "XY6", "XZ6", "YY6", "YZ6", "ZZ6")
    np.testing.assert_allclose(found.values, LOAD[6:], atol=1e-6)
    np.testing.assert_allclose(found.centre_of_mass, BODY.centre_of_mass, atol=1e-6)
    assert found.physical is None and found.value("XX") is None


def test_changes_are_distinguished_from_chance(runs) -> None:
    """The payload changes what lies beyond the wrist; the first joint's friction stays what it was."""
    changes = {change.name: change for change in beyond_chance(changes_between(MODEL, *runs))}
    assert changes["MXR2"].difference == pytest.approx(2.0 * 0.4318, rel=0.05)
    assert "FC6" in changes and "FV1" not in changes
    before = essential_parameters(MODEL, runs[0], np.inf).base
    with pytest.raises(DataError, match="different models"):
        parameter_changes(before, BaseParameters(("A",), np.zeros(1), np.eye(1)))
    with pytest.raises(DataError, match="no covariance"):
        parameter_changes(before, BaseParameters(before.names, before.values))


@pytest.mark.slow
def test_confidence_intervals_hold_in_short_runs() -> None:
    """Payload, known mass and mass at an unknown place, from runs of a few seconds with correlated noise."""
    planar = load_robot("planar_3r")
    model = ArmModel.of(planar)
    empty = load_standard(planar.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    body = LinkInertia(0.5, np.array([0.1, 0.02, 0.0]), 5e-4 * np.eye(3))
    load = from_link_frame(body, model.mdh.in_link[-1])
    values = np.array(empty.values)
    values[20:30] += load
    arms = [model.base_parameters(StandardParameters(empty.names, one, 3)) for one in (empty.values, values)]
    truth, radius = dict(zip((f"{kind}3" for kind in LINK_PARAMETERS), load, strict=True)), 0.05  # 0.4 m r^2 = 5e-4

    def run(phi: BaseParameters, seed: int) -> Samples:
        time, q, dq, ddq = (one[::2] for one in motion(planar, 5.0, seed))
        noise = lfilter([0.57], [1.0, -0.82], np.random.default_rng(1000 + seed).normal(size=q.shape), axis=0)
        tau = model.inverse_dynamics(q, dq, ddq, phi) + noise * np.array([0.1, 0.05, 0.02])
        return Samples(planar.joint_names, time, q, dq, ddq, tau, RECORD)

    errors: dict[str, list[float]] = {"payload": [], "known mass": [], "mass alone": []}
    for k in range(30):
        runs = run(arms[0], 2 * k), run(arms[1], 2 * k + 1)
        found = find_payload(model, *runs)
        off = found.values - np.array([truth[name] for name in found.names])
        errors["payload"] += (off / found.deviations).tolist()
        known, alone = check_torque_constants(model, *runs, body), check_with_mass_alone(model, *runs, 0.5, radius)
        errors["known mass"] += [(one.scale - 1.0) / one.deviation for one in known if one.determined]
        errors["mass alone"] += [(one.scale - 1.0) / one.deviation for one in alone.joints if one.determined]
    held = {name: float(np.mean(np.abs(one) < 1.645)) for name, one in errors.items()}
    assert all(0.78 < one for one in held.values()), held


# -- torque constants ------------------------------------------------------------------------------------------


def reported(samples: Samples, scale: np.ndarray) -> Samples:
    """What drives with wrong torque constants report."""
    return replace(samples, tau=samples.tau * scale)


def test_wrong_torque_constants_are_found_joint_by_joint(runs) -> None:
    scale = np.array([1.3, 0.77, 1.0, 1.3, 1.2, 1.0])
    constants = (1.0, 2.0, 3.0, 1.0, 1.0, 3.0)
    found = check_torque_constants(MODEL, *(reported(one, scale) for one in runs), BODY, constants)
    for one, expected, constant in zip(found, scale, constants, strict=True):
        assert one.torque_constant == constant
        if one.determined:
            assert abs(one.scale - expected) < 4 * one.deviation
    second = found[1]
    assert second.doubtful and second.deviation < 0.05
    assert second.corrected is not None and second.corrected[0] == pytest.approx(2.0 / 0.77, rel=0.1)
    assert "joint_2: reports 0.7" in second.sentence() and "2 used" in second.sentence()
    assert not found[2].doubtful


def test_correct_torque_constants_are_not_marked_doubtful(runs) -> None:
    found = check_torque_constants(MODEL, *runs, BODY)
    assert not any(one.doubtful for one in found) and sum(one.determined for one in found) >= 3
    assert all(one.corrected is None for one in found)


def test_a_wrong_known_mass_looks_like_a_wrong_torque_constant(runs) -> None:
    """What the check can and cannot tell: it compares with the mass that it was given."""
    heavier = LinkInertia(2 * BODY.mass, BODY.centre_of_mass, 2 * BODY.inertia)
    second = check_torque_constants(MODEL, *runs, heavier)[1]
    assert second.scale == pytest.approx(0.5, abs=0.05) and second.doubtful


def test_known_mass_determines_constants_and_position(runs) -> None:
    scale = np.array([1.3, 0.77, 1.0, 1.3, 1.2, 1.0])
    wrong = [reported(one, scale) for one in runs]
    check = check_with_mass_alone(MODEL, *wrong, BODY.mass, 0.05)
    known = check_torque_constants(MODEL, *wrong, BODY)
    assert (np.abs(check.place_m - BODY.centre_of_mass) < 4.0 * check.place_deviation_m).all()
    assert check.place_deviation_m.max() < 0.02
    seen = [(one, other, expected) for one, other, expected in zip(check.joints, known, scale, strict=True)]
    assert sum(one.determined for one, _, _ in seen) >= 3
    for one, other, expected in seen:
        if one.determined:
            assert abs(one.scale - expected) < 4.0 * one.deviation
            assert one.deviation > 0.8 * other.deviation  # knowing less cannot make sure of more
    assert check.joints[1].doubtful and not check.joints[2].doubtful


def test_place_without_effect_on_torques_is_unknown(make_samples) -> None:
    """How far a body is off the plane of a planar arm makes no difference; where in the plane does."""
    planar = load_robot("planar_3r")
    model = ArmModel.of(planar, mount="flat")
    empty = load_standard(planar.folder / "models" / "nominal.yaml", model.mdh)
    body = LinkInertia(0.5, np.array([0.12, 0.03, 0.0]), 1e-5 * np.eye(3))
    values = np.array(empty.values)
    last = [empty.names.index(f"{kind}3") for kind in LINK_PARAMETERS]
    values[last] += from_link_frame(body, model.mdh.in_link[-1])
    loaded = model.base_parameters(StandardParameters(empty.names, values, 3))
    lying = ArmModel.of(planar).base_parameters(empty)  # of an arm whose states are taken and not its torques
    runs = []
    for phi, seed in ((model.base_parameters(empty), 0), (loaded, 1)):
        run, noise = make_samples(planar, lying, seed=seed), np.random.default_rng(seed)
        tau = model.inverse_dynamics(run.q, run.dq, run.ddq, phi) + 0.02 * noise.normal(size=run.q.shape)
        runs.append(replace(run, tau=tau))
    check = check_with_mass_alone(model, *runs, body.mass)
    np.testing.assert_allclose(check.place_m[:2], body.centre_of_mass[:2], atol=0.02)
    assert check.place_deviation_m[:2].max() < 0.02 and check.place_deviation_m[2] > 0.9 * FAR_M
    assert all(abs(one.scale - 1.0) < 4.0 * one.deviation for one in check.joints if one.determined)


def test_torque_that_coupled_motors_share_shows_no_constant(make_samples, tmp_path: Path) -> None:
    """Motor 3 moves joints 2 and 3: its wrong constant shows at joint 3, and distorts joint 2."""
    coupled = variant("coupled", tmp_path)
    model = ArmModel.of(coupled)
    path = coupled.folder / "models" / "nominal.yaml"
    empty = load_standard(path, model.mdh, model.regrouping.standard)
    body, values = LinkInertia(0.8, np.array([0.1, 0.02, 0.0]), 3e-4 * np.eye(3)), np.array(empty.values)
    values[[empty.names.index(f"{kind}3") for kind in LINK_PARAMETERS]] += from_link_frame(body, model.mdh.in_link[-1])
    loaded = StandardParameters(empty.names, values, 3)
    runs = []
    for seed, standard in enumerate((empty, loaded)):
        run = make_samples(coupled, model.base_parameters(standard), seed=seed, sigma=0.02)
        motors = run.tau @ np.linalg.inv(coupled.coupling)
        runs.append(replace(run, tau=(motors * [1.0, 1.0, 0.75]) @ coupled.coupling))
    found = check_torque_constants(model, *runs, body, coupled.motor_constants(CONSTANTS))
    assert [one.shared for one in found] == [False, True, False]
    assert not found[1].determined and not found[1].doubtful and found[1].corrected is None
    assert "joint_2: several coupled motors share its torque" in found[1].sentence()
    assert found[2].scale == pytest.approx(0.75, abs=0.02) and found[2].doubtful and not found[0].doubtful
    with pytest.raises(DataError, match=r"coupled motors share the torque of joint_2, .* give it with --at"):
        check_with_mass_alone(model, *runs, body.mass, 0.0, CONSTANTS)
    recording, settings = replace(recorded(coupled), torque_constants=CONSTANTS), load_identification(coupled)
    with pytest.raises(
        ConfigurationError, match="coupled motors move joint_2, joint_3, so no scale of a joint's torque"
    ):
        estimate_setup(coupled, [recording], settings, [f"torque-constant:joint_{k}" for k in (2, 3)])


def test_joint_without_load_is_undetermined(make_samples) -> None:
    """Flat on a table a planar arm feels inertia only, and a run at rest feels nothing at all."""
    planar = load_robot("planar_3r")
    model = ArmModel.of(planar)
    phi = model.base_parameters(load_standard(planar.folder / "models" / "nominal.yaml", model.mdh))
    run = make_samples(planar, phi, sigma=0.05)
    still = replace(run, dq=0 * run.dq, ddq=0 * run.ddq, q=np.full_like(run.q, np.pi / 2) * [1.0, 0.0, 0.0])
    with pytest.raises(DataError, match="loads no joint enough"):
        check_torque_constants(model, run, still, LinkInertia(0.5, np.zeros(3), 1e-4 * np.eye(3)))
    silent = JointScale("a", float("nan"), float("inf"), 0.0, 0.0, 2.0)
    assert not silent.determined and not silent.doubtful and silent.corrected is None
    assert "cannot be checked" in silent.sentence()


def test_torque_below_unmodelled_friction_is_undetermined() -> None:
    """Friction at standstill is never quite as modelled; white noise does not describe it."""
    assert JointScale("a", 0.7, 0.01, known_torque=0.2, unexplained=0.05).doubtful
    assert not JointScale("a", 0.7, 0.01, known_torque=0.1, unexplained=0.05).determined
    assert not JointScale("a", 0.97, 0.001, known_torque=1.0, unexplained=0.05).doubtful


def test_joints_of_one_servo_type_are_pooled() -> None:
    scales = (
        JointScale("a", 0.80, 0.02, 1.0, 0.1, 2.0),
        JointScale("b", 0.80, 0.02, 1.0, 0.1, 2.0),
        JointScale("c", 1.5, 0.9, 0.1, 0.0, 2.0),
        JointScale("d", 1.0, 0.01, 1.0, 0.1, 3.0),
        JointScale("e", 1.0, 0.01, 1.0),
    )
    found = pooled(scales)
    assert found.keys() == {2.0, 3.0}
    assert found[2.0] == (pytest.approx(0.80), pytest.approx(0.02 / np.sqrt(2)))
    apart = pooled((JointScale("a", 0.7, 0.01, 1.0, 0.1, 2.0), JointScale("b", 0.9, 0.01, 1.0, 0.1, 2.0)))[2.0]
    assert apart[1] > 0.05


@pytest.mark.slow
def test_another_motion_of_the_same_arm_is_no_payload(tmp_path: Path) -> None:
    """All nuisances on: what sticking leaves in one motion and not in the other must not look like a load."""
    robot = load_robot("crane_x7")
    controller, excitation = load_controller(robot), load_excitation(robot)
    stops = default_stops(robot, excitation.limits("paper"))
    for seed, name in enumerate(("PA02", "AP01")):
        run = simulate(
            robot,
            excitation.trajectory(name, "paper"),
            FeedforwardPd(controller),
            mount="hanging",
            stops=stops,
            seed=seed,
            to_rest=False,
            friction="viscous",  # on gears as measured the mass is 0.018 kg off
        )
        write_bag(run, robot, controller, tmp_path / name, profile="paper")
    runs = load_two_runs(robot, (tmp_path / "PA02", tmp_path / "AP01"))
    found = find_payload(runs.model, *runs.samples)
    assert (np.abs(found.values) < 4 * found.deviations).all()
    mass = found.names.index("M7")
    assert abs(found.values[mass]) < 0.01 and found.deviations[mass] < 0.01
