"""The guard alone: no bus, no clock."""

import numpy as np
import pytest

from dynid.errors import SafetyError
from dynid.hardware.guard_states import TRANSITIONS, GuardEvent, GuardState, Reason
from dynid.hardware.safety import SafetyGuard, SafetySettings
from dynid.robot import Robot

STILL = np.zeros(8)


@pytest.fixture
def guard(robot: Robot) -> SafetyGuard:
    """Enabled, and past its ramp."""
    enabled = SafetyGuard(robot, SafetySettings(current_ramp_s=0.0))
    enabled.handle(GuardEvent.ENABLE)
    return enabled


@pytest.fixture
def middle(robot: Robot) -> np.ndarray:
    return 0.5 * (robot.lower + robot.upper)


def test_a_good_command_passes_as_current(guard: SafetyGuard, robot: Robot, middle: np.ndarray) -> None:
    tau = np.linspace(-1.0, 1.0, 8)
    result = guard.filter(tau, 0.0, middle, STILL)
    assert result.reasons == () and result.current_a == pytest.approx(tau / robot.torque_constants)


def test_nothing_flows_while_disabled(robot: Robot, middle: np.ndarray) -> None:
    result = SafetyGuard(robot).filter(np.ones(8), 0.0, middle, np.ones(8))
    assert not result.current_a.any() and result.reasons == (Reason.DISABLED,)


def test_currents_are_capped(guard: SafetyGuard, robot: Robot, middle: np.ndarray) -> None:
    result = guard.filter(np.array([1e3, -1e3] * 4), 0.0, middle, STILL)
    assert result.current_a == pytest.approx(robot.current_limits * np.array([1, -1] * 4))
    assert result.reasons == (Reason.CURRENT_LIMIT,)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_in_the_soft_zone_only_inward_current_passes(
    guard: SafetyGuard, robot: Robot, middle: np.ndarray, side: float
) -> None:
    q = middle.copy()
    q[1] = robot.upper[1] - 0.01 if side > 0 else robot.lower[1] + 0.01
    outward = guard.filter(side * np.ones(8), 0.0, q, STILL)
    assert outward.current_a[1] == 0.0 and Reason.JOINT_LIMIT in outward.reasons
    assert (np.delete(outward.current_a, 1) != 0.0).all()
    inward = guard.filter(-side * np.ones(8), 0.0, q, STILL)
    assert inward.current_a[1] == pytest.approx(-side / robot.torque_constants[1])
    moving_out = guard.filter(side * np.ones(8), 0.0, q, side * np.ones(8))
    assert moving_out.current_a[1] * side < 0.0
    moving_in = guard.filter(-side * np.ones(8), 0.0, q, -side * np.ones(8))
    assert moving_in.current_a[1] == pytest.approx(inward.current_a[1])


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
        assert result.reasons == (Reason.VELOCITY_LIMIT, Reason.JOINT_LIMIT)
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
        (np.ones(8), 0.021, Reason.STALE_COMMAND),
        (np.ones(8), np.nan, Reason.STALE_COMMAND),
    ],
)
def test_unusable_commands_are_refused(
    guard: SafetyGuard, middle: np.ndarray, tau: np.ndarray | None, age_s: float, reason: Reason
) -> None:
    result = guard.filter(tau, age_s, middle, STILL)
    assert result.reasons == (reason,) and not result.current_a.any()


def test_a_stale_command_fades_and_motion_is_damped(guard: SafetyGuard, middle: np.ndarray) -> None:
    current = guard.filter(np.ones(8), 0.0, middle, STILL).current_a
    faded = [guard.filter(np.ones(8), 1.0, middle, STILL).current_a for _ in range(500)]
    assert (faded[0] < current).all() and (faded[0] > 0.9 * current).all()
    assert (np.abs(faded[-1]) < 1e-3 * current).all()
    assert (guard.filter(None, 1.0, middle, np.ones(8)).current_a < 0.0).all()
    again = guard.filter(np.ones(8), 0.0, middle, STILL)
    assert again.reasons == () and again.current_a == pytest.approx(current)


