"""`dynid robot`: a folder from a URDF, without Python; what is undecided, missing or impossible is said."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import ConfigurationError, InputNotFoundError, OutputExistsError
from dynid.model.dynamics import ArmModel
from dynid.robot import load_robot

URDF = Path(__file__).resolve().parents[2] / "urdf"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["robot", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def checked(folder: Path | str) -> tuple[int, dict[str, Any]]:
    code, text = run("check", str(folder), "--json")
    return code, json.loads(text)


def joint(name: str, parent: str, child: str, kind: str = "revolute", limit: str = "", mimic: str = "") -> str:
    limit = limit or '<limit lower="-1" upper="1" effort="5" velocity="2"/>'
    copy = f'<mimic joint="{mimic}"/>' if mimic else ""
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0.1 0 0.2" rpy="0.3 0 0"/><axis xyz="0 0 1"/>{limit}{copy}</joint>'
    )


def urdf(folder: Path, *joints: str, mass: float = 1.0) -> Path:
    links = "abcdefg"
    inertia = '<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/>'
    body = f'<inertial><origin xyz="0.05 0 0"/><mass value="{mass}"/>{inertia}</inertial>' if mass else ""
    used = {link for link in links if any(f'link="{link}"' in one for one in joints)}
    path = folder / "arm.urdf"
    path.write_text(
        "<robot name='t'>" + "".join(f'<link name="{link}">{body}</link>' for link in sorted(used)) + "".join(joints)
        + "</robot>"
    )  # fmt: skip
    return path


ARM = (joint("1", "a", "b"), joint("2", "b", "c"), joint("3", "c", "d"))
FINGERS = (joint("left", "d", "e", "prismatic"), joint("right", "d", "f", "prismatic", mimic="left"))


def test_from_a_urdf_to_base_parameters_without_python(tmp_path: Path) -> None:
    """The draft of a shipped arm has the shipped arm's links; decided, it is complete."""
    folder = tmp_path / "mine"
    code, text = run("new", "mine", "--urdf", str(URDF / "puma560" / "puma560.urdf"), "--out", str(folder))
    assert code == 0 and "6 chain joints, 0 decoupled" in text and "structure" in text
    code, found = checked(folder)
    assert code == 1 and not found["complete"]
    assert {"mounts_gravity_m_s2", "structure", "physical_bounds", "joints"} <= found["undecided"].keys()
    content = yaml.safe_load((folder / "robot.yaml").read_text())
    del content["undecided"]
    (folder / "robot.yaml").write_text(yaml.safe_dump(content))
    code, found = checked(folder)
    shipped = checked("puma560")[1]
    assert code == 0 and found["complete"] and found["uses"]["identify from torques"] == "ready"
    assert found["base_parameters"] == shipped["base_parameters"] and len(found["base_parameters"]) == 52
    assert found["base_parameters"]["ZZR1"].startswith("ZZ1 + YY2")
    assert "M1" in found["without_effect"] and "ZZ1" not in found["without_effect"]
    assert "torque_constant" in found["uses"]["identify from currents"]
    assert ArmModel.of(load_robot(folder)).structure_hash == ArmModel.of(load_robot("puma560")).structure_hash


def test_check_in_words() -> None:
    code, text = run("check", "planar_3r")
    assert code == 0
    assert "39 standard parameters, 17 base parameters (groups by closed form)" in text
    assert "MXR1" in text and "MX1 + 0.3 M2 + 0.3 M3" in text


def test_a_gripper_behind_the_arm_is_decoupled(tmp_path: Path) -> None:
    path = urdf(tmp_path, *ARM, *FINGERS)
    _, text = run("new", "one", "--urdf", str(path), "--out", str(tmp_path / "one"))
    assert "4 chain joints, 0 decoupled" in text and "right as fixed at zero" in text
    run("new", "two", "--urdf", str(path), "--out", str(tmp_path / "two"), "--decoupled", "left")
    two = load_robot(tmp_path / "two")
    assert (two.chain_size, two.size, two.prismatic) == (3, 4, (False, False, False, True))
    assert {"IA4", "FV4", "FC4"} <= set(ArmModel.of(two).names)
    both = urdf(tmp_path, *ARM, FINGERS[0], joint("right", "d", "f", "prismatic"))
    run("new", "three", "--urdf", str(both), "--out", str(tmp_path / "three"))
    assert (load_robot(tmp_path / "three").chain_size, load_robot(tmp_path / "three").size) == (3, 5)


