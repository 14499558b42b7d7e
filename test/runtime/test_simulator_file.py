"""Exported MJCF and URDF read back: the model's values that they contain, and refused files of other arms."""

import re
from pathlib import Path

import numpy as np
import pytest

from dynid.errors import ConfigurationError, DataError
from dynid.export.mjcf import mjcf_text
from dynid.export.urdf import identified_urdf
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_nominal, to_file
from dynid.robot import Robot, load_robot
from dynid.runtime.simulator_file import is_simulator_file, model_of_text, read_simulator_file

ROBOTS = ("crane_x7", "puma560", "serial_9dof", "tx40", "kr300")


def texts(robot: Robot) -> tuple[str, str]:
    """Return MJCF and URDF of a robot's nominal parameters."""
    arm = ArmModel.of(robot)
    standard = load_nominal(robot, arm.mdh, arm.regrouping.standard)
    content = to_file(standard, arm.mdh, robot.name, robot.joint_names, "test")
    return mjcf_text(robot, content), identified_urdf(robot, arm.mdh, standard)


@pytest.mark.parametrize("name", ROBOTS)
def test_mjcf_gives_back_the_parameters_that_it_was_made_of(name: str) -> None:
    robot = load_robot(name)
    arm = ArmModel.of(robot)
    truth = arm.base_parameters(load_nominal(robot, arm.mdh, arm.regrouping.standard))
    lost = {"OF", "FS"}  # which MJCF has no place for
    kept = [one.rstrip("0123456789") not in lost for one in truth.names]
    found = model_of_text(texts(robot)[0], robot, "model.xml")
    np.testing.assert_allclose(found.base.values[kept], truth.values[kept], rtol=1e-8, atol=1e-8)


def test_urdf_lacks_the_rotors_and_nothing_else() -> None:
    robot = load_robot("puma560")
    arm = ArmModel.of(robot)
    standard = load_nominal(robot, arm.mdh, arm.regrouping.standard)
    values = np.where([one.startswith("IA") for one in standard.names], 0.0, standard.values)
    expected = arm.base_parameters(type(standard)(standard.names, values, arm.chain_size))
    found = model_of_text(texts(robot)[1], robot, "model.urdf")
    np.testing.assert_allclose(found.base.values, expected.values, atol=1e-7)
    assert np.abs(found.base.values - arm.base_parameters(standard).values).max() > 0.1


def test_file_of_another_arm_is_refused() -> None:
    own, other = load_robot("puma560"), load_robot("planar_3r")
    with pytest.raises(ConfigurationError, match=r"model\.xml has no movable joint .*: it is not of 'puma560'"):
        model_of_text(texts(other)[0], own, "model.xml")


def test_changed_geometry_is_refused() -> None:
    robot = load_robot("crane_x7")
    text = texts(robot)[0]
    places = re.findall(r'<body name="[^"]*" pos="([^"]*)"', text)
    moved = text.replace(f'pos="{places[3]}"', 'pos="0 0 0.3"', 1)
    with pytest.raises(DataError, match=r"places joint \S+ differently from the URDF of 'crane_x7'"):
        model_of_text(moved, robot, "model.xml")


def test_terms_that_the_robot_lacks_are_refused() -> None:
    robot = load_robot("crane_x7")
    text = re.sub(r"<joint (name=\"[^\"]*\")", r'<joint stiffness="3" \1', texts(robot)[0], count=1)
    with pytest.raises(DataError, match=r"model\.xml holds KS1_1, which structure and springs .* do not have"):
        model_of_text(text, robot, "model.xml")


def test_invalid_model_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.xml"
    path.write_text("<mujoco><worldbody><body/></worldbody>")
    with pytest.raises(ConfigurationError, match=r"broken\.xml is not valid for MuJoCo"):
        read_simulator_file(path, load_robot("crane_x7"))
    assert is_simulator_file(path) and is_simulator_file("a.URDF") and not is_simulator_file("model.yaml")
