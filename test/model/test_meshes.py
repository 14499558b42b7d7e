"""Meshes of a URDF: found where they are, taken along with a robot's folder, and nowhere else."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from dynid.control.motion_draft import write_motions
from dynid.control.self_collision import SelfCollision
from dynid.errors import ConfigurationError
from dynid.model.meshes import find_mesh
from dynid.model.robot_check import check_robot
from dynid.model.robot_draft import draft_robot, write_draft
from dynid.robot import load_robot

BOX = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
FACES = [(0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1), (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4)]
FACES += [(1, 5, 7), (1, 7, 3)]


def box(path: Path, half: tuple[float, float, float], middle: tuple[float, float, float]) -> None:
    """A closed box as a binary STL."""
    corners = BOX * half + middle
    triangles = np.zeros(len(FACES), dtype=[("normal", "<f4", 3), ("points", "<f4", (3, 3)), ("more", "<u2")])
    triangles["points"] = corners[np.array(FACES)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(80) + np.uint32(len(FACES)).tobytes() + triangles.tobytes())


def package(folder: Path, name: str = "package://arm_description/meshes/{}.stl") -> Path:
    """A description package of a three-joint arm that can fold its last link into its first; the URDF's path."""
    for link in ("base", "upper", "fore", "hand"):
        if link == "base":
            box(folder / "meshes" / "base.stl", (0.05, 0.05, 0.05), (0.0, 0.0, -0.05))
        else:
            box(folder / "meshes" / f"{link}.stl", (0.02, 0.02, 0.13), (0.0, 0.0, 0.15))
    text, above = "", "base"
    for link in ("base", "upper", "fore", "hand"):
        mesh = f'<geometry><mesh filename="{name.format(link)}"/></geometry>'
        inertial = (
            '<inertial><origin xyz="0 0 0.15"/><mass value="1"/>'
            '<inertia ixx="0.01" iyy="0.01" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial>'
        )
        text += f'<link name="{link}">{inertial}<collision>{mesh}</collision></link>'
        if link != "base":
            height = 0.0 if link == "upper" else 0.3
            text += (
                f'<joint name="to_{link}" type="revolute"><parent link="{above}"/><child link="{link}"/>'
                f'<origin xyz="0 0 {height}"/><axis xyz="0 1 0"/>'
                '<limit lower="-2.9" upper="2.9" velocity="2" effort="30"/></joint>'
            )
        above = link
    path = folder / "urdf" / "arm.urdf"
    path.parent.mkdir(parents=True)
    path.write_text(f'<robot name="arm">{text}</robot>')
    return path


def drafted(urdf: Path, folder: Path) -> None:
    write_draft(draft_robot("arm", urdf), urdf, folder)


@pytest.mark.parametrize("name", ["package://arm_description/meshes/{}.stl", "../meshes/{}.stl"])
def test_a_drafted_robot_takes_its_meshes_along(tmp_path: Path, name: str) -> None:
    """A vendor's description package is put away once the robot's folder is drafted: links are still kept apart."""
    source = tmp_path / "arm_description"
    urdf = package(source, name)
    folder = tmp_path / "elsewhere" / "arm"
    drafted(urdf, folder)
    shutil.rmtree(source)
    robot = load_robot(folder)
    assert name.format("fore") in robot.urdf_path.read_text()  # as ROS needs it
    collision = SelfCollision(robot)
    assert collision.pairs > 0
    assert collision.first_contact(np.array([[0.0, 0.3, 0.3]])) is None
    folded = collision.first_contact(np.array([[0.0, 2.0, 2.6]]))
    assert folded is not None and set(folded.links) == {"upper", "hand"}


def test_who_lacks_a_mesh_is_not_ready_to_drive_and_learns_where_to_put_it(tmp_path: Path) -> None:
    urdf = package(tmp_path / "arm_description")
    folder = tmp_path / "elsewhere" / "arm"
    drafted(urdf, folder)
    shutil.rmtree(tmp_path / "arm_description")
    lost = folder / "meshes" / "arm_description" / "meshes" / "hand.stl"
    kept = lost.read_bytes()
    lost.unlink()
    content = yaml.safe_load((folder / "robot.yaml").read_text())
    del content["undecided"]
    content |= {
        "servos": {"A": {"model_number": 1020, "torque_constant_nm_per_a": 2.3, "factory_current_limit_a": 3.2}}
    }
    for k, joint in enumerate(content["joints"]):
        joint |= {"servo_id": k + 1, "servo_model": "A", "current_limit_a": 2.0}
    (folder / "robot.yaml").write_text(yaml.safe_dump(content))
    write_motions(load_robot(folder), folder)
    with pytest.raises(ConfigurationError, match=rf"hand\.stl is not there, .* put it at {lost}, "):
        SelfCollision(load_robot(folder))
    assert driving(folder).startswith("the mesh package://arm_description/meshes/hand.stl is not there")
    lost.write_bytes(kept)
    assert SelfCollision(load_robot(folder)).pairs > 0 and not driving(folder)


def driving(folder: Path) -> str:
    """What is missing before the arm can be driven."""
    (use,) = (use for use in check_robot(load_robot(folder)).uses if use.name == "drive the arm")
    return use.missing


def test_names_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    """The URDF is a stranger's: what it names may be read from where it says, and is written into the folder only."""
    source, secret = tmp_path / "arm_description", tmp_path / "outside.stl"
    urdf = package(source, "package://../../outside_{}.stl")
    secret.write_bytes(b"solid")
    folder = tmp_path / "deep" / "robots" / "arm"
    drafted(urdf, folder)
    before = {path for path in tmp_path.rglob("*") if folder not in path.parents and path != folder}
    assert {path.name for path in before if path.is_file()} == {
        "arm.urdf",
        "outside.stl",
        *(f"{link}.stl" for link in ("base", "upper", "fore", "hand")),
    }
    with pytest.raises(ConfigurationError, match="is not there"):
        find_mesh("package://../../outside_hand.stl", folder)
