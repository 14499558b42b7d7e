"""Boxes around links from robot.yaml, from the URDF's shapes and meshes, or from joint distances."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from dynid.errors import ConfigurationError
from dynid.model.dynamics import ArmModel
from dynid.robot import load_robot
from dynid.robot.file import LinkBounds
from dynid.robot.link_limits import LEAST_MARGIN_M, SHAPE_MARGIN_M, find_mesh, shape_boxes

JOINT = (
    '<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="{at}" '
    'rpy="{turn}"/><axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
)


def joint(name: str, parent: str, child: str, at: str = "0 0 0", kind: str = "revolute", turn: str = "0 0 0") -> str:
    return JOINT.format(name=name, parent=parent, child=child, at=at, kind=kind, turn=turn)


def shape(inner: str, kind: str = "collision", xyz: str = "0 0 0", rpy: str = "0 0 0") -> str:
    return f'<{kind}><origin xyz="{xyz}" rpy="{rpy}"/><geometry>{inner}</geometry></{kind}>'


def urdf(folder: Path, links: dict[str, str], *joints: str) -> Path:
    path = folder / "arm.urdf"
    bodies = "".join(f'<link name="{name}">{shapes}</link>' for name, shapes in links.items())
    path.write_text(f'<robot name="t">{bodies}{"".join(joints)}</robot>')
    return path


ONE = joint("1", "base", "a")


@pytest.mark.parametrize(
    ("inner", "rpy", "half"),
    [
        ('<box size="0.2 0.4 0.6"/>', "0 0 0", (0.1, 0.2, 0.3)),
        ('<box size="0.2 0.4 0.6"/>', "0 0 1.5707963267948966", (0.2, 0.1, 0.3)),
        ('<sphere radius="0.25"/>', "0.3 0.4 0.5", (0.25, 0.25, 0.25)),
        ('<cylinder radius="0.1" length="0.6"/>', "0 0 0", (0.1, 0.1, 0.3)),
        ('<cylinder radius="0.1" length="0.6"/>', "0 1.5707963267948966 0", (0.3, 0.1, 0.1)),
        ('<capsule radius="0.1" length="0.6"/>', "1.5707963267948966 0 0", (0.1, 0.4, 0.1)),
    ],
)
def test_boxes_enclose_turned_primitive_shapes(tmp_path: Path, inner: str, rpy: str, half: tuple[float, ...]) -> None:
    path = urdf(tmp_path, {"base": "", "a": shape(inner, xyz="1 2 3", rpy=rpy)}, ONE)
    (found,) = shape_boxes(path, ("1",))
    np.testing.assert_allclose(found[1], np.array([1, 2, 3]) + half + SHAPE_MARGIN_M, atol=1e-9)
    lowest = np.minimum(np.array([1, 2, 3]) - half, 0.0)  # the joint's origin is inside
    np.testing.assert_allclose(found[0], lowest - SHAPE_MARGIN_M, atol=1e-9)


def test_shapes_fixed_to_a_link_are_part_of_its_box(tmp_path: Path) -> None:
    """A tool at a fixed joint, a drawn cover, and the next joint's origin."""
    ball = '<sphere radius="0.1"/>'
    path = urdf(
        tmp_path,
        {"base": shape(ball), "a": shape(ball) + shape(ball, "visual", "0 -1 0"), "tool": shape(ball), "b": ""},
        ONE,
        joint("hold", "a", "tool", "0 0 2", "fixed", "1.5707963267948966 0 0"),
        joint("2", "a", "b", "3 0 0"),
    )
    first, second = shape_boxes(path, ("1", "2"))
    np.testing.assert_allclose(first, [[-0.12, -1.12, -0.12], [3.02, 0.12, 2.12]], atol=1e-9)
    assert second == "no shapes in the URDF"


def stl(path: Path, points: np.ndarray) -> None:
    """A mesh of one triangle per three points, in the binary format."""
    triangles = np.zeros(len(points) // 3, dtype=[("normal", "<f4", 3), ("points", "<f4", (3, 3)), ("more", "<u2")])
    triangles["points"] = points.reshape(-1, 3, 3)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(80) + np.uint32(len(triangles)).tobytes() + triangles.tobytes())


