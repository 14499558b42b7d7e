"""The figure for the sign test: poses of the URDF, checked by pinocchio, with one joint moved at a time."""

from pathlib import Path

import numpy as np
import pinocchio
import pytest
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import OutputExistsError, UnknownNameError
from dynid.model.chain import SerialChain
from dynid.reporting.pose_figure import pose_figure, sign_test_poses, skeleton, write_pose_figure
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")


def test_each_panel_moves_one_joint_in_its_positive_direction() -> None:
    zero, rest, *moved = sign_test_poses(ROBOT).values()
    assert not zero.any() and np.array_equal(rest, ROBOT.rest_posture)
    assert np.array_equal(np.array(moved), np.deg2rad(20.0) * np.eye(7, 8))


def test_lines_are_those_of_the_urdf() -> None:
    """Against the whole URDF in pinocchio, of which the chain is a part."""
    model = pinocchio.buildModelFromUrdf(str(ROBOT.urdf_path))
    data = model.createData()
    chain = SerialChain.from_robot(ROBOT)
    for q in sign_test_poses(ROBOT).values():
        whole = pinocchio.neutral(model)
        for name, value in zip(ROBOT.joint_names[:7], q, strict=False):
            whole[model.joints[model.getJointId(name)].idx_q] = value
        pinocchio.forwardKinematics(model, data, whole)
        origins = [data.oMi[model.getJointId(name)].translation for name in ROBOT.joint_names[:7]]
        assert skeleton(chain, q[:7])[1:] == pytest.approx(np.array(origins), abs=1e-9)


def test_the_figure_has_a_panel_per_pose() -> None:
    figure = pose_figure(ROBOT)
    assert [axes.get_title() for axes in figure.axes] == list(sign_test_poses(ROBOT))


@pytest.mark.slow
def test_a_file_is_written_once(tmp_path: Path) -> None:
    out = tmp_path / "poses.svg"
    result = CliRunner().invoke(app, ["robot", "poses", "planar_3r", "--out", str(out)])
    assert result.exit_code == 0 and out.read_text(encoding="utf-8").lstrip().startswith("<?xml")
    with pytest.raises(OutputExistsError, match="exists"):
        write_pose_figure(ROBOT, out)
    with pytest.raises(UnknownNameError, match="figure format"):
        write_pose_figure(ROBOT, tmp_path / "poses.doc")
