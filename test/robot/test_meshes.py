"""Meshes of a URDF: found at their paths, and copied with a robot's folder."""

import shutil
from pathlib import Path

import numpy as np
import pinocchio
import pytest
import yaml

from dynid.control.motion_draft import write_motions
from dynid.control.self_collision import SelfCollision
from dynid.errors import ConfigurationError
from dynid.model.link_shapes import LinkShapes
from dynid.robot import load_robot
from dynid.robot.check import check_robot
from dynid.robot.draft import draft_robot, write_draft
from dynid.trajectory.polynomial import rest_to_rest

BOX = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
FACES = [(0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1), (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4)]
FACES += [(1, 5, 7), (1, 7, 3)]


def box(path: Path, half: tuple[float, float, float], *middles: tuple[float, float, float]) -> None:
    """Closed boxes as one binary STL."""
    stl(path, np.concatenate([(BOX * half + middle)[np.array(FACES)] for middle in middles]))


def stl(path: Path, corners: np.ndarray) -> None:
    """Triangles (k, 3, 3) as a binary STL."""
    triangles = np.zeros(len(corners), dtype=[("normal", "<f4", 3), ("points", "<f4", (3, 3)), ("more", "<u2")])
    triangles["points"] = corners
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(80) + np.uint32(len(corners)).tobytes() + triangles.tobytes())


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
                '<limit lower="-2.9" upper="2.9" velocity="2" effort="10"/></joint>'
            )
        above = link
    path = folder / "urdf" / "arm.urdf"
    path.parent.mkdir(parents=True)
    path.write_text(f'<robot name="arm">{text}</robot>')
    return path


def drafted(urdf: Path, folder: Path) -> None:
    write_draft(draft_robot("arm", urdf), urdf, folder)


@pytest.mark.slow
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
    assert collision.contact_at(np.array([0.0, 0.3, 0.3])) is None
    folded = collision.contact_at(np.array([0.0, 2.0, 2.6]))
    assert folded is not None and set(folded) == {"upper", "hand"}


def test_contact_of_meshes_is_as_pinocchio_finds_it(tmp_path: Path) -> None:
    """Another process reads the files, and their points take their places among the shapes."""
    urdf = package(tmp_path / "arm_description", "../meshes/{}.stl")
    for mesh in (tmp_path / "arm_description" / "meshes").iterdir():  # in millimetres, as many are
        half, middle = ((50, 50, 50), (0, 0, -50)) if mesh.stem == "base" else ((20, 20, 130), (0, 0, 150))
        box(mesh, half, middle)
    urdf.write_text(urdf.read_text().replace('.stl"', '.stl" scale="0.001 0.001 0.001"'))
    names = ("to_upper", "to_fore", "to_hand")
    shapes = LinkShapes(urdf, names)
    text = urdf.read_text().replace("../meshes", str(tmp_path / "arm_description" / "meshes"))
    model = pinocchio.buildModelFromXML(text)
    own = pinocchio.buildGeomFromUrdfString(model, text, pinocchio.GeometryType.COLLISION)
    own.addAllCollisionPairs()
    pairs = {("base", "fore"), ("base", "hand"), ("upper", "hand")}
    touched = 0
    for q in np.random.default_rng(0).uniform(-2.9, 2.9, (200, 3)):
        data, results = model.createData(), own.createData()
        pinocchio.computeCollisions(model, data, own, results, q, False)
        links = [shape.name.rpartition("_")[0] for shape in own.geometryObjects]
        found = zip(own.collisionPairs, results.collisionResults, strict=True)
        known = {(links[pair.first], links[pair.second]) for pair, one in found if one.isCollision()}
        assert set(shapes.touching(q)) == known & pairs
        touched += len(known & pairs)
    assert touched > 10


def test_a_mesh_in_millimetres_is_refused_and_switches_no_check_off(tmp_path: Path) -> None:
    urdf = package(tmp_path / "arm_description")
    names = ("to_upper", "to_fore", "to_hand")
    assert LinkShapes(urdf, names).pairs > 0
    box(tmp_path / "arm_description/meshes/upper.stl", (20.0, 20.0, 130.0), (0.0, 45.0, 150.0), (0.0, -30.0, -50.0))
    with pytest.raises(ConfigurationError, match=r"mesh of link upper is .* m long, .* give the mesh its scale"):
        LinkShapes(urdf, names)


@pytest.mark.slow
def test_contact_along_a_motion_is_that_of_the_meshes_and_not_of_their_hulls(tmp_path: Path) -> None:
    """The upper arm is a fork: what moves between its prongs is within its convex hull, and may touch nothing."""
    urdf = package(tmp_path / "arm_description")
    box(tmp_path / "arm_description/meshes/upper.stl", (0.02, 0.02, 0.13), (0.0, 0.045, 0.15), (0.0, -0.03, -0.05))
    drafted(urdf, tmp_path / "arm")
    robot = load_robot(tmp_path / "arm")
    collision, rng, seen = SelfCollision(robot), np.random.default_rng(2), {True: 0, False: 0}
    hulls, model = collision.convex_hulls(), collision.shapes[1]
    within = 0
    for end in rng.uniform((-1.0, 1.5, 1.5), (1.0, 2.8, 2.8), (40, 3)):
        motion = rest_to_rest("fold", robot.joint_names, np.array([0.0, 0.3, 0.3]), end, 3.0)
        times = np.arange(0.0, 3.0, 0.01)
        postures = motion.sample_all(times)[0]
        touched = np.array([collision.contact_at(q) is not None for q in postures])
        contact = collision.first_contact_along(motion.pieces())
        assert (contact is not None) == touched.any()
        if contact is not None:
            assert contact.time_s == pytest.approx(times[np.argmax(touched)], abs=0.1)
        else:
            data, results = model.createData(), hulls.createData()
            within += any(pinocchio.computeCollisions(model, data, hulls, results, q, True) for q in postures)
        seen[contact is not None] += 1
    assert min(seen.values()) >= 5 and within >= 3, (seen, within)


