"""URDFs that are no serial chain are refused with the names of the joints concerned."""

from collections.abc import Sequence

import pytest

from dynid.errors import ConfigurationError
from dynid.model.chain import pinocchio_chain_model
from dynid.robot.urdf_tree import read_tree


def urdf(*joints: tuple[str, str, str, str], links: Sequence[str] = "abcd") -> str:
    """A URDF of joints (name, type, parent, child)."""
    text = '<robot name="t">' + "".join(f'<link name="{link}"/>' for link in links)
    for name, kind, parent, child in joints:
        text += (
            f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><axis xyz="0 0 1"/>'
            '<limit lower="-1" upper="1" effort="2" velocity="3"/></joint>'
        )
    return text + "</robot>"


CHAIN = (("1", "revolute", "a", "b"), ("2", "fixed", "b", "c"), ("3", "prismatic", "c", "d"))


def test_a_chain_with_fixed_joints_between_is_a_chain() -> None:
    tree = read_tree(urdf(*CHAIN))
    tree.refuse_no_chain(("1", "3"))
    assert (tree.root, [joint.name for joint in tree.path_to("d")]) == ("a", ["1", "2", "3"])
    assert (tree.joint("3").effort, tree.joint("3").velocity, tree.joint("3").lower) == (2.0, 3.0, -1.0)
    assert pinocchio_chain_model(urdf(*CHAIN), ("1", "3")).nq == 2


@pytest.mark.parametrize("axis", ["0 0 0", "0 0", "x y z", "nan 0 1", ""])
def test_an_axis_that_points_nowhere_is_one_sentence(axis: str) -> None:
    text = urdf(*CHAIN).replace('<axis xyz="0 0 1"/>', f'<axis xyz="{axis}"/>', 1)
    with pytest.raises(ConfigurationError, match=f"joint 1 of the URDF has axis xyz '{axis}', expected three numbers"):
        pinocchio_chain_model(text, ("1", "3"))


def test_a_fixed_joint_needs_no_axis() -> None:
    text = urdf(CHAIN[1], CHAIN[0], CHAIN[2]).replace('<axis xyz="0 0 1"/>', '<axis xyz="0 0 0"/>', 1)
    assert pinocchio_chain_model(text, ("1", "3")).nq == 2


def test_links_may_have_the_names_of_joints() -> None:
    """As the fixed joint and the link "gripperStator" of Unitree's Z1."""
    plain = urdf(*CHAIN)
    same = urdf(("b", "revolute", "a", "b"), ("d", "fixed", "b", "c"), ("a", "prismatic", "c", "d"))
    found, expected = pinocchio_chain_model(same, ("b", "a")), pinocchio_chain_model(plain, ("1", "3"))
    assert list(found.names) == ["universe", "b", "a"]
    assert [joint.shortname() for joint in found.joints] == [joint.shortname() for joint in expected.joints]
    taken = urdf(("b", "revolute", "a", "b"), ("c", "fixed", "b", "b_link"), links=["a", "b", "b_link"])
    assert pinocchio_chain_model(taken, ("b",)).nq == 1


@pytest.mark.parametrize(
    ("text", "names", "words"),
    [
        (urdf(*CHAIN), ("3", "1"), "3 is carried by 1, expected first"),
        (urdf(*CHAIN), ("1", "2", "3"), "joint 2 is fixed"),
        (
            urdf(("1", "revolute", "a", "b"), ("2", "revolute", "a", "c"), ("3", "revolute", "a", "d")),
            ("1", "2"),
            "2 is carried by no other, expected carried by 1 .* branch",
        ),
        (
            urdf(("1", "revolute", "a", "b"), ("2", "revolute", "b", "c"), ("3", "revolute", "a", "c"), links="abc"),
            ("1", "2"),
            "closed loop: link c is carried by the joints 2 and 3",
        ),
        (urdf(("1", "revolute", "a", "b"), links="abc"), ("1",), r"2 root links \(a, c\)"),
        (urdf(("1", "revolute", "a", "b"), ("1", "revolute", "b", "c"), links="abc"), ("1",), "joint 1 more than once"),
        (urdf(("1", "revolute", "a", "x"), links="ab"), ("1",), "names the link 'x'"),
        (urdf(("1", "planar", "a", "b"), links="ab"), ("1",), "joint 1 is planar"),
        (urdf(("1", "revolute", "a", "b"), links="ab").replace('effort="2"', 'effort="two"'), ("1",), "effort 'two'"),
        ("<robot><link", ("1",), "not a valid URDF"),
        ("<sdf/>", ("1",), "outermost element is <sdf>"),
        ('<robot name="t"><joint name="1" type="fixed"/></robot>', ("1",), "joint '1' of the URDF lacks"),
    ],
)
def test_non_serial_joints_are_named(text: str, names: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        pinocchio_chain_model(text, names)
