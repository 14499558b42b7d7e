"""The paper's families of trajectories and the demo's motions."""

import numpy as np
import pytest
import yaml

from dynid.errors import ConfigurationError, SafetyError, UnknownNameError
from dynid.trajectory.families import Excitation, load_excitation

PAPER_NAMES = [f"P{p}{k:02d}" for p in "ABC" for k in range(1, 12)]
PAPER_NAMES += [f"AP{k:02d}" for k in range(1, 6)] + ["AG01", "AG02", "V01", "V02", "V03"]
DEMO_NAMES = ["demo_identification", "demo_validation"]
GENTLE_NAMES = ["gentle_identification", "gentle_validation"]
POSTURES_DEG = {"A": [0, 0, 0, -90, 0, 0, 0, 0], "B": [0, 0, 0, -150, 0, 0, 0, 0], "C": [0, 60, 0, -150, 0, 0, 0, 0]}


@pytest.fixture(scope="module")
def excitation(robot):
    return load_excitation(robot)


def edited(robot, tmp_path, *edits):
    content = yaml.safe_load((robot.folder / "excitation.yaml").read_text())
    for keys, value in edits:
        target = content
        for key in keys[:-1]:
            target = target[key]
        target[keys[-1]] = value
    path = tmp_path / "excitation.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def test_the_43_trajectories_and_the_demo_pairs_exist(excitation):
    assert set(excitation.names) == {*PAPER_NAMES, *DEMO_NAMES, *GENTLE_NAMES}
    assert len(PAPER_NAMES) == 43


@pytest.mark.parametrize("profile", ["paper", "limited"])
def test_every_trajectory_keeps_its_profiles_limits(excitation, robot, profile):
    lower, upper = excitation.limits(profile)
    for name in PAPER_NAMES:
        trajectory = excitation.trajectory(name, profile)
        assert trajectory.name == name and trajectory.joint_names == robot.joint_names
        q, dq, _ = trajectory.sample_all(np.arange(0.0, trajectory.duration, 0.02))
        assert np.all(q >= lower - 1e-9) and np.all(q <= upper + 1e-9)
        assert np.all(np.abs(dq) <= robot.velocity_limits)


def test_limited_profile_stays_two_degrees_inside_the_real_limits_and_the_papers_does_not(excitation, robot):
    lower, upper = excitation.limits("limited")
    np.testing.assert_allclose(lower - robot.lower, np.deg2rad(2.0))
    np.testing.assert_allclose(robot.upper - upper, np.deg2rad(2.0))
    np.testing.assert_allclose(np.rad2deg(excitation.limits("paper")[0])[[3, 5, 7]], [-175, -135, -35])
    excitation.trajectory("PB01", "limited").check_limits(robot.lower, robot.upper, robot.velocity_limits)
    with pytest.raises(SafetyError, match=r"rotate_joint reaches -17\d"):
        excitation.trajectory("PB01", "paper").check_limits(robot.lower, robot.upper, robot.velocity_limits)


@pytest.mark.parametrize("name", ["PA01", "PB05", "PC09", "AP01", "AP02", "AP03", "PA11", "PC10"])
def test_families_start_and_end_at_their_posture(excitation, name):
    posture = {"AP01": "A", "AP02": "B", "AP03": "C"}.get(name, name[1])
    trajectory = excitation.trajectory(name, "paper")
    np.testing.assert_allclose(np.rad2deg(trajectory.start), POSTURES_DEG[posture], atol=1e-9)
    np.testing.assert_allclose(trajectory.end, trajectory.start, atol=1e-9)


def test_grid_is_three_patterns_by_three_levels_plus_two_concatenations(excitation):
    for posture in "ABC":
        motions = [excitation.file.trajectories[f"P{posture}{k:02d}"] for k in range(1, 10)]
        assert {m.posture for m in motions} == {posture}
        assert len({(m.pattern, m.level) for m in motions}) == 9
        assert len({m.pattern for m in motions}) == len({m.level for m in motions}) == 3
        for k in (10, 11):
            assert len(excitation.file.trajectories[f"P{posture}{k}"].concatenate) >= 2


@pytest.mark.parametrize("profile", ["paper", "limited"])
def test_primitives_move_at_most_two_adjacent_joints(excitation, profile):
    """Away from the nominal posture and its wrist variant, a PA..AG waypoint is one primitive's corner."""
    wrist = excitation.file.wrist_variant.joint - 1
    for name in ("PA03", "PB02", "PC01", "AP03"):
        trajectory = excitation.trajectory(name, profile)
        offsets = trajectory.waypoints - trajectory.start
        for offset in offsets:
            moved = np.flatnonzero(np.abs(offset) > 1e-9)
            others = moved[moved != wrist]
            assert len(others) <= 2
            assert len(others) < 2 or others[1] - others[0] in (1, 2)


def test_pairs_only_trajectories_excite_every_axis_with_pairs(excitation):
    steps = excitation.file.patterns[excitation.file.trajectories["AP01"].pattern]
    assert [step.joints for step in steps] == [(j, j + 1) for j in range(1, 8)]


