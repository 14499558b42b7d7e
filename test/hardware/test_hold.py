"""Braking, holding and lowering, alone and with the simulated arm behind the guard."""

from pathlib import Path

import numpy as np
import pytest

from dynid.errors import ConfigurationError
from dynid.hardware.bus.servo_units import ServoUnits
from dynid.hardware.safety.guard import SafetyGuard
from dynid.hardware.safety.guard_states import GuardEvent, GuardState
from dynid.hardware.safety.hold import Hold
from dynid.hardware.safety.settings import SafetySettings, load_safety
from dynid.robot import Robot
from dynid.simulation.plant.arm import ArmPlant

STILL = np.zeros(8)
CYCLE_S = 0.001
SIDEWAYS = np.array([0.8, 0.9, 0.6, -0.8, 0.3, 0.4, 0.2, 0.0])
LEANING = np.array([0.0, 0.6, 0.0, -0.3, 0.0, 0.0, 0.0, 0.0])


@pytest.fixture
def middle(robot: Robot) -> np.ndarray:
    return 0.5 * (robot.lower + robot.upper)


@pytest.fixture
def hold(robot: Robot) -> Hold:
    return Hold(robot, load_safety(robot))


@pytest.mark.slow
def test_a_slow_joint_is_held_at_once_and_a_fast_one_after_a_while(
    hold: Hold, robot: Robot, middle: np.ndarray
) -> None:
    caps, dq = robot.current_limits, np.array([1.0] + [0.0] * 7)
    hold.begin(dq)
    hold.drive(middle, dq, None, caps)
    moved = hold.drive(middle + 0.01, dq, None, caps)
    assert moved[0] == 0.0 and (moved[1:] < 0.0).all()
    for _ in range(200):
        hold.drive(middle + 0.01, dq, None, caps)
    moved = hold.drive(middle + 0.02, dq, None, caps)
    assert (moved < 0.0).all()


def test_an_arm_that_stands_elsewhere_after_a_reset_has_not_slipped(
    hold: Hold, robot: Robot, middle: np.ndarray
) -> None:
    """A command in the first cycle means that no hold begins, which would restart the relief as well."""
    caps = np.minimum(robot.current_limits, robot.torque_limits / robot.joint_constants)
    hold.begin(STILL)
    hold.load[:] = 0.9 * caps
    for _ in range(1500):
        hold.drive(middle, STILL, None, caps)
    assert hold.load.max() < 0.9 * caps.max()  # it was being relieved
    hold.reset()
    hold.drive(middle + 0.2, STILL, None, caps)
    np.testing.assert_allclose(hold.load, 0.0, atol=1e-9)


def test_hold_learns_the_load_of_a_sagging_joint_and_yields_to_a_push(
    hold: Hold, robot: Robot, middle: np.ndarray
) -> None:
    caps, sags = robot.current_limits, np.full(8, -0.03)
    hold.drive(middle, STILL, None, caps)
    first = hold.drive(middle - 0.022, sags, None, caps)
    for _ in range(500):
        later = hold.drive(middle - 0.022, sags, None, caps)
    assert (later > 1.5 * first).all() and (hold.load > 0.0).all()  # within what never trips a servo
    hold.drive(middle - 0.5, STILL, None, caps)  # pushed away, farther than the slip
    load = hold.load.copy()
    assert (hold.drive(middle - 0.4, STILL, None, caps) - load <= 1e-9).all()  # held there now


def test_a_joint_that_stands_away_from_its_held_position_is_held_where_it_stands(
    hold: Hold, robot: Robot, middle: np.ndarray
) -> None:
    """Learning until its friction breaks would move it back a second after it came to rest."""
    caps = robot.current_limits
    hold.drive(middle, STILL, None, caps)
    currents = [hold.drive(middle - 0.022, STILL, None, caps) for _ in range(1000)]
    np.testing.assert_allclose(currents, np.broadcast_to(currents[0], (1000, 8)), rtol=1e-9)  # no step either
    assert (hold.drive(middle - 0.012, STILL, None, caps) < currents[-1]).all()  # its spring ends there now
    assert (hold.drive(middle - 0.032, STILL, None, caps) > currents[-1]).all()