def test_a_flat_mesh_has_no_hull_and_is_checked_itself(tmp_path: Path) -> None:
    urdf = package(tmp_path / "arm_description")
    box(tmp_path / "arm_description/meshes/hand.stl", (0.02, 0.0, 0.13), (0.0, 0.0, 0.15))
    drafted(urdf, tmp_path / "arm")
    robot = load_robot(tmp_path / "arm")
    collision = SelfCollision(robot)
    motion = rest_to_rest("fold", robot.joint_names, np.array([0.0, 0.3, 0.3]), np.array([0.0, 2.0, 2.6]), 3.0)
    contact = collision.first_contact_along(motion.pieces())
    assert contact is not None and set(contact.links) == {"upper", "hand"}


@pytest.mark.slow
def test_a_finely_meshed_cylinder_is_bounded_by_its_box(tmp_path: Path) -> None:
    """Its caps are fans, whose centre has more neighbours than coal's convex shapes allow."""
    urdf, sides = package(tmp_path / "arm_description"), 360
    angles = np.linspace(0.0, 2.0 * np.pi, sides, endpoint=False)
    ring = 0.02 * np.column_stack([np.cos(angles), np.sin(angles)])
    low, high = (np.column_stack([ring, np.full(sides, z)]) for z in (0.02, 0.28))
    faces = [(low[k], low[k - 1], high[k]) for k in range(sides)] + [
        (high[k], low[k - 1], high[k - 1]) for k in range(sides)
    ]
    faces += [(low[0], low[k], low[k + 1]) for k in range(1, sides - 1)]
    faces += [(high[0], high[k + 1], high[k]) for k in range(1, sides - 1)]
    stl(tmp_path / "arm_description/meshes/hand.stl", np.array(faces))
    drafted(urdf, tmp_path / "arm")
    robot = load_robot(tmp_path / "arm")
    motion = rest_to_rest("fold", robot.joint_names, np.array([0.0, 0.3, 0.3]), np.array([0.0, 2.0, 2.6]), 3.0)
    contact = SelfCollision(robot).first_contact_along(motion.pieces())
    assert contact is not None and set(contact.links) == {"upper", "hand"}


@pytest.mark.slow
def test_missing_mesh_prevents_driving_and_names_its_place(tmp_path: Path) -> None:
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
        joint |= {"servo_id": k + 1, "servo_model": "A", "current_limit_a": 3.2}
    (folder / "robot.yaml").write_text(yaml.safe_dump(content))
    write_motions(load_robot(folder), folder)
    with pytest.raises(ConfigurationError, match=rf"hand\.stl is not there, .* put it at {lost}, "):
        SelfCollision(load_robot(folder))
    assert driving(folder).startswith("the mesh package://arm_description/meshes/hand.stl is not there")
    lost.write_bytes(kept)
    assert SelfCollision(load_robot(folder)).pairs > 0 and not driving(folder)


def driving(folder: Path) -> str:
    """Return the obstacles to driving the arm."""
    (use,) = (use for use in check_robot(load_robot(folder)).uses if use.name == "drive the arm")
    return use.missing


def test_names_that_lead_out_of_the_folder_are_written_within_it(tmp_path: Path) -> None:
    """The URDF is a stranger's: what it names may lie anywhere, and is copied into the robot's own folder only."""
    source = tmp_path / "a" / "b" / "arm_description"
    urdf = package(source, "../../{}.stl")
    box(tmp_path / "a" / "b" / "hand.stl", (0.02, 0.02, 0.13), (0.0, 0.0, 0.15))
    before = set(tmp_path.rglob("*"))
    folder = tmp_path / "x" / "y" / "arm"
    drafted(urdf, folder)
    new = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert folder / "meshes" / "hand.stl" in new
    assert all(folder in path.parents for path in new)


def test_only_meshes_are_copied(tmp_path: Path) -> None:
    """A robot's folder may be handed on, and a URDF could name a private key."""
    secret = tmp_path / "id_key"
    secret.write_text("private")
    urdf = package(tmp_path / "arm_description")
    urdf.write_text(urdf.read_text().replace("package://arm_description/meshes/hand.stl", f"file://{secret}"))
    drafted(urdf, tmp_path / "arm")
    assert not list((tmp_path / "arm").rglob("id_key"))
    assert len(list((tmp_path / "arm").rglob("*.stl"))) == 3


@pytest.mark.slow
def test_two_names_of_one_mesh_are_one_copy_and_two_meshes_of_one_name_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "arm_description"
    urdf = package(source, "../meshes/{}.stl")
    text = urdf.read_text()
    urdf.write_text(text.replace("../meshes/hand.stl", "./../meshes/fore.stl"))
    drafted(urdf, tmp_path / "one")
    assert len(list((tmp_path / "one").rglob("fore.stl"))) == 1
    box(source / "urdf" / "meshes" / "fore.stl", (0.01, 0.01, 0.01), (0.0, 0.0, 0.0))
    urdf.write_text(text.replace("../meshes/hand.stl", "meshes/fore.stl"))
    with pytest.raises(ConfigurationError, match=r"two meshes for meshes/meshes/fore\.stl, .*: rename one of them"):
        drafted(urdf, tmp_path / "two")
    assert not (tmp_path / "two").exists()
