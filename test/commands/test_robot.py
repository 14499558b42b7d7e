"""`dynid robot`: a folder from a URDF, without Python; undecided, missing and impossible values are reported."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import ConfigurationError, InputNotFoundError, OutputExistsError
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard, to_link_frame
from dynid.robot import load_robot

URDF = Path(__file__).resolve().parents[2] / "urdf"
CONFIG = URDF.parent / "config"


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
    folder.mkdir(exist_ok=True)
    path = folder / "arm.urdf"
    path.write_text(
        "<robot name='t'>"
        + "".join(f'<link name="{link}">{body}</link>' for link in sorted(used))
        + "".join(joints)
        + "</robot>"
    )
    return path


ARM = (joint("1", "a", "b"), joint("2", "b", "c"), joint("3", "c", "d"))
FINGERS = (joint("left", "d", "e", "prismatic"), joint("right", "d", "f", "prismatic", mimic="left"))


@pytest.mark.slow
def test_a_decided_draft_has_the_base_parameters_of_the_shipped_arm(tmp_path: Path) -> None:
    """A draft has the links of the shipped arm, and is complete once its questions are answered."""
    folder = tmp_path / "mine"
    code, text = run("new", "mine", "--urdf", str(URDF / "puma560" / "puma560.urdf"), "--out", str(folder))
    assert code == 0 and "6 chain joints, 0 decoupled" in text and "structure" in text
    code, found = checked(folder)
    assert code == 1 and not found["complete"]
    assert {"mounts_gravity_m_s2", "structure", "physical_bounds", "joints"} <= found["undecided"].keys()
    content = yaml.safe_load((folder / "robot.yaml").read_text())
    del content["undecided"]
    content["structure"]["friction_offset"] = False  # the shipped arm has none
    (folder / "robot.yaml").write_text(yaml.safe_dump(content))
    code, found = checked(folder)
    shipped = checked("puma560")[1]
    assert code == 0 and found["complete"] and found["uses"]["identify from torques"] == "ready"
    assert found["base_parameters"] == shipped["base_parameters"] and len(found["base_parameters"]) == 52
    assert found["base_parameters"]["ZZR1"].startswith("ZZ1 + YY2")
    assert "M1" in found["without_effect"] and "ZZ1" not in found["without_effect"]
    assert "torque_constant" in found["uses"]["identify from currents"]
    assert ArmModel.of(load_robot(folder)).structure_hash == ArmModel.of(load_robot("puma560")).structure_hash


def test_check_prints_parameter_counts_and_groupings() -> None:
    code, text = run("check", "planar_3r")
    assert code == 0
    assert "39 standard parameters, 17 base parameters (groups by closed form)" in text
    assert "MXR1" in text and "MX1 + 0.3 M2 + 0.3 M3" in text


@pytest.mark.usefixtures("without_motions")
def test_check_accepts_decisions_that_only_driving_needs(tmp_path: Path, without_motions: None) -> None:
    assert run("new", "t", "--urdf", str(urdf(tmp_path, *ARM)), "--out", str(tmp_path / "t"))[0] == 0
    file = tmp_path / "t" / "robot.yaml"
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert "rest_posture" in content["undecided"] and checked(tmp_path / "t")[0] == 1
    content["undecided"] = {"rest_posture": "proposed: where may it be left?"}
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    code, found = checked(tmp_path / "t")
    assert code == 0 and found["complete"] and found["uses"]["identify from torques"] == "ready"
    assert found["uses"]["drive the arm"] != "ready"
    content["undecided"]["mounts_gravity_m_s2"] = "proposed: how is it mounted?"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert checked(tmp_path / "t")[0] == 1


@pytest.mark.slow
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


@pytest.mark.usefixtures("without_motions")
def test_one_of_two_arms_is_chosen_by_its_tip(tmp_path: Path) -> None:
    path = urdf(tmp_path, *ARM, joint("x", "a", "e"), joint("y", "e", "f"))
    with pytest.raises(ConfigurationError, match=r"joints 1, x branch off a: .* --tip: d, f"):
        run("new", "arm", "--urdf", str(path), "--out", str(tmp_path / "arm"))
    assert not (tmp_path / "arm").exists()
    run("new", "arm", "--urdf", str(path), "--out", str(tmp_path / "arm"), "--tip", "f")
    assert load_robot(tmp_path / "arm").joint_names == ("x", "y")


def test_values_missing_from_the_urdf_become_questions(tmp_path: Path) -> None:
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
    assert "no mass beyond 1, 2" in asked["physical_bounds.total_mass_kg"]
    bounds = robot.file.physical_bounds
    assert bounds.total_mass_kg is None and {link.mass_kg for link in bounds.links} == {None}
    with pytest.raises(ConfigurationError, match=r"no physical_bounds\.total_mass_kg"):
        ArmModel.of(robot).limits(bounds)
    np.testing.assert_allclose(robot.upper, [np.pi, 1.0])
    with pytest.raises(ConfigurationError, match="neither torque_limit_nm nor current_limit_a"):
        _ = robot.torque_limits
    code, found = checked(tmp_path / "arm")
    assert code == 1 and "torque_limit_nm" in found["uses"]["identify from torques"]
    assert found["notes"] == ["the URDF gives the link after 1 no mass", "the URDF gives the link after 2 no mass"]
    content = yaml.safe_load((tmp_path / "arm" / "robot.yaml").read_text())
    content["joints"][0]["torque_limit_nm"] = 5.0
    content["joints"][1]["torque_limit_nm"] = 5.0
    (tmp_path / "arm" / "robot.yaml").write_text(yaml.safe_dump(content))
    assert "total_mass_kg" in checked(tmp_path / "arm")[1]["uses"]["identify from torques"]
    content["physical_bounds"]["total_mass_kg"] = 3.0
    (tmp_path / "arm" / "robot.yaml").write_text(yaml.safe_dump(content))
    found = checked(tmp_path / "arm")[1]
    assert found["uses"]["identify from torques"] == "ready"
    said = "the box that holds all mass of link 1, 2 is from joint distances, no shapes in the URDF"
    assert said in found["notes"]


def test_physically_impossible_inertias_are_named(tmp_path: Path) -> None:
    path = urdf(tmp_path, *ARM)
    path.write_text(path.read_text().replace('izz="0.1"', 'izz="0.3"', 2))  # the first link is the base
    run("new", "arm", "--urdf", str(path), "--out", str(tmp_path / "arm"))
    notes = checked(tmp_path / "arm")[1]["notes"]
    assert not (tmp_path / "arm" / "models").exists()
    said = "the URDF's inertia of the link after 1 is physically impossible: principal moments 0.1, 0.1, 0.3"
    assert notes[1:] == [said]


@pytest.mark.slow
def test_inertials_beyond_the_links_own_box_are_named(tmp_path: Path) -> None:
    """0.1 kg m^2 of 1 kg reach 0.3 m out of a box of 0.2 m: the URDF is wrong, or the box."""
    path = urdf(tmp_path, *ARM)
    run("new", "arm", "--urdf", str(path), "--out", str(tmp_path / "arm"))
    (said,) = [one for one in checked(tmp_path / "arm")[1]["notes"] if one.startswith("models/nominal.yaml")]
    assert "contradicts physical_bounds: link 1 with mass 1 kg" in said and "correct the inertials" in said
    path.write_text(path.read_text().replace('"0.1" ix', '"0.004" ix').replace('"0.1" iyz', '"0.004" iyz'))
    path.write_text(path.read_text().replace('izz="0.1"', 'izz="0.004"'))
    run("new", "small", "--urdf", str(path), "--out", str(tmp_path / "small"))
    assert not [one for one in checked(tmp_path / "small")[1]["notes"] if one.startswith("models/nominal.yaml")]


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


@pytest.mark.usefixtures("without_motions")
def test_kinds_of_joints_must_be_the_urdfs(tmp_path: Path) -> None:
    run("new", "arm", "--urdf", str(urdf(tmp_path, *ARM)), "--out", str(tmp_path / "arm"))
    file = tmp_path / "arm" / "robot.yaml"
    text = file.read_text().replace("lower_deg", "lower_m", 1).replace("upper_deg", "upper_m", 1)
    file.write_text(text.replace("rest_posture_deg", "rest_posture", 1))
    with pytest.raises(ConfigurationError, match="joint 1 is revolute, with lower_deg and upper_deg in the URDF"):
        checked(tmp_path / "arm")


@pytest.mark.usefixtures("without_motions")
def test_the_draft_has_the_urdfs_inertials_and_an_offset(tmp_path: Path) -> None:
    run("new", "arm", "--urdf", str(urdf(tmp_path, *ARM)), "--out", str(tmp_path / "arm"))
    robot = load_robot(tmp_path / "arm")
    model = ArmModel.of(robot)
    assert robot.file.structure.friction_offset and {"OF1", "OF2", "OF3"} <= set(model.names)
    nominal = load_standard(tmp_path / "arm" / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    own = pinocchio.buildModelFromUrdf(str(tmp_path / "arm" / "arm.urdf"))
    for j in range(3):
        body = to_link_frame(nominal.link(j), model.mdh.in_link[j])
        assert body.mass == pytest.approx(own.inertias[j + 1].mass)
        np.testing.assert_allclose(body.centre_of_mass, own.inertias[j + 1].lever, atol=1e-9)
        np.testing.assert_allclose(body.inertia, own.inertias[j + 1].inertia, atol=1e-9)
    assert checked(tmp_path / "arm")[1]["uses"]["standard parameters close to CAD values"] == "ready"


@pytest.mark.usefixtures("without_motions")
def test_masses_are_bounded_by_the_stated_mass_or_it_is_asked_for(tmp_path: Path) -> None:
    path = urdf(tmp_path, *ARM, mass=2.0)
    run("new", "asked", "--urdf", str(path), "--out", str(tmp_path / "asked"))
    asked = load_robot(tmp_path / "asked").file
    assert "Proposed: 1.5 times the 6.0 kg" in asked.undecided["physical_bounds.total_mass_kg"]
    assert asked.physical_bounds.total_mass_kg == 9.0
    run("new", "told", "--urdf", str(path), "--out", str(tmp_path / "told"), "--total-mass", "4.5")
    told = load_robot(tmp_path / "told").file
    assert "physical_bounds.total_mass_kg" not in told.undecided and told.physical_bounds.total_mass_kg == 4.5
    assert [link.mass_kg for link in told.physical_bounds.links] == [(0.5, 4.5)] * 3
    bare = urdf(tmp_path, *ARM, mass=0.0)
    run("new", "bare", "--urdf", str(bare), "--out", str(tmp_path / "bare"), "--total-mass", "4.5")
    robot = load_robot(tmp_path / "bare")
    limits = ArmModel.of(robot).limits(robot.file.physical_bounds)
    assert [link.mass for link in limits.links] == [pytest.approx((0.0045, 4.5))] * 3


@pytest.mark.usefixtures("without_motions")
def test_a_sliding_joint_has_its_speed_in_its_own_unit(tmp_path: Path) -> None:
    slow = joint("1", "a", "b", "prismatic", '<limit lower="0" upper="0.4" effort="50" velocity="0.05"/>')
    still = joint("2", "b", "c", "prismatic", '<limit lower="0" upper="0.4" effort="50" velocity="0"/>')
    run("new", "arm", "--urdf", str(urdf(tmp_path, slow, still, ARM[2])), "--out", str(tmp_path / "arm"))
    robot = load_robot(tmp_path / "arm")
    first, second, third = robot.file.joints
    assert (first.velocity_limit_m_s, first.velocity_limit_rad_s) == (0.05, None)
    assert (third.velocity_limit_m_s, third.velocity_limit_rad_s) == (None, 2.0)
    assert second.velocity_limit_m_s == 0.25 and "joints.2.velocity_limit_m_s" in robot.file.undecided
    np.testing.assert_array_equal(robot.velocity_limits, [0.05, 0.25, 2.0])


@pytest.mark.usefixtures("without_motions")
def test_the_chain_stops_at_its_tip(tmp_path: Path) -> None:
    """Nothing beyond moves, neither a branch at the gripper nor the rest of the arm, but what is named."""
    branch = (FINGERS[0], joint("right", "d", "f", "prismatic"))
    path = urdf(tmp_path, *ARM, *branch)
    run("new", "hand", "--urdf", str(path), "--out", str(tmp_path / "hand"), "--tip", "d")
    assert load_robot(tmp_path / "hand").joint_names == ("1", "2", "3")
    assert "left, right as fixed at zero" in load_robot(tmp_path / "hand").file.undecided["joints"]
    run("new", "short", "--urdf", str(path), "--out", str(tmp_path / "short"), "--tip", "c")
    short = load_robot(tmp_path / "short")
    assert (short.joint_names, short.chain_size) == (("1", "2"), 2)
    run("new", "one", "--urdf", str(path), "--out", str(tmp_path / "one"), "--tip", "d", "--decoupled", "left")
    one = load_robot(tmp_path / "one")
    assert (one.joint_names, one.chain_size) == (("1", "2", "3", "left"), 3)
    mass = load_standard(tmp_path / "short" / "models" / "nominal.yaml", ArmModel.of(short).mdh)["M2"]
    assert mass == pytest.approx(4.0)  # that of its own link, of the next one, and of both fingers


@pytest.mark.slow
def test_boxes_of_shapes_are_kept_where_the_meshes_are_not(tmp_path: Path) -> None:
    """The draft's copy of the URDF has no meshes beside it."""
    path = urdf(tmp_path / "given", *ARM)
    corners = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.2, 0], [0, 0, 0.3], [0.1, 0, 0], [0, 0.2, 0]])
    lines = "".join(f"v {x} {y} {z}\n" for x, y, z in corners) + "f 1 2 3\nf 4 5 6\n"
    (tmp_path / "given" / "part.obj").write_text(lines)
    mesh = '<visual><geometry><mesh filename="part.obj"/></geometry></visual>'
    path.write_text(path.read_text().replace('<link name="b">', f'<link name="b">{mesh}'))
    run("new", "arm", "--urdf", str(path), "--out", str(tmp_path / "arm"))
    bounds = load_robot(tmp_path / "arm").file.physical_bounds
    assert bounds.links[0].box_upper_m == pytest.approx((0.12, 0.22, 0.32), abs=1e-3)
    assert bounds.links[1].box_upper_m is None
    assert "no shapes in the URDF) reach from joint" in load_robot(tmp_path / "arm").file.undecided["physical_bounds"]


