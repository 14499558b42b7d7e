"""`./run benchmark changes`: wrong acceptances and causes count as missed, cases repeat, and one real case runs."""

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.studies.changed_arms import course, held, subject, with_zero
from benchmarks.studies.changes import Judge
from benchmarks.studies.changes_causes import Named, is_placed, is_true, named_causes
from benchmarks.studies.changes_kinds import KINDS, RATES_HZ, chosen_kinds, drawn, held_out_of
from benchmarks.studies.changes_table import UNCHANGED, Case, Changes

from dynid.errors import DataError, UnknownNameError
from dynid.identification.diagnosis.effort_meaning import UNSIGNED
from dynid.identification.steadiness.columns import BODY, OFFSET, SCALE, ZERO
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
JOINTS = ROBOT.joint_names
FOUND = Case(
    arm=3,
    gears="M6",
    kind="body-from",
    repeat=0,
    size=0.2,
    unit="kg",
    joint="",
    when=0.5,
    seconds=60.0,
    rate_hz=200.0,
    held_out=0.0,
    error=0.2,
    true_error=0.21,
    refused=True,
    failed=("same_arm",),
    first="the body at the last link changes",
    suspicions=("the body at the last link changes",),
    named=True,
    placed=True,
    stated=False,
    uncertainty=float("nan"),
)
MISSED = replace(FOUND, refused=False, failed=(), first="", suspicions=(), named=False, placed=False)
GOOD = replace(MISSED, kind=UNCHANGED, size=0.0, unit="", when=0.0, error=0.01)
pytestmark = pytest.mark.study


def test_found_changes_and_accepted_good_recordings_miss_nothing() -> None:
    found = Changes((FOUND, replace(FOUND, error=0.07), replace(MISSED, error=0.03), GOOD), 1)
    figures = found.as_dict()
    assert found.missed() == [] and figures["accepted_wrong"] == figures["wrong_cause"] == figures["alarms"] == []
    assert (figures["cases"], figures["large"], figures["medium"], figures["small"]) == (3, 1, 1, 1)
    assert figures["kinds"]["body-from"]["refused_of_small"] == 0.0 and UNCHANGED not in figures["kinds"]


@pytest.mark.parametrize(("error", "words"), [(0.2, "above 10 %"), (0.07, "of 5 to 10 %")])
def test_a_wrong_acceptance_is_missed(error: float, words: str) -> None:
    found = Changes((replace(MISSED, error=error), GOOD), 1)
    (sentence,) = found.missed()
    assert sentence.startswith("0.0 % of models") and words in sentence
    (listed,) = found.as_dict()["accepted_wrong"]
    assert "--seed 3 --arms 1 --kind body-from: 0.2 kg at 30 s; M6, 60 s, 200 Hz" in listed
    noted = replace(MISSED, error=error, stated=True, uncertainty=0.08)
    assert "stated uncertainty 8 %" in Changes((noted,), 1).as_dict()["accepted_wrong"][0]


def test_a_wrong_cause_and_a_missing_one_are_counted() -> None:
    wrong = replace(FOUND, first="the torques of joint 2 fall", named=False, placed=False)
    found = Changes((FOUND, wrong, replace(wrong, first="", repeat=1)), 1)
    assert "33.3 % of refused recordings" in found.missed()[0]
    first, second = found.as_dict()["wrong_cause"]
    assert "first: the torques of joint 2 fall" in first and "--repeats 2" in second and "no cause named" in second


def test_a_refused_good_recording_is_a_false_alarm() -> None:
    found = Changes((FOUND, GOOD, replace(GOOD, refused=True, failed=("suspicion",), first="check the mount")), 1)
    assert found.missed() == ["50.0 % of good recordings are refused, at most 0 % expected"]
    assert found.as_dict()["alarms"][0].endswith("failed suspicion; first: check the mount")
    assert Changes((), 0, 1).missed()


