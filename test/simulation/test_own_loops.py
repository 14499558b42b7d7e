"""Servos that control position, velocity or voltage themselves."""

import pytest
from plain_bus import IndependentAxesPlant

from dynid.hardware.bus import control_table as table
from dynid.robot import FloatArray, Robot
from dynid.simulation.servo.chain import ServoChain
from dynid.simulation.servo.own_loops import DEFAULT_WINDING
from dynid.simulation.servo.profile import PositionProfile
from dynid.simulation.servo.servo import Servo

AXIS = 3
CONSTANT = 2.3179  # N m/A of its XM430


class Loaded(IndependentAxesPlant):
    """Every axis carries a load besides [N m]."""

    load_nm = 0.0

    def set_currents(self, current_a: FloatArray) -> None:
        super().set_currents(current_a + self.load_nm / self._torque_constants)


@pytest.fixture
def plant(robot: Robot) -> Loaded:
    return Loaded(robot, inertia=0.02, damping=1e-3)


@pytest.fixture
def chain(robot: Robot, plant: Loaded) -> ServoChain:
    return ServoChain(robot, plant)


def switched_on(chain: ServoChain, mode: int, **registers: int) -> Servo:
    """Set a servo's mode and registers, and switch torque on."""
    servo = chain.servos[chain.robot.servo_ids[AXIS]]
    assert not servo.write(table.OPERATING_MODE.address, bytes([mode]))
    for name, value in registers.items():
        register: table.Register = getattr(table, name)
        assert not servo.write(register.address, register.to_bytes(value))
    assert not servo.write(table.TORQUE_ENABLE.address, b"\x01")
    chain._update_drive()
    chain.advance(1e-9)
    return servo


@pytest.mark.parametrize("turned", [0, 1])
def test_position_mode_holds_a_load_by_its_gain(chain: ServoChain, plant: Loaded, turned: int) -> None:
    plant.load_nm, start = 0.5, plant.q[AXIS]
    switched_on(chain, table.POSITION_MODE, DRIVE_MODE=turned)
    chain.advance(1.0)
    pwm = (
        0.5 / CONSTANT * DEFAULT_WINDING.resistance_ohm / DEFAULT_WINDING.supply_v * table.FULL_PWM
    )  # that carries the load
    sag = pwm / (800 / 128) * table.POSITION_RAD_PER_COUNT
    assert plant.q[AXIS] - start == pytest.approx(sag, abs=1.5 * table.POSITION_RAD_PER_COUNT)
    assert abs(plant.dq[AXIS]) < 0.01 and plant.q[AXIS + 1] - start > 10.0  # the next axis is free


def test_a_goal_pwm_of_0_brakes(chain: ServoChain, plant: Loaded) -> None:
    """The falling speed is the one whose back-EMF carries the load, whatever the mode."""
    plant.load_nm = 0.5
    switched_on(chain, table.POSITION_MODE, GOAL_PWM=0)
    chain.advance(1.0)
    slow = 0.5 / CONSTANT * DEFAULT_WINDING.resistance_ohm / DEFAULT_WINDING.back_emf_v_s_rad
    assert plant.dq[AXIS] == pytest.approx(slow, rel=0.01) and plant.dq[AXIS + 1] > 10.0 * slow


def test_pwm_sets_the_speed_and_a_tripped_watchdog_brakes(chain: ServoChain, plant: Loaded) -> None:
    servo = switched_on(chain, table.PWM_MODE, GOAL_PWM=-300)
    chain.advance(1.0)
    assert plant.dq[AXIS] == pytest.approx(
        -300 / 885 * DEFAULT_WINDING.supply_v / DEFAULT_WINDING.back_emf_v_s_rad, rel=0.01
    )
    servo.trip_watchdog()
    chain.advance(1.0)
    assert abs(plant.dq[AXIS]) < 0.01


def test_velocity_mode_reaches_its_goal(chain: ServoChain, plant: Loaded) -> None:
    plant.load_nm = 0.1
    servo = switched_on(chain, table.VELOCITY_MODE, GOAL_VELOCITY=50)
    chain.advance(8.0)
    assert plant.dq[AXIS] == pytest.approx(50 * table.VELOCITY_RAD_S_PER_COUNT, rel=0.03)
    servo.trip_watchdog()
    chain.advance(8.0)
    assert abs(plant.dq[AXIS]) < 0.05


