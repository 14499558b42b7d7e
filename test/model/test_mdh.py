"""Geometry: modified DH frames against the URDF's own forward kinematics."""

import numpy as np
import pytest

from dynid.errors import ConfigurationError, UnknownNameError
from dynid.model.chain import SerialChain, pinocchio_chain_model
from dynid.model.mdh import common_normal, derive_mdh
from dynid.robot import load_robot


def urdf_of(*joints: tuple[str, str, str, str]) -> str:
    """A URDF chain from (name, xyz, rpy, axis) rows."""
    text = '<robot name="t"><link name="l0"/>'
    for k, (name, xyz, rpy, axis) in enumerate(joints):
        text += (
            f'<link name="l{k + 1}"><inertial><mass value="1"/>'
            f'<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>'
            f'<joint name="{name}" type="revolute"><parent link="l{k}"/><child link="l{k + 1}"/>'
            f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>'
            f'<limit lower="-3" upper="3" effort="1" velocity="1"/></joint>'
        )
    return text + "</robot>"


def chain_of(*joints: tuple[str, str, str, str]) -> SerialChain:
    return SerialChain(pinocchio_chain_model(urdf_of(*joints), tuple(j[0] for j in joints)))


def assert_same_kinematics(chain: SerialChain) -> None:
    mdh = derive_mdh(chain)
    rng = np.random.default_rng(1)
    for q in rng.uniform(-3, 3, (100, chain.size)):
        np.testing.assert_allclose(mdh.placements(q), chain.placements(q) @ mdh.in_link, atol=1e-9)


def test_crane_x7_parameters_are_the_known_ones() -> None:
    mdh = derive_mdh(SerialChain.from_robot(load_robot("crane_x7")))
    np.testing.assert_allclose(np.rad2deg(mdh.alpha), [0, -90, 90, -90, 90, -90, 90], atol=1e-9)
    np.testing.assert_allclose(mdh.r, [0, 0, 0.25, 0, 0.25, 0, 0], atol=1e-12)
    np.testing.assert_allclose(mdh.d, 0, atol=1e-12)
    np.testing.assert_allclose(mdh.offset, 0, atol=1e-12)


def test_crane_x7_agrees_with_the_urdf_at_100_poses() -> None:
    assert_same_kinematics(SerialChain.from_robot(load_robot("crane_x7")))


@pytest.mark.parametrize(
    "joints",
    [
        [
            ("a", "0 0 0.3", "0 0 0", "0 0 1"),
            ("b", "0.4 0 0", "0 0 0", "0 0 1"),
            ("c", "0.3 0.1 0.2", "0 0 0", "0 0 1"),
        ],
        [
            ("a", "0 0 0.1", "0 0 0", "0 0 1"),
            ("b", "0.1 0.2 0.3", "0.3 0.4 0.5", "0 1 0"),
            ("c", "0 0.2 0.1", "1 0 2", "1 0 0"),
        ],
        [
            ("a", "0 0 0", "0 0 0", "0 1 0"),
            ("b", "0 0.2 0", "0 0 0", "0 1 0"),
            ("c", "0.3 0 0", "0 0 0.7", "0 -0.6 0.8"),
        ],
    ],
    ids=["parallel", "skew", "coincident axes"],
)
def test_other_geometries_agree_with_their_urdf(joints: list[tuple[str, str, str, str]]) -> None:
    assert_same_kinematics(chain_of(*joints))


def test_length_override_changes_only_that_length() -> None:
    mdh = derive_mdh(SerialChain.from_robot(load_robot("crane_x7")))
    shorter = mdh.with_lengths({"r3": 0.24})
    assert shorter.r[2] == 0.24
    np.testing.assert_array_equal(np.delete(shorter.r, 2), np.delete(mdh.r, 2))
    with pytest.raises(UnknownNameError, match="r9"):
        mdh.with_lengths({"r9": 0.1})


def test_common_normal_is_perpendicular_and_shortest() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        p1, p2, z1, z2 = rng.normal(size=(4, 3))
        z1, z2 = z1 / np.linalg.norm(z1), z2 / np.linalg.norm(z2)
        foot, distance, direction = common_normal(p1, z1, p2, z2)
        other = foot + distance * direction
        assert abs(direction @ z1) < 1e-9 and abs(direction @ z2) < 1e-9
        np.testing.assert_allclose(np.cross(other - p2, z2), 0, atol=1e-9)


def test_a_urdf_with_a_doctype_is_refused(tmp_path) -> None:
    from dynid.robot.urdf_text import read_urdf_text

    path = tmp_path / "evil.urdf"
    path.write_text('<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="&x;"/>')
    with pytest.raises(ConfigurationError, match="DOCTYPE"):
        read_urdf_text(path)


def test_a_missing_joint_is_named() -> None:
    with pytest.raises(ConfigurationError, match="no joint b"):
        pinocchio_chain_model(urdf_of(("a", "0 0 0", "0 0 0", "0 0 1")), ("a", "b"))


@pytest.mark.parametrize("kinds", ["prr", "rpr", "rrp", "ppr", "ppp"])
def test_prismatic_joints_agree_with_their_urdf(kinds: str) -> None:
    joints = [
        ("a", "0 0 0.1", "0.2 0 0", "0 0.6 0.8"),
        ("b", "0.1 0.2 0.3", "0.3 0.4 0.5", "0 1 0"),
        ("c", "0 0.2 0.1", "1 0 2", "1 0 0"),
    ]
    text = urdf_of(*joints)
    for (name, *_), kind in zip(joints, kinds, strict=True):
        if kind == "p":
            text = text.replace(f'name="{name}" type="revolute"', f'name="{name}" type="prismatic"')
    chain = SerialChain(pinocchio_chain_model(text, ("a", "b", "c")))
    assert derive_mdh(chain).prismatic == tuple(kind == "p" for kind in kinds)
    assert_same_kinematics(chain)


def test_a_continuous_joint_turns_like_a_revolute_one() -> None:
    joint = ("a", "0 0 0.1", "0.3 0 0", "0 0 1")
    text = urdf_of(joint).replace('type="revolute"', 'type="continuous"')
    turning = SerialChain(pinocchio_chain_model(text, ("a",)))
    np.testing.assert_allclose(turning.placements(np.array([2.0])), chain_of(joint).placements(np.array([2.0])))
