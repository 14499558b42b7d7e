"""`./run benchmark coverage --classes`: motions of each class, arms with products of inertia, limits that reject."""

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.cli import app
from benchmarks.studies import class_coverage as study
from benchmarks.studies.class_coverage import ArmOfClass, ClassCoverage, benchmark_classes, group_of
from benchmarks.studies.drawn_arms import draw_arm, record
from benchmarks.studies.motion_classes import CLASSES, MotionClass, as_recorded, as_worn, chosen_classes, drawn_motion
from typer.testing import CliRunner

from dynid.errors import UnknownNameError
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.standard import from_file
from dynid.model.within_limits import outside
from dynid.robot import load_robot
from dynid.simulation.plant.nuisances import magnitudes

ROBOT = load_robot("crane_x7")
GROUPS = ("rotor", "inertia", "gravity", "friction")


def arm(seed: int, *errors: float, **changes: object) -> ArmOfClass:
    one = ArmOfClass("fast", seed, GROUPS, np.array(errors), 0.01, settled=True, accepted=True)
    return replace(one, **changes)  # type: ignore[arg-type]


def of(*arms: ArmOfClass) -> ClassCoverage:
    return ClassCoverage("fast", "", arms, ())


def test_motions_have_the_properties_of_their_class() -> None:
    fast, pauses, slow, short = (drawn_motion(ROBOT, CLASSES[name], 3) for name in ("fast", "pauses", "slow", "short"))
    for motion, seconds in ((fast, 60.0), (pauses, 60.0), (slow, 60.0), (short, 20.0)):
        assert seconds <= motion.duration < seconds + 10.0
    assert slow.peak_velocities.max() == pytest.approx(0.4, rel=0.01)
    assert fast.peak_velocities.max() > 2.0 * slow.peak_velocities.max()
    rests = [np.diff(one.knots) for one in (fast, pauses)]
    assert np.isclose(rests[1], 4.0).sum() > 5 and not np.isclose(rests[0], 4.0).any()
    again = drawn_motion(ROBOT, CLASSES["fast"], 3)
    np.testing.assert_array_equal(fast.knots, again.knots)
    assert np.abs(drawn_motion(ROBOT, CLASSES["fast"], 4).waypoints[1] - fast.waypoints[1]).max() > 0.1


def test_recordings_have_the_rate_and_delay_of_their_class() -> None:
    short = MotionClass("", seconds=3.0)
    signals = record(ROBOT, draw_arm(ROBOT, 0), drawn_motion(ROBOT, short, 0), 0).source.signals(
        load_identification(ROBOT)
    )
    found = as_recorded(signals, replace(short, period_s=0.02, delay_s=0.005))
    assert np.median(np.diff(found.time)) == pytest.approx(0.02, rel=0.01) and found.other is None
    np.testing.assert_allclose(found.torque_time - found.time, 0.005, atol=1e-12)
    assert as_recorded(signals, short).tau.shape == signals.tau.shape


def test_gears_have_the_play_of_their_class() -> None:
    assert as_worn(ROBOT, CLASSES["fast"]) is ROBOT
    for name, degrees in (("tight", 0.0), ("worn", 0.5)):
        assert magnitudes(as_worn(ROBOT, CLASSES[name])).backlash == pytest.approx(np.deg2rad(degrees))


def test_full_links_have_products_and_keep_within_their_bounds() -> None:
    model = ArmModel.of(ROBOT)
    whole = ArmModel.of(ROBOT, structure=ROBOT.file.structure.model_copy(update={"products_of_inertia": True}))
    drawn = draw_arm(ROBOT, 2, full=True)
    standard = from_file(drawn.standard, model.mdh, model.regrouping.standard)
    assert outside(standard, model, model.limits(ROBOT.file.physical_bounds)) == ""
    products = [name for name in standard.names if name[:2] in ("XY", "XZ", "YZ")]
    assert np.abs([standard[name] for name in products]).max() > 1e-5
    base = dict(zip(whole.names, whole.base_parameters(standard).values, strict=True))
    np.testing.assert_allclose(drawn.base, [base[name] for name in model.names], atol=1e-9)
    plain = from_file(draw_arm(ROBOT, 2).standard, model.mdh, model.regrouping.standard)
    assert np.abs([plain[name] for name in products]).max() < 1e-9


