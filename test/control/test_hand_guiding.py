"""Hand guiding with gravity compensation: less force than the gears alone require, and no drift."""

import numpy as np
import pytest
from benchmarks.speed.hand_push import push_of

from dynid.control.arm_controller import ArmController
from dynid.control.control_model import ControlModel
from dynid.control.controller import FRICTION_SHARE, load_controller
from dynid.control.dynamics_kernel import compile_single
from dynid.control.model_laws import GravityCompensation
from dynid.control.motion import MotionExecutor
from dynid.control.selection import ControllerSelection
from dynid.errors import ConfigurationError
from dynid.model.drive import of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.gear_presets import gear_friction
from dynid.model.standard import from_file
from dynid.robot import FloatArray, load_robot
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.simulation.plant.arm import plant_standard

ROBOT = load_robot("crane_x7")
ARM = ArmModel.of(ROBOT)
DYNAMICS = compile_single(ARM)
SETTINGS = load_controller(ROBOT)
N, COUNT = ROBOT.size, 2.0 * np.pi / 4096
POSE = np.deg2rad([20.0, 20.0, 10.0, -60.0, 30.0, 20.0, 0.0, 40.0])


def law_of(share: float = FRICTION_SHARE, overestimated: float = 1.0) -> GravityCompensation:
    """Return the law with the arm's true parameters except for friction."""
    phi = of_kinds(ARM.base_parameters(from_file(plant_standard(ROBOT), ARM.mdh)), ("FV",), others=True)
    friction = gear_friction(ROBOT).scaled(overestimated)
    return GravityCompensation(ControlModel(ROBOT.name, "", phi, friction, True), DYNAMICS, share)


def led(law: GravityCompensation, seed: int = 0) -> tuple[SteppedArm, MotionExecutor]:
    arm = SteppedArm(ROBOT, seed=seed, q0=POSE)
    motion = MotionExecutor(ROBOT, ArmController(law, SETTINGS.pseudo_differentiation_s, N))
    motion.hold(arm.measure(), arm.stamp_ns)
    return arm, motion


def path(arm: SteppedArm, motion: MotionExecutor, seconds: float, push: FloatArray | None = None) -> FloatArray:
    rows = []
    for _ in range(round(1000 * seconds)):
        arm.follow(motion, push)
        rows.append(arm.plant.q.copy())
    return np.array(rows)


@pytest.mark.slow
@pytest.mark.parametrize("joint", [0, 1, 4])
@pytest.mark.parametrize("speed", [0.3, -0.3])
def test_guided_joint_needs_less_but_some_push(joint: int, speed: float) -> None:
    before, after = (push_of(*led(law_of(share)), joint, speed) for share in (0.0, FRICTION_SHARE))
    assert 0.02 < after < 0.75 * before


def test_a_released_arm_stays_and_its_torque_does_not_tremble() -> None:
    arm, motion = led(law_of())
    moved = path(arm, motion, 2.0)
    assert np.ptp(moved, axis=0).max() < np.deg2rad(0.1)
    count, still = arm._count, law_of(0.0)
    commands, seen = arm._rows["command"][500:count], arm._rows["position"][500:count]
    expected = [still.torque(q, 0.0 * q, q, q, q) for q in seen]
    np.testing.assert_allclose(commands, expected, atol=1e-9)
    assert len(np.unique(seen[:, 1])) <= 3  # the encoder may tremble


@pytest.mark.slow
@pytest.mark.parametrize("joint", range(0, N, 3))
def test_after_a_push_it_comes_to_rest_even_with_too_much_friction_in_the_model(joint: int) -> None:
    arm, motion = led(law_of(overestimated=1.4))
    stuck = arm.plant.friction.budget(np.zeros(N), -arm.plant.load, arm.plant.load)
    assert np.ptp(path(arm, motion, 0.15, (0.2 + stuck) * np.eye(N)[joint])[:, joint]) > np.deg2rad(0.5)
    path(arm, motion, 1.5)
    assert np.ptp(path(arm, motion, 0.5), axis=0).max() < np.deg2rad(0.1)


def test_overcompensated_friction_keeps_the_arm_moving() -> None:
    arm, motion = led(law_of(1.0, overestimated=1.5))
    path(arm, motion, 1.0)
    path(arm, motion, 0.15, 0.8 * np.eye(N)[0])
    path(arm, motion, 1.0)
    assert np.ptp(path(arm, motion, 0.5)[:, 0]) > np.deg2rad(5.0)


@pytest.mark.slow
@pytest.mark.parametrize("overestimated", [0.8, 1.0, 1.2])
def test_loaded_shoulder_takes_half_the_push_and_rests_after_release(overestimated: float) -> None:
    pose = np.deg2rad([-31.0, -13.0, 26.0, -86.0, -33.0, -2.0, -27.0, 35.0])

    def at(law: GravityCompensation) -> tuple[SteppedArm, MotionExecutor]:
        return SteppedArm(ROBOT, seed=1, q0=pose), MotionExecutor(ROBOT, ArmController(law, 0.002, N))

    helped = law_of(overestimated=overestimated)
    before = np.mean([push_of(*at(law_of(0.0)), 1, speed) for speed in (0.3, -0.3)])
    arm, motion = at(helped)
    after = np.mean([push_of(arm, motion, 1, 0.3), push_of(*at(helped), 1, -0.3)])
    assert after < (0.5 if overestimated >= 1.0 else 0.65) * before
    path(arm, motion, 1.0)
    assert np.ptp(path(arm, motion, 1.0), axis=0).max() < np.deg2rad(0.1)


def test_an_encoder_that_trembles_gives_no_torque() -> None:
    controller = ArmController(law_of(), SETTINGS.pseudo_differentiation_s, N)
    controller.reset(POSE)
    rng, still = np.random.default_rng(1), law_of(0.0)
    for _ in range(2000):
        q = POSE + COUNT * rng.integers(0, 3, N)
        torque = controller.update(0.001, q, POSE, 0.0 * POSE, 0.0 * POSE)
        np.testing.assert_array_equal(torque, still.torque(q, 0.0 * q, q, q, q))
    faster = [controller.update(0.001, POSE + 0.0005 * k, POSE, 0.0 * POSE, 0.0 * POSE) for k in range(200)]
    q = POSE + 0.0005 * 199
    assert (np.abs(faster[-1] - still.torque(q, 0.0 * q, q, q, q)) > 0.02).all()  # a motion does


def test_the_share_is_of_the_settings_or_given_and_within_its_limits() -> None:
    selection = ControllerSelection(ROBOT, SETTINGS)
    phi = ARM.base_parameters(from_file(plant_standard(ROBOT), ARM.mdh))
    model = ControlModel(ROBOT.name, ARM.structure_hash, phi, gear_friction(ROBOT), True)
    selection.exchange(name="gravity_compensation", model=model)
    assert selection.controller.law.gains()["friction_share"] == SETTINGS.friction_share < 1.0
    selection.exchange(friction_share=0.2)
    assert selection.controller.law.gains()["friction_share"] == 0.2
    for share in (1.1, -0.1, float("nan")):
        with pytest.raises(ConfigurationError, match="expected 0 to 1"):
            selection.exchange(friction_share=share)
    selection.exchange(name="computed_torque")
    law = selection.controller.law
    selection.exchange(friction_share=0.5)
    assert selection.controller.law is law and selection.make("gravity_compensation").gains()["friction_share"] == 0.5