POINTS = np.array([[0, 0, 0], [100, 0, 0], [0, 200, 0], [0, 0, -300], [100, 0, 0], [0, 200, 0]], dtype=float)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["part.stl", "meshes/part.stl", "package://arm_description/meshes/part.stl"])
def test_boxes_enclose_scaled_meshes(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "arm_description" / "urdf"
    stl(folder / name if "//" not in name else tmp_path / "arm_description" / "meshes" / "part.stl", POINTS)
    mesh = shape(f'<mesh filename="{name}" scale="0.001 0.001 0.001"/>')
    folder.mkdir(exist_ok=True)
    (found,) = shape_boxes(urdf(folder, {"base": "", "a": mesh}, ONE), ("1",))
    np.testing.assert_allclose(found, [[-0.02, -0.02, -0.32], [0.12, 0.22, 0.02]], atol=1e-6)


def test_packages_are_looked_for_where_ros_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stl(tmp_path / "install" / "share" / "arm" / "part.stl", POINTS)
    with pytest.raises(ConfigurationError, match=r"package://arm/part\.stl is not there"):
        find_mesh("package://arm/part.stl", tmp_path / "work")
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere:{tmp_path / 'install'}")
    assert find_mesh("package://arm/part.stl", tmp_path / "work").is_file()


def test_shapes_that_cannot_be_read_do_not_count(tmp_path: Path) -> None:
    """Half of a link's shapes would make the box too small; the other kind of shapes may still be whole."""
    missing = shape('<mesh filename="nothing.stl"/>', "visual")
    bodies = {"base": "", "a": missing + shape('<sphere radius="0.1"/>', "visual", "5 0 0")}
    assert shape_boxes(urdf(tmp_path, bodies, ONE), ("1",)) == ["the mesh nothing.stl is not there"]
    bodies["a"] += shape('<sphere radius="0.3"/>')
    np.testing.assert_allclose(shape_boxes(urdf(tmp_path, bodies, ONE), ("1",))[0][1], [0.32] * 3)
    (tmp_path / "broken.stl").write_text("no mesh")
    (said,) = shape_boxes(urdf(tmp_path, {"base": "", "a": shape('<mesh filename="broken.stl"/>')}, ONE), ("1",))
    assert "cannot be read" in said
    (said,) = shape_boxes(urdf(tmp_path, {"base": "", "a": shape('<box size="1 2"/>')}, ONE), ("1",))
    assert said == "a shape of the URDF has '1 2', expected 3 numbers"


def test_without_shapes_boxes_reach_from_joint_to_joint() -> None:
    robot = load_robot("planar_3r")
    model, bounds = ArmModel.of(robot), robot.file.physical_bounds
    limits = model.limits(bounds)
    assert limits.sources == {"joint distances, no shapes in the URDF": [1, 2, 3]}
    margin = max(LEAST_MARGIN_M, 0.15 * (0.3 + 0.25))
    np.testing.assert_allclose(limits.links[0].box[1][0], max(0.3, bounds.links[0].centre_of_mass_upper_m[0]) + margin)


def test_a_given_box_wins_and_boxes_of_the_shipped_arm_are_its_shapes() -> None:
    robot = load_robot("crane_x7")
    model, bounds = ArmModel.of(robot), robot.file.physical_bounds
    assert model.limits(bounds).sources == {"the URDF's shapes": [1, 2, 3, 4, 5, 6, 7]}
    given = bounds.links[0].model_copy(update={"box_lower_m": (-1.0, -1.0, -1.0), "box_upper_m": (1.0, 1.0, 2.0)})
    limits = model.limits(bounds.model_copy(update={"links": (given, *bounds.links[1:])}))
    assert limits.links[0].source == "robot.yaml" and limits.links[0].box[1].tolist() == [1.0, 1.0, 2.0]


def test_incomplete_or_impossible_boxes_are_refused() -> None:
    centre = {"centre_of_mass_lower_m": (0, 0, 0), "centre_of_mass_upper_m": (1, 1, 1)}
    with pytest.raises(ValidationError, match="belong together"):
        LinkBounds(**centre, box_lower_m=(0, 0, 0))
    with pytest.raises(ValidationError, match="must be below"):
        LinkBounds(**centre, box_lower_m=(0, 0, 0), box_upper_m=(1, 0, 1))
    robot = load_robot("crane_x7")
    bounds = robot.file.physical_bounds
    apart = bounds.links[0].model_copy(update={"box_lower_m": (1.0, 1.0, 1.0), "box_upper_m": (2.0, 2.0, 2.0)})
    with pytest.raises(ConfigurationError, match=r"link 1: the box .* \(robot.yaml\) has no room"):
        ArmModel.of(robot).limits(bounds.model_copy(update={"links": (apart, *bounds.links[1:])}))