@pytest.mark.parametrize(
    ("arms", "words"),
    [
        ([arm(k, 0.1, 0.1, 0.1, 5.0 if k == 0 else 0.1) for k in range(10)], []),
        ([arm(k, 3.0, 0.1, 0.1, 0.1 if k else 3.0) for k in range(10)], ["rotor"]),
        ([arm(k, 2.0 if k == 0 else 0.1, 0.1, 0.1, 0.1) for k in range(10)], []),
    ],
)
def test_coverage_bars_apply_to_every_group(arms: list[ArmOfClass], words: list[str]) -> None:
    # nine of ten hold in groups with an outlier, ten of ten are too many where intervals are far too wide
    missed = [one for one in of(*arms).missed() if "intervals" in one]
    assert all(any(word in one for one in missed) for word in words)
    few = {"rotor", "inertia", "gravity", "friction"} - {one.split(" of the ")[1].split()[0] for one in missed}
    assert few == {group for group in GROUPS if 0.85 <= of(*arms).as_dict()["coverage"][group] <= 0.97}


def test_unsettled_fits_and_accepted_errors_miss_their_bars() -> None:
    good = [arm(k, *(3.0 if k == group else 0.1 for group in range(4))) for k in range(10)]
    assert of(*good).missed() == []
    assert any("settled" in one for one in of(*good[:9], replace(good[9], settled=False)).missed())
    wrong = replace(good[9], errors=np.array([0.1, 0.1, 6.0, 0.1]))
    assert any("accepted" in one for one in of(*good[:9], wrong).missed())
    assert not any("is accepted" in one for one in of(*good[:9], replace(wrong, accepted=False)).missed())
    large = replace(good[9], gravity=0.06)
    assert any("is accepted" in one for one in of(*good[:9], large).missed())
    assert not any("is accepted" in one for one in of(*good[:9], replace(large, noted=True)).missed())
    assert of().missed() == ["fast: no arm came to a model"]


def test_parameter_names_map_to_their_group() -> None:
    assert [group_of(name) for name in ("IA3", "ZZR2", "XY2", "MYR4", "FV8")] == [
        "rotor",
        "inertia",
        "inertia",
        "gravity",
        "friction",
    ]


def test_arms_without_a_model_are_named_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def judged(job: study._Job) -> ArmOfClass:
        return ArmOfClass(job.name, job.seed, refused="it fell") if job.seed == 1 else arm(job.seed, *[0.1] * 4)

    monkeypatch.setattr(study, "judge_arm_of_class", judged)
    found = benchmark_classes(ROBOT, chosen_classes(("fast", "slow")), 3, processes=1)
    assert [len(one.arms) for one in found.classes] == [3, 3]
    assert found.as_dict()["classes"]["slow"]["refused"] == {"1": "it fell"}


def test_unknown_classes_and_names_without_the_option_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="slow"):
        chosen_classes(("slwo",))
    done = CliRunner().invoke(app, ["benchmark", "coverage", "fast"])
    assert done.exit_code != 0 and "--classes" in done.output


@pytest.mark.study
def test_command_judges_one_arm_of_a_class() -> None:
    command = ["benchmark", "coverage", "--classes", "short", "--arms", "1", "--processes", "1", "--json"]
    done = CliRunner().invoke(app, command)
    found = json.loads(done.stdout)["classes"]["short"]
    assert done.exit_code in (0, 1) and found["arms"] == 1 and found["settled"] == 1.0
    assert set(found["coverage"]) == set(GROUPS)
