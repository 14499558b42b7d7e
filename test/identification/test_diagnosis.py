"""Alternative interpretations of data: faults are named, correct data raise no suspicion, and limits are reported."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from recordings import motion, recorded

from dynid.errors import DataError
from dynid.identification.checks import DATA, FITTED, HELD_OUT, Rule, judge, worst_joint
from dynid.identification.data.recordings import Recording
from dynid.identification.data.sample_sets import part
from dynid.identification.diagnosis.diagnosis import (
    Diagnosis,
    _of_unknown,
    confirmed,
    diagnose,
    suspicion_of,
    tried_scale,
)
from dynid.identification.diagnosis.events import find_event
from dynid.identification.diagnosis.interpretations import Interpretation, Trials
from dynid.identification.diagnosis.nuisance_columns import (
    CHANCE,
    Unknown,
    deviation_in_common,
    median_of_others,
    unexplained_share,
    unknowns,
)
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.torque_errors import torque_errors
from dynid.identification.pipeline import identify
from dynid.identification.prediction import Motion
from dynid.identification.settings import SuspicionLimits, load_identification
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("crane_x7")
SETTINGS = load_identification(ROBOT)
COULOMB = SETTINGS.coulomb_friction.model_copy(update={"structure": "Coulomb-viscous"})
NAMES = ROBOT.joint_names
LIMITS = SuspicionLimits()


def found(data: Recording, *, thorough: bool = False) -> Diagnosis:
    model, samples = ArmModel.of(ROBOT, mount=data.mount), data.samples(SETTINGS)
    regression = Regression.stack(model, samples, COULOMB)
    return diagnose(model, samples, regression, LIMITS, COULOMB, thorough=thorough)


def times(axis: int, factor: float) -> Callable[[FloatArray], FloatArray]:
    return lambda values: values * np.where(np.arange(8) == axis, factor, 1.0)


def swapped(first: int, second: int) -> Callable[[FloatArray], FloatArray]:
    order = list(range(8))
    order[first], order[second] = second, first
    return lambda values: values[:, order]


def test_a_few_samples_give_no_suspicions() -> None:
    """As at a long sampling interval: no joint slides often enough, and no reading is better than another."""
    data = recorded(ROBOT)
    trials = Trials(ArmModel.of(ROBOT, mount=data.mount), part(data.samples(SETTINGS), np.arange(8)))
    readings = [*trials.set_up_faults(), *trials.exchanges()]
    assert len(readings) > 20 and all(one.gain == 0.0 for one in readings)


@pytest.mark.slow
def test_clean_data_are_not_suspected() -> None:
    for seed in (0, 1):
        diagnosis = found(recorded(ROBOT, seed=seed), thorough=True)
        assert diagnosis.suspicions == () and diagnosis.sentences == ()
        assert 0.0 <= diagnosis.strongest < 0.9


@pytest.mark.slow
def test_scale_of_the_last_joint_is_not_observable() -> None:
    """Its torque is friction and its own rotor: no other joint's torque depends on them."""
    hidden = dict(found(recorded(ROBOT)).unseen)
    assert NAMES[7] in hidden and hidden[NAMES[7]] == np.inf
    (note,) = [one for one in found(recorded(ROBOT)).notes if "shows its scale" in one]
    assert NAMES[7] in note and "a known mass shows it" in note
    assert not set(NAMES[:4]) & set(hidden)


@pytest.mark.slow
@pytest.mark.parametrize(("axis", "factor"), [(0, 0.7), (1, 1.4), (3, 0.7), (4, 1.4)])
def test_torque_constant_is_determined_by_the_other_joints(axis: int, factor: float) -> None:
    first = found(recorded(ROBOT, torques=times(axis, factor))).suspicions[0]
    assert first.kind == "torque scale" and first.joints == (NAMES[axis],) and first.strength > 1.0
    assert NAMES[axis] in first.words and "torque constant" in first.words


@pytest.mark.slow
def test_a_common_scale_contradicts_nothing() -> None:
    assert found(recorded(ROBOT, torques=lambda tau: 0.7 * tau)).suspicions == ()


