"""The guard alone, without bus and clock."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from dynid.errors import ConfigurationError, SafetyError
from dynid.hardware.safety.guard import SafetyGuard, SafetySettings, load_safety
from dynid.hardware.safety.guard_states import TRANSITIONS, GuardEvent, GuardState, Reason
from dynid.hardware.safety.posture import Posture
from dynid.robot import Robot

STILL = np.zeros(8)


@pytest.fixture
def guard(robot: Robot) -> SafetyGuard:
    """Enabled, past its ramp, and without a limit on the rate."""
    enabled = SafetyGuard(robot, SafetySettings(current_ramp_s=0.0, current_rate_1_s=1e6))
    enabled.handle(GuardEvent.ENABLE)
    return enabled


def changed(robot: Robot, **values: object) -> SafetyGuard:
    """A guard with some of the robot's own settings changed."""
    settings = load_safety(robot).model_dump() | {"current_rate_1_s": 1e6} | values
    return SafetyGuard(robot, SafetySettings(**settings))


@pytest.fixture
def middle(robot: Robot) -> np.ndarray:
    return 0.5 * (robot.lower + robot.upper)


def test_a_good_command_passes_as_current(guard: SafetyGuard, robot: Robot, middle: np.ndarray) -> None:
    tau = np.linspace(-1.0, 1.0, 8)
    result = guard.filter(tau, 0.0, middle, STILL)
    assert result.reasons == () and result.current_a == pytest.approx(tau / robot.torque_constants)


def test_current_is_zero_while_disabled(robot: Robot, middle: np.ndarray) -> None:
    result = SafetyGuard(robot).filter(np.ones(8), 0.0, middle, np.ones(8))
    assert not result.current_a.any() and result.reasons == (Reason.DISABLED,)


def test_currents_are_capped(guard: SafetyGuard, robot: Robot, middle: np.ndarray) -> None:
    result = guard.filter(np.array([2.0, -2.0] * 4) * robot.torque_limits, 0.0, middle, STILL)
    assert result.current_a == pytest.approx(robot.current_limits * np.array([1, -1] * 4))
    assert result.reasons == (Reason.CURRENT_LIMIT,)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_in_the_soft_zone_only_inward_current_passes(
    guard: SafetyGuard, robot: Robot, middle: np.ndarray, side: float
) -> None:
    q = middle.copy()
    q[1] = robot.upper[1] - 0.01 if side > 0 else robot.lower[1] + 0.01
    outward = guard.filter(side * np.ones(8), 0.0, q, STILL)
    assert outward.current_a[1] * side < 0.0 and Reason.JOINT_LIMIT in outward.reasons  # gravity may press outwards
    assert (np.delete(outward.current_a, 1) * side > 0.0).all()
    inward = guard.filter(-6.0 * side * np.ones(8), 0.0, q, STILL)
    assert inward.current_a[1] == pytest.approx(-6.0 * side / robot.torque_constants[1])
    moving_out = guard.filter(side * np.ones(8), 0.0, q, side * np.ones(8))
    assert moving_out.current_a[1] * side < outward.current_a[1] * side
    moving_in = guard.filter(-6.0 * side * np.ones(8), 0.0, q, -side * np.ones(8))
    assert moving_in.current_a[1] == pytest.approx(inward.current_a[1])


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_joint_that_could_not_stop_before_its_zone_is_braked(
    guard: SafetyGuard, robot: Robot, middle: np.ndarray, side: float
) -> None:
    q, dq = middle.copy(), STILL.copy()
    edge = robot.upper[1] - 0.05 if side > 0 else robot.lower[1] + 0.05
    dq[1] = side * 1.5
    needed = 1.5**2 / (2 * guard.settings.approach_deceleration_rad_s2)
    tau = side * np.ones(8)
    q[1] = edge - side * (needed + 0.002)
    assert guard.filter(tau, 0.0, q, dq).reasons == ()
    q[1] = edge - side * (needed - 0.002)
    result = guard.filter(tau, 0.0, q, dq)
    assert result.reasons == (Reason.APPROACH_SPEED,) and result.current_a[1] * side < 0.0
    assert result.current_a[0] == pytest.approx(side / robot.torque_constants[0])
    assert guard.filter(tau, 0.0, q, -dq).reasons == ()  # away from the limit it may be as fast as it likes


