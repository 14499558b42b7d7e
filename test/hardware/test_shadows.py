"""Joints with several servos: one answers; the others follow it or receive the same command."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven_arm import Driven, driven
from geared_arms import variant
from pydantic import ValidationError

from dynid.errors import BusError, SafetyError
from dynid.hardware.bus import control_table as table
from dynid.hardware.loop.arm_cycle import ArmCycle
from dynid.hardware.loop.cycle_meter import CycleMeter
from dynid.hardware.safety.guard import SafetyGuard, SafetySettings
from dynid.hardware.safety.guard_states import GuardState
from dynid.robot import Robot

KINDS = ("shadow", "paired")
SECOND = {
    "shadow": {"reverse_mode": True, "shadow_ids": [11]},  # as makers wire it: the first one runs in reverse
    "paired": {"paired": [{"servo_id": 11, "direction": -1}]},
}


def doubled(folder: Path, kind: str, **changes: Any) -> Robot:
    """Return the planar arm whose second joint, servo 2, has servo 11 as well."""
    joints = [one.model_dump(exclude_none=True) for one in variant("direct", folder / "draft").file.joints]
    joints[1] |= SECOND[kind] | changes
    joints[1].pop("torque_constant_nm_per_a")
    return variant("direct", folder, joints=joints)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def robot(kind: str, tmp_path: Path) -> Robot:
    return doubled(tmp_path, kind)


def cycle_of(setup: Driven) -> ArmCycle:
    """Return the driver's cycle; the arm lies in its rest posture, so that a stop has nothing to lower."""
    guard = SafetyGuard(setup.robot, SafetySettings(current_ramp_s=0.0, first_command_s=600.0))
    setup.driver.begin_slow_polls()
    return ArmCycle(setup.driver, guard, CycleMeter(2_000_000), None, None, 10, 0.05)


def run(cycle: ArmCycle, setup: Driven, seconds: float, tau: np.ndarray | None = None) -> None:
    clock, cycle_s = setup.line.clock, setup.robot.file.bus.cycle_s
    for _ in range(round(seconds / cycle_s)):
        if tau is not None:
            cycle.set_command(tau, clock.monotonic_ns() * 1e-9)
        cycle.run()
        cycle.switch_off_if_stopped()
        clock.sleep(cycle_s)


# -- the robot's file ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_torque_constants_of_a_joints_servos_add_up(robot: Robot) -> None:
    assert robot.torque_constants[1] == pytest.approx(2 * 2.0) and robot.torque_constants[0] == 8.0
    assert robot.joint_constants[1] == pytest.approx(4.0)


def test_ids_are_unique_over_all_servos(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="servo ids must be unique"):
        doubled(tmp_path, "shadow", shadow_ids=[3])


def test_shadow_servos_are_mounted_opposite_the_servo_they_follow(tmp_path: Path) -> None:
    first, shadow = (one for one in doubled(tmp_path, "shadow").wired_servos if one.axis == 1)
    assert first.reverse_mode and not shadow.reverse_mode and shadow.obeys == first.servo_id
    assert (first.label, shadow.label) == ("servo 2 (joint_2)", "servo 11 (joint_2, shadow)")


# -- the driver ------------------------------------------------------------------------------------------------


def test_both_servos_carry_the_joints_load(robot: Robot) -> None:
    setup = driven(robot, q0=np.array([0.1, 0.3, -0.2]), switched_off=("torque_noise", "backlash"))
    sample = setup.driver.read()
    np.testing.assert_allclose(sample.q, setup.plant.q, atol=0.002)
    setup.driver.enable()
    tau = np.array([0.5, 2.0, 0.2])
    setup.driver.write_currents(tau / robot.joint_constants)
    setup.driver.bus.clock.sleep(0.002)
    setup.driver.read()
    np.testing.assert_allclose(setup.plant.torque, tau, atol=0.02)
    first, second = (setup.chain.servos[servo_id] for servo_id in (2, 11))
    assert first.torque_enabled and second.torque_enabled
    assert first.drive_current_count == -second.drive_current_count != 0  # they face each other
    setup.driver.disable()
    assert not second.torque_enabled and second.drive_current_count == 0