@pytest.mark.slow
@pytest.mark.parametrize("axis", [1, 5])
def test_a_wrong_sign_is_named_with_both_errors(axis: int) -> None:
    first = found(recorded(ROBOT, torques=times(axis, -1.0)), thorough=True).suspicions[0]
    assert first.kind == "sign" and first.joints == (NAMES[axis],)
    assert "sign flipped would leave" in first.words and "instead of" in first.words


@pytest.mark.slow
def test_exchanged_columns_are_named() -> None:
    columns = found(recorded(ROBOT, torques=swapped(2, 4)), thorough=True).suspicions
    assert columns[0].kind == "torque columns" and columns[0].joints == (NAMES[2], NAMES[4])
    joints = found(recorded(ROBOT, torques=swapped(1, 3), positions=swapped(1, 3)), thorough=True).suspicions
    assert joints[0].kind == "joints" and joints[0].joints == (NAMES[1], NAMES[3])


@pytest.mark.slow
def test_a_gear_ratio_is_named() -> None:
    data = recorded(ROBOT, positions=times(2, 0.5), torques=times(2, 2.0))
    first = found(data).suspicions[0]
    assert first.kind == "gear" and first.joints == (NAMES[2],) and "times 2" in first.words


@pytest.mark.slow
def test_another_mount_is_named() -> None:
    kinds = [one.kind for one in found(recorded(ROBOT, mount="hanging", told="upright")).suspicions]
    assert "mount" in kinds


@pytest.mark.slow
@pytest.mark.parametrize(("told", "along"), [((9.80665, 0.0, 0.0), "-z"), ((0.0, -9.80665, 0.0), "-z")])
def test_gravity_along_another_axis_of_the_base_is_named_first(told: tuple[float, ...], along: str) -> None:
    """An upright arm whose data are read as of one on a wall: no gear ratio or zero of its joints is blamed."""
    data = recorded(ROBOT)
    model, samples = ArmModel.of(ROBOT, mount=data.mount).under(np.array(told)), data.samples(SETTINGS)
    diagnosis = diagnose(model, samples, Regression.stack(model, samples, COULOMB), LIMITS, COULOMB, thorough=True)
    assert diagnosis.suspicions[0].kind == "mount"
    assert f"gravity along {along} of the base (another mount)" in diagnosis.sentences[0]


@pytest.mark.slow
@pytest.mark.parametrize("late", [0.02, -0.02])
def test_late_torques_are_named(late: float) -> None:
    named = [one for one in found(recorded(ROBOT, late_s=late)).suspicions if one.kind == "delay"]
    assert named and any(("late" in one.words) == (late > 0) for one in named if "look" in one.words)


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "named"), [(1.1, True), (1.0, False)])
def test_an_encoder_that_reports_too_much_is_named_where_gravity_does_not_show_it(factor: float, named: bool) -> None:
    """The base joint turns about gravity's direction: what shows its scale are inertia and Coriolis terms."""
    kinds = [(one.kind, one.joints) for one in found(recorded(ROBOT, positions=times(0, factor))).suspicions]
    assert (("position scale", (NAMES[0],)) in kinds) == named


@pytest.mark.slow
@pytest.mark.parametrize(("degrees", "refused", "noted"), [(0.0, False, False), (2.0, False, True), (5.0, True, False)])
def test_a_base_that_leans_is_named(degrees: float, refused: bool, noted: bool) -> None:
    """Without any other motion: the limit is one of the estimate beyond three of its deviations."""
    data, lean = recorded(ROBOT), np.radians(degrees)
    model = ArmModel.of(ROBOT, mount=data.mount)
    turn = np.array([[1.0, 0.0, 0.0], [0.0, np.cos(lean), -np.sin(lean)], [0.0, np.sin(lean), np.cos(lean)]])
    model, samples = model.under(turn @ model.gravity), data.samples(SETTINGS)
    diagnosis = diagnose(model, samples, Regression.stack(model, samples, COULOMB), LIMITS, COULOMB, thorough=False)
    assert ("gravity" in [one.kind for one in diagnosis.suspicions]) == refused
    assert any("tilted by" in one for one in diagnosis.notes) == noted


