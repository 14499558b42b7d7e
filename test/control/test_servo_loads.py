"""Loads of servos outside of motions, in lock-step: slow approaches, and held joints with opposing friction."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from benchmarks.guarded_arm import LIFTED, GuardedArm, heavier, lift, nominal_check

from dynid.control.motion_check import MotionCheck, position_and_speed, robot_limits
from dynid.control.plan import APPROACH_RAD_S, plan_motion, transfer
from dynid.control.servo_loads import ServoLoads
from dynid.errors import SafetyError
from dynid.hardware.safety.overload import LIMITED, OverloadModel
from dynid.hardware.safety.relief import LAG_S, SLIP_RAD, Relief
from dynid.model.friction import FrictionLaw
from dynid.robot import Robot, load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.trajectory import approach, through

HOME = np.deg2rad([0.0, 0.0, 0.0, -20.0, 0.0, 0.0, 0.0, 0.0])
NOMINAL_A = 0.75  # of joint 4
ENOUGH_A = 0.9 * NOMINAL_A
WITHOUT_FRICTION = FrictionLaw.of(8, {})


@pytest.fixture(scope="module")
def robot() -> Robot:
    return load_robot("crane_x7").at_cycle(0.002)


@pytest.fixture(scope="module")
def check(robot):
    return nominal_check(robot)


def relief(pace: float = 1.0) -> Relief:
    overload = OverloadModel.of(load_robot("crane_x7"))
    assert overload is not None
    return Relief(overload, np.full(8, pace))


def test_approach_is_fast_only_where_lifting_loads_a_servo(robot, check):
    names, rest = robot.joint_names, np.array(robot.rest_posture)
    paces = {
        "lifting": transfer(check, rest, HOME, names),
        "lowering": transfer(check, HOME, rest, names),
        "unknown": transfer(position_and_speed(robot), rest, HOME, names),
        "nowhere": transfer(check, rest, rest, names),
    }
    fastest = {name: one.peak_velocities.max() for name, one in paces.items()}
    assert fastest["lifting"] == pytest.approx(APPROACH_RAD_S[-1])
    assert fastest["lowering"] == fastest["unknown"] == pytest.approx(APPROACH_RAD_S[0])
    assert fastest["nowhere"] == 0.0
    assert check.lifting_load(paces["lifting"]) < 0.6 * check.lifting_load(paces["unknown"])


@pytest.mark.slow
def test_an_arm_a_tenth_heavier_is_lifted_and_moved_within_the_overload(robot, check):
    arm = GuardedArm(robot, standard=heavier(robot, 1.1), check=check)
    assert arm.execute(load_excitation(robot).trajectory("gentle_validation")) < 0.7
    assert arm.run(1.0) < LIMITED and arm.motion.phase == "done"


def test_a_motion_begins_with_the_load_that_the_servos_carry(robot):
    """A motion that is refused as a whole may not be run in pieces, each of which begins with rested servos."""
    names, rest, lower = robot.joint_names, np.array(robot.rest_posture), 0.8
    carried = 0.78 * np.eye(8)[LIFTED] * robot.joint_constants

    def torques(q, dq, ddq):
        return np.tile(carried, (len(q), 1))

    check = MotionCheck(robot, robot_limits(robot, np.full(8, 10.0)), torques)
    motion, used = approach(rest, rest + 0.1, names), lower * np.eye(8)[LIFTED]
    for rested in (None, np.zeros(8), lower - used):
        plan_motion(robot, motion, rest, check, load=rested)
    with pytest.raises(SafetyError, match=rf"{names[LIFTED]} carries .*, or let the servo rest first: 80% were used"):
        plan_motion(robot, motion, rest, check, load=used)


@pytest.mark.slow
def test_loads_are_counted_as_the_guard_counts_them(robot, check):
    arm, loads = GuardedArm(robot, check=check), ServoLoads(robot)
    arm.motion.begin(plan_motion(robot, lift(robot), arm.q, check, to_rest=False), arm.q, arm.stamp_ns)
    loads.note(arm.stamp_ns, np.full(robot.size, 100.0))  # before the driver's first report nothing is counted
    loads.report(np.zeros(robot.size))
    loads.note(arm.stamp_ns, arm.torque)
    for _ in range(3000):
        arm.cycle()
        loads.note(arm.stamp_ns, arm.torque)
    assert arm.guard.load.max() > 0.02
    np.testing.assert_allclose(loads.now, arm.guard.load, atol=1e-6)


def test_loads_without_the_drivers_count_decay_and_wrong_ones_are_left_out(robot):
    overload = OverloadModel.of(robot)
    loads, none, second_ns = ServoLoads(robot), np.zeros(8), 10**9
    loads.report(np.full(8, 0.5))
    loads.note(5 * second_ns, none)
    np.testing.assert_array_equal(loads.now, 0.5)  # when the time before began is unknown
    loads.note(6 * second_ns, none)
    np.testing.assert_allclose(loads.now, 0.5 - overload.nominal / overload.trips)
    decayed = loads.now
    loads.note(3 * second_ns, np.full(8, 100.0))  # a driver that started anew
    loads.note(4 * second_ns, np.full(8, np.nan))
    loads.report(np.full(3, 0.9))
    loads.report(np.full(8, np.nan))
    np.testing.assert_array_equal(loads.now, decayed)
    loads.note(4 * second_ns, none)
    loads.report(np.full(8, 0.9))
    np.testing.assert_array_equal(loads.now, 0.9)
    loads.now[:] = 0.0
    assert loads.now.min() == 0.9


@pytest.mark.slow
def test_heavier_arm_at_default_speed_leaves_its_reference(robot):
    arm = GuardedArm(robot, standard=heavier(robot, 1.1), check=position_and_speed(robot))
    with pytest.raises(SafetyError, match="off its reference"):
        arm.execute(load_excitation(robot).trajectory("gentle_validation"))


def lifted(robot: Robot, factor: float, friction: FrictionLaw | str | None = None) -> GuardedArm:
    arm = GuardedArm(
        robot, standard=heavier(robot, factor), friction=friction, limits=False, effects=("lag", "overload")
    )
    arm.execute(lift(robot), to_rest=False)
    return arm


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_a_held_joint_stops_pushing_against_its_friction(robot, factor):
    arm = lifted(robot, factor)
    assert arm.command_a[LIFTED] > 1.2
    q = arm.plant.q.copy()
    arm.run(1.5)
    load = arm.load[LIFTED]
    assert arm.run(3.0) < max(load, 0.01) + 1e-9 and 0.5 < arm.command_a[LIFTED] < NOMINAL_A
    assert np.abs(arm.plant.q - q).max() < np.deg2rad(0.05)


@pytest.mark.slow
def test_without_relief_the_same_servo_trips(robot):
    arm = lifted(robot, 1.0)
    arm.motion._relief = None
    assert arm.run(4.5) > 1.0 and arm.command_a[LIFTED] > 1.2


@pytest.mark.slow
@pytest.mark.parametrize("friction", [WITHOUT_FRICTION, "M1"])
def test_a_joint_that_slips_is_caught(robot, friction):
    """Gravity alone needs more than the current that never trips, and friction does not carry the difference."""
    arm = lifted(robot, 1.5, friction)
    q = arm.plant.q[LIFTED]
    lowest = q
    for _ in range(3000):
        arm.cycle()
        lowest = min(lowest, arm.plant.q[LIFTED])
    assert np.deg2rad(0.2) < q - lowest < np.deg2rad(0.7)
    assert arm.command_a[LIFTED] > ENOUGH_A


@pytest.mark.slow
def test_the_next_motion_begins_without_a_jump(robot):
    arm = lifted(robot, 1.0)
    arm.run(2.0)
    given, before = arm.motion._given.copy(), arm.motion._held.copy()
    assert given[LIFTED] < -0.05
    arm.execute(lift(robot), to_rest=False)  # its approach lowers the joint
    assert np.abs(arm.motion._given).max() < np.abs(given).max()
    np.testing.assert_allclose(before - given, robot.rest_posture, atol=1e-6)


def test_relief_gives_until_the_current_is_low():
    one, current = relief(pace=1.0), np.zeros(8)
    current[LIFTED] = -1.2
    given = np.zeros(8)
    for _ in range(1000):
        change = one.step(0.002, np.zeros(8), current + given)
        assert (change >= 0.0).all()
        given += change
    assert np.abs(current + given)[LIFTED] == pytest.approx(ENOUGH_A, abs=0.1) and np.count_nonzero(given) == 1


def test_relief_ends_with_the_first_slip_until_the_joint_is_held_anew():
    one, q, current = relief(), np.zeros(8), np.full(8, 3.0)
    for _ in range(500):
        one.step(0.002, q, current)
    q = q - 1.1 * SLIP_RAD
    assert one.step(0.002, q, current) == pytest.approx(LAG_S)
    assert not any(one.step(0.002, q, current).any() for _ in range(1000))
    one.reset()
    assert any(one.step(0.002, q, current).any() for _ in range(200))


def test_a_moving_joint_is_not_relieved():
    one, current = relief(), np.full(8, 3.0)
    assert not any(one.step(0.002, np.full(8, 0.1 * 0.002 * k), current).any() for k in range(2000))


@pytest.mark.slow
def test_the_drivers_own_hold_does_not_learn_to_push(robot):
    """An arm that creeps out of where it is held: a hold that learns at standstill lifts it through its friction."""
    arm = GuardedArm(robot, standard=heavier(robot, 1.1))
    arm.plant._held = False  # off its stand
    assert arm.run(8.0) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("relieved", [True, False])
def test_an_arm_whose_commander_is_lost_after_a_lift_needs_the_relief(robot, relieved):
    """The driver's hold takes over a current that still pushes against friction."""
    arm = lifted(robot, 1.0)
    if not relieved:
        arm.guard._hold._relief = None
    arm.motion.update = lambda *_: None
    assert (arm.run(3.0) > 1.0) == (not relieved)  # beyond 1 the servo trips