def test_one_of_two_arms_is_chosen_by_its_tip(tmp_path: Path) -> None:
    path = urdf(tmp_path, *ARM, joint("x", "a", "e"), joint("y", "e", "f"))
    with pytest.raises(ConfigurationError, match=r"joints 1, x branch off a: .* --tip, such as one of d, f"):
        run("new", "arm", "--urdf", str(path), "--out", str(tmp_path / "arm"))
    assert not (tmp_path / "arm").exists()
    run("new", "arm", "--urdf", str(path), "--out", str(tmp_path / "arm"), "--tip", "f")
    assert load_robot(tmp_path / "arm").joint_names == ("x", "y")


def test_what_the_urdf_does_not_say_is_asked(tmp_path: Path) -> None:
    endless = joint("1", "a", "b", "continuous", limit="<limit/>")
    path = urdf(
        tmp_path, endless, joint("2", "b", "c", limit='<limit lower="-1" upper="1" effort="0" velocity="0"/>'), mass=0.0
    )
    run("new", "arm", "--urdf", str(path), "--out", str(tmp_path / "arm"))
    robot = load_robot(tmp_path / "arm")
    asked = robot.file.undecided
    assert {"joints.1.limits", "joints.1.torque_limit_nm", "joints.2.velocity_limit_rad_s"} <= asked.keys()
    assert "joints.2.limits" not in asked
    assert "no mass beyond 1, 2" in asked["physical_bounds"]
    np.testing.assert_allclose(robot.upper, [np.pi, 1.0])
    with pytest.raises(ConfigurationError, match="neither torque_limit_nm nor current_limit_a"):
        _ = robot.torque_limits
    code, found = checked(tmp_path / "arm")
    assert code == 1 and "torque_limit_nm" in found["uses"]["identify from torques"]
    assert found["notes"] == ["the URDF gives the link after 1 no mass", "the URDF gives the link after 2 no mass"]


def test_inertias_of_no_body_are_named(tmp_path: Path) -> None:
    path = urdf(tmp_path, *ARM)
    path.write_text(path.read_text().replace('izz="0.1"', 'izz="0.3"', 2))  # the first link is the base
    run("new", "arm", "--urdf", str(path), "--out", str(tmp_path / "arm"))
    notes = checked(tmp_path / "arm")[1]["notes"]
    assert notes == ["the URDF's inertia of the link after 1 belongs to no body: principal moments 0.1, 0.1, 0.3"]


def test_loops_missing_files_and_existing_folders_are_refused(tmp_path: Path) -> None:
    loop = urdf(tmp_path, *ARM, joint("4", "a", "d"))
    with pytest.raises(ConfigurationError, match="closed loop: link d is carried by the joints 3 and 4"):
        run("new", "arm", "--urdf", str(loop), "--out", str(tmp_path / "arm"))
    with pytest.raises(InputNotFoundError, match=r"nothing\.urdf"):
        run("new", "arm", "--urdf", str(tmp_path / "nothing.urdf"), "--out", str(tmp_path / "arm"))
    with pytest.raises(ConfigurationError, match="no link 'z'"):
        run("new", "arm", "--urdf", str(urdf(tmp_path, *ARM)), "--out", str(tmp_path / "arm"), "--tip", "z")
    with pytest.raises(ConfigurationError, match="no joint nope"):
        run("new", "arm", "--urdf", str(urdf(tmp_path, *ARM)), "--out", str(tmp_path / "arm"), "--decoupled", "nope")
    assert not (tmp_path / "arm").exists()
    with pytest.raises(OutputExistsError):
        run("new", "arm", "--urdf", str(urdf(tmp_path, *ARM)), "--out", str(tmp_path))


def test_kinds_of_joints_must_be_the_urdfs(tmp_path: Path) -> None:
    run("new", "arm", "--urdf", str(urdf(tmp_path, *ARM)), "--out", str(tmp_path / "arm"))
    file = tmp_path / "arm" / "robot.yaml"
    file.write_text(file.read_text().replace("lower_deg", "lower_m", 1).replace("upper_deg", "upper_m", 1))
    with pytest.raises(ConfigurationError, match="joint 1 is revolute, with lower_deg and upper_deg by the URDF"):
        checked(tmp_path / "arm")
