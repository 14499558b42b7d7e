"""The executor on the simulated arm with gravity and all nuisances: every end of a motion leaves the arm at rest."""

import numpy as np
import pytest

from dynid.control.arm_controller import ArmController
from dynid.control.control_model import ControlModel
from dynid.control.controller import load_controller
from dynid.control.dynamics_kernel import compile_single
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.model_laws import ComputedTorque, GravityCompensation
from dynid.control.motion import MotionExecutor
from dynid.errors import SafetyError
from dynid.model.drive import of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.gear_presets import gear_friction
from dynid.model.standard import from_file
from dynid.robot import load_robot
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.simulation.plant.arm import plant_standard
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")
SETTINGS = load_controller(ROBOT)
V01 = load_excitation(ROBOT).trajectory("V01")
N = ROBOT.size
SAG_RAD = np.deg2rad(11.0)  # 5 deg of gravity, the rest of gears that stick under load


@pytest.fixture(scope="module")
def dynamics():
    return compile_single(ArmModel.of(ROBOT))


@pytest.fixture(scope="module")
def model():
    arm = ArmModel.of(ROBOT)
    phi = arm.base_parameters(from_file(plant_standard(ROBOT), arm.mdh))
    phi = of_kinds(phi, ("FV",), others=True)
    return ControlModel(ROBOT.name, arm.structure_hash, phi, gear_friction(ROBOT), True)


def begun(seconds, law=None):
    """Return an arm that has followed V01 for a time [s]."""
    arm = SteppedArm(ROBOT, seed=1)
    controller = FeedforwardPd(SETTINGS) if law is None else ArmController(law, SETTINGS.pseudo_differentiation_s, N)
    motion = MotionExecutor(ROBOT, controller)
    motion.begin(V01, arm.measure(), arm.stamp_ns)
    assert arm.run(motion, lambda: motion.phase == "trajectory", 30.0)
    for _ in range(round(seconds * 1000)):
        step = arm.follow(motion)
    return arm, motion, step


def stands(arm, motion, seconds=3.0):
    """Return whether the arm comes to rest near its reference, except for sag under gravity, and its posture."""
    for _ in range(round(seconds * 1000)):
        step = arm.follow(motion)
    q = arm.plant.q.copy()
    for _ in range(300):
        arm.follow(motion)
    at_rest = np.abs(arm.plant.q - q).max() < np.deg2rad(0.2)
    return at_rest and np.abs(q - step.q_ref).max() < SAG_RAD, q


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.4, 2.5, 6.0])
def test_a_cancelled_motion_ends_at_rest(seconds):
    arm, motion, _ = begun(seconds)
    motion.cancel(arm.stamp_ns)
    assert stands(arm, motion)[0] and motion.phase == "cancelled"


def test_released_arm_falls():
    arm, motion, _ = begun(2.5)
    before = arm.plant.q.copy()
    motion.release()
    for _ in range(1500):
        arm.follow(motion)
    assert np.abs(arm.plant.q - before).max() > np.deg2rad(20.0)


@pytest.mark.slow
def test_an_arm_that_is_held_back_is_held_where_it_is():
    arm, motion, _ = begun(2.5)
    push, stops, sent = 30.0 * np.eye(N)[0], 0, np.zeros(N)
    for _ in range(300):
        try:
            step = arm.follow(motion, push)
            sent = sent if step is None else step.tau
        except SafetyError as error:
            assert "held in place" in str(error)
            stops += 1
            arm.command(sent, push)  # servos keep what they were sent last
    assert stops > 0
    assert stands(arm, motion)[0] and motion.phase == "cancelled"


@pytest.mark.slow
def test_a_refused_motion_leaves_a_held_arm_where_it_is():
    arm, motion, _ = begun(1.0)
    motion.cancel(arm.stamp_ns)
    rested, q = stands(arm, motion)
    assert rested
    beyond = V01.waypoints.copy()
    beyond[2, 3] = 0.3
    with pytest.raises(SafetyError, match="rotate_joint"):
        motion.begin(type(V01)("beyond", V01.joint_names, beyond, V01.laws), arm.measure(), arm.stamp_ns)
    arm.command(np.zeros(N))
    rested, after = stands(arm, motion, 1.0)
    assert rested and np.abs(after - q).max() < np.deg2rad(1.0)


def test_laws_are_switched_in_the_middle_of_a_motion_without_a_jump(model, dynamics):
    arm, motion, before = begun(2.0)
    last = before.tau.copy()
    noise = max(np.abs(np.diff([arm.follow(motion).tau for _ in range(50)], axis=0)).max() for _ in range(2))
    last = arm.follow(motion).tau
    law = ComputedTorque(SETTINGS, model, dynamics)
    motion.switch_to(law)
    first = arm.follow(motion).tau
    assert np.abs(first - last).max() < 1.2 * noise
    for _ in range(3000):
        step = arm.follow(motion)
    assert motion.controller.law is law and np.abs(arm.plant.q - step.q_ref).max() < np.deg2rad(0.5)


@pytest.mark.slow
def test_switching_to_hand_guiding_and_back_leaves_the_arm_at_rest(model, dynamics):
    law = ComputedTorque(SETTINGS, model, dynamics)
    arm, motion, _ = begun(2.0, law)
    motion.cancel(arm.stamp_ns)
    assert stands(arm, motion)[0]
    motion.switch_to(GravityCompensation(model, dynamics, SETTINGS.friction_share))
    rested, q = stands(arm, motion)
    assert rested
    for _ in range(300):
        arm.follow(motion, 1.0 * np.eye(N)[0])
    rested, pushed = stands(arm, motion)
    assert rested and pushed[0] - q[0] > np.deg2rad(5.0)
    motion.switch_to(law)
    rested, held = stands(arm, motion)
    assert rested and np.abs(held - pushed).max() < np.deg2rad(1.0)
