"""Friction in the base parameters and in a law: inverse dynamics, motion check and feed-forward count it once."""

import numpy as np
import pytest

from dynid.codegen.compile import compile_inverse_dynamics
from dynid.control.control_model import ControlModel
from dynid.control.controller import ControllerSettings
from dynid.control.dynamics_kernel import compile_single
from dynid.control.equation_terms import compile_terms
from dynid.control.model_laws import ComputedTorque, GravityCompensation
from dynid.control.motion_check import MotionCheck, MotionLimits, model_torques
from dynid.errors import SafetyError
from dynid.model.drive import KINDS, RESISTING, kind_and_number, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Stribeck, Structure, load_robot

ROBOT = load_robot("tx40")  # a motor of it moves two joints
N = ROBOT.size
DRIVEN = Structure(
    products_of_inertia=True, coulomb_friction=True, friction_offset=True, stribeck=Stribeck(velocity_rad_s=0.3)
)
NONE = FrictionLaw.of(N, {})
BESIDE = FrictionLaw.of(
    N,
    {"fb": 0.2, "fa": 0.05, "of": -0.1, "fs": 0.1, "km": 0.3, "ke": 0.1, "kms": 0.1, "kes": 0.05, "ws": 0.4, "a": 1.2},
)
SETTINGS = ControllerSettings(
    schema_version=1,
    proportional_gain_1_s2=(0.0,) * N,
    velocity_gain_1_s=(1e-9,) * N,
    inertia_kg_m2=(1.0,) * N,
    damping_nm_s_rad=(0.0,) * N,
    pseudo_differentiation_s=0.002,
)


@pytest.fixture(scope="module")
def arm() -> ArmModel:
    return ArmModel.of(ROBOT, structure=DRIVEN)


def parameters(arm: ArmModel) -> BaseParameters:
    """An arm of no particular physics, all of whose drive terms are there."""
    phi = BaseParameters(arm.names, np.random.default_rng(5).uniform(0.1, 0.6, len(arm.names)))
    assert {kind_and_number(name)[0] for name in arm.names} >= set(KINDS)
    return phi


