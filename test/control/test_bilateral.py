"""Bilateral control of two simulated arms with gear friction and all nuisances; the model is the true one."""

import numpy as np
import pytest
from benchmarks.bilateral.benchmark import force_errors, tracking_deg
from benchmarks.bilateral.faults import FAULTS, PairFault, energy_gain, inject

from dynid.control.bilateral.cycles import PairCycles
from dynid.control.bilateral.law import BilateralLaw, BilateralSettings
from dynid.control.bilateral.observer import ArmObserver
from dynid.control.bilateral.pair import BOUND_J, SIDES, ArmPair, EnergyObserver, Reading, Watch
from dynid.control.control_model import ControlModel
from dynid.control.dynamics_kernel import compile_single
from dynid.control.holding_check import HoldingTorque
from dynid.control.model_laws import GravityCompensation, static_friction
from dynid.errors import ConfigurationError, DataError, SafetyError
from dynid.hardware.safety.guard import SafetyGuard
from dynid.hardware.safety.guard_states import GuardEvent
from dynid.model.drive import RESISTING, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.gear_presets import gear_friction
from dynid.model.standard import from_file
from dynid.robot import load_robot
from dynid.simulation.lockstep.arm_pair import START_DEG, Lines, LockstepPair
from dynid.simulation.lockstep.hand_and_wall import Hand, Wall, pressing, wandering
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.simulation.plant.arm import plant_standard
from dynid.simulation.plant.nuisances import NUISANCES

pytestmark = pytest.mark.slow

ROBOT = load_robot("crane_x7")
N = ROBOT.size
START = np.deg2rad(START_DEG)


def model_with(friction):
    """The simulated arm's links and rotors with another friction."""
    arm = ArmModel.of(ROBOT)
    phi = arm.base_parameters(from_file(plant_standard(ROBOT), arm.mdh))
    links = phi.with_values(phi.values - of_kinds(phi, RESISTING).values)
    return ControlModel(ROBOT.name, arm.structure_hash, links, friction, True)


MODEL = model_with(gear_friction(ROBOT, "M6"))
DYNAMICS = compile_single(ArmModel.of(ROBOT))


def pair_of(settings=None, lines=None, q0=None, seed=0):
    return LockstepPair(ROBOT, DYNAMICS, (MODEL, MODEL), settings, lines=lines, q0=q0, seed=seed)


def pressed(stiffness, settings=None):
    pair = pair_of(settings)
    start = pair.tool_at_start()
    return pair.run(3.4, Hand(pressing, start), Wall(start.position[0] + 0.01, stiffness))


def test_observer_finds_the_push_on_a_frictionless_arm():
    none = FrictionLaw.of(N, {})
    arm = SteppedArm(ROBOT, q0=START, switched_off=NUISANCES, friction=none)
    observer, push = ArmObserver(model_with(none), DYNAMICS, delay_cycles=0), np.zeros(N)
    push[[0, 3]] = 0.3, -0.2
    observer.reset(arm.measure())
    for k in range(150):
        q = arm.measure()
        observer.update(0.001, q)
        observer.applied(observer.bias)
        arm.command(observer.bias, push if k >= 50 else None)
        if k == 49:
            np.testing.assert_allclose(observer.external, 0.0, atol=0.01)
    np.testing.assert_allclose(observer.external, push, atol=0.03)
    np.testing.assert_allclose(observer.dq, arm.plant.dq, atol=0.05)
    with pytest.raises(DataError, match="stamps must increase"):
        observer.update(0.0, q)


@pytest.mark.parametrize(("pressed", "kept"), [(1.0, True), (0.0, False)])
def test_friction_keeps_its_direction_under_load_only(pressed, kept):
    observer = ArmObserver(MODEL, DYNAMICS)
    observer.reset(START)
    q = START.copy()
    for k in range(1200):
        q[1] = START[1] + 0.05 * min(1.0, k / 200)
        observer.update(0.001, q, pressed)
        observer.applied(observer.bias + observer.friction)
    assert (observer.friction[1] > 0.1) == kept