@pytest.mark.parametrize("noisy", [True, False])
def test_noise_excuses_a_refusal_if_it_is_named(noisy: bool) -> None:
    one = replace(GOOD, refused=True, failed=("torque_error_fitted",), noisy=noisy)
    figures = Changes((one,), 1).as_dict()
    assert (len(figures["alarms"]), figures["refused_as_noisy"]) == (int(not noisy), int(noisy))


def test_only_the_true_cause_of_the_changed_joint_counts() -> None:
    assert is_true(Named(BODY), "body-until", "") and not is_true(Named(ZERO, JOINTS[:1]), "body-until", "")
    assert is_true(Named(OFFSET, JOINTS[1:2]), "offset", JOINTS[1])
    assert not is_true(Named(ZERO, JOINTS[1:2]), "offset", JOINTS[1])  # the same joint, another cause
    assert not is_true(Named(OFFSET, JOINTS[3:4]), "offset", JOINTS[1])  # the same cause, another joint
    assert not is_true(Named(SCALE, JOINTS[1:2]), "scale-drift", "") and is_true(Named(SCALE), "scale-drift", "")
    assert is_true(Named(UNSIGNED, JOINTS), "unsigned", "")
    assert is_placed(Named(BODY, (), "step", 33.0), "body-until", 30.0, 60.0)
    assert not is_placed(Named(BODY, (), "step", 40.0), "body-until", 30.0, 60.0)
    assert not is_placed(Named(ZERO, JOINTS[:1], "step", 30.0), "zero-drift", 30.0, 60.0)
    jump = named_causes(DataError(f"log: {JOINTS[2]} jumps from 0.1 to 0.3"), JOINTS)
    assert is_true(jump[0][1], "zero-step", JOINTS[2]) and not is_true(jump[0][1], "zero-step", JOINTS[1])


def test_draws_repeat_and_stay_within_their_range() -> None:
    for kind, one in KINDS.items():
        found = [drawn(ROBOT, kind, seed, 0, 7) for seed in range(40)]
        assert found[0] == drawn(ROBOT, kind, 0, 0, 7) != drawn(ROBOT, kind, 0, 1, 7)
        sizes, axes = np.abs([own.size for own in found]), {own.axis for own in found}
        assert (sizes <= one.high + 1e-12).all() and (one.cause == OFFSET or (sizes >= one.low - 1e-12).all())
        assert axes == set(range(7))
        assert {own.rate_hz for own in found} == ({one.rate_hz} if one.rate_hz else set(RATES_HZ))
    assert {held_out_of(seed, 60.0, 200.0) for seed in range(20)} == {0.0, 0.3}
    assert set(chosen_kinds(())) == {UNCHANGED, *KINDS} and chosen_kinds(["offset", "offset"]) == ("offset",)
    with pytest.raises(UnknownNameError, match="kind of change"):
        chosen_kinds(["storm"])


def test_one_arm_is_judged() -> None:
    one = subject(ROBOT, 2, "viscous", 15.0)
    rows = np.flatnonzero((np.diff(held(one, 20.0).tau, axis=0) != 0.0).any(axis=1))
    assert np.median(np.diff(rows)) == 50.0  # of 1 ms
    judge = Judge(one, 15.0)
    good = judge.unchanged(one.log, 15.0, 200.0)
    assert good.error == good.true_error < 0.1 and good.kind == UNCHANGED and not good.named
    case = judge.changed("body-from", 1)
    assert case.size > 0.1 and case.error > 0.02 and case.refused == bool(case.failed)
    assert case.refused and case.named and case.first.startswith("the body at the last link changes"), case
    assert json.loads(json.dumps(Changes((good, case), 1).as_dict()))["all_cases"][1]["kind"] == "body-from"
    drifted = with_zero(one, 1, 0.1, course(one.log, "drift"))
    assert np.allclose(drifted.q[-1] - one.log.q[-1], 0.1 * (np.arange(8) == 1))
