"""Silent servos that hold their joints themselves, on a simulated line."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.faults.servo_lockstep import SimulatedClock, SimulatedLine
from plain_bus import IndependentAxesPlant

from dynid.errors import BusError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.arm.servo_side_hold import ServoSideHold
from dynid.hardware.bus import control_table as table
from dynid.hardware.servos.models import DYNAMIXELS
from dynid.robot import FloatArray, Robot, load_robot
from dynid.simulation.servo.chain import ServoChain

LOAD_A = 0.3
SUPPLY_V = 12.0  # of all robots that ship


class Loaded(IndependentAxesPlant):
    """Axes that sink without a current of `LOAD_A`."""

    def set_currents(self, current_a: FloatArray) -> None:
        super().set_currents(current_a - LOAD_A)


class Line:
    """An open arm with torque on, and which of its servos are silent."""

    def __init__(self, robot: Robot) -> None:
        self.plant = Loaded(robot)
        self.chain = ServoChain(robot, self.plant)
        self.clock = SimulatedClock()
        self.line = SimulatedLine(self.chain, self.clock)
        self.arm = DynamixelArm(robot, "a line", allow_real_port=True, clock=self.clock, opener=self.line.open)
        self.arm.open()
        self.arm.enable()
        self.silent: set[int] = set()
        execute = self.chain.execute
        self.chain.execute = lambda packet: self._heard(execute(packet))  # type: ignore[method-assign]

    def _heard(self, frames: list[bytes]) -> list[bytes]:
        return [frame for frame in frames if frame[4] not in self.silent and (frame[4] != 254 or not self.silent)]

    def cycles(self, count: int, each: Callable[[int], None] = lambda _: None) -> None:
        """Run `count` control cycles with the same currents; call `each` in each of them."""
        for number in range(count):
            self.arm.write_currents(np.full(self.plant.size, LOAD_A))
            each(number)
            self.clock.sleep(0.001)
            self.line.settle(self.clock.now_ns)


@pytest.fixture
def line(robot: Robot) -> Line:
    return Line(robot)


@pytest.mark.slow
@pytest.mark.parametrize("takes_present", [True, False])
def test_silent_servos_hold_their_joints_and_let_them_down_slowly(line: Line, takes_present: bool) -> None:
    line.chain.undocumented.torque_on_holds = takes_present
    line.silent = set(line.chain.servos)
    start = line.plant.q.copy()
    line.arm.servo_side_hold.begin(np.ones(line.plant.size, dtype=np.bool_), start)
    line.cycles(1500, lambda _: line.arm.servo_side_hold.step(1.0, 0.001))
    assert np.abs(line.plant.q - start).max() < 0.1 and np.abs(line.plant.dq).max() < 0.01
    assert np.abs(line.plant.current_a).max() < 0.05  # the load and what carries it
    line.cycles(500, lambda number: line.arm.servo_side_hold.step(1.0 - min(1.0, number / 200), 0.001))
    assert -1.0 < line.plant.dq.min() < line.plant.dq.max() < -0.1  # a fall would be at 4 rad/s by then
    with pytest.raises(
        BusError, match=r"not confirmed by any servo .* themselves now only brake them: support the arm"
    ):
        line.arm.disable()
    line.cycles(200)
    assert -1.0 < line.plant.dq.min() < -0.1, "torque that goes off lets the arm drop"


@pytest.mark.slow
def test_goals_are_the_encoders_own_angles(robot: Robot) -> None:
    joints = [one.model_copy(update={"zero_offset_rad": 0.3}) for one in robot.file.joints]
    line = Line(Robot(robot.file.model_copy(update={"joints": tuple(joints)}), robot.folder))
    line.chain.undocumented.torque_on_holds = False
    seen, start = line.arm.read().q, line.plant.q.copy()
    line.silent = set(line.chain.servos)
    line.arm.servo_side_hold.begin(np.ones(line.plant.size, dtype=np.bool_), seen)
    line.cycles(1500, lambda _: line.arm.servo_side_hold.step(1.0, 0.001))
    assert np.abs(line.plant.q - start).max() < 0.1


@pytest.mark.parametrize(("centre", "holds"), [(300, True), (700, False), (4090, False)])
def test_a_joint_whose_zero_is_not_the_encoders_middle_is_never_driven_around(
    robot: Robot, centre: int, holds: bool
) -> None:
    """Its register leaves the revolution that position mode knows; near the end of that, its servo only brakes it."""
    first = robot.file.joints[0].model_copy(update={"centre_count": centre, "lower_deg": -90.0, "upper_deg": 90.0})
    line = Line(Robot(robot.file.model_copy(update={"joints": (first, *robot.file.joints[1:])}), robot.folder))
    line.chain.undocumented.torque_on_holds = False
    line.plant.q[0] = np.deg2rad(-60.0)  # register 683 below the centre
    seen, start = line.arm.read().q, line.plant.q.copy()
    line.silent = {line.chain.robot.servo_ids[0]}
    line.arm.servo_side_hold.begin(np.arange(line.plant.size) == 0, seen)
    farthest = 0.0

    def step(_: int) -> None:
        nonlocal farthest
        line.arm.servo_side_hold.step(1.0, 0.001)
        farthest = max(farthest, float(np.abs(line.plant.q - start)[0]))

    line.cycles(1500, step)
    assert farthest < (0.1 if holds else 1.5) and -1.0 < line.plant.dq[0] < 0.1


def test_servo_that_boots_during_instructions_does_not_run_away(line: Line) -> None:
    axis = 3
    servo_id = line.chain.robot.servo_ids[axis]
    chosen = np.arange(line.plant.size) == axis
    servo = line.chain.servos[servo_id]
    line.silent = {servo_id}
    line.arm.servo_side_hold.begin(chosen, line.plant.q)

    def told(number: int) -> None:
        if number == 2:  # after the mode
            servo.set(table.OPERATING_MODE, table.CURRENT_MODE)
            line.chain.restart(servo_id)
            assert servo.get(table.GOAL_CURRENT) == servo.get(table.CURRENT_LIMIT)
        line.arm.servo_side_hold.step(1.0, 0.001)

    line.chain.max_abs_current_a[:] = 0.0
    line.cycles(20, told)
    assert servo.torque_enabled and servo.get(table.GOAL_CURRENT) == 0
    assert line.chain.max_abs_current_a[axis] <= LOAD_A + 0.01


def test_a_servo_that_answers_again_is_switched_off_and_driven(line: Line) -> None:
    axis = 2
    servo = line.chain.servos[line.chain.robot.servo_ids[axis]]
    line.silent = {servo.servo_id}
    line.arm.servo_side_hold.begin(np.arange(line.plant.size) == axis, line.plant.q)
    line.cycles(20, lambda _: line.arm.servo_side_hold.step(1.0, 0.001))
    assert servo.get(table.OPERATING_MODE) == table.POSITION_MODE and servo.torque_enabled
    line.silent = set()
    line.arm.disable()
    assert not any(line.chain.summary()["torque_enabled"])
    line.arm.enable()
    line.cycles(2)
    modes = {one.get(table.OPERATING_MODE) for one in line.chain.servos.values()}
    assert modes == {table.CURRENT_MODE} and servo.get(table.GOAL_PWM) == table.FULL_PWM
    assert line.chain.summary()["drive_current_a"] == pytest.approx([LOAD_A] * line.plant.size, abs=0.002)


@pytest.mark.parametrize("name", ["viperx_300s", "openmanipulator_x", "omx_leader", "crane_x7"])
def test_servos_that_hold_their_joints_keep_the_limits_of_current(name: str) -> None:
    """In position mode no goal current limits a servo: at the voltage that it gets, a stalled motor must keep it."""
    robot = load_robot(name)
    written: dict[int, int] = {}

    def sync_write(register: table.Register, values: list[int], servo_ids: list[int]) -> None:
        written.update(zip(servo_ids, values, strict=True) if register is table.GOAL_PWM else ())

    hold = ServoSideHold(SimpleNamespace(sync_write=sync_write), robot)  # type: ignore[arg-type]
    hold.begin(np.ones(robot.size, dtype=np.bool_), np.zeros(robot.size))
    for _ in range(300):
        hold.step(1.0, 0.001)
    limits = np.minimum(robot.current_limits, robot.torque_limits / robot.joint_constants)
    for wired in robot.wired_servos:
        stall_a = max(point.current_a for point in DYNAMIXELS[wired.model_number].stall if point.supply_v <= SUPPLY_V)
        pwm = written[wired.servo_id]
        assert 0 < pwm <= table.FULL_PWM and pwm / table.FULL_PWM * stall_a <= limits[wired.axis] * (1.0 + 1e-3)


def test_servo_without_a_published_stall_current_only_brakes() -> None:
    robot = load_robot("openmanipulator_x")
    models = {name: one.model_copy(update={"model_number": 1270}) for name, one in robot.file.servos.items()}
    hold = ServoSideHold(SimpleNamespace(), Robot(robot.file.model_copy(update={"servos": models}), robot.folder))  # type: ignore[arg-type]
    assert not hold._largest_pwm.any()