def test_time_in_which_a_joint_was_not_read_is_no_standstill(hold: Hold, robot: Robot, middle: np.ndarray) -> None:
    caps, unread = robot.current_limits, np.arange(8) != 1
    hold.drive(middle, STILL, None, caps)
    for _ in range(300):
        hold.drive(middle, STILL, unread, caps)
    hold.drive(middle - 0.05 * ~unread, STILL, None, caps)
    assert hold.load[1] == pytest.approx(0.0, abs=1e-9)


def test_a_blocked_joint_in_its_soft_zone_is_pushed_out_by_its_depth_alone(hold: Hold, robot: Robot) -> None:
    caps = robot.current_limits
    zone = robot.lower + load_safety(robot).soft_zone_rad
    hold.drive(zone - 0.03, STILL, None, caps)
    for _ in range(200):
        pushed = hold.drive(zone - 0.03, STILL, None, caps)
    assert (pushed <= hold.load + 0.031 * hold.stiffness).all() and (hold.load < caps).all()


def test_a_load_held_by_the_position_spring_alone_counts_as_held(hold: Hold, robot: Robot, middle: np.ndarray) -> None:
    """The joint would drop this load if torque went off."""
    caps, off = robot.current_limits, 0.01 * (np.arange(8) == 1)  # nothing is learned so near
    hold.drive(middle, STILL, None, caps)
    assert not hold.held.any()
    held = hold.drive(middle - off, STILL, None, caps)
    assert not hold.load.any() and held[1] > 0.02 * caps[1]
    np.testing.assert_array_equal(hold.held, held)


def unlimited(_: np.ndarray) -> float:
    return 1.0


def test_holding_current_fades_at_rest_and_follows_a_sinking_joint(
    hold: Hold, robot: Robot, middle: np.ndarray
) -> None:
    caps, load = robot.current_limits, 0.3 * robot.current_limits
    for _ in range(1000):
        hold.track(load, STILL)
    hold.begin(STILL)
    held = hold.drive(middle, STILL, None, caps)
    hold.begin_lowering()
    first = hold.lower(middle, STILL, None, caps, STILL, CYCLE_S, unlimited)
    assert (first > 0.9 * held).all()  # no step
    sunk, sinks = middle.copy(), np.where(np.arange(8) == 1, -1.0, 0.0)
    for _ in range(500):
        sunk = sunk + CYCLE_S * sinks
        carried = hold.lower(sunk, sinks, None, caps, STILL, CYCLE_S, unlimited)
    assert carried[1] > 0.5 * held[1]  # faster than the arm is lowered: held back
    assert np.delete(carried, 1) == pytest.approx(0.0, abs=1e-6)


def test_a_lean_drives_a_standing_joint_with_the_lean_current_only(
    hold: Hold, robot: Robot, middle: np.ndarray
) -> None:
    lean = 0.1 * robot.current_limits * (np.arange(8) == 3)
    hold.begin(STILL)
    hold.drive(middle, STILL, None, robot.current_limits)
    hold.begin_lowering()
    for _ in range(1000):
        current = hold.lower(middle, STILL, None, robot.current_limits, lean, CYCLE_S, unlimited)
    assert current == pytest.approx(lean, abs=1e-6)


def test_unread_joint_is_released_slowly_while_lowered(hold: Hold, robot: Robot, middle: np.ndarray) -> None:
    for _ in range(1000):
        hold.track(0.3 * robot.current_limits, STILL)
    hold.begin(STILL)
    before = hold.drive(middle, STILL, None, robot.current_limits)
    hold.begin_lowering()
    unseen = np.arange(8) > 0
    currents = [
        hold.lower(middle, STILL, unseen, robot.current_limits, STILL, CYCLE_S, unlimited)[0] for _ in range(2000)
    ]
    assert currents[0] == pytest.approx(before[0], rel=0.01) and (np.diff(currents) < 0.0).all()
    assert currents[500] > 0.1 * before[0] and currents[-1] < 0.01 * before[0]


def test_a_joint_that_stands_where_it_is_held_is_not_pushed_until_it_breaks_loose(
    hold: Hold, robot: Robot, middle: np.ndarray
) -> None:
    """Learning on would build up current against friction; a joint that creeps is another matter."""
    caps, creeping = robot.current_limits, np.full(8, -0.03)
    hold.drive(middle, STILL, None, caps)
    first = hold.drive(middle - 0.01, STILL, None, caps)
    for _ in range(500):
        standing = hold.drive(middle - 0.01, STILL, None, caps)
    assert (standing == first).all()
    for _ in range(500):
        crept = hold.drive(middle - 0.01, creeping, None, caps)
    assert (crept > 1.5 * first).all()


