"""Torque ramps find the breakaway torque of a joint; a joint that does not move is not excited."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from small_arm import small_arm

from dynid.control.breakaway import MOVED_RAD, RAMP_S, Breakaway, Ramp
from dynid.control.controller import ControllerSettings, load_controller
from dynid.control.motion_draft import write_motions
from dynid.control.open_loop import OpenLoopJoint, SwitchingPath
from dynid.errors import DataError
from dynid.identification.joint_level.excitation import excited_joints, identify_joint, segments
from dynid.identification.joint_level.excited_arm import simulate_excitation
from dynid.model.friction import FrictionLaw
from dynid.model.gear_presets import gear_friction
from dynid.recording.driver_recording import load_driver_recording
from dynid.robot import Robot, load_robot
from dynid.robot.draft import draft_robot, write_draft
from dynid.simulation.lockstep.run import SimulatedRun
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.families import load_excitation

STEP_S = 0.001


def driven(ramp: Ramp, resisting: Callable[[float], float]) -> list[float]:
    """Torques of a ramp on a joint of 0.1 kg m^2 with friction by speed [N m], until the ramp ends."""
    q, dq, torques, t = np.zeros(2), np.zeros(2), [], 0.0
    while t < ramp.duration:
        ramp.sample_into(t, *np.zeros((3, 2)))
        torques.append(ramp.torque(q))
        net = torques[-1] - np.sign(torques[-1]) * resisting(dq[1])
        if dq[1] != 0.0 or net * torques[-1] > 0.0:
            dq[1] += STEP_S * net / 0.1
        q[1] += STEP_S * dq[1]
        t += STEP_S
    return torques


def always(torque: float) -> Callable[[float], float]:
    """Friction that does not depend on speed."""
    return lambda _: torque


def test_the_torque_rises_until_the_joint_moves_in_both_directions() -> None:
    breakaway = Breakaway(0.1, 2.0)
    ramps = [Ramp(np.zeros(2), 1, sign, breakaway) for sign in (1.0, -1.0)]
    assert not breakaway.stuck and breakaway.torque(1.0) == 0.1
    for ramp, sign in zip(ramps, (1.0, -1.0), strict=True):
        torques = sign * np.array(driven(ramp, lambda speed: 0.8 if speed == 0.0 else 0.5))
        assert torques[0] == 0.0 and (np.diff(torques) > 0.0).all()
        assert ramp.moved_at == pytest.approx(torques[-1]) and 0.8 < torques[-1] < 1.0
        assert ramp.duration < 0.6 * RAMP_S
    assert not breakaway.stuck and 0.8 < breakaway.torque(1.0) < 1.0
    assert breakaway.torque(9.0) == 2.0  # never above the limit


def test_a_joint_that_moves_easily_keeps_the_torque_of_its_settings() -> None:
    breakaway = Breakaway(0.7, 2.0)
    for sign in (1.0, -1.0):
        driven(Ramp(np.zeros(2), 1, sign, breakaway), always(0.05))
    assert breakaway.torque(1.3) == pytest.approx(1.3 * 0.7)


@pytest.mark.parametrize("free", [0.0, 1.0])
def test_a_joint_that_is_stuck_in_one_direction_is_not_excited(free: float) -> None:
    breakaway = Breakaway(0.1, 2.0)
    path = SwitchingPath(np.zeros(2), 1, np.ones(500), STEP_S, 0.1, 1.0, breakaway)
    assert path.duration == 0.5
    for sign in (1.0, -1.0):
        torques = driven(Ramp(np.zeros(2), 1, sign, breakaway), always(0.5 if sign == free else 9.0))
    assert np.abs(torques).max() == pytest.approx(2.0, rel=1e-2)
    assert breakaway.stuck and path.duration == 0.0
    q, dq, ddq = np.full((3, 2), np.nan)
    path.sample_into(0.0, q, dq, ddq)
    assert not ddq.any()


# -- the small arm with gears that stick ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Robot, ControllerSettings]:
    """The small arm as `robot new` drafts it, with gear friction of its servos' siblings."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "small.urdf").write_text(small_arm(), encoding="utf-8")
    draft = draft_robot("arm", folder / "small.urdf", servo_models={"": "XM430-W350"})
    write_draft(draft, folder / "small.urdf", folder / "arm")
    robot = load_robot(folder / "arm")
    write_motions(robot, robot.folder)
    return robot, load_controller(robot)


def excited(robot: Robot, gains: ControllerSettings, joint: int, friction: FrictionLaw | str | None) -> SimulatedRun:
    return simulate_excitation(robot, gains, joint, load_excitation(robot).acceleration_limits, friction=friction)


def saved(run: SimulatedRun, robot: Robot, gains: ControllerSettings, bag: Path) -> Path:
    write_bag(run, robot, gains, bag, profile="joint", law=OpenLoopJoint.name)
    return bag


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("joint", [1, 3])
def test_a_joint_with_a_gear_and_gravity_is_excited_and_identified(
    small: tuple[Robot, ControllerSettings], tmp_path: Path, joint: int
) -> None:
    robot, gains = small
    run = excited(robot, gains, joint, "M6")
    driven = (run.dq_ref[:, joint] == 0.0) & (run.ddq_ref[:, joint] != 0.0)
    assert driven.any() and np.all(np.abs(run.torque_present[:, joint]) <= 1.02 * robot.torque_limits[joint])
    assert np.all(run.q_true >= robot.lower) and np.all(run.q_true <= robot.upper)
    bag = saved(run, robot, gains, tmp_path / "bag")
    found = excited_joints(load_driver_recording(bag, robot))
    moved = sum(one.way > 2.0 * MOVED_RAD for one in segments(found[0], robot)[0])
    assert moved >= 6
    fit = identify_joint(found, robot, gains).first_order
    stiction = gear_friction(robot).budget(np.zeros(robot.size))[joint]
    assert 0.2 * stiction < fit.coulomb.value < 6.0 * stiction  # it grows with the load
    assert 0.005 < fit.inertia < 0.1


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_a_blocked_joint_is_refused_naming_the_joint(small: tuple[Robot, ControllerSettings], tmp_path: Path) -> None:
    robot, gains = small
    stuck = FrictionLaw.of(robot.size, {"fb": np.array([50.0, 0.1, 0.1, 0.1])})
    run = excited(robot, gains, 0, stuck)
    assert np.ptp(run.q_true[:, 0]) < MOVED_RAD
    bag = saved(run, robot, gains, tmp_path / "bag")
    with pytest.raises(DataError, match=r"^joint_1: .* did not move it, and its limit is .*blocked"):
        identify_joint(excited_joints(load_driver_recording(bag, robot)), robot, gains)
