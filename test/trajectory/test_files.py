"""Motions of files: waypoints, rows, and refusals."""

import numpy as np
import pytest

from dynid.errors import ConfigurationError, InputNotFoundError
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.files import MOST_POINTS, is_file_name, load_trajectory_file, spread, spread_points

ROBOT = load_robot("crane_x7")
EXCITATION = load_excitation(ROBOT)
HOLD = np.array(ROBOT.rest_posture)
POINTS = """
schema_version: 1
joint_names: [crane_x7_wrist_joint, crane_x7_upper_arm_revolute_part_rotate_joint]
points:
  - {time_s: 0.0, positions_rad: [0.1, -1.0]}
  - {time_s: 2.0, positions_rad: [0.5, -1.2]}
"""
WAYPOINTS = """
schema_version: 1
name: wave
speed_factor: 0.3
waypoints_deg: [[0, 0, 0, -90, 0, 0, 0, 0], [10, 0, 0, -80, 0, 0, 20, 5]]
"""


def load(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return load_trajectory_file(path, EXCITATION, HOLD)


def test_points_of_some_joints_leave_the_others_where_they_are(tmp_path):
    motion = load(tmp_path, POINTS)
    assert motion.name == "mine" and motion.joint_names == ROBOT.joint_names and motion.duration == 2.0
    expected = HOLD.copy()
    expected[[6, 3]] = 0.1, -1.0
    np.testing.assert_allclose(motion.start, expected)
    expected[[6, 3]] = 0.5, -1.2
    np.testing.assert_allclose(motion.end, expected)
    still = [j for j in range(ROBOT.size) if j not in (3, 6)]
    q, dq, _ = motion.sample_all(np.linspace(0.0, 2.0, 50))
    np.testing.assert_allclose(q[:, still], np.broadcast_to(HOLD[still], (50, 6)), atol=1e-12)
    assert np.abs(dq[:, still]).max() < 1e-12 < np.abs(dq[:, 6]).max()


def test_waypoints_follow_the_robots_time_law(tmp_path):
    motion = load(tmp_path, WAYPOINTS)
    assert motion.name == "wave"
    np.testing.assert_allclose(np.rad2deg(motion.end), [10, 0, 0, -80, 0, 0, 20, 5])
    assert np.all(motion.peak_velocities <= 0.3 * np.array(EXCITATION.file.velocity_rad_s))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (POINTS.replace("crane_x7_wrist_joint", "elbow"), "names the joints elbow"),
        (POINTS.replace("crane_x7_wrist_joint", "crane_x7_upper_arm_revolute_part_rotate_joint"), "at most once"),
        (POINTS.replace("[0.5, -1.2]", "[0.5]"), "positions_rad"),
        (WAYPOINTS.replace("wave", "../../escape"), "name: String should match"),
        (WAYPOINTS.replace("wave", "/tmp/escape"), "name: String should match"),
        (POINTS.replace("time_s: 2.0", "time_s: 60000.0"), "lasts 60000 s, expected at most 3600 s"),
        (POINTS.replace("[0.5, -1.2]", "[0.5, -1.2], velocities_rad_s: [0, 0]"), "for every point or for none"),
        (POINTS.replace("time_s: 2.0", "time_s: 0.0"), "increasing"),
        (POINTS.replace("points:", "punkte:"), r"mine\.yaml"),
        (WAYPOINTS.replace(", 20, 5]", ", 20]"), "7, 8 entries"),
        (WAYPOINTS.replace("speed_factor: 0.3", "speed_factor: 3"), "speed_factor"),
        ("schema_version: 1\n", "speed_factor"),
        ("schema_version: 1\nspeed_factor: 1\n", "give waypoints_deg, or waypoints"),
    ],
)
def test_files_that_make_no_motion_are_refused(tmp_path, text, words):
    with pytest.raises(ConfigurationError, match=words):
        load(tmp_path, text)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputNotFoundError, match="nowhere"):
        load_trajectory_file(tmp_path / "nowhere.yaml", EXCITATION, HOLD)
    assert is_file_name("a/b.yaml") and not is_file_name("V01")


def test_rows_of_another_width_are_refused():
    with pytest.raises(ConfigurationError, match=r"rows of shape \(2, 3\) for 1 joints"):
        spread(ROBOT.joint_names, HOLD, ROBOT.joint_names[:1], np.zeros((2, 3)), still=False)


def test_more_points_than_a_motion_may_have_are_refused():
    times = np.linspace(0.0, 100.0, MOST_POINTS + 1)
    with pytest.raises(ConfigurationError, match=f"has {MOST_POINTS + 1} points, expected at most {MOST_POINTS}"):
        spread_points("long", ROBOT.joint_names, HOLD, ROBOT.joint_names, times, np.tile(HOLD, (len(times), 1)))