@pytest.mark.slow
@pytest.mark.parametrize("axis", [0, 1, 3])
def test_one_joint_whose_torque_is_late_is_named(axis: int) -> None:
    """By 30 ms, as a filter in one drive makes it."""
    (first,) = found(recorded(ROBOT, torques=late(axis))).suspicions
    assert first.kind == "delay" and first.joints == (NAMES[axis],)
    assert f"the torques of {NAMES[axis]} look " in first.words and "late against the positions" in first.words


@pytest.mark.slow
def test_where_all_torques_are_late_no_single_joint_is_blamed() -> None:
    every = [one for one in found(recorded(ROBOT, torques=late(None))).suspicions if one.kind == "delay"]
    assert every and all(one.joints == () for one in every)


def late(axis: int | None, rows: int = 3) -> Callable[[FloatArray], FloatArray]:
    """Torques of one axis, or of all, some rows of 10 ms late."""

    def shift(tau: FloatArray) -> FloatArray:
        held = np.vstack([tau[:1].repeat(rows, axis=0), tau[:-rows]])
        return held if axis is None else np.where(np.arange(8) == axis, held, tau)

    return shift


def test_the_deviation_of_a_common_value_includes_scatter_between_joints() -> None:
    """With equal deviations the random effects of DerSimonian and Laird are the scatter's own standard error."""
    scattered = np.array([-12.0, -27.0, -25.0, -50.0, -53.0, -60.0, -97.0])
    assert np.isclose(deviation_in_common(scattered, np.full(7, 2.0)), scattered.std(ddof=1) / np.sqrt(7.0))
    assert np.isclose(deviation_in_common(np.full(7, -20.0), np.full(7, 2.0)), 2.0 / np.sqrt(7.0))
    assert deviation_in_common(np.array([5.0]), np.array([2.0])) == 2.0
    assert median_of_others(np.array([0.0, 30.0, 1.0, 2.0])).tolist() == [2.0, 1.0, 2.0, 1.0]


@pytest.mark.slow
def test_different_delays_per_joint_are_no_common_delay() -> None:
    """A stamp is late for all joints alike; two joints whose drives filter are still named, each by itself."""

    def looking_late(rows: Sequence[int]) -> list[tuple[str, ...]]:
        def shift(tau: FloatArray) -> FloatArray:
            return np.hstack(
                [late(None, row)(one) if row else one for row, one in zip(rows, np.hsplit(tau, 8), strict=True)]
            )

        return [one.joints for one in found(recorded(ROBOT, torques=shift)).suspicions if "look" in one.words]

    assert () not in looking_late([0, 0, 9, 0, 0, 2, 0, 9])
    assert looking_late([5] * 8) == [()]
    assert sorted(looking_late([0, 0, 3, 3, 0, 0, 0, 0])) == sorted([(NAMES[2],), (NAMES[3],)])


@pytest.mark.slow
def test_a_zero_that_is_sure_but_small_is_a_note() -> None:
    """Five degrees: parameters absorb most of it, so the model is not refused, but its reader is told."""
    diagnosis = found(recorded(ROBOT, positions=lambda q: q + np.radians(5.0) * (np.arange(8) == 2)))
    assert diagnosis.suspicions == ()
    (note,) = [one for one in diagnosis.notes if one.startswith("the zero of ")]
    assert f"the zero of {NAMES[2]}" in note and "seems to be -0.08" in note
    assert f"'--estimate-setup zero:{NAMES[2]}' shows it" in note
    assert not any(one.startswith("the zero of ") for one in found(recorded(ROBOT)).notes)


