"""`./run benchmark coverage`: random arms, counts of covered values, and limits that reject."""

import json

import numpy as np
import pytest
from benchmarks.cli import app
from benchmarks.studies import coverage as study
from benchmarks.studies.coverage import ArmResult, Coverage, benchmark_coverage
from benchmarks.studies.drawn_arms import draw_arm
from typer.testing import CliRunner

from dynid.errors import DataError, SafetyError
from dynid.model.dynamics import ArmModel
from dynid.model.gear_presets import gear_friction
from dynid.model.standard import from_file
from dynid.model.within_limits import outside
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
NAMES = ("a", "b")


def of(errors: list[float], held: float) -> Coverage:
    arms = tuple(ArmResult(k, NAMES, np.array([error, 0.0]), np.array([held])) for k, error in enumerate(errors))
    return Coverage(arms, (ArmResult(99, refused="not recorded: it fell"),), 1.0)


def test_drawn_arms_are_physical_different_and_the_same_for_the_same_seed() -> None:
    model = ArmModel.of(ROBOT)
    limits, published = model.limits(ROBOT.file.physical_bounds), gear_friction(ROBOT)
    arms = [draw_arm(ROBOT, seed) for seed in (0, 1, 2)]
    for arm in arms:
        standard = from_file(arm.standard, model.mdh, model.regrouping.standard)
        assert outside(standard, model, limits) == ""
        np.testing.assert_allclose(model.base_parameters(standard).values, arm.base, atol=1e-9)
        factors = arm.friction["km"] / published["km"]
        assert (factors >= 0.5).all() and (factors <= 2.0).all()
    assert np.abs(arms[0].base / arms[1].base - 1.0).max() > 0.05
    np.testing.assert_array_equal(arms[2].base, draw_arm(ROBOT, 2).base)


def test_viscous_friction_is_drawn_joint_by_joint() -> None:
    arm = draw_arm(ROBOT, 3, "viscous")
    assert set(arm.friction.terms) == {"fv", "fb"}
    np.testing.assert_allclose(arm.base[arm.names.index("FV1")], arm.friction["fv"][0])


def test_true_viscous_friction_is_that_of_the_warmed_gears() -> None:
    arm = draw_arm(ROBOT, 0)
    warm = study.true_base(ROBOT, arm, 180.0) / arm.base
    np.testing.assert_allclose(warm[[name.startswith("FV") for name in arm.names]], 1.0 - 0.2 * (1.0 - np.exp(-1.0)))
    np.testing.assert_allclose(warm[[not name.startswith("FV") for name in arm.names]], 1.0)


@pytest.mark.parametrize(
    ("outliers", "held", "parts"),
    [(4, 0.9, []), (1, 0.9, ["base parameters"]), (8, 0.9, ["base parameters"]), (4, 0.8, ["torques"])],
)
def test_coverage_outside_its_limits_is_reported_by_part(outliers: int, held: float, parts: list[str]) -> None:
    found = of([3.0] * outliers + [0.1] * (20 - outliers), held)
    assert found.parameters == pytest.approx(1.0 - outliers / 40.0) and found.torque == pytest.approx(held)
    missed = found.missed()
    assert len(missed) == len(parts) and all(part in one for part, one in zip(parts, missed, strict=True))


def test_an_arm_that_cannot_be_recorded_is_named_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        study,
        "judge_arm",
        lambda job: ArmResult(job.seed, refused="it fell") if job.seed == 1 else of([0.0], 0.9).arms[0],
    )
    found = benchmark_coverage(ROBOT, 3, processes=1)
    assert len(found.arms) == 3 and [one.seed for one in found.refused] == [1]
    assert found.as_dict()["refused"] == {"1": "it fell"}


def test_arms_that_do_not_follow_the_motion_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(robot: object, arm: study.DrawnArm, *_: object) -> None:
        raise SafetyError(f"arm {arm.seed} fell")

    monkeypatch.setattr(study, "record", record)
    with pytest.raises(DataError, match=r"none of 3 arms .* arm 0 fell"):
        benchmark_coverage(ROBOT, 1, processes=1)


def test_the_command_prints_the_keys_and_exits_1_outside_the_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "benchmark_coverage", lambda *_, **__: of([3.0] * 4 + [0.1] * 16, 0.9))
    done = CliRunner().invoke(app, ["benchmark", "coverage", "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["coverage_parameters"] == 0.9
    assert found["coverage_torque"] == pytest.approx(0.9)
    assert found["arms"] == 20 and found["by_parameter"] == {"a": 0.8, "b": 1.0} and found["refused"].keys() == {"99"}
    monkeypatch.setattr(study, "benchmark_coverage", lambda *_, **__: of([3.0] * 20, 0.9))
    failed = CliRunner().invoke(app, ["benchmark", "coverage"], catch_exceptions=False)
    assert failed.exit_code == 1 and "hold 50.0 % of the base parameters" in failed.output


@pytest.mark.slow
def test_intervals_of_a_few_arms_hold_most_of_the_truth() -> None:
    found = benchmark_coverage(ROBOT, 2, first_seed=500, processes=1)
    assert len(found.arms) == 2 and found.parameters > 0.8 and 0.85 < found.torque < 0.98