def test_current_rises_slowly_after_enable(robot: Robot, middle: np.ndarray) -> None:
    guard = SafetyGuard(robot, SafetySettings(current_ramp_s=0.5))
    guard.handle(GuardEvent.ENABLE)
    for _ in range(1000):  # waiting for the first command uses nothing of the ramp up
        guard.filter(None, 0.0, middle, STILL)
    results = [guard.filter(np.full(8, 100.0), 0.0, middle, STILL) for _ in range(600)]
    fractions = np.array([result.current_a for result in results]) / robot.current_limits
    assert fractions[0] == pytest.approx(0.002) and fractions[249] == pytest.approx(0.5)
    assert (np.diff(fractions, axis=0) <= 0.0021).all() and fractions[500:] == pytest.approx(1.0)
    assert results[0].reasons == (Reason.CURRENT_RAMP,) and Reason.CURRENT_RAMP not in results[-1].reasons
    guard.handle(GuardEvent.DISABLE)
    guard.handle(GuardEvent.STOPPED)
    guard.handle(GuardEvent.ENABLE)
    sinking = guard.filter(np.array([100.0] + [0.0] * 7), 0.0, middle, -0.5 * robot.velocity_limits)
    assert sinking.current_a[0] == pytest.approx(0.502 * robot.current_limits[0])  # held back, so braked
    assert not sinking.current_a[1:].any()
    racing = guard.filter(None, 0.0, middle, robot.velocity_limits)
    guard.handle(GuardEvent.DISABLE)
    guard.handle(GuardEvent.STOPPED)
    guard.handle(GuardEvent.ENABLE)
    braked = guard.filter(None, 0.0, middle, robot.velocity_limits)
    assert braked.current_a == pytest.approx(-robot.current_limits) and (racing.current_a <= 0.0).all()
    again = guard.filter(np.full(8, 100.0), 0.0, middle, STILL)
    assert (again.current_a <= 0.0021 * robot.current_limits).all()


@pytest.mark.parametrize(("stale_cycles", "least", "most"), [(1, 0.97, 1.0), (20, 0.5, 0.8), (500, 0.0, 0.0021)])
def test_current_rises_slowly_after_a_pause_but_does_not_drop_for_one_late_command(
    robot: Robot, middle: np.ndarray, stale_cycles: int, least: float, most: float
) -> None:
    guard = SafetyGuard(robot)
    guard.handle(GuardEvent.ENABLE)
    for _ in range(600):
        guard.filter(np.full(8, 100.0), 0.0, middle, STILL)
    for _ in range(stale_cycles):
        guard.filter(np.full(8, 100.0), 1.0, middle, STILL)
    fraction = guard.filter(np.full(8, 100.0), 0.0, middle, STILL).current_a / robot.current_limits
    assert (fraction >= least).all() and (fraction <= most).all()


@pytest.mark.parametrize(
    ("tau", "age_s", "word"), [(None, 0.0, "no command"), (np.ones(8), 1.0, "too old"), (np.ones(7), 0.0, "size")]
)
def test_an_arm_that_nobody_commands_any_more_is_stopped(
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
    assert guard.state is GuardState.STOPPING and result.reasons == (Reason.STOPPING, Reason.COMMANDS_ENDED)
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


def test_stopping_ends_when_all_joints_stand_still(guard: SafetyGuard, middle: np.ndarray) -> None:
    guard.handle(GuardEvent.DISABLE)
    assert guard.state is GuardState.STOPPING and guard.torque_needed
    for _ in range(200):
        assert (guard.filter(np.ones(8), 0.0, middle, np.ones(8)).current_a < 0.0).all()
    assert guard.torque_needed
    for _ in range(100):
        assert guard.torque_needed
        guard.filter(None, 0.0, middle, STILL)
    assert not guard.torque_needed
    assert not guard.filter(np.ones(8), 0.0, middle, STILL).current_a.any()
    assert guard.handle(GuardEvent.STOPPED) is GuardState.DISABLED


def test_stopping_is_bounded_in_time(robot: Robot, middle: np.ndarray) -> None:
    guard = SafetyGuard(robot, SafetySettings(stop_time_s=0.05))
    guard.handle(GuardEvent.ENABLE)
    guard.handle(GuardEvent.DISABLE)
    for _ in range(50):
        assert guard.torque_needed
        guard.filter(None, 0.0, middle, np.ones(8))
    assert not guard.torque_needed


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


def test_no_nan_ever_flows(guard: SafetyGuard, middle: np.ndarray) -> None:
    result = guard.filter(None, 0.0, middle, np.full(8, np.nan))
    assert not result.current_a.any() and Reason.CURRENT_LIMIT in result.reasons
    assert np.isfinite(guard.filter(None, 0.0, middle, np.ones(8)).current_a).all()


def test_joints_that_were_not_read_get_no_damping(guard: SafetyGuard, middle: np.ndarray) -> None:
    valid = np.array([True] * 7 + [False])
    result = guard.filter(None, 0.0, middle, np.ones(8), valid)
    assert (result.current_a[:7] < 0.0).all() and result.current_a[7] == 0.0


def test_every_pair_outside_the_table_is_refused(robot: Robot) -> None:
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
        current = guard.filter(tau, random.random() * 0.04, q, dq, random.random(8) < 0.9).current_a
        assert np.isfinite(current).all() and (np.abs(current) <= robot.current_limits).all()
        assert needed or not current.any()