def test_coupled_arms_follow_and_gain_no_energy_when_released():
    pair = pair_of()
    run = pair.run(4.0, Hand(wandering, pair.tool_at_start(), until_s=2.5))
    assert not run.stopped and not run.fell_back
    led = run.time_s < 2.5
    moved = np.ptp(run.rows["q"][0][led], axis=0)
    assert moved[:4].max() > 0.3 and tracking_deg(run, ROBOT) < 1.0
    assert energy_gain(run, 2.5).max() < 0.02 and np.abs(run.rows["dq"][:, -200:]).max() < 0.1
    soft = pair_of(BilateralSettings(stiffness_1_s2=30.0, damping_1_s=8.0, rejection=0.0))
    assert tracking_deg(soft.run(2.5, Hand(wandering, soft.tool_at_start())), ROBOT) > 1.0


@pytest.mark.parametrize("stiffness", [300.0, 6000.0])
def test_hand_receives_the_force_of_the_wall(stiffness):
    found = force_errors(pressed(stiffness))
    assert found["wall_n"] > 3.0 and found["held"] < 0.2


def test_unilateral_leader_receives_no_force():
    found = force_errors(pressed(400.0, BilateralSettings(mode="unilateral")))
    assert found["wall_n"] > 3.0 and found["held"] > 0.3


def test_force_reflecting_leader_receives_the_force():
    found = force_errors(pressed(300.0, BilateralSettings(mode="force_reflecting")))
    assert found["wall_n"] > 2.0 and found["held"] < 0.4


def test_pair_guided_too_fast_is_stopped():
    pair = pair_of()
    run = pair.run(1.5, Hand(lambda time_s: np.array([0.0, 0.8 * max(time_s - 0.5, 0.0), 0.0]), pair.tool_at_start()))
    assert "is guided too fast" in run.stopped and "m/s" in run.stopped


def test_motion_is_scaled_around_the_centre():
    settings = BilateralSettings(position_scale=0.5, force_scale=0.5)
    pair = pair_of(settings, q0=np.array([ROBOT.rest_posture + 0.05, ROBOT.rest_posture]))
    run = pair.run(2.5, Hand(wandering, pair.tool_at_start()))
    assert not run.stopped
    leader, follower = (q[1500:, :4] - ROBOT.rest_posture[:4] for q in run.rows["q"])
    np.testing.assert_allclose(follower, 0.5 * leader, atol=0.05)
    assert np.abs(leader).max() > 0.2


@pytest.mark.parametrize(
    "name",
    [
        "follower silent",
        "leader frozen",
        "follower frozen",
        "leader led slowly, frozen",
        "leader's encoders stand still",
        "follower 10 ms late",
        "follower joint 2 pulls with the wrong sign",
    ],
)
def test_a_fault_of_either_arm_leaves_both_safe(name):
    fault = next(one for one in FAULTS if one.name == name)
    found = inject(ROBOT, fault, lambda lines: pair_of(lines=lines))
    assert found.stopped and not found.violations


def test_frozen_positions_below_the_damped_speed_stop_the_pair_at_once():
    """Hand guiding damps the arms, so that no joint is fast; their kinetic energy gives them away."""
    fault = next(one for one in FAULTS if one.name == "leader's encoders stand still")
    pair = pair_of(lines=fault.lines(ROBOT))
    run = pair.run(1.6, Hand(fault.path, pair.tool_at_start(), stiffness_n_m=fault.stiffness_n_m))
    led = (run.time_s > 1.48) & (run.time_s < 1.5)
    assert np.abs(run.rows["dq"][0][led]).max() < 0.75
    assert "stopped changing while it moved" in run.stopped and run.stopped_s < 1.53


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_mirrored_joint_is_detected_by_the_holding_torque(sign):
    """It reads and pulls with the wrong sign near its zero; its driver holds the arm, which looks right to it."""
    signs = np.where(np.arange(N) == 1, sign, 1.0)
    arm, guard, holding = SteppedArm(ROBOT, seed=3, q0=ROBOT.rest_posture), SafetyGuard(ROBOT), HoldingTorque(ROBOT)
    guard.handle(GuardEvent.ENABLE)
    for _ in range(800):
        q, dq = signs * arm.measure(), signs * arm.plant.dq
        tau = guard.filter(None, np.inf, q, dq).current_a * ROBOT.torque_constants
        holding.note(arm.stamp_ns, q, dq, tau)
        arm.command(signs * tau)
    law = GravityCompensation(MODEL, DYNAMICS)
    if sign > 0.0:
        holding.refuse_contradiction(law, static_friction(law, holding.q))
        return
    with pytest.raises(SafetyError, match=r"tilt_joint is held by -0\.\d+ N m, but gravity_compensation expects 1\."):
        holding.refuse_contradiction(law, static_friction(law, holding.q))