@pytest.mark.slow
@pytest.mark.parametrize("late_s", [0.0, 0.02])
def test_friction_that_builds_up_after_a_reversal_is_no_delay(late_s: float) -> None:
    """Bristles that bend over 0.03 rad are late like torques, by 15 ms here; a delay beside them is still named."""
    robot = load_robot("aloha_class")
    time, _, dq, _ = motion(robot, 25.0, 0)
    bent, bristles = np.zeros(robot.size), np.zeros_like(dq)
    for k, moved in enumerate(dq * (time[1] - time[0])):
        bent = np.clip(bent + moved / 0.03 * (1.0 - np.sign(moved) * bent), -1.0, 1.0)
        bristles[k] = 0.3 * bent

    def delayed(tau: FloatArray) -> FloatArray:
        return np.stack([np.interp(time - late_s, time, one) for one in (tau + bristles).T], axis=1)

    data = recorded(robot, coulomb=0.0, torques=delayed)
    model, samples = ArmModel.of(robot), data.samples(load_identification(robot))
    regression = Regression.stack(model, samples, COULOMB)
    suspicions = diagnose(model, samples, regression, LIMITS, COULOMB, thorough=False).suspicions
    named = [one for one in suspicions if one.kind == "delay"]
    assert bool(named) == bool(late_s), named


@pytest.mark.slow
def test_zero_of_an_upright_axis_is_not_found_in_rounding() -> None:
    """Frames of a URDF with 3.14159 for pi lean by a hair: what that does to the torque is far below any noise."""
    data = recorded(ROBOT)
    model = ArmModel.of(ROBOT, mount=data.mount).under(np.array([1e-9, 0.0, -9.80665]))
    samples = data.samples(SETTINGS)
    free = unknowns(model, samples, Regression.stack(model, samples, COULOMB))
    deviations = {one.axis: one.deviation for one in free if one.kind == "position zero"}
    assert np.isinf(deviations[0]) and np.isfinite(deviations[1])


@pytest.mark.slow
def test_residuals_of_a_joint_widen_the_deviation_of_its_scale() -> None:
    """On a wall-mounted arm's public run a wrist with 0.1 N m of links looked half as strong, to five deviations."""

    def rippled(size: float) -> Recording:
        def add(tau: FloatArray) -> FloatArray:
            wave = np.sin(np.arange(len(tau)) * 0.13)
            return tau + size * wave[:, None] * (np.arange(8) == 4)

        return recorded(ROBOT, torques=add)

    shares = []
    for data in (rippled(0.0), rippled(0.1)):
        model, samples = ArmModel.of(ROBOT, mount=data.mount), data.samples(SETTINGS)
        regression = Regression.stack(model, samples, COULOMB)
        share = unexplained_share(samples, regression)
        scales = [one.deviation for one in unknowns(model, samples, regression) if one.kind == "torque scale"]
        assert all(own >= CHANCE * left for own, left in zip(scales, share, strict=True))
        shares.append(share)
    links = np.std(recorded(ROBOT, coulomb=0.0, noise=0.0).samples(SETTINGS).tau[:, 4])
    assert 0.4 < shares[1][4] / (np.sqrt(0.5) * 0.1 / links) < 1.1  # parameters take up a part of the wave
    assert shares[0][4] < 0.2 * shares[1][4] and np.allclose(shares[0][:4], shares[1][:4], rtol=0.5)


def test_an_uncertain_scale_that_explains_much_is_named() -> None:
    """On plants of other friction a torque constant of 1.3 looked 0.25 +- 0.06 away, and gravity was 17 % wrong."""
    known = Unknown("torque scale", 3, 0.25, 0.06, 0.2)
    assert known.value - LIMITS.deviations * known.deviation < LIMITS.torque_scale

    def strength(factor: float, one: Unknown = known) -> float:
        data = recorded(ROBOT, torques=times(3, factor))
        return tried_scale(one, Trials(ArmModel.of(ROBOT, mount=data.mount), data.samples(SETTINGS)), LIMITS)

    assert strength(1.3) > 1.0
    assert strength(1.0) <= 0.0  # it does not explain honest data
    assert strength(1.3, replace(known, explained=0.05)) == 0.0
    assert strength(1.3, replace(known, deviation=0.07)) == 0.0


@pytest.mark.slow
def test_torques_of_the_other_sense_are_named() -> None:
    """As an arm reports what its joints carry instead of what its motors give; links of negative mass would do."""
    named = found(recorded(ROBOT, torques=np.negative), thorough=True).suspicions
    assert (named[0].kind, named[0].joints) == ("sign", ()) and "all joints with signs flipped" in named[0].words


