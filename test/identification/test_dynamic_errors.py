"""Dynamic part of held-out errors: correct models stay within noise, wrong links and rotors are refused."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from arms import arm, nominal
from recordings import recorded
from scipy.signal import lfilter

from dynid.identification import dynamic_errors as module
from dynid.identification.checks import HELD_OUT, judge, worst_dynamics
from dynid.identification.data.recordings import Recording
from dynid.identification.dynamic_errors import DynamicError, dynamic_errors
from dynid.identification.dynamic_rows import of_links
from dynid.identification.held_out import validate
from dynid.identification.settings import load_identification
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, load_robot
from dynid.runtime.model import Model

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
SETTINGS = load_identification(ROBOT)
SLOW = SETTINGS.coulomb_friction.slow_rad_s
LAW = FrictionLaw.of(8, {"fb": np.full(8, 0.1)}, SETTINGS.coulomb_friction.transition_rad_s)
RIGHT = nominal("crane_x7")


def source(seed: int = 1, noise: float = 0.01, seconds: float = 20.0) -> Recording:
    return recorded(ROBOT, seconds=seconds, seed=seed, noise=noise)


def times(factor: float, *names: str) -> BaseParameters:
    which = np.isin(MODEL.names, names)
    assert which.sum() == len(names)
    return RIGHT.with_values(np.where(which, factor * RIGHT.values, RIGHT.values))


def found(phi: BaseParameters, of: Recording) -> tuple[DynamicError, ...]:
    return dynamic_errors(MODEL, of.samples(SETTINGS), phi, LAW, SLOW)


def test_errors_of_a_right_model_are_as_large_as_noise_makes_them() -> None:
    """The expectation is calibrated: over motions, joints and amounts of noise the ratio to it is about one."""
    ratios = []
    for seed, noise in ((1, 0.01), (2, 0.01), (3, 0.03), (4, 0.003)):
        errors = found(RIGHT, source(seed, noise))
        assert [one.joint for one in errors] == list(range(8))
        assert max(one.sure for one in errors) < 0.03
        ratios += [one.error / one.expected for one in errors]
    # the surest of some ten groups of each joint, so somewhat more than one
    assert 0.7 < np.median(ratios) < 2.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factor", "names", "joint"),
    [
        (0.0, ("IA8",), 8),
        (2.0, ("IA5",), 5),
        (1.5, ("IA7",), 7),
        (0.0, ("XXR6", "ZZR6", "MX6", "MYR6", "XXR7", "ZZ7", "MX7", "MY7"), 6),
        (0.5, ("MYR4", "MX4"), 4),
    ],
)
def test_wrong_links_and_rotors_are_beyond_the_limit(factor: float, names: tuple[str, ...], joint: int) -> None:
    wrong = times(factor, *names)
    verdict = validate(Model(ROBOT, wrong, LAW), [source()]).verdict
    assert "dynamic_error_held_out" in [one.id for one in verdict.failed]
    errors = {one.joint + 1: one for one in found(wrong, source())}
    assert errors[joint].sure > SETTINGS.acceptance.dynamic_error
    assert all(errors[k].sure < 0.05 for k in errors if k > max(int(name[-1]) for name in names))


def test_a_correct_model_passes_the_dynamic_error_check() -> None:
    judged = validate(Model(ROBOT, RIGHT, LAW), [source()])
    (check,) = [one for one in judged.verdict.checks if one.id == "dynamic_error_held_out"]
    assert check.passed and check.limit == 0.1 and "of the dynamic torque, " in check.detail
    axes = judged.as_dict()["bags"]["made up"]["axes"]
    assert all(0.0 <= one["dynamic_error"] < one["dynamic_noise"] + 0.03 for one in axes.values())


def slow_noise(seed: int, size_nm: float) -> Callable[[FloatArray], FloatArray]:
    """Torques with noise that lasts for 0.3 s, of a deviation [N m]."""
    share = np.exp(-0.01 / 0.3)

    def added(tau: FloatArray) -> FloatArray:
        driven = np.random.default_rng(seed).normal(0.0, size_nm * np.sqrt(1.0 - share**2), (len(tau) + 200, 8))
        return np.asarray(tau + lfilter([1.0], [1.0, -share], driven, axis=0)[200:])

    return added


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 5, 10])
def test_a_correct_model_passes_on_a_short_motion_with_slow_noise(seed: int) -> None:
    """Some ninety rows, of which each joint's columns absorb most of the noise."""
    short = recorded(ROBOT, seconds=6.0, seed=seed, noise=0.01, torques=slow_noise(seed, 0.05))
    assert max(one.judged for one in found(RIGHT, short)) < SETTINGS.acceptance.dynamic_error
    without_links = RIGHT.with_values(np.where(of_links(MODEL), 0.0, RIGHT.values))
    wrong = found(without_links, short)
    assert max(one.judged for one in wrong) > SETTINGS.acceptance.dynamic_error