@pytest.mark.slow
def test_a_urdf_in_millimetres_is_recognised(tmp_path: Path) -> None:
    given = (URDF / "aloha_class" / "aloha_class.urdf").read_text()
    scaled = re.sub(
        r'(<origin[^>]*?xyz=")([^"]*)"',
        lambda one: f'{one[1]}{" ".join(f"{1000 * float(x):g}" for x in one[2].split())}"',
        given,
    )
    (tmp_path / "mm.urdf").write_text(scaled)
    with pytest.raises(ConfigurationError, match=r"mm\.urdf places .* m apart.* scale its lengths by 0\.001"):
        run("new", "arm", "--urdf", str(tmp_path / "mm.urdf"), "--out", str(tmp_path / "arm"))
    assert not (tmp_path / "arm").exists()
    (tmp_path / "m.urdf").write_text(given)
    assert run("new", "arm", "--urdf", str(tmp_path / "m.urdf"), "--out", str(tmp_path / "arm"))[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("text", ["<robot", "<sdf/>", "\u0000"])
def test_file_that_is_no_urdf_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "wrong.urdf").write_text(text)
    with pytest.raises(ConfigurationError, match=r"wrong\.urdf is not a valid URDF"):
        run("new", "arm", "--urdf", str(tmp_path / "wrong.urdf"), "--out", str(tmp_path / "arm"))
    robot = tmp_path / "arm"
    run("new", "arm", "--urdf", str(urdf(tmp_path, *ARM)), "--out", str(robot))
    (robot / "arm.urdf").write_text(text)
    with pytest.raises(ConfigurationError, match=r"arm\.urdf is not a valid URDF"):
        checked(robot)