@pytest.mark.slow
def test_a_zero_of_a_joint_is_named() -> None:
    data = recorded(ROBOT, positions=lambda q: q + np.where(np.arange(8) == 2, 0.3, 0.0))
    assert any(one.kind == "position zero" and one.joints == (NAMES[2],) for one in found(data).suspicions)


@pytest.mark.slow
def test_large_linear_estimates_are_confirmed_by_a_trial_fit() -> None:
    """A joint that hardly shows its zero or scale gets a large value at times; it must explain the data when tried."""
    far = recorded(ROBOT, positions=lambda q: q + np.where(np.arange(8) == 2, 0.8, 0.0))
    assert any(one.kind == "position zero" and one.joints == (NAMES[2],) for one in found(far).suspicions)
    for data, zero, scale in ((far, True, False), (recorded(ROBOT), False, False)):
        trials = Trials(ArmModel.of(ROBOT, mount=data.mount), data.samples(SETTINGS))
        assert confirmed(Unknown("position zero", 2, -0.8, 0.1, 0.5), trials, LIMITS) == zero
        assert confirmed(Unknown("torque scale", 4, 1.31, 0.3, 0.5), trials, LIMITS) == scale
        assert confirmed(Unknown("torque scale", 4, 0.4, 0.01, 0.5), trials, LIMITS)  # near enough to be believed
    large = recorded(ROBOT, torques=times(4, 2.3))
    trials = Trials(ArmModel.of(ROBOT, mount=large.mount), large.samples(SETTINGS))
    assert confirmed(Unknown("torque scale", 4, 1.3, 0.3, 0.5), trials, LIMITS)


@pytest.mark.parametrize(("factor", "believed"), [(1.1, True), (1.0, False)])
def test_a_scale_of_positions_must_explain_the_data_when_it_is_tried(factor: float, believed: bool) -> None:
    """Where friction is most of a joint's torque, a straight line may lead to a scale that is none."""
    data = recorded(ROBOT, positions=times(1, factor))
    trials = Trials(ArmModel.of(ROBOT, mount=data.mount), data.samples(SETTINGS))
    assert confirmed(Unknown("position scale", 1, -0.09, 0.003, 0.5), trials, LIMITS) == believed
    assert confirmed(Unknown("position scale", 1, -0.02, 0.003, 0.5), trials, LIMITS)  # below the limit


def test_long_delay_is_printed_without_an_exponent() -> None:
    """As of a wrist's torque, which a real recording left open by 10 ms."""
    words = _of_unknown(Unknown("delay", 5, 0.052, 0.0103, 0.1), LIMITS, NAMES, np.ones(8)).words
    assert "52 ms (+-10 ms) late" in words
    words = _of_unknown(Unknown("delay", -1, -0.004, 0.0004, 0.1), LIMITS, NAMES, np.ones(8)).words
    assert "4 ms (+-0.4 ms) early" in words
    for value, words in ((0.052, "0.05 m (+-0.01) too small"), (-0.052, "0.05 m (+-0.01) too large")):
        zero = Unknown("position zero", 5, value, 0.0103, 0.1)  # true minus recorded position
        assert words in _of_unknown(zero, LIMITS, NAMES, np.ones(8), "m").words


@pytest.mark.slow
def test_a_scale_within_the_limit_is_measured_but_not_suspected() -> None:
    """A scale within the limit is measured, but not suspected."""
    diagnosis = found(recorded(ROBOT, torques=times(1, 1.1)))
    assert diagnosis.suspicions == () and 0.3 < diagnosis.strongest < 1.0


def test_an_interpretation_must_reduce_the_error_and_be_significant() -> None:
    """The weaker of both decides: neither a large gain by chance nor a small one that is sure is suspected."""
    for gain, significance in ((5.0, 1.0), (0.1, 20.0)):
        reading = Interpretation("gear", (2,), 2.0, gain, significance, 2, 0.3, 0.1)
        assert suspicion_of(reading, LIMITS, NAMES).strength < 1.0
    assert suspicion_of(Interpretation("gear", (2,), 2.0, 0.3, 3.0, 2, 0.3, 0.1), LIMITS, NAMES).strength > 1.0
    exchanged = Interpretation("joints", (2, 3), 0.0, 0.2, 3.0, 2, 0.3, 0.1)
    assert suspicion_of(exchanged, LIMITS, NAMES).strength > 1.0


