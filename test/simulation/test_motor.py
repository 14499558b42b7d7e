"""Motors behind simulated servos: each effect against its equation, and its effect on servos and driver."""

import math

import numpy as np
import pytest
from benchmarks.faults.servo_lockstep import SimulatedClock, SimulatedLine

from dynid.errors import ConfigurationError, UnknownNameError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.bus import control_table as table
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.safety.guard import SafetyGuard, load_safety
from dynid.hardware.safety.guard_states import GuardEvent
from dynid.robot import FloatArray, Robot
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.plant.interface import PlantReading
from dynid.simulation.plant.motor import EFFECTS, Motors
from dynid.simulation.servo.chain import ServoChain

XM430, XM540 = 0, 1
MS = 0.001


def after(motors: Motors, seconds: float, goal: float, speed: float = 0.0) -> FloatArray:
    motors.goal[:] = goal
    for _ in range(round(seconds / MS)):
        motors.step(MS, np.full(8, speed))
    return motors.current


@pytest.mark.slow
def test_without_effects_the_current_equals_its_goal(robot: Robot) -> None:
    motors = Motors(robot, ())
    assert after(motors, MS, 1.5, 4.0) == pytest.approx(1.5) and motors.velocity == pytest.approx(4.0)
    assert after(motors, 60.0, 2.5).max() == 2.5 and not motors.overloaded.any() and not motors.error().any()
    assert motors.temperature_deg_c == pytest.approx(25.0)


def test_supply_and_back_emf_limit_the_current(robot: Robot) -> None:
    motors = Motors(robot, ["winding"])
    assert after(motors, MS, 5.0)[[XM430, XM540]] == pytest.approx([2.3, 4.4], rel=1e-3)
    assert after(motors, MS, 4.0, 3.1)[[XM430, XM540]] == pytest.approx([0.82, 0.058], abs=0.01)
    assert after(motors, MS, -1.0, 3.1)[XM430] == pytest.approx(-1.0)  # braking has the back-EMF on its side
    assert after(motors, MS, 4.0, 6.0)[XM430] < 0.0  # driven beyond its speed without load, it brakes


def test_the_current_follows_with_a_lag(robot: Robot) -> None:
    assert after(Motors(robot, ["lag"]), 3 * MS, 1.0) == pytest.approx(1.0 - math.exp(-1.0))


def test_droop_grows_with_speed_and_never_exceeds_the_current(robot: Robot) -> None:
    motors = Motors(robot, ["droop"])
    assert after(motors, MS, 0.5, 2.0) == pytest.approx(0.46)
    assert after(motors, MS, -0.5, -2.0) == pytest.approx(-0.46)
    assert after(motors, MS, 0.01, 4.0) == pytest.approx(0.0) and after(motors, MS, 0.0, 4.0) == pytest.approx(0.0)


def test_sensors_are_off_by_a_constant_and_by_noise(robot: Robot) -> None:
    offset = Motors(robot, ["offset"], seed=3)
    assert 0.0 < np.abs(offset.error()).max() <= 0.004 and (offset.error() == offset.error()).all()
    noisy, errors = Motors(robot, ["noise"], seed=3), []
    for _ in range(2000):
        noisy.step(MS, np.zeros(8))
        errors.append(noisy.error().copy())
    assert np.std(errors) == pytest.approx(0.003, rel=0.05) and abs(np.mean(errors)) < 2e-4


def test_the_velocity_register_lags_behind(robot: Robot) -> None:
    motors = Motors(robot, ["velocity"])
    after(motors, 5 * MS, 0.0, 1.0)
    assert motors.velocity == pytest.approx(1.0 - math.exp(-1.0))


def test_the_winding_heats_the_servo(robot: Robot) -> None:
    motors = Motors(robot, ["heat"])
    motors.goal[:] = 1.0
    motors.step(300.0, np.zeros(8))
    assert motors.temperature_deg_c[XM430] == pytest.approx(25.0 + 7.7 * 5.217 * (1.0 - math.exp(-1.0)))