def test_too_fast_a_joint_is_braked(guard: SafetyGuard, robot: Robot, middle: np.ndarray) -> None:
    dq = STILL.copy()
    dq[2] = 1.1 * robot.velocity_limits[2]
    result = guard.filter(np.ones(8), 0.0, middle, dq)
    assert result.current_a[2] < 0.0 and result.reasons[0] is Reason.VELOCITY_LIMIT
    assert result.current_a[0] == pytest.approx(1.0 / robot.torque_constants[0])
    stronger = guard.filter(-8.0 * np.ones(8), 0.0, middle, dq)
    assert stronger.current_a[2] == -robot.current_limits[2]


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("speed", [1.05, 1.7])
def test_a_joint_racing_inwards_out_of_the_soft_zone_is_braked(
    guard: SafetyGuard, robot: Robot, middle: np.ndarray, side: float, speed: float
) -> None:
    q, dq = middle.copy(), STILL.copy()
    q[1] = robot.upper[1] - 0.01 if side > 0 else robot.lower[1] + 0.01
    dq[1] = -side * speed * robot.velocity_limits[1]
    for tau in (side * np.ones(8), np.zeros(8), -side * np.ones(8)):
        result = guard.filter(tau, 0.0, q, dq)
        assert result.current_a[1] == pytest.approx(side * robot.current_limits[1])  # against dq, at most the cap
        assert result.reasons == (Reason.JOINT_LIMIT, Reason.VELOCITY_LIMIT)
    guard.handle(GuardEvent.DISABLE)
    slow = guard.filter(None, 0.0, q, 0.1 * dq)
    assert 0.0 < slow.current_a[1] * side < robot.current_limits[1]  # a stop brakes there too


@pytest.mark.parametrize(
    ("tau", "age_s", "reason"),
    [
        (None, 0.0, Reason.NO_COMMAND),
        (np.ones(7), 0.0, Reason.BAD_COMMAND),
        (np.ones((8, 1)), 0.0, Reason.BAD_COMMAND),
        (np.array([np.nan] + [1.0] * 7), 0.0, Reason.BAD_COMMAND),
        (np.array([1.0] * 7 + [np.inf]), 0.0, Reason.BAD_COMMAND),
        (np.array([1.0] * 7 + [-50.0]), 0.0, Reason.HUGE_COMMAND),
        (np.ones(8), 0.021, Reason.STALE_COMMAND),
        (np.ones(8), np.nan, Reason.STALE_COMMAND),
    ],
)
def test_unusable_commands_are_refused(
    guard: SafetyGuard, middle: np.ndarray, tau: np.ndarray | None, age_s: float, reason: Reason
) -> None:
    result = guard.filter(tau, age_s, middle, STILL)
    assert result.reasons == (reason,) and not result.current_a.any()


def test_without_a_complete_reading_commands_are_not_followed(guard: SafetyGuard, middle: np.ndarray) -> None:
    assert guard.filter(np.ones(8), 0.0, middle, STILL, feedback_age_s=0.019).reasons == ()
    assert guard.filter(np.ones(8), 0.0, middle, STILL, feedback_age_s=0.021).reasons == (Reason.NO_FEEDBACK,)


@pytest.mark.parametrize(
    ("command_age_s", "feedback_age_s", "step_s", "reasons"),
    [
        (0.0, 0.016, 0.005, (Reason.NO_FEEDBACK,)),
        (0.016, 0.001, 0.005, (Reason.STALE_COMMAND,)),
        (0.016, 0.016, 0.001, ()),
        (0.016, 0.0, 0.005, ()),  # all servos answered: the cycle was long for another reason
        (0.012, 0.012, 0.5, ()),  # a stalled process is no silent servo
    ],
)
def test_long_cycles_with_a_silent_servo_are_counted_before_they_pass(
    guard: SafetyGuard, middle: np.ndarray, command_age_s: float, feedback_age_s: float, step_s: float, reasons: object
) -> None:
    result = guard.filter(np.ones(8), command_age_s, middle, STILL, feedback_age_s=feedback_age_s, step_s=step_s)
    assert result.reasons == reasons