def test_current_based_position_mode_keeps_its_goal_current(chain: ServoChain, plant: Loaded) -> None:
    servo = switched_on(chain, table.CURRENT_BASED_POSITION_MODE, GOAL_CURRENT=50)
    servo.set(table.GOAL_POSITION, servo.get(table.GOAL_POSITION) + 1000)
    chain.advance(0.05)
    assert plant.current_a[AXIS] == pytest.approx(50 * chain.robot.current_units[AXIS])


@pytest.mark.parametrize("holds", [True, False])
def test_torque_on_holds_the_position_or_moves_to_the_goal(chain: ServoChain, plant: Loaded, holds: bool) -> None:
    chain.undocumented.torque_on_holds = holds
    start = plant.q[AXIS]
    goal = 2048 + round((start - 0.2) / table.POSITION_RAD_PER_COUNT)
    switched_on(chain, table.POSITION_MODE, GOAL_POSITION=goal)
    chain.advance(1.0)
    assert plant.q[AXIS] - start == pytest.approx(0.0 if holds else -0.2, abs=0.003)


def test_a_goal_that_is_written_right_after_torque_on_counts(chain: ServoChain, plant: Loaded) -> None:
    servo, start = switched_on(chain, table.VELOCITY_MODE), plant.q[AXIS]
    servo.write(table.TORQUE_ENABLE.address, b"\x00")
    servo.write(table.OPERATING_MODE.address, bytes([table.POSITION_MODE]))
    servo.write(table.TORQUE_ENABLE.address, b"\x01")
    goal = 2048 + round((start + 0.1) / table.POSITION_RAD_PER_COUNT)
    servo.write(table.GOAL_POSITION.address, table.GOAL_POSITION.to_bytes(goal))
    chain.advance(1.0)
    assert plant.q[AXIS] - start == pytest.approx(0.1, abs=0.003)


def test_no_current_is_left_when_torque_goes_off(chain: ServoChain, plant: Loaded) -> None:
    servo = switched_on(chain, table.PWM_MODE, GOAL_PWM=500)
    chain.advance(0.01)
    assert plant.current_a[AXIS] > 0.5
    servo.write(table.TORQUE_ENABLE.address, b"\x00")
    chain._update_drive()
    assert plant.current_a[AXIS] == 0.0 and chain.max_abs_current_a[AXIS] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("registers", "speeds"),
    [
        ({"PROFILE_VELOCITY": 20}, (0.480, 0.480, 0.480)),
        ({"PROFILE_VELOCITY": 20, "PROFILE_ACCELERATION": 2}, (0.075, 0.375, 0.480)),  # with 0.749 rad/s^2
        ({"DRIVE_MODE": 4, "PROFILE_VELOCITY": 1000}, (0.5, 0.5, 0.5)),  # in a second
        ({"DRIVE_MODE": 4, "PROFILE_VELOCITY": 1000, "PROFILE_ACCELERATION": 500}, (0.2, 1.0, 0.4)),
    ],
)
def test_profiles_by_velocity_and_by_time(
    chain: ServoChain, plant: Loaded, registers: dict[str, int], speeds: tuple[float, float, float]
) -> None:
    """Speeds [rad/s] on a way of 0.5 rad after 0.1, 0.5 and 0.8 s."""
    servo, start = switched_on(chain, table.POSITION_MODE, **registers), plant.q[AXIS]
    began = servo.get(table.GOAL_POSITION)
    servo.set(table.GOAL_POSITION, began + round(0.5 / table.POSITION_RAD_PER_COUNT))
    way = PositionProfile.of(servo, float(began))
    for at_ms, expected in zip((100.0, 500.0, 800.0), speeds, strict=True):
        before = way.advance(at_ms - way.elapsed_ms)
        assert (way.advance(1.0) - before) * table.POSITION_RAD_PER_COUNT * 1e3 == pytest.approx(expected, abs=0.003)
    chain.advance(0.2)
    assert plant.q[AXIS] - start < 0.15  # without a profile it would be there
    chain.advance(3.0)
    assert plant.q[AXIS] - start == pytest.approx(0.5, abs=0.003)