def test_the_published_current_trips_after_five_seconds(robot: Robot) -> None:
    motors = Motors(robot, ["overload"])
    after(motors, 4.99, 0.941)
    assert not motors.overloaded.any()
    after(motors, 0.02, 0.941)
    assert motors.overloaded[XM430] and not motors.overloaded[XM540]


def test_names_and_figures_are_checked(robot: Robot, tmp_path) -> None:
    with pytest.raises(UnknownNameError, match="motor effect"):
        Motors(robot, ["backlash"])
    with pytest.raises(ConfigurationError, match=r"has no motors\.yaml"):
        Motors(Robot(robot.file, tmp_path), ["lag"])
    assert len(EFFECTS) == 8


def test_arm_moves_by_the_actual_current(robot: Robot) -> None:
    plain, real = (ArmPlant(robot, seed=1, motors=motors) for motors in (None, Motors(robot, ["all"], 1)))
    for arm in (plain, real):
        arm.set_currents(np.array([1.0, 0, 0, 0, 0, 0, 0, 0]))
        arm.advance(0.05)
    assert 0.5 * plain.dq[0] < real.dq[0] < plain.dq[0]
    reading = real.measure()
    assert 0.0 < reading.dq[0] < real.dq[0] and reading.current_a[0] < 1.0


class JammedArm:
    """Blocked arm whose motors take every commanded current."""

    def __init__(self, robot: Robot, motors: Motors) -> None:
        self.size, self.motors, self._q = robot.size, motors, np.array(robot.rest_posture)

    def advance(self, duration_s: float) -> None:
        self.motors.step(duration_s, np.zeros(self.size))

    def set_currents(self, current_a: FloatArray) -> None:
        self.motors.goal[:] = current_a

    def measure(self) -> PlantReading:
        return PlantReading(self._q, np.zeros(self.size), self.motors.current + self.motors.error())


def drive(robot: Robot, guard: SafetyGuard, current_a: float, seconds: float) -> tuple[ServoChain, float]:
    """Command a current of servo 5 on a blocked arm; return the servos and the largest overload share."""
    peak = 0.0
    motors = Motors(robot, ["all"], seed=2)
    chain = ServoChain(robot, JammedArm(robot, motors))
    line = SimulatedLine(chain, SimulatedClock())
    with DynamixelArm(robot, "simulated", allow_real_port=True, clock=line.clock, opener=line.open) as arm:
        tau = np.zeros(robot.size)
        tau[3] = current_a * robot.torque_constants[3]

        def command(*_: object) -> None:
            nonlocal peak
            peak = max(peak, float(motors.load.max()))
            loop.set_command(tau)
            if line.clock.elapsed_s > seconds:
                loop.stop()

        loop = ControlLoop(arm, guard, on_cycle=command)
        loop.request(GuardEvent.ENABLE)
        loop.run()
    return chain, peak


@pytest.mark.slow
@pytest.mark.parametrize("current_a", [0.941, 2.3])
def test_no_servo_trips_behind_the_guard(robot: Robot, current_a: float) -> None:
    guard = SafetyGuard(robot, load_safety(robot).model_copy(update={"overload_limits": True}))
    chain, peak = drive(robot, guard, current_a, 12.0)
    assert "overload ahead at servo 5" in guard.fault_text
    assert 0.8 < peak < 1.0
    assert not any(servo.get(table.HARDWARE_ERROR_STATUS) for servo in chain.servos.values())


@pytest.mark.slow
def test_without_the_guard_servos_trip(robot: Robot) -> None:
    guard = SafetyGuard(robot)
    chain, _ = drive(robot, guard, 0.941, 7.0)
    assert chain.servos[5].get(table.HARDWARE_ERROR_STATUS) == 1 << 5 and not chain.servos[5].torque_enabled
    assert "overload" in guard.fault_text and "servo 5" in guard.fault_text
