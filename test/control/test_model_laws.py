"""Model-based control laws against MuJoCo, an independent implementation of the dynamics."""

import mujoco
import numpy as np
import pytest

from dynid.control.control_model import ControlModel
from dynid.control.controller import load_controller
from dynid.control.dynamics_kernel import TRANSITION_RAD_S, compile_single
from dynid.control.holding_check import HoldingTorque
from dynid.control.model_laws import ComputedTorque, GravityCompensation, static_friction
from dynid.errors import SafetyError
from dynid.export.mjcf import PlantOptions, build_spec
from dynid.model.drive import of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.standard import from_file
from dynid.robot import load_robot
from dynid.simulation.plant.arm import plant_standard

ROBOT = load_robot("crane_x7")
SETTINGS = load_controller(ROBOT)
N = ROBOT.size


def model_of(mount=None, coulomb=0.0, scale=1.0):
    arm = ArmModel.of(ROBOT, mount=mount)
    phi = arm.base_parameters(from_file(plant_standard(ROBOT), arm.mdh))
    friction = FrictionLaw.of(N, {"fb": coulomb})
    return ControlModel(ROBOT.name, arm.structure_hash, phi.with_values(scale * phi.values), friction, True), arm


@pytest.fixture(scope="module", params=["upright", "hanging"])
def arm(request):
    """A frictionless MuJoCo arm, and the laws with its true parameters."""
    options = PlantOptions(request.param, np.zeros(N), (-10 * np.ones(N), 10 * np.ones(N)))
    mj = build_spec(ROBOT, plant_standard(ROBOT), options).compile()
    model, structure = model_of(request.param)
    return mj, model, compile_single(structure)


def acceleration(mj, q, dq, tau):
    data = mujoco.MjData(mj)
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, dq, tau
    mujoco.mj_forward(mj, data)
    return data.qacc.copy()


def test_computed_torque_leaves_the_same_linear_error_equation_everywhere(arm):
    mj, model, dynamics = arm
    law = ComputedTorque(SETTINGS, model, dynamics)
    rng = np.random.default_rng(2)
    stiffness, damping = np.array(SETTINGS.proportional_gain_1_s2), np.array(SETTINGS.velocity_gain_1_s)
    for _ in range(20):
        q, dq, ddq_ref = rng.uniform(-1.5, 1.5, (3, N))
        error = 0.01 * rng.normal(size=N)
        reached = acceleration(mj, q, dq, law.torque(q, dq, q + error, dq, ddq_ref))
        np.testing.assert_allclose(reached - ddq_ref, stiffness * error, atol=1e-5)
    # the velocity error is damped; the other velocity terms take the reference's velocity
    reached = acceleration(mj, q, 0 * dq, law.torque(q, 0.1 * dq, q, 0 * dq, 0 * dq))
    np.testing.assert_allclose(reached, -0.1 * damping * dq, atol=1e-5)


def test_a_wrong_model_leaves_an_acceleration_error(arm):
    mj, _, dynamics = arm
    law = ComputedTorque(SETTINGS, model_of(scale=1.05)[0], dynamics)
    q, dq, ddq_ref = np.random.default_rng(2).uniform(-1.5, 1.5, (3, N))
    reached = acceleration(mj, q, dq, law.torque(q, dq, q, dq, ddq_ref))
    assert np.abs(reached - ddq_ref).max() > 0.1


def test_gravity_compensation_ignores_the_reference(arm):
    mj, model, dynamics = arm
    law = GravityCompensation(model, dynamics)
    assert not law.follows_reference
    rng = np.random.default_rng(3)
    for _ in range(20):
        q, q_ref, dq = rng.uniform(-1.5, 1.5, (3, N))
        tau = law.torque(q, dq, q_ref, dq, dq)
        np.testing.assert_allclose(acceleration(mj, q, np.zeros(N), tau), 0.0, atol=1e-5)
    other = compile_single(ArmModel.of(ROBOT, mount="hanging" if mj.opt.gravity[2] < 0 else "upright"))
    wrong = GravityCompensation(model, other).torque(q, dq, q, dq, dq)
    assert np.abs(acceleration(mj, q, np.zeros(N), wrong)).max() > 1.0


def test_coulomb_friction_is_fed_forward_along_the_reference_and_not_at_rest():
    without, with_friction = model_of()[0], model_of(coulomb=0.1)[0]
    dynamics = compile_single(ArmModel.of(ROBOT))
    q, still = np.array(ROBOT.rest_posture), np.zeros(N)
    slow, fast = 0.5 * TRANSITION_RAD_S * np.ones(N), -np.ones(N)

    def added(dq, dq_ref):
        return ComputedTorque(SETTINGS, with_friction, dynamics).torque(q, dq, q, dq_ref, still) - ComputedTorque(
            SETTINGS, without, dynamics
        ).torque(q, dq, q, dq_ref, still)

    np.testing.assert_allclose(added(fast, fast), -0.1)
    np.testing.assert_allclose(added(fast, slow), 0.1 * np.tanh(0.5))
    np.testing.assert_array_equal(added(fast, still), 0.0)