def slowed(robot: Robot, folder: Path, limit_m_s: float) -> Robot:
    """The same robot with a limit for the tool's speed."""
    own = folder / "slowed"
    shutil.copytree(robot.folder, own)
    content = yaml.safe_load((own / "robot.yaml").read_text(encoding="utf-8"))
    content["urdf"] = str(robot.urdf_path)
    (own / "robot.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with (own / "safety.yaml").open("a", encoding="utf-8") as file:
        file.write(f"\ntool_limit_m_s: {limit_m_s}\n")
    return load_robot(own).at_cycle(robot.file.bus.cycle_s)


@pytest.mark.slow
def test_approach_and_return_keep_the_tool_limit_of_the_driver(robot, tmp_path):
    limited, names = slowed(robot, tmp_path, 0.25), robot.joint_names
    far = np.array(robot.rest_posture)
    far[[0, 3]] = 1.2, np.deg2rad(-40.0)
    look = through("look", names, np.array([far, far + 0.05 * np.eye(8)[0]]), np.full(8, 0.1), np.full(8, 0.5))
    motions = [look, approach(far, far + 0.002, names)]
    for motion in motions:
        arm = GuardedArm(limited, check=nominal_check(limited), q0=limited.rest_posture, limits=False)
        arm.execute(motion)
        assert arm.motion.phase == "done" and not arm.guard.fault_text
    fast = through("fast", names, np.array([far, far + 0.8 * np.eye(8)[0]]), np.full(8, 1.0), np.full(8, 4.0))
    plan_motion(robot, fast, far, nominal_check(robot))
    with pytest.raises(SafetyError, match=r"'fast' refused: the tool or a link moves at .* allowed is 0\.212 m/s, 85%"):
        plan_motion(limited, fast, far, nominal_check(limited))