def test_when_commands_end_motion_is_braked_and_their_return_is_followed(robot: Robot, middle: np.ndarray) -> None:
    guard = changed(robot, current_ramp_s=0.0)
    guard.handle(GuardEvent.ENABLE)
    current = guard.filter(np.ones(8), 0.0, middle, STILL).current_a
    assert (guard.filter(np.ones(8), 1.0, middle, np.ones(8)).current_a < 0.0).all()
    again = guard.filter(np.ones(8), 0.0, middle, STILL)
    assert again.reasons == () and again.current_a == pytest.approx(current)


def test_a_command_takes_over_slowly_after_enable(robot: Robot, middle: np.ndarray) -> None:
    guard = changed(robot, current_ramp_s=0.5)
    guard.handle(GuardEvent.ENABLE)
    for _ in range(1000):  # waiting for the first command uses nothing of the ramp up
        guard.filter(None, 0.0, middle, STILL)
    results = [guard.filter(2.0 * robot.torque_limits, 0.0, middle, STILL) for _ in range(600)]
    fractions = np.array([result.current_a for result in results]) / robot.current_limits
    assert fractions[0] == pytest.approx(0.002) and (np.diff(fractions, axis=0) < 0.01).all()
    assert (fractions[249] >= 0.5).all() and (fractions[249] < 0.8).all() and fractions[500:] == pytest.approx(1.0)
    assert results[0].reasons == (Reason.CURRENT_RAMP,) and Reason.CURRENT_RAMP not in results[-1].reasons
    guard.handle(GuardEvent.DISABLE)
    guard.handle(GuardEvent.STOPPED)
    guard.handle(GuardEvent.ENABLE)
    assert not guard.filter(np.zeros(8), 0.0, middle, STILL).current_a.any()  # the past is forgotten
    sinking = guard.filter(np.zeros(8), 0.0, middle, -0.5 * robot.velocity_limits)
    assert (sinking.current_a > 0.0).all()  # what the command does not carry yet is braked


@pytest.mark.parametrize(("stale_cycles", "least", "most"), [(1, 0.97, 1.0), (20, 0.5, 0.8), (500, 0.0, 0.0021)])
def test_current_rises_slowly_after_a_pause_but_does_not_drop_for_one_late_command(
    robot: Robot, middle: np.ndarray, stale_cycles: int, least: float, most: float
) -> None:
    guard = changed(robot)
    guard.handle(GuardEvent.ENABLE)
    for _ in range(600):
        guard.filter(np.zeros(8), 0.0, middle, STILL)
    for _ in range(stale_cycles):
        guard.filter(np.zeros(8), 1.0, middle, STILL)
    fraction = guard.filter(2.0 * robot.torque_limits, 0.0, middle, STILL).current_a / robot.current_limits
    assert (fraction >= least).all() and (fraction <= most).all()


@pytest.mark.parametrize(
    ("tau", "age_s", "word"), [(None, 0.0, "no command"), (np.ones(8), 1.0, "too old"), (np.ones(7), 0.0, "size")]
)
def test_arm_without_commands_is_stopped(
    guard: SafetyGuard, middle: np.ndarray, tau: np.ndarray | None, age_s: float, word: str
) -> None:
    for _ in range(30_000):  # before the first command it waits
        guard.filter(tau, age_s, middle, STILL)
    assert guard.state is GuardState.ENABLED
    for _ in range(3):  # a good command in between starts the time anew
        guard.filter(np.ones(8), 0.0, middle, STILL)
        for _ in range(999):
            guard.filter(tau, age_s, middle, STILL)
        assert guard.state is GuardState.ENABLED and guard.stop_text == ""
    for _ in range(2):
        result = guard.filter(tau, age_s, middle, STILL)
    assert guard.state is GuardState.STOPPING and result.reasons == (Reason.COMMANDS_ENDED,)
    assert "no usable command for 1.0 s" in guard.stop_text and word in guard.stop_text
    guard.handle(GuardEvent.STOPPED)
    assert guard.stop_text
    guard.handle(GuardEvent.ENABLE)
    assert guard.stop_text == ""