def test_higher_levels_are_faster(excitation):
    by_level = {m.level: n for n, m in excitation.file.trajectories.items() if n[:2] == "PA" and n < "PA10"}
    slow, middle, fast = (excitation.trajectory(by_level[level]) for level in ("low", "middle", "high"))
    assert slow.peak_accelerations.max() < middle.peak_accelerations.max() < fast.peak_accelerations.max()
    assert slow.peak_velocities.max() < fast.peak_velocities.max()


def test_ag02_lasts_about_110_seconds_and_joins_singles_and_pairs_of_all_postures(excitation):
    assert excitation.trajectory("AG02", "paper").duration == pytest.approx(110.0, abs=6.0)
    parts = excitation.file.trajectories["AG02"].concatenate
    motions = [excitation.file.trajectories[part] if isinstance(part, str) else part for part in parts]
    sizes = [{len(step.joints) for step in excitation.file.patterns[motion.pattern]} for motion in motions]
    assert sizes == [{1}] * 3 + [{2}] * 3
    assert [motion.posture for motion in motions] == ["A", "B", "C"] * 2


def test_validation_moves_all_axes_at_once(excitation):
    for name in ("V01", "V03", "demo_validation"):
        trajectory = excitation.trajectory(name)
        together = np.count_nonzero(trajectory.segment_velocities > 1e-6, axis=1)
        assert together.max() == 8
    groups = excitation.trajectory("V02")
    moving = np.count_nonzero(groups.segment_velocities > 1e-6, axis=1)
    assert moving.max() <= 5  # four arm joints and the hand


def test_demo_motions_are_moderate_and_start_and_end_at_rest_posture(excitation, robot):
    durations = {"demo_identification": (35.0, 45.0), "demo_validation": (15.0, 25.0)}
    lower, upper = excitation.limits("limited")
    for name, (shortest, longest) in durations.items():
        trajectory = excitation.trajectory(name)
        assert shortest <= trajectory.duration <= longest
        np.testing.assert_allclose(trajectory.start, robot.rest_posture, atol=1e-9)
        np.testing.assert_allclose(trajectory.end, robot.rest_posture, atol=1e-9)
        assert np.all(trajectory.peak_velocities <= 2.5)
        assert np.all(trajectory.waypoints >= lower) and np.all(trajectory.waypoints <= upper)


def test_unknown_names_list_the_known(excitation):
    with pytest.raises(UnknownNameError, match=r"unknown trajectory 'PA99'; known: PA01, .*demo_validation"):
        excitation.trajectory("PA99")
    with pytest.raises(UnknownNameError, match=r"profile 'real'; known: paper, limited"):
        excitation.trajectory("PA01", "real")
    with pytest.raises(UnknownNameError, match="profile"):
        excitation.limits("real")


def test_amplitudes_beyond_the_limits_are_refused(robot, tmp_path):
    row = [30, 25, 35, 25, 40, 40, 45, 30]
    broken = load_excitation(robot, edited(robot, tmp_path, (("profiles", "limited", "amplitudes_deg", "B"), row)))
    with pytest.raises(SafetyError, match=r"upper_arm_revolute_part_rotate_joint reaches -175\.00 deg at .* -157\.00"):
        broken.trajectory("PB01", "limited")
    broken.trajectory("PB01", "paper")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("acceleration_rad_s2",), [1.0] * 7, "acceleration_rad_s2 has 7 entries, expected 8"),
        (("postures_deg", "A"), [0.0] * 3, r"postures_deg\.A has 3 entries"),
        (("trajectories", "PA01", "pattern"), "spiral", "pattern 'spiral' is not defined"),
        (("trajectories", "PA01", "level"), "warp", "level 'warp' is not defined"),
        (("trajectories", "PA01", "speed"), 3, "speed"),
        (("trajectories", "PA10"), {"concatenate": ["PA11"]}, "earlier trajectory 'PA11' is not defined"),
        (("speed_factors", "normal"), [0.3, 0.6], "2 entries, expected 3"),
        (("speed_factors", "normal"), [0.3, 0.6, 1.5], "less than or equal to 1"),
        (("profiles", "paper", "amplitudes_deg"), {}, "amplitude row 'A' is not defined"),
        (("trajectories", "../../escape"), {"concatenate": ["PA01"]}, "String should match"),
        (("patterns", "single"), [{"joints": [1, 2, 3]}], "at most 2"),
        (("profiles", "paper", "joint_limits_deg"), {0: [-10.0, 10.0]}, "0 is no joint, expected a number from 1 to 8"),
        (("profiles", "paper", "joint_limits_deg"), {9: [-10.0, 10.0]}, "9 is no joint"),
        (("profiles", "paper", "joint_limits_deg"), {1: [10.0, -10.0]}, "the lower limit must come first"),
        (("wrist_variant",), {"joint": 9}, "9 is no joint, expected one from 1 to 8"),
    ],
)
def test_bad_files_are_named(robot, tmp_path, keys, value, message):
    with pytest.raises(ConfigurationError, match=message):
        load_excitation(robot, edited(robot, tmp_path, (keys, value)))


def test_a_file_for_another_number_of_axes_is_refused(excitation):
    class SixAxes:
        name, size = "six", 6

    with pytest.raises(ConfigurationError, match=r"'six' is for 8 axes"):
        Excitation(excitation.file, SixAxes())