@pytest.mark.parametrize(
    ("dq", "energy_rad", "told", "found"),
    [
        (0.5, 0.5e-4, 0.0, ""),  # a wrist that a hand stopped
        (0.7, 0.0, 0.0, "while it moved"),
        (0.4, 1.5e-4, 0.0, "while it moved"),  # a whole arm does not stop so
        (0.0, 0.0, 0.02, ""),  # the register of a joint that stands flickers
        (0.0, 0.0, np.nan, ""),
        (0.1, 0.2e-4, 0.1, "velocities amount to a movement"),
        (0.0, 0.0, -0.1, "velocities amount to a movement"),
    ],
)
def test_frozen_positions_of_a_moving_arm_are_detected(dq, energy_rad, told, found):
    watch, before, velocity = Watch(), np.zeros(N), np.zeros(N)
    before[1], velocity[2] = dq, told
    watch.frozen(Reading(0, START - 1e-3, dq=velocity), before, energy_rad)
    said = [watch.frozen(Reading(k * MS, START, dq=velocity), before, energy_rad) for k in range(1, 300)]
    assert not any(said[:20]) and found in said[-1] and bool(said[-1]) == bool(found)
    assert watch.frozen(Reading(300 * MS, START + 1e-3, dq=velocity), before, 0.0) == ""


@pytest.mark.parametrize("stiffness", [300.0, 3000.0])
def test_a_hand_that_stops_suddenly_does_not_end_the_pair(stiffness):
    def stop_and_go(time_s):
        periods, rest = divmod(max(time_s - 0.6, 0.0), 0.8)  # begins when the guards' hold has let go of both arms
        way = 0.06 if rest > 0.4 else 0.15 * rest
        return np.array([way if periods % 2 == 0 else 0.06 - way, 0.0, 0.0])

    pair = pair_of(seed=1)
    run = pair.run(3.1, Hand(stop_and_go, pair.tool_at_start(), stiffness_n_m=stiffness))
    assert not run.stopped


@pytest.mark.parametrize("aligning", [False, True])
def test_an_arm_that_stands_to_the_encoder_count_while_the_other_moves_is_noticed(aligning):
    watch, found = Watch(), []
    for k in range(400):
        reading, other = Reading(k * MS, START + 1e-3 * (k < 50)), START + 1e-3 * k
        assert not watch.frozen(reading, np.zeros(N))
        found.append(watch.stuck(reading, other, aligning=aligning))
    assert any(found) != aligning and not any(found[:150])


def test_judge_detects_unsafe_runs():
    class Trusting(ArmPair):
        """Pair of arms without any safety check."""

        def _frozen(self, leader, follower):
            return ""

        def _stop_reason(self, dt, torques):
            return ""

    def make(lines):
        pair = pair_of(lines=lines)
        pair.pair = Trusting(ROBOT, pair.pair.law)
        return pair

    fault = next(one for one in FAULTS if one.name == "follower joint 1 pulls with the wrong sign")
    found = inject(ROBOT, fault, make)
    assert "the pair was not stopped" in found.violations and len(found.violations) > 1


def test_arms_in_different_postures_are_not_engaged():
    away = START + np.where(np.arange(N) == 3, 0.5, 0.0)
    with pytest.raises(SafetyError, match=r"joint 4 is .* rad apart"):
        pair_of(q0=np.array([away, START])).run(0.01, None)
    fault = PairFault("position", lambda _: (Lines(), Lines(position_sign=np.where(np.arange(N) == 1, -1.0, 1.0))))
    assert "check the joint's sign" in inject(ROBOT, fault, lambda lines: pair_of(lines=lines)).stopped