def test_new_robot_is_named_after_the_last_part_of_its_path(tmp_path: Path, without_motions: None) -> None:
    file = urdf(tmp_path / "arm", *ARM)
    assert run("new", str(tmp_path / "robots" / "my_arm"), "--urdf", str(file))[0] == 0
    assert load_robot(tmp_path / "robots" / "my_arm").name == "my_arm"
    assert run("new", "robots/other", "--urdf", str(file), "--out", str(tmp_path / "other"))[0] == 2
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "change", "words", "drives"),
    [
        ("robot.yaml", {"simulation": {"plant_parameters": "models/lost.yaml"}}, "lost.yaml", True),
        ("controller.yaml", {"inertia_kg_m2": [0.1]}, "controller.yaml", False),
        ("excitation.yaml", {"trajectories": {"demo": {"waypoints_deg": [[0, 0]]}}}, "demo", False),
    ],
)
def test_files_that_a_run_would_refuse_are_not_ready(
    tmp_path: Path, file: str, change: dict[str, Any], words: str, drives: bool
) -> None:
    """The check builds what a run reads: a folder that it calls ready does not stop at its first motion."""
    folder = tmp_path / "arm"
    shutil.copytree(CONFIG / "openmanipulator_x", folder)
    content = yaml.safe_load((folder / "robot.yaml").read_text())
    content["urdf"] = str(URDF / "openmanipulator_x" / "openmanipulator_x.urdf")
    (folder / "robot.yaml").write_text(yaml.safe_dump(content))
    assert checked(folder)[1]["uses"]["simulate"] == "ready"
    content = yaml.safe_load((folder / file).read_text())
    for key, value in change.items():
        content[key] = content[key] | value if isinstance(value, dict) else value
    (folder / file).write_text(yaml.safe_dump(content))
    uses = checked(folder)[1]["uses"]
    assert words in uses["simulate"] and (uses["drive the arm"] == "ready") == drives