def test_a_second_servo_without_torque_leaves_half(robot: Robot) -> None:
    setup = driven(robot, q0=np.array([0.1, 0.3, -0.2]), switched_off=("torque_noise",))
    setup.driver.enable()
    setup.chain.set_register(11, table.TORQUE_ENABLE, 0)
    setup.driver.write_currents(np.array([0.0, 2.0, 0.0]) / robot.joint_constants)
    setup.driver.bus.clock.sleep(0.002)
    setup.driver.read()
    assert setup.plant.torque[1] == pytest.approx(1.0, abs=0.02)


def test_silent_servos_of_one_joint_hold_it_together(robot: Robot) -> None:
    setup = driven(robot, q0=np.array([-0.5, 0.3, 0.2]))
    setup.driver.enable()
    setup.driver.servo_side_hold.begin(np.ones(3, dtype=np.bool_), setup.driver.read().q)
    for _ in range(100):
        setup.driver.servo_side_hold.step(1.0, 0.002)
        setup.driver.bus.clock.sleep(0.002)
    for servo in setup.chain.servos.values():
        assert servo.get(table.OPERATING_MODE) == table.POSITION_MODE and servo.torque_enabled
        assert abs(servo.get(table.GOAL_POSITION) - servo.get(table.PRESENT_POSITION)) < 150
    before = setup.plant.q.copy()
    setup.driver.bus.clock.sleep(0.5)
    setup.line.settle(setup.line.clock.now_ns)
    assert np.abs(setup.plant.q - before).max() < 0.1


def test_a_servo_in_another_reverse_mode_is_refused(robot: Robot, tmp_path: Path) -> None:
    setup = driven(robot)
    setup.driver.close()
    servo = setup.chain.servos[11]
    setup.chain.set_register(11, table.DRIVE_MODE, 1 - servo.get(table.DRIVE_MODE))
    with pytest.raises(BusError, match=r"servo 11 \(joint_2, (shadow|pair)\).*would pull against each other"):
        setup.driver.open()


def test_servos_that_stand_apart_are_refused(robot: Robot) -> None:
    setup = driven(robot)
    setup.driver.close()
    setup.chain.set_register(11, table.HOMING_OFFSET, 60)
    with pytest.raises(BusError, match=r"servo 11 .* stands 5.3 deg from servo 2"):
        setup.driver.open()
    setup.chain.set_register(11, table.HOMING_OFFSET, 20)
    setup.driver.open()


# -- faults ----------------------------------------------------------------------------------------------------


def unplugged(setup: Driven) -> None:
    setup.chain.servos.pop(11)


def shut_down(setup: Driven) -> None:
    setup.chain.raise_hardware_error(11, 1 << 5)


def hot(setup: Driven) -> None:
    setup.chain.set_register(11, table.PRESENT_TEMPERATURE, 79)


def slipped(setup: Driven) -> None:
    setup.chain.set_register(11, table.HOMING_OFFSET, 120)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (unplugged, r"no reply for 1.0 s from servo 11"),
        (shut_down, r"hardware error at servo 11 .*overload"),
        (hot, r"78 deg C reached at servo 11"),
        (slipped, r"servo 11 .* deg from servo 2 of the same joint"),
    ],
)
def test_faults_of_a_second_servo_stop_the_arm(robot: Robot, break_it: Callable[[Driven], None], said: str) -> None:
    setup = driven(robot)
    cycle = cycle_of(setup)
    run(cycle, setup, 0.2)
    cycle.enable()
    run(cycle, setup, 0.3, np.zeros(3))
    assert cycle.guard.state is GuardState.ENABLED
    break_it(setup)
    run(cycle, setup, 1.5, np.zeros(3))
    assert cycle.guard.state is GuardState.FAULT and re.search(said, cycle.guard.fault_text)


def test_arm_with_disagreeing_paired_servos_is_not_enabled(robot: Robot) -> None:
    setup = driven(robot)
    cycle = cycle_of(setup)
    slipped(setup)
    run(cycle, setup, 0.5)
    with pytest.raises(SafetyError, match="cannot enable: servo 11"):
        cycle.enable()


def test_shadow_of_a_joint_without_servo_is_refused() -> None:
    from dynid.robot.file import Joint

    with pytest.raises(ValidationError, match="shadow_ids and paired need a servo_id: add it, or remove them"):
        Joint(name="a", lower_deg=-1, upper_deg=1, velocity_limit_rad_s=1, shadow_ids=(3,))