def test_a_tried_delay_counts_half_where_the_estimated_delay_contradicts_it() -> None:
    early = Interpretation("delay", (), -0.02, 0.3, 3.0, 2, 0.14, 0.12)
    gear = replace(early, kind="gear", axes=(2,), value=2.0)
    for deviation, named in ((0.0016, False), (0.005, False), (0.01, True), (np.inf, True)):
        estimated = Unknown("delay", -1, -0.0016, deviation, 0.0)
        assert (suspicion_of(early, LIMITS, NAMES, estimated).strength > 1.0) == named
        assert suspicion_of(gear, LIMITS, NAMES, estimated).strength > 1.0
    strong = replace(early, gain=0.6, significance=6.0)
    assert suspicion_of(strong, LIMITS, NAMES, Unknown("delay", -1, 0.0, 0.001, 0.0)).strength > 1.0


def rule(table: tuple[Rule[Motion], ...], key: str) -> Rule[Motion]:
    return next(one for one in table if one.id == key)


def made_up(error: FloatArray, tau: FloatArray, dq: FloatArray | None = None) -> Motion:
    time = 0.01 * np.arange(len(tau))
    speed = np.ones_like(tau) if dq is None else dq
    return Motion("made up", "held out", "", time, speed, tau, tau - error, joints=("a", "b"))


TAU = np.random.default_rng(3).normal(0.0, 1.0, (400, 2)) * [10.0, 0.5]


def test_one_bad_joint_is_refused_though_all_together_pass() -> None:
    motion = made_up(TAU * [0.05, 1.0], TAU)
    assert motion.errors.moving < 0.15
    verdict = judge(HELD_OUT, [motion], SETTINGS)
    (bad,) = [one for one in verdict.failed if one.id == "joint_error_held_out"]
    assert bad.value == pytest.approx(1.0) and bad.limit == 0.6 and bad.detail.startswith("b; it may be a wrong sign")
    good = judge(HELD_OUT, [made_up(TAU * [0.05, 0.5], TAU)], SETTINGS)
    assert good.accepted and not any("may be" in one.detail for one in good.checks)


def test_samples_at_rest_have_a_limit_of_their_own() -> None:
    """A joint that sticks carries anything, but is not off by more than it carries."""
    dq = np.ones_like(TAU)
    dq[:300] = 0.0
    stuck = made_up(np.where(dq == 0.0, 1.1, 0.1) * TAU, TAU, dq)
    assert judge(HELD_OUT, [stuck], SETTINGS).accepted
    wrong = judge(HELD_OUT, [made_up(np.where(dq == 0.0, 2.0, 0.1) * TAU, TAU, dq)], SETTINGS)
    assert [one.id for one in wrong.failed] == ["joint_error_with_rest_held_out"]


def test_a_joint_that_carries_nothing_or_never_moves_is_not_refused() -> None:
    dq = np.ones_like(TAU) * [1.0, 0.0]
    errors = torque_errors(TAU, TAU * [0.9, 0.0], dq)
    assert np.isnan(errors.moving_per_axis[1])
    assert worst_joint(errors, ("a", "b"), None) == (pytest.approx(0.1), "a")
    assert worst_joint(torque_errors(TAU, 0.5 * TAU, np.zeros_like(TAU)), ("a", "b"), None) is None
    noise = torque_errors(TAU * [1.0, 1e-3], TAU * [0.9, 0.0])
    assert worst_joint(noise, ("a", "b"), None) == (pytest.approx(1.0), "b")
    assert worst_joint(noise, ("a", "b"), np.array([30.0, 30.0])) == (pytest.approx(0.1, rel=0.01), "a")


def test_radians_read_as_degrees_are_found_by_the_fastest_joint() -> None:
    """Nothing passes for motion: no structure of friction can be chosen, and a longer recording would not help."""
    with pytest.raises(DataError, match="correct the unit of positions or times"):
        identify(ROBOT, [recorded(ROBOT, positions=np.radians)], settings=SETTINGS)