def test_a_pair_that_is_not_started_or_was_stopped_commands_nothing():
    pair = ArmPair(ROBOT, BilateralLaw(ROBOT, MODEL, MODEL, DYNAMICS))
    fresh, old = Reading(1_000_000_000, START), Reading(980_000_000, START)
    assert pair.update(1_000_000_000, fresh, fresh) is None
    with pytest.raises(SafetyError, match=r"leader's state is 20\.0 ms old"):
        pair.start(1_000_000_000, old, fresh)
    pair.start(999_000_000, Reading(999_000_000, START), Reading(999_000_000, START))
    assert pair.update(1_000_000_000, fresh, fresh) is not None and not pair.stopped
    last = pair.update(1_009_500_000, fresh, Reading(1_009_500_000, START))
    np.testing.assert_allclose(last[0], pair.law.leader.bias)
    assert "leader's state is 9.5 ms old" in pair.stopped
    assert pair.update(1_010_000_000, Reading(1_010_000_000, START), Reading(1_010_000_000, START)) is None


@pytest.mark.parametrize(("torque", "explained"), [(0.0, False), (0.2, True)])
def test_energy_of_an_external_torque_is_not_counted_as_a_gain(torque, explained):
    """A joint of 0.1 kg m^2 accelerates at 2 rad/s^2, by an external torque of 0.2 N m or without one."""
    law = BilateralLaw(ROBOT, MODEL, MODEL, DYNAMICS)
    observer = EnergyObserver(law)
    observer.reset()
    law.leader.inertia = 0.1 * np.eye(N)
    law.leader.external[0] = torque
    for k in range(2000):
        law.leader.dq[0] = 0.002 * k
        observer.update(0.001)
    assert (observer.energy_j > -BOUND_J) == explained
    assert observer.given_j == pytest.approx(torque * 4.0, rel=0.01)


def test_unexplained_energy_ends_the_coupling_and_then_the_pair():
    pair, stamp = ArmPair(ROBOT, BilateralLaw(ROBOT, MODEL, MODEL, DYNAMICS)), 1_000_000_000
    pair.start(stamp, Reading(stamp, START), Reading(stamp, START))
    for k, mode in ((1, "four_channel"), (2, "unilateral"), (3, "unilateral")):
        pair.energy.energy_j = -BOUND_J - (0.1 if k > 1 else -0.1)
        reading = Reading(stamp + k * 1_000_000, START)
        pair.update(reading.stamp_ns, reading, reading)
        assert pair.law.settings.mode == mode and bool(pair.fell_back) == (k > 1)
    assert "gained" in pair.stopped


@pytest.mark.parametrize("wrong", [{"mode": "bilateral"}, {"position_scale": 0.0}, {"friction_share_free": 1.2}])
def test_invalid_settings_are_refused(wrong):
    with pytest.raises(ConfigurationError, match=f"{next(iter(wrong))} is .*; expected"):
        BilateralSettings(**wrong)


def cycles_of_two(before_ms=1):
    """A pair that is engaged, its drivers' clocks being an hour apart; each arm has sent one state since then."""
    cycles = PairCycles(ArmPair(ROBOT, BilateralLaw(ROBOT, MODEL, MODEL, DYNAMICS)))
    with pytest.raises(SafetyError, match="no state of the leader yet"):
        cycles.engage()
    for since_ms in (-before_ms, 0):
        if not since_ms:
            cycles.engage()
        for side, stamp_ns in enumerate(CLOCKS_NS):
            assert cycles.take(side, Reading(stamp_ns + since_ms * MS, START)) is None
    return cycles


CLOCKS_NS, MS = (10**9, 3_600 * 10**9), 10**6


def test_cycle_ends_when_both_arms_have_sent_a_state():
    cycles, (leader, follower) = cycles_of_two(), CLOCKS_NS
    assert cycles.take(0, Reading(leader + MS, START)) is None
    assert cycles.take(0, Reading(leader + MS, START)) is None  # the same once more
    assert cycles.take(1, Reading(follower - MS, START)) is None  # an older one
    assert cycles.take(1, Reading(follower + MS, START)) is not None and cycles.cycles == 1
    for k in range(2, 9):  # the follower's clock is slow: five of its cycles are six of the leader's
        assert cycles.take(1, Reading(follower + int(k * MS / 1.2), START)) is None
        assert cycles.take(0, Reading(leader + k * MS, START)) is not None
    assert not cycles.pair.stopped