def test_wrong_friction_and_gravity_are_not_taken_for_dynamics() -> None:
    """They have checks of their own; here they leave next to nothing."""
    more = FrictionLaw.of(8, {"fb": np.full(8, 0.2)}, SETTINGS.coulomb_friction.transition_rad_s)
    errors = dynamic_errors(MODEL, source().samples(SETTINGS), RIGHT, more, SLOW)
    assert max(one.sure for one in errors) < 0.05


def test_one_event_does_not_refuse_a_model() -> None:
    """A push of a second, with the shape of an inertia: the rest of the motion speaks against it."""
    quiet = source(noise=0.003)
    middle = float(quiet.samples(SETTINGS).time.mean())

    def with_push(tau: FloatArray) -> FloatArray:
        time = np.arange(len(tau)) / 100.0
        during = np.abs(time - middle) < 0.4
        change = np.zeros_like(tau)
        change[:, 7] = 0.15 * np.sign(np.sin(6.0 * time)) * during
        return tau + change

    pushed_source = recorded(ROBOT, seconds=20.0, seed=1, noise=0.003, torques=with_push)
    errors = {one.joint: one for one in found(RIGHT, pushed_source)}
    assert errors[7].sure < 0.1


def test_joints_not_excited_by_a_motion_are_named() -> None:
    loud = source(noise=0.6, seconds=8.0)
    judged = validate(Model(ROBOT, RIGHT, LAW), [loud])
    (motion,) = judged.motions
    hidden = [one for one in motion.dynamics if one.shown > 0.1]
    assert hidden and any("hardly shows the dynamic torque of " in note for note in judged.notes)
    quiet = validate(Model(ROBOT, RIGHT, LAW), [source(noise=0.002)])
    assert not any("hardly shows" in note for note in quiet.notes)


def test_joints_whose_dynamics_gravity_and_friction_reproduce_are_named() -> None:
    """On a short motion many columns leave little of the dynamic torque, less than small errors of friction."""
    short = source(seconds=7.0, noise=0.0005)
    judged = validate(Model(ROBOT, RIGHT, LAW), [short])
    hidden = [one.joint for one in judged.motions[0].dynamics if one.shown > module.VISIBLE]
    assert hidden and len(judged.motions[0].dynamics) == 8
    (note,) = [note for note in judged.notes if "hardly shows the dynamic torque of " in note]
    assert all(ROBOT.joint_names[k] in note for k in hidden)


@pytest.mark.parametrize(("factor", "name"), [(0.0, "IA6"), (3.0, "IA3")])
def test_a_wrong_rotor_is_refused_on_a_short_motion_although_its_model_has_little_torque(
    factor: float, name: str
) -> None:
    """What the model lacks counts as dynamic torque, too."""
    short = source(noise=0.002, seconds=7.0)
    verdict = validate(Model(ROBOT, times(factor, name), LAW), [short]).verdict
    assert "dynamic_error_held_out" in [one.id for one in verdict.failed]


def test_errors_smaller_than_a_share_of_the_dynamic_torque_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Denominators of at least this share make errors of small rests smaller, and never larger."""
    short = source(seconds=7.0, noise=0.0005)
    floored = {one.joint: one.error for one in found(RIGHT, short)}
    monkeypatch.setattr(module, "LEAST_LEFT", 0.0)
    plain = {one.joint: one.error for one in found(RIGHT, short)}
    assert any(floored[k] < 0.9 * plain[k] for k in plain)


def test_the_worst_joint_decides_and_static_motions_are_not_judged() -> None:
    motion = validate(Model(ROBOT, RIGHT, LAW), [source()]).motions[0]
    one = DynamicError(4, "the rotor inertia of joint 5", 0.32, 0.02, 0.05, 0.05)
    other = DynamicError(6, "the inertia of link 7", 0.16, 0.02, 0.05, 0.05)
    value = worst_dynamics(replace(motion, dynamics=(other, one)))
    assert isinstance(value, tuple) and value[0] == pytest.approx(0.27)
    assert value[1].startswith(f"{ROBOT.joint_names[4]}: the rotor inertia of joint 5 looks off by 32 %")
    assert "16 times what noise makes" in value[1]
    assert worst_dynamics(replace(motion, dynamics=())) is None
    loud = replace(one, noise=0.2)  # the limit is twice as large
    assert loud.sure == pytest.approx(0.12) and loud.judged == pytest.approx(0.06)
    ids = [check.id for check in judge(HELD_OUT, [replace(motion, dynamics=())], SETTINGS).checks]
    assert "dynamic_error_held_out" not in ids and ids
    assert module.CHANCE == 1e-3
