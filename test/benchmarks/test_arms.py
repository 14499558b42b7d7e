"""Random arms of servos: what is drawn, and what counts as a finding when the commands run on it."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from benchmarks.studies.arm_runs import WARNING, ArmRun, CommandError, Commands, answer_current_limits, missed
from benchmarks.studies.gravity_truth import GravityFigures
from benchmarks.studies.servo_arms import CURRENT_SHARE, LOAD_MARGIN, draw_arm

from dynid.hardware.servos.models import dynamixel_named
from dynid.model.pinocchio_library import pinocchio

SEEDS = range(40)
GOOD = ArmRun(0, 4, 1.0, ("XM430-W350",) * 4, True, "", 0.05, GravityFigures(0.02, 0.01), 3, ())


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_servos_carry_the_stretched_arm(seed: int) -> None:
    """The torques that gravity takes are those of pinocchio, from the URDF."""
    arm = draw_arm(seed)
    model = pinocchio.buildModelFromXML(arm.urdf)
    assert 2 <= model.nq == len(arm.servos) <= 7 and 0.3 <= arm.mass_kg <= 6.0
    assert sum(one.mass for one in model.inertias) == pytest.approx(arm.mass_kg, rel=1e-3)
    load = np.abs(pinocchio.computeGeneralizedGravity(model, model.createData(), np.zeros(model.nq)))
    models = [dynamixel_named(name) for name in arm.servos]
    stall = [point.torque_nm for one in models for point in one.stall if point.supply_v == one.supply_v]
    held = CURRENT_SHARE * np.array(stall) * np.where(arm.pairs, 2.0, 1.0)
    assert (load * LOAD_MARGIN < 1.2 * held).all()  # a centre of mass lies up to a tenth farther out
    assert len({one.supply_v for one in models}) == 1


def test_motor_file_has_an_id_for_each_servo_and_pairs_face_each_other() -> None:
    arm = next(one for one in map(draw_arm, SEEDS) if any(one.pairs))
    motors = yaml.safe_load(arm.motors)["motors"]
    assert sorted(one["ID"] for one in motors.values()) == list(range(1, len(arm.pairs) + sum(arm.pairs) + 1))
    shadows = {name: one for name, one in motors.items() if name.endswith("_shadow")}
    assert len(shadows) == sum(arm.pairs)
    for name, one in shadows.items():
        own = motors[name.removesuffix("_shadow")]
        assert one["Secondary_ID"] == own["ID"] and one["Drive_Mode"] != own["Drive_Mode"]


def test_one_seed_is_one_arm_and_seeds_differ() -> None:
    assert draw_arm(3) == draw_arm(3) != draw_arm(4)
    counts = {len(draw_arm(seed).servos) for seed in SEEDS}
    assert counts == {2, 3, 4, 5, 6, 7}
    axes = [one.get("xyz") for one in ElementTree.fromstring(draw_arm(3).urdf).iter("axis")]
    assert len(axes) == len(draw_arm(3).servos)


def test_refused_arms_and_warnings_are_findings() -> None:
    runs = [GOOD] * 19 + [replace(GOOD, accepted=False, failed="identify: held-out error")]
    assert missed(runs) == []
    assert missed(runs[1:]) == ["18 of 19 arms accepted, at least 95% are required"]
    noisy = "a.py:1: RuntimeWarning: overflow encountered in square"
    assert missed([GOOD, replace(GOOD, seed=7, warnings=(noisy,))]) == [f"seed 7: {noisy}"]
    assert WARNING.findall(f"identifying ...\n{noisy}\n  own = 1.0\n") == [noisy]


@pytest.mark.parametrize(
    ("error", "stated", "misleads"), [(0.06, 0.02, True), (0.06, 0.04, False), (0.04, 0.01, False)]
)
def test_accepted_gravity_beyond_what_is_stated_is_a_finding(error: float, stated: float, misleads: bool) -> None:
    run = replace(GOOD, gravity=GravityFigures(error, stated))
    assert [run.misleading, replace(run, accepted=False).misleading] == [misleads, False]
    said = [f"seed 0: gravity is {error:.1%} off, stated are {stated:.1%}"]
    assert missed([run]) == (said if misleads else [])


def test_failing_command_is_named_with_its_last_line(tmp_path: Path) -> None:
    dynid = Commands(tmp_path)
    with pytest.raises(CommandError, match=r"robot new: .*arm\.urdf"):
        dynid("robot", "new", "arm", "--urdf", "arm.urdf")
    assert dynid("robot", "check", "nothing", may_fail=True) == {}


def test_only_limits_of_the_servos_own_current_are_answered(tmp_path: Path) -> None:
    """A limit that the URDF's effort sets is a question of people's safety, and stays open."""
    path = tmp_path / "robot.yaml"
    path.write_text("joints: [{name: a, current_limit_a: 2.2}, {name: b, current_limit_a: 1.0}]")
    effort = "1 A is what the URDF's effort limit allows. If people are safe with more, write current_limit_a: 1.1 and"
    questions = {"joints.b.current_limit_a": effort, "rest_posture": "proposed: the lowest"}
    assert not answer_current_limits(path, questions)
    stands = "If the servo stands more for a short time, write current_limit_a: 2.65; or is it another servo?"
    assert answer_current_limits(path, questions | {"joints.a.current_limit_a": stands})
    assert [one["current_limit_a"] for one in yaml.safe_load(path.read_text())["joints"]] == [2.65, 1.0]