def test_an_enabled_arm_does_not_wait_for_ever(robot: Robot, middle: np.ndarray) -> None:
    guard = SafetyGuard(robot, SafetySettings(first_command_s=0.01))
    guard.handle(GuardEvent.ENABLE)
    for _ in range(10):
        assert guard.filter(None, 0.0, middle, STILL).reasons == (Reason.NO_COMMAND,)
    guard.filter(None, 0.0, middle, STILL)
    assert guard.state is GuardState.STOPPING and "0.01 s" in guard.stop_text


def test_an_impossible_posture_is_refused_by_name(robot: Robot, middle: np.ndarray) -> None:
    guard = SafetyGuard(robot)
    guard.check_posture(robot.upper + 0.08)
    guard.check_posture(robot.lower - 0.08)
    q = middle.copy()
    q[3], q[5] = robot.upper[3] + 0.1, robot.lower[5] - 0.1
    with pytest.raises(SafetyError) as caught:
        guard.check_posture(q)
    text = str(caught.value)
    assert all(f"{robot.joint_names[axis]} reads {q[axis]:.3f} rad" in text for axis in (3, 5))
    assert f"{robot.lower[3]:.3f} to {robot.upper[3]:.3f}" in text and robot.joint_names[0] not in text
    q = middle.copy()
    q[0] = np.nan
    with pytest.raises(SafetyError, match="nan"):
        guard.check_posture(q)


def test_an_arm_without_load_is_looked_at_without_current_before_torque_goes_off(
    guard: SafetyGuard, middle: np.ndarray
) -> None:
    guard.handle(GuardEvent.DISABLE)
    assert guard.state is GuardState.STOPPING and guard.torque_needed
    for _ in range(99):
        assert (guard.filter(np.ones(8), 0.0, middle, np.ones(8)).current_a < 0.0).all()
    assert guard.torque_needed
    currents = []
    while guard.torque_needed:
        assert len(currents) < 5000
        currents.append(guard.filter(None, 0.0, middle, STILL).current_a)
    looked = round(1000 * guard.settings.lower_dwell_s)
    assert len(currents) >= looked and not np.any(currents[-looked:])
    assert not guard.filter(np.ones(8), 0.0, middle, STILL).current_a.any()
    assert guard.handle(GuardEvent.STOPPED) is GuardState.DISABLED


def test_stopping_is_bounded_in_time(robot: Robot, middle: np.ndarray) -> None:
    guard = SafetyGuard(robot, SafetySettings(stop_time_s=0.2, longest_stop_s=0.4))
    guard.filter(None, 0.0, middle, np.zeros(8))
    for seen, cycles in ((np.zeros(8, dtype=bool), 200), (np.arange(8) > 0, 400), (None, 400)):
        guard.handle(GuardEvent.ENABLE)
        guard.handle(GuardEvent.DISABLE)
        for _ in range(cycles):
            assert guard.torque_needed
            guard.filter(None, 0.0, middle, np.ones(8), seen)
        assert not guard.torque_needed
        assert ("torque went off after 0.4 s while" in guard.stop_text) == (cycles == 400)  # it is said
        guard.handle(GuardEvent.STOPPED)