def test_uncertain_load_of_unread_joints_is_not_held(hold: Hold, robot: Robot, middle: np.ndarray) -> None:
    """Too much current drives a joint that nobody sees faster than it would fall."""
    current, caps = 0.5 * robot.current_limits, robot.current_limits
    unseen = np.array([False] + [True] * 7)
    for accelerating, sure in ((0.0, True), (1.0, False)):
        hold.reset()
        for _ in range(1000):
            hold.track(current, STILL)
        hold.begin(np.full(8, accelerating))
        drive = hold.drive(middle, np.full(8, accelerating), unseen, caps)
        assert (drive[1:] == hold.load[1:]).all()
        assert (drive[0] == hold.load[0]) == sure and 0.0 <= drive[0] * np.sign(hold.load[0]) <= abs(hold.load[0])


def test_unread_cycles_do_not_change_the_load(hold: Hold, robot: Robot) -> None:
    """A joint goes silent in motion: commands flow for some cycles more, and its last velocity stands still."""
    dq, current = np.full(8, -0.6), 0.5 * robot.current_limits
    for _ in range(1000):
        hold.track(current, dq)
    hold.begin(dq)
    known = hold.load.copy()
    unseen = np.array([False] + [True] * 7)
    for _ in range(100):
        hold.track(0.0 * current, 0.5 * dq, unseen)
    hold.begin(np.where(unseen, 0.5 * dq, dq))
    assert hold.load[0] == known[0]
    assert (hold.load[1:] < known[1:]).all()


def test_a_joint_that_is_not_read_keeps_its_load(hold: Hold, robot: Robot, middle: np.ndarray) -> None:
    for _ in range(2000):
        hold.track(0.5 * robot.current_limits, STILL)
    hold.begin(STILL)
    valid = np.array([False] + [True] * 7)
    current = hold.drive(middle, STILL, valid, robot.current_limits)
    assert current[0] == pytest.approx(0.5 * robot.current_limits[0], rel=1e-3)
    assert hold.drive(middle + 1.0, STILL, valid, robot.current_limits)[0] == current[0]
    assert hold.held[0] == current[0]


# -- with the simulated arm ----------------------------------------------------------------------------------------


class Driven:
    """The simulated arm behind the guard, with the servos' register steps and one cycle of delay."""

    def __init__(self, robot: Robot, q: np.ndarray, seed: int, friction: str | None = None) -> None:
        self.plant = ArmPlant(robot, q0=q, seed=seed, hold_until_current=False, friction=friction)
        self.guard, self.units = SafetyGuard(robot), ServoUnits(robot)
        self.current, self.time_s = np.zeros(8), 0.0
        self.speeds: list[tuple[float, float]] = []

    def cycle(self, tau: np.ndarray | None, age_s: float) -> None:
        units = self.units
        q = units.positions(units.position_counts(self.plant.measured_position()))
        dq = units.velocities(units.velocity_counts(self.plant.dq))
        result = self.guard.filter(tau, age_s, q, dq)
        self.plant.set_currents(self.current)
        self.current = units.currents(units.current_counts(result.current_a))
        self.plant.advance(CYCLE_S)
        self.time_s += CYCLE_S
        self.speeds.append((self.time_s, float(np.abs(self.plant.dq).max())))


def swing(robot: Robot, time_s: float) -> np.ndarray:
    """Torques that keep the arm moving."""
    return 0.25 * robot.torque_limits * np.sin(2 * np.pi * time_s + np.arange(8))