@pytest.mark.parametrize("name", ["aloha_class", "tx40"])  # motors that move their own joint; two that move two
def test_static_friction_includes_that_of_the_base_parameters(name):
    """A joint that moves alone is opposed by just this torque, by the regressor with sign(dq)."""
    robot = load_robot(name)
    arm = ArmModel.of(robot)
    phi = of_kinds(arm.base_parameters(from_file(plant_standard(robot), arm.mdh)), ("FC", "FS", "FCM"))
    phi = phi.with_values(
        np.where([one[:2] in ("FC", "FS") for one in phi.names], np.arange(len(phi.names)) + 1.0, 0.0)
    )
    model = ControlModel(robot.name, arm.structure_hash, phi, FrictionLaw.of(robot.size, {}), True)
    law = GravityCompensation(model, compile_single(arm))
    slow, still = 1e-9 * np.eye(robot.size), np.zeros((robot.size, robot.size))
    opposing = np.diag(arm.regressor(still, slow, still).reshape(robot.size, robot.size, -1) @ phi.values)
    assert (opposing > 0.5).all()
    np.testing.assert_allclose(static_friction(law, still[0]), opposing, rtol=1e-6)


def test_positions_out_of_range_are_refused_instead_of_answered_wrongly():
    dynamics = compile_single(ArmModel.of(ROBOT))
    still, phi = np.zeros(N), model_of()[0].phi.values
    for position in (3.6, np.nan):
        q = still.copy()
        q[2] = position
        with pytest.raises(SafetyError, match=r"within \+-3.5 rad"):
            dynamics(q, still, still, phi)
    q[2], q[-1] = 3.4, 50.0  # the decoupled axis has no such range
    assert np.isfinite(dynamics(q, still, still, phi)).all()


# -- what an arm is held by, against what a law expects --------------------------------------------------------

Q = np.array(ROBOT.rest_posture)
STILL = np.zeros(N)


def law_of(mount=None, scale=1.0):
    model, arm = model_of(mount, scale=scale)
    return GravityCompensation(model, compile_single(arm))


def held(tau, dq=STILL, seconds=1.0):
    found = HoldingTorque(ROBOT)
    for k in range(round(100 * seconds)):
        found.note(10**9 + k * 10**7, Q, dq, tau)
    return found


@pytest.fixture(scope="module")
def right_law():
    return law_of()


GRAVITY = law_of().torque(Q, STILL, Q, STILL, STILL)
FRICTION = 0.04 * ROBOT.torque_limits


@pytest.mark.parametrize("extra", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("factor", [0.8, 1.0, 1.2])
def test_friction_and_a_rough_model_are_no_contradiction(right_law, extra, factor):
    held(factor * GRAVITY + extra * FRICTION).refuse_contradiction(right_law)


def test_a_wrong_mount_is_refused_naming_the_control_law():
    model, arm = model_of("hanging")
    for law in (law_of("hanging"), ComputedTorque(SETTINGS, model, compile_single(arm))):
        for seconds in (0.05, 2.0):
            with pytest.raises(SafetyError, match=rf"is held by -?\d\.\d+ N m, but {law.name} expects -?\d\.\d+ N m"):
                held(GRAVITY, seconds=seconds).refuse_contradiction(law)


def test_unmodelled_load_is_detected_once_the_arm_stands(right_law):
    tau = GRAVITY + 3.0 * np.eye(N)[1]
    held(tau, seconds=0.1).refuse_contradiction(right_law)  # it may just have been braked
    with pytest.raises(SafetyError, match=ROBOT.joint_names[1]):
        held(tau).refuse_contradiction(right_law)


def test_the_models_own_friction_excuses_stiction_but_no_load(right_law):
    stuck = GRAVITY + 0.15 * ROBOT.torque_limits * (np.arange(N) == 6)  # more than any joint's usual share
    with pytest.raises(SafetyError, match=ROBOT.joint_names[6]):
        held(stuck).refuse_contradiction(right_law, 0.0 * ROBOT.torque_limits)
    held(stuck).refuse_contradiction(right_law, 0.1 * ROBOT.torque_limits)
    loaded = GRAVITY + 0.8 * ROBOT.torque_limits * (np.arange(N) == 1)
    with pytest.raises(SafetyError, match=ROBOT.joint_names[1]):  # whatever friction a wrong model has
        held(loaded).refuse_contradiction(right_law, ROBOT.torque_limits)


def test_weak_outside_support_does_not_contradict_the_model(right_law):
    held(0.02 * GRAVITY + 1e-3).refuse_contradiction(right_law)


@pytest.mark.parametrize(("tau", "dq"), [(STILL, STILL), (-GRAVITY, 0.5 + STILL), (np.nan * STILL, np.nan * STILL)])
def test_contradiction_is_not_judged_without_torque_or_in_motion(right_law, tau, dq):
    held(tau, dq).refuse_contradiction(right_law)