def test_checks_that_take_long_do_not_end_the_coupling_that_they_allow():
    cycles = cycles_of_two(before_ms=40)
    for k in range(1, 20):
        for side, stamp_ns in enumerate(CLOCKS_NS):
            cycles.take(side, Reading(stamp_ns + k * MS, START))
    assert not cycles.pair.stopped and cycles.cycles == 19


def test_an_arm_that_is_silent_from_the_engagement_on_is_detected():
    cycles = cycles_of_two()
    cycles.pair.stop("disengaged")
    cycles.engage()
    for k in range(1, 12):
        cycles.take(0, Reading(CLOCKS_NS[0] + k * MS, START))
    assert "the follower's state is 9.0 ms old" in cycles.pair.stopped


@pytest.mark.parametrize("silent", [0, 1])
def test_a_silent_arm_is_detected_by_the_clock_of_the_other_arm(silent):
    cycles, speaks = cycles_of_two(), 1 - silent
    for k in range(1, 9):
        assert cycles.take(speaks, Reading(CLOCKS_NS[speaks] + k * MS, START)) is None and not cycles.pair.stopped
    last = cycles.take(speaks, Reading(CLOCKS_NS[speaks] + 9 * MS, START))
    np.testing.assert_allclose(last[speaks], cycles.pair.law.leader.bias)  # what carries the arms
    assert f"the {SIDES[silent]}'s state is 9.0 ms old" in cycles.pair.stopped
    assert cycles.take(silent, Reading(CLOCKS_NS[silent] + 10 * MS, START)) is None


@pytest.mark.parametrize("late", [0, 1])
def test_an_arm_whose_states_are_always_late_is_noticed_by_its_age(late):
    """Every state comes 12 ms after it was read, so that stamps alone look as they should."""
    ages_s = [0.012 * (side == late) + 0.001 for side in (0, 1)]
    for known in (False, True):
        cycles = cycles_of_two()
        for k in range(1, 20):
            for side, stamp_ns in enumerate(CLOCKS_NS):
                cycles.take(side, Reading(stamp_ns + k * MS, START), ages_s[side] if known else None)
        assert cycles.pair.stopped == (
            f"the {SIDES[late]}'s state is 13.0 ms old, expected at most 8 ms" if known else ""
        )


def test_arms_whose_states_are_late_are_not_engaged():
    cycles = cycles_of_two()
    cycles.pair.stop("disengaged")
    for side, stamp_ns in enumerate(CLOCKS_NS):
        cycles.take(side, Reading(stamp_ns + MS, START), 0.010 * side)
    with pytest.raises(SafetyError, match=r"cannot engage the arms: the follower's state is 10\.0 ms old"):
        cycles.engage()


def test_velocities_use_each_arms_own_clock():
    """Both arms turn with the same 0.5 rad/s, each by its own clock, of which one is fast."""
    cycles, (leader, follower) = cycles_of_two(), CLOCKS_NS
    way = 0.5 * np.eye(N)[0]
    for k in range(1, 200):
        cycles.take(1, Reading(follower + int(1.3 * k * MS), START + 1.3e-3 * k * way, np.zeros(N)))
        cycles.take(0, Reading(leader + k * MS, START + 1e-3 * k * way, np.zeros(N)))
    for arm in (cycles.pair.law.leader, cycles.pair.law.follower):
        assert arm.dq[0] == pytest.approx(0.5, abs=0.1)


def test_settings_change_only_while_the_arms_are_apart():
    cycles = cycles_of_two()
    with pytest.raises(SafetyError, match="disengage them before"):
        cycles.pair.set(BilateralSettings(mode="unilateral"))
    cycles.pair.stop("disengaged")
    cycles.pair.set(BilateralSettings(mode="unilateral"))
    assert cycles.pair.law.settings.mode == "unilateral"