def test_the_current_limit_falls_with_warmth(guard: SafetyGuard, robot: Robot, middle: np.ndarray) -> None:
    caps, tau = robot.current_limits, 2.0 * robot.torque_limits
    guard.set_temperatures(np.array([20.0, 65.0, 70.0, 75.0, 90.0, np.nan, 20.0, 20.0]))
    result = guard.filter(tau, 0.0, middle, STILL)
    assert result.current_a / caps == pytest.approx([1.0, 1.0, 0.65, 0.3, 0.3, 1.0, 1.0, 1.0])
    assert result.reasons == (Reason.TEMPERATURE,)
    guard.set_temperatures(np.full(8, 40.0))
    assert guard.filter(tau, 0.0, middle, STILL).current_a == pytest.approx(caps)


def test_the_current_limit_falls_with_the_age_of_slow_data(
    guard: SafetyGuard, robot: Robot, middle: np.ndarray
) -> None:
    settings, age_s = guard.settings, np.zeros(8)
    full = guard.current_limits.copy()
    for age, share in ((settings.slow_data_old_s, 1.0), (7.5, 0.65), (settings.slow_data_lost_s, 0.3), (99.0, 0.3)):
        age_s[2] = age
        guard.set_slow_ages(age_s)
        assert guard.current_limits[2] == pytest.approx(share * full[2]) and guard.current_limits[3] == full[3]
    guard.set_temperatures(np.full(8, 70.0))  # the lower one of both counts
    assert guard.current_limits[2] == pytest.approx(0.3 * full[2]) and guard.current_limits[3] < full[3]
    guard.set_slow_ages(np.zeros(8))
    assert guard.current_limits[2] == pytest.approx(0.65 * full[2])


def test_a_stop_has_the_full_current_of_a_hot_servo(guard: SafetyGuard, robot: Robot) -> None:
    """An arm that a hot servo can no longer hold would fall; the stop lasts only seconds."""
    full = guard.current_limits.copy()
    guard.set_temperatures(np.full(8, 95.0))
    guard.set_slow_ages(np.full(8, 99.0))
    assert (guard.current_limits < 0.5 * full).all()
    guard.fault("a servo is hot")
    assert (guard.current_limits == full).all()
    guard.set_temperatures(np.full(8, 96.0))  # read again during the stop
    assert (guard.current_limits == full).all()
    guard.abandon_stop()
    guard.handle(GuardEvent.CLEAR)
    assert (guard.current_limits < 0.5 * full).all()


def test_a_guard_that_begins_loaded_limits_the_current_at_once(robot: Robot) -> None:
    settings = SafetySettings(overload_limits=True)
    fresh, loaded = SafetyGuard(robot, settings), SafetyGuard(robot, settings)
    loaded.restore_load(np.full(8, 0.95))
    assert (loaded.current_limits < fresh.current_limits).all() and loaded.load.tolist() == [0.95] * 8


