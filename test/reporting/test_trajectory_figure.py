"""The figure of a motion shows the motion and its limits; motions that cannot be drawn are refused."""

from pathlib import Path

import numpy as np
import pytest

from dynid.errors import OutputExistsError, UnknownNameError
from dynid.reporting.joint_names import short_names
from dynid.reporting.trajectory_figure import trajectory_figure, write_trajectory_figure
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")
EXCITATION = load_excitation(ROBOT)
BEGINNINGS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def test_curves_and_limits_are_those_of_the_motion() -> None:
    motion = EXCITATION.trajectory("PB01", "paper")
    figure = trajectory_figure(ROBOT, EXCITATION, motion, "paper")
    assert len(figure.axes) == 3 * ROBOT.size
    lower, upper = (np.rad2deg(limits) for limits in EXCITATION.limits("paper"))
    for k, axes in enumerate(figure.axes):
        joint, column = divmod(k, 3)
        curve, *limits = axes.lines
        times, values = np.asarray(curve.get_xdata()), np.asarray(curve.get_ydata())
        expected = motion.sample_all(times[::97])[column][:, joint]
        np.testing.assert_allclose(values[::97], np.rad2deg(expected) if column == 0 else expected, atol=1e-9)
        drawn = sorted(float(np.asarray(line.get_ydata())[0]) for line in limits)
        own = np.rad2deg([ROBOT.lower[joint], ROBOT.upper[joint]])
        speed, change = ROBOT.velocity_limits[joint], EXCITATION.file.acceleration_rad_s2[joint]
        wanted = ([*own, lower[joint], upper[joint]], [-speed, speed], [-change, change])[column]
        np.testing.assert_allclose(drawn, sorted(wanted))
        bottom, top = axes.get_ylim()
        assert bottom < min(*drawn, *values) and max(*drawn, *values) < top


@pytest.mark.slow
@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_existing_files_of_every_format_are_kept(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"one{suffix}"
    write_trajectory_figure(ROBOT, EXCITATION, EXCITATION.trajectory("V01"), "limited", path)
    content = path.read_bytes()
    assert content.startswith(BEGINNINGS[suffix])
    with pytest.raises(OutputExistsError, match="one"):
        write_trajectory_figure(ROBOT, EXCITATION, EXCITATION.trajectory("V02"), "limited", path)
    assert path.read_bytes() == content
    if suffix == ".svg":  # the format that would tell the time, and number its parts at random
        write_trajectory_figure(ROBOT, EXCITATION, EXCITATION.trajectory("V01"), "limited", tmp_path / "two.svg")
        assert (tmp_path / "two.svg").read_bytes() == content


@pytest.mark.parametrize("name", ["motion.jpg", "motion", ".png"])
def test_another_format_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnknownNameError, match=r"figure format .*known: \.png, \.svg, \.pdf"):
        write_trajectory_figure(ROBOT, EXCITATION, EXCITATION.trajectory("V01"), "limited", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (("arm_first_joint", "arm_second_part_joint"), ("first", "second_part")),
        (("a", "b"), ("a", "b")),
        (("arm_joint",), ("arm_joint",)),
        (("arm_joint", "arm_x_joint"), ("arm_joint", "arm_x_joint")),
    ],
)
def test_common_parts_of_joint_names_are_left_out(names: tuple[str, ...], short: tuple[str, ...]) -> None:
    assert short_names(names) == short