def test_a_silent_joint_is_refused() -> None:
    data = recorded(ROBOT, torques=times(6, 0.0))
    (check,) = [one for one in judge(DATA, data.samples(SETTINGS).quality, SETTINGS).failed]
    assert check.id == "joint_torque" and NAMES[6] in check.detail and "current recorded" in check.detail
    assert judge(DATA, recorded(ROBOT).samples(SETTINGS).quality, SETTINGS).accepted


def test_joint_errors_and_suspicions_are_among_the_checks() -> None:
    assert {"joint_error_fitted", "joint_error_with_rest_fitted", "suspicion"} <= {one.id for one in FITTED}
    assert rule(HELD_OUT, "joint_error_held_out").limit == "acceptance.relative_joint_error"


def test_an_event_is_named_with_its_time_and_joint() -> None:
    error = np.random.default_rng(4).normal(0.0, 0.1, (2000, 3))
    time = 5.0 + 0.01 * np.arange(2000)
    assert find_event(time, error, ("a", "b", "c")) is None
    error[1200:1250, 1] += 2.0
    event = find_event(time, error, ("a", "b", "c"))
    assert event is not None and event.joint == "b" and event.share > 0.6
    assert event.begin == pytest.approx(17.0, abs=0.4) and event.end == pytest.approx(17.5, abs=0.4)
    assert "17." in event.sentence() and "b" in event.sentence()
    assert find_event(time[:50], error[1200:1250], ("a", "b", "c")) is None
    assert find_event(time, np.zeros((2000, 3)), ("a", "b", "c")) is None


@pytest.mark.slow
def test_a_small_error_far_beyond_the_noise_is_refused() -> None:
    """A torque constant 15 % off costs 3 % of torque, far below the flat limit, and over three times the noise."""
    limit = SETTINGS.acceptance.error_over_noise
    for change, wrong in ((lambda tau: tau, False), (times(3, 1.15), True)):
        one, other = (recorded(ROBOT, seed=seed, torques=change, name=str(seed)) for seed in (0, 5))
        settings = SETTINGS.model_copy(update={"coulomb_friction": COULOMB})
        verdict = identify(ROBOT, [one], validation=[other], settings=settings).verdict
        checks = {check.id: check for check in verdict.checks}
        assert checks["torque_error_held_out"].value < 0.05
        for key in ("error_over_noise_fitted", "error_over_noise_held_out"):
            assert (checks[key].value > 1.1 * limit) == wrong and (checks[key].value < 0.6 * limit) != wrong


def test_a_tiny_error_of_noise_free_data_is_accepted() -> None:
    """Half a percent of the torque, as slow as the motion: against no noise at all it would be any number of times."""
    time = np.linspace(0.0, 20.0, 500)
    tau = np.stack([np.sin(time), np.cos(1.3 * time)], axis=1)
    for share, refused in ((0.005, False), (0.05, True)):
        motion = Motion(
            "m", "held out", "", time, np.ones_like(tau), tau, tau + share * tau[:, ::-1], joints=("a", "b")
        )
        assert (motion.over_noise > SETTINGS.acceptance.error_over_noise) == refused
    still = Motion("m", "held out", "", time, np.zeros_like(tau), tau, 0.5 * tau, joints=("a", "b"))
    assert np.isnan(still.over_noise)


@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_best_explanation_is_named_first(factor: float) -> None:
    """Of two joints that share nearly all inertia, either could have the other scale; one explains more."""
    robot = load_robot("planar_3r")
    data = recorded(robot, seed=1, torques=lambda tau: tau * np.where(np.arange(3) == 1, factor, 1.0))
    model, samples = ArmModel.of(robot), data.samples(load_identification(robot))
    named = diagnose(
        model, samples, Regression.stack(model, samples, COULOMB), LIMITS, COULOMB, thorough=False
    ).suspicions
    assert [one.joints for one in named[:2]] == [(robot.joint_names[1],), (robot.joint_names[0],)]
    assert named[0].explained > named[1].explained and named[0].kind == "torque scale"