def test_ages_out_of_order_are_refused(robot: Robot, tmp_path: Path) -> None:
    (tmp_path / "safety.yaml").write_text("schema_version: 1\nslow_data_old_s: 10.0\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"slow_data_old_s 10\.0 must be less than slow_data_lost_s 10\.0"):
        load_safety(cast(Robot, SimpleNamespace(folder=tmp_path, size=8, file=robot.file)))


def test_currents_change_no_faster_than_allowed(robot: Robot, middle: np.ndarray) -> None:
    guard = changed(robot, current_ramp_s=0.0, current_rate_1_s=100.0)
    guard.handle(GuardEvent.ENABLE)
    currents = [guard.filter(robot.torque_limits, 0.0, middle, STILL) for _ in range(12)]
    fractions = np.array([one.current_a for one in currents]) / robot.current_limits
    assert fractions[:, 0] == pytest.approx(np.minimum(0.1 * np.arange(1, 13), 1.0))
    assert currents[0].reasons == (Reason.CURRENT_RATE,) and currents[-1].reasons == ()
    back = guard.filter(-robot.torque_limits, 0.0, middle, STILL).current_a / robot.current_limits
    assert back == pytest.approx(0.9)


def test_torque_limit_applies_with_the_current_limit(robot: Robot, middle: np.ndarray) -> None:
    joints = [joint.model_copy(update={"torque_limit_nm": 1.0}) for joint in robot.file.joints]
    weak = Robot(robot.file.model_copy(update={"joints": tuple(joints)}), robot.folder)
    guard = changed(weak, current_ramp_s=0.0)
    guard.handle(GuardEvent.ENABLE)
    current = guard.filter(np.full(8, 2.0), 0.0, middle, STILL).current_a
    assert current * robot.torque_constants == pytest.approx(np.minimum(1.0, robot.torque_limits))


def test_a_fault_latches_until_cleared(guard: SafetyGuard, middle: np.ndarray) -> None:
    guard.fault("servo 3 overheats")
    guard.fault("another")
    assert guard.state is GuardState.FAULT and guard.fault_text == "servo 3 overheats"
    with pytest.raises(SafetyError, match="servo 3 overheats"):
        guard.handle(GuardEvent.ENABLE)
    with pytest.raises(SafetyError, match="clear"):
        guard.handle(GuardEvent.CLEAR)  # still stopping
    while guard.torque_needed:
        assert Reason.FAULT in guard.filter(np.ones(8), 0.0, middle, STILL).reasons
    assert guard.handle(GuardEvent.CLEAR) is GuardState.DISABLED and guard.fault_text == ""
    guard.handle(GuardEvent.ENABLE)
    assert not guard.filter(None, 0.0, middle, STILL).current_a.any()  # what was commanded before is forgotten


def test_hold_time_of_a_fault_during_a_stop_is_not_that_of_the_next_stop(robot: Robot) -> None:
    guard = changed(robot, hold_s=1.5)
    guard.handle(GuardEvent.DISABLE)
    guard.fault("overload ahead", hold_s=0.0)
    guard.abandon_stop()
    guard.handle(GuardEvent.CLEAR)
    guard.handle(GuardEvent.ENABLE)
    assert guard._hold_s == 1.5


def test_a_nan_velocity_gives_no_current(guard: SafetyGuard, middle: np.ndarray) -> None:
    result = guard.filter(None, 0.0, middle, np.full(8, np.nan))
    assert not result.current_a.any() and Reason.CURRENT_LIMIT in result.reasons
    assert np.isfinite(guard.filter(None, 0.0, middle, np.ones(8)).current_a).all()


def test_the_brake_of_a_joint_that_is_not_read_any_more_fades(guard: SafetyGuard, middle: np.ndarray) -> None:
    valid = np.array([True] * 7 + [False])
    currents = [guard.filter(None, 0.0, middle, np.ones(8), valid).current_a for _ in range(500)]
    assert (currents[0] < 0.0).all() and (currents[-1][:7] < 0.0).all() and abs(currents[-1][7]) < 1e-3
    seen_again = guard.filter(None, 0.0, middle, np.ones(8)).current_a
    assert seen_again[7] == pytest.approx(currents[0][7], rel=0.1)


def test_a_joint_that_went_silent_before_it_is_braked_gets_the_whole_brake(
    guard: SafetyGuard, middle: np.ndarray
) -> None:
    """While commands are followed nothing brakes, so braking starts from the joint's last known velocity."""
    valid, dq = np.array([True] * 7 + [False]), np.ones(8)
    for _ in range(15):
        guard.filter(STILL, 0.0, middle, dq, valid)
    unseen = guard.filter(STILL, 1.0, middle, dq, valid).current_a
    assert unseen[7] == pytest.approx(guard.filter(None, 0.0, middle, dq).current_a[7], rel=0.1)


def test_the_brake_of_a_joint_that_is_not_read_only_fades(guard: SafetyGuard, middle: np.ndarray) -> None:
    """Whether others are read changes how fast, and never brings a brake back."""
    some, none = np.array([True] * 7 + [False]), np.zeros(8, dtype=np.bool_)
    guard.filter(None, 0.0, middle, np.ones(8))
    brakes = [
        abs(float(guard.filter(None, 0.0, middle, np.ones(8), none if cycle % 3 else some).current_a[7]))
        for cycle in range(60)
    ]
    assert all(after < before for before, after in pairwise(brakes))


def test_new_start_has_no_earlier_brake(guard: SafetyGuard, middle: np.ndarray) -> None:
    unread = np.array([True] * 7 + [False])
    whole = guard.filter(None, 0.0, middle, np.ones(8), unread).current_a[7]
    guard.fault("servo 9 is silent")
    while guard.torque_needed:
        guard.filter(None, 0.0, middle, STILL, unread)
    guard.handle(GuardEvent.CLEAR)
    guard.handle(GuardEvent.ENABLE)
    assert guard.filter(None, 0.0, middle, np.ones(8), unread).current_a[7] == pytest.approx(whole, rel=0.1)


@pytest.mark.parametrize(("reads", "setting"), [(7, "blind_brake_s"), (0, "blind_alone_s")])
def test_brake_of_unread_joints_is_short(guard: SafetyGuard, middle: np.ndarray, reads: int, setting: str) -> None:
    valid = np.arange(8) < reads
    first, *_, last = (guard.filter(None, 0.0, middle, np.ones(8), valid).current_a[7] for _ in range(11))
    assert last / first == pytest.approx(np.exp(-0.010 / getattr(guard.settings, setting)), rel=0.1)


def test_state_transitions_outside_the_table_are_refused(robot: Robot) -> None:
    for state in GuardState:
        for event in GuardEvent:
            guard = SafetyGuard(robot)
            guard.state = state
            if (state, event) in TRANSITIONS:
                assert guard.handle(event) is TRANSITIONS[state, event]
            else:
                with pytest.raises(SafetyError, match=state.value):
                    guard.handle(event)
                assert guard.state is state
    enabling = {(state, event) for (state, event), after in TRANSITIONS.items() if after is GuardState.ENABLED}
    assert {event for _, event in enabling} == {GuardEvent.ENABLE}
    assert {state for state, _ in enabling} == {GuardState.DISABLED, GuardState.ENABLED}


def test_no_state_ever_exceeds_the_caps(robot: Robot) -> None:
    random = np.random.default_rng(1)
    guard = SafetyGuard(robot)
    for _ in range(3000):
        event = random.choice([*GuardEvent, None, None, None])
        if event is not None and (guard.state, event) in TRANSITIONS:
            try:
                guard.handle(event)
            except SafetyError:
                assert event is GuardEvent.CLEAR and guard.torque_needed
        tau = None if random.random() < 0.1 else random.normal(scale=20.0, size=8)
        q, dq = random.uniform(-3, 3, 8), random.normal(scale=4.0, size=8)
        needed = guard.torque_needed
        guard.set_temperatures(random.uniform(20.0, 80.0, 8))
        current = guard.filter(tau, random.random() * 0.04, q, dq, random.random(8) < 0.9).current_a
        assert np.isfinite(current).all() and (np.abs(current) <= robot.current_limits).all()
        assert needed or not current.any()


def test_a_tool_that_is_faster_than_its_limit_is_a_fault_if_there_is_a_limit(robot: Robot, middle: np.ndarray) -> None:
    posture, one = Posture(robot), np.eye(8)[1]
    posture.place(middle)
    at_limit = 0.25 / posture.speed(one)
    watched, unwatched = changed(robot, tool_limit_m_s=0.25), changed(robot)
    for guard in (watched, unwatched):
        guard.handle(GuardEvent.ENABLE)
        guard.filter(np.zeros(8), 0.0, middle, 0.99 * at_limit * one)
        assert guard.state is GuardState.ENABLED
        guard.filter(np.zeros(8), 0.0, middle, 1.01 * at_limit * one)
    assert unwatched.state is GuardState.ENABLED
    assert watched.state is GuardState.FAULT and watched.torque_needed
    assert watched.fault_text == "the tool or a link moved at 0.25 m/s, tool_limit_m_s allows 0.25 m/s"
    braked = watched.filter(np.zeros(8), 0.0, middle, at_limit * one)
    assert braked.current_a[1] < 0.0 and Reason.FAULT in braked.reasons