def states(count: int = 400) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Fast enough that the smooth sign is the sign, at coupled motors, too."""
    q, dq, ddq = np.random.default_rng(6).uniform(-1.5, 1.5, (3, count, N))
    fast = (np.abs(dq) > 0.4).all(axis=1) & (np.abs(dq @ ROBOT.coupling.T) > 0.4).all(axis=1)
    return q[fast], dq[fast], ddq[fast]


def checked(arm: ArmModel, phi: BaseParameters, friction: FrictionLaw, *state: FloatArray) -> FloatArray:
    """The torques that a motion check holds against the limits."""
    limits = MotionLimits(*np.full((5, N), np.inf))
    check = MotionCheck(ROBOT, limits, model_torques(arm, phi, friction))
    assert check.torques is not None
    return check.torques(*state)


def fed_forward(arm: ArmModel, phi: BaseParameters, friction: FrictionLaw, *state: FloatArray) -> FloatArray:
    law = ComputedTorque(SETTINGS, ControlModel("", "", phi, friction, True), compile_single(arm))
    return np.array([law.torque(q, dq, q, dq, ddq) for q, dq, ddq in zip(*state, strict=True)])


@pytest.mark.slow
def test_friction_among_the_base_parameters_counts_once_everywhere(arm: ArmModel) -> None:
    phi, state = parameters(arm), states()
    expected = arm.inverse_dynamics(*state, phi)
    assert len(expected) > 10
    for found in (
        compile_inverse_dynamics(arm)(*state, phi),
        checked(arm, phi, NONE, *state),
        fed_forward(arm, phi, NONE, *state),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-12, rtol=0)
    for kind in ("FC", "OF", "FS", "FCM"):  # what leaves one out, or counts it twice, is seen
        share = arm.inverse_dynamics(*state, of_kinds(phi, (kind,)))
        assert np.abs(share).max() > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("friction", [BESIDE, FrictionLaw.of(N, {"fb": 0.3})], ids=["load", "coulomb"])
def test_additional_friction_is_counted_once(arm: ArmModel, friction: FrictionLaw) -> None:
    phi, (q, dq, ddq) = parameters(arm), states()
    links = of_kinds(phi, KINDS, others=True)
    load = -arm.inverse_dynamics(q, dq, np.zeros_like(q), links)
    found = checked(arm, phi, friction, q, dq, ddq)
    arriving = found - friction.torque(dq, found, load)
    np.testing.assert_allclose(arriving, arm.inverse_dynamics(q, dq, ddq, phi), atol=1e-12, rtol=0)
    np.testing.assert_allclose(fed_forward(arm, phi, friction, q, dq, ddq), found, atol=1e-12, rtol=0)


def test_the_load_is_gravity_and_coriolis_forces_alone(arm: ArmModel) -> None:
    phi, (q, dq, _) = parameters(arm), states()
    links = of_kinds(phi, KINDS, others=True)
    alone = Structure(products_of_inertia=True, rotor_inertia=False, viscous_friction=False)
    bare = ArmModel.of(ROBOT, structure=alone)
    expected = bare.inverse_dynamics(q, dq, 0.0 * q, BaseParameters(bare.names, [phi[name] for name in bare.names]))
    np.testing.assert_allclose(arm.inverse_dynamics(q, dq, 0.0 * q, links), expected, atol=1e-12)
    moved = of_kinds(phi, KINDS)
    assert not np.any(of_kinds(links, KINDS).values) and np.any(moved.values)


def test_a_smooth_sign_is_the_same_for_one_state_and_for_columns(arm: ArmModel) -> None:
    phi, (q, dq, ddq) = parameters(arm), states()
    slow = 0.01 * dq
    names = [name for name in arm.names if kind_and_number(name)[0] in ("FC", "FS", "FCM", "OF")]
    columns = arm.drive.columns(names, 0.0 * slow, slow, 0.0 * slow, 0.02)
    expected = columns @ np.array([phi[name] for name in names])
    np.testing.assert_allclose(arm.dry_torque(slow, phi, 0.02), expected, atol=1e-13)
    single = compile_single(arm, 0.02)(q[0], slow[0], ddq[0], phi.values)
    smooth = arm.inverse_dynamics(q, slow, ddq, phi) - arm.dry_torque(slow, phi) + expected
    np.testing.assert_allclose(single, smooth[0], atol=1e-12)
    assert np.abs(expected - arm.dry_torque(slow, phi)).max() > 1e-2


@pytest.mark.slow
def test_the_terms_of_one_kernel_are_those_of_the_model(arm: ArmModel) -> None:
    phi, single = parameters(arm), compile_single(arm, 0.02)
    terms, found = compile_terms(single), (np.full((N, N), np.nan), *np.full((2, N), np.nan))
    for q, dq, still in zip(*(rows[:5] for rows in states()[:2]), np.zeros((5, N)), strict=True):
        terms(q, dq, phi.values, *found)
        np.testing.assert_allclose(found[0], arm.inertia_matrix(q[None], phi)[0], atol=1e-12)
        links = of_kinds(phi, KINDS, others=True)
        np.testing.assert_allclose(found[1], arm.inverse_dynamics(q[None], dq[None], still[None], links)[0], atol=1e-12)
        np.testing.assert_allclose(found[2], single(q, dq, still, phi.values), atol=1e-12)
    before = [one.copy() for one in found]
    with pytest.raises(SafetyError, match=r"a joint is at 4\.000 rad"):
        terms(np.full(N, 4.0), dq, phi.values, *found)
    np.testing.assert_equal(list(found), before)


def test_an_arm_at_rest_is_held_with_its_offsets_and_nothing_else(arm: ArmModel) -> None:
    phi, (q, dq, _) = parameters(arm), states()
    model = ControlModel("", "", phi, BESIDE, True)
    held = GravityCompensation(model, compile_single(arm), 0.6).torque(q[0], 0.0 * dq[0], q[0], dq[0], dq[0])
    still = np.zeros((1, N))
    expected = arm.inverse_dynamics(q[:1], still, still, phi)[0] + BESIDE["of"]
    np.testing.assert_allclose(held, expected, atol=1e-12)


def test_guiding_hand_is_helped_by_a_share_of_friction(arm: ArmModel) -> None:
    """Far beyond where the velocity is uncertain the help is the share of the friction at the torque that flows."""
    phi, (q, dq, _) = parameters(arm), states()
    share, still = 0.6, np.zeros_like(dq)
    law = GravityCompensation(ControlModel("", "", phi, BESIDE, True), compile_single(arm), share)
    found = np.array([law.torque(one, rate, one, rate, rate) for one, rate in zip(q, 4.0 * dq, strict=True)])
    links = of_kinds(phi, KINDS, others=True)
    gravity = arm.inverse_dynamics(q, still, still, links)
    offset = arm.inverse_dynamics(q, still, still, of_kinds(phi, ("OF",))) + BESIDE["of"]
    given = found - offset
    resisting = BESIDE.with_values({"of": 0.0}).torque(4.0 * dq, given, -gravity)
    among = arm.inverse_dynamics(still, 4.0 * dq, still, of_kinds(phi, RESISTING))
    np.testing.assert_allclose(given - gravity, share * (resisting + among), rtol=1e-6)


def test_of_kinds_and_its_complement_sum_to_all_parameters(arm: ArmModel) -> None:
    phi = parameters(arm)
    whole = of_kinds(phi, KINDS).values + of_kinds(phi, KINDS, others=True).values
    np.testing.assert_array_equal(whole, phi.values)
    assert DRIVEN.coulomb_friction and of_kinds(phi, ("FC",))["FC1"] == phi["FC1"]
    assert of_kinds(phi, ("FC",))["FCM6"] == 0.0