@pytest.mark.slow
@pytest.mark.parametrize("end", ["fault", "stale", "not finite"])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("friction", ["viscous", "M6"])
def test_a_moving_arm_is_braked_at_once_and_held_within_a_second(
    robot: Robot, end: str, seed: int, friction: str
) -> None:
    q0 = np.random.default_rng(seed).uniform(0.5, 0.6) * robot.rest_posture + 0.3
    arm = Driven(robot, q0, seed, friction)
    arm.guard.handle(GuardEvent.ENABLE)
    while arm.time_s < 1.3 + 0.2 * seed:
        arm.cycle(swing(robot, arm.time_s), 0.0)
    before = arm.speeds[-1][1]
    assert before > 0.5
    if end == "fault":
        arm.guard.fault("pulled")
    tau = np.full(8, np.nan) if end == "not finite" else swing(robot, arm.time_s)
    begun_s, q = arm.time_s, arm.plant.q.copy()
    while arm.time_s < begun_s + 1.4:
        arm.cycle(tau, 1.0)
        assert (arm.plant.q > robot.lower).all() and (arm.plant.q < robot.upper).all()
    speeds = np.array(arm.speeds)
    after = speeds[:, 0] - begun_s
    assert speeds[(after > 0.02) & (after < 0.04), 1].max() < before
    assert speeds[after > 1.0, 1].max() < 0.08  # a slow settling, within the 0.25 rad below
    assert np.abs(arm.plant.q - q).max() < 0.25


def sag_while_gravity_is_compensated(robot: Robot, first_s: float) -> float:
    """How far a joint gets in 1.5 s [deg] if commands that carry exactly the arm begin so long after torque on."""
    arm = Driven(robot, robot.rest_posture, 3)
    arm.guard.handle(GuardEvent.ENABLE)
    while arm.time_s < 1.5:
        arm.cycle(None if arm.time_s < first_s else -arm.plant.load_at(arm.plant.q), 0.0)
    return float(np.rad2deg(np.abs(arm.plant.q - robot.rest_posture).max()))


@pytest.mark.slow
@pytest.mark.parametrize("first_s", [0.0, 0.05, 0.4])
def test_an_arm_is_held_while_commands_take_over_after_torque_on(robot: Robot, first_s: float) -> None:
    assert sag_while_gravity_is_compensated(robot, first_s) < 1.5


@pytest.mark.slow
def test_an_arm_sags_if_the_hold_only_keeps_its_current_meanwhile(
    robot: Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hold, "drive", lambda self, *_: self.held.copy())
    assert sag_while_gravity_is_compensated(robot, 0.0) > 2.5


@pytest.mark.slow
@pytest.mark.parametrize("q", [LEANING, SIDEWAYS], ids=["leaning over", "sideways"])
def test_arm_is_lowered_until_at_rest_and_does_not_fall(robot: Robot, q: np.ndarray) -> None:
    arm = Driven(robot, q, 3)
    arm.guard.handle(GuardEvent.ENABLE)
    for _ in range(800):
        arm.cycle(None, 0.0)  # held where it was enabled
    held = arm.plant.q.copy()
    assert np.abs(arm.plant.dq).max() < 0.05
    arm.guard.handle(GuardEvent.DISABLE)
    while arm.guard.torque_needed:
        arm.cycle(None, 0.0)
        assert np.abs(arm.plant.dq).max() < 1.0  # falling, it would be faster
    assert arm.plant.q[1] > held[1] + 0.1  # it was let down indeed
    assert not arm.guard.stop_text
    rested, arm.speeds = arm.plant.q.copy(), []
    for _ in range(1000):  # torque is off
        arm.plant.set_currents(STILL)
        arm.plant.advance(CYCLE_S)
    assert np.abs(arm.plant.q - rested).max() < 0.02
    assert arm.guard.handle(GuardEvent.STOPPED) is GuardState.DISABLED


def test_an_arm_without_the_hold_falls(robot: Robot) -> None:
    """Control case of the test above: the same posture without current."""
    arm = Driven(robot, LEANING, 3)
    for _ in range(800):
        arm.cycle(None, 0.0)
    assert max(speed for _, speed in arm.speeds) > 1.0 and arm.plant.q[1] > robot.upper[1]


# -- settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hold_damping_nm_s_rad: [1.0, 2.0]", "has 2 entries, expected 8"),
        ("derate_from_deg_c: 76.0", "they must rise"),
        ("hold_dampling: 1", "hold_dampling"),
        ("command_timeout_s: 0", "command_timeout_s"),
    ],
)
def test_invalid_settings_are_refused(robot: Robot, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "safety.yaml").write_text(f"schema_version: 1\n{text}\n")
    with pytest.raises(ConfigurationError, match=words):
        load_safety(Robot(robot.file, tmp_path))


def test_a_robot_without_settings_has_the_defaults(robot: Robot, tmp_path: Path) -> None:
    assert load_safety(Robot(robot.file, tmp_path)) == SafetySettings()
    assert load_safety(robot) != SafetySettings()
