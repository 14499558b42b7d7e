"""Tree of a URDF's joints and links, with checks that it is a tree and that given joints form a serial chain.

The checks are needed because pinocchio accepts URDFs with closed loops without an error.
"""

import itertools
import xml.etree.ElementTree as ElementTree  # DOCTYPEs, the way to external entities, are refused before parsing
from collections.abc import Sequence
from dataclasses import dataclass

from dynid.errors import ConfigurationError

MOVABLE = ("revolute", "continuous", "prismatic")
FIXED = "fixed"
MOST_LINKS, LONGEST_CHAIN = 1000, 64  # a humanoid with hands has some 100 links


@dataclass(frozen=True)
class UrdfJoint:
    """A joint of a URDF.

    Attributes:
        name: name of the joint.
        kind: type in the URDF, such as "revolute" or "fixed".
        parent: name of the parent link.
        child: name of the child link.
        lower: lower limit [rad or m]; None if the URDF gives none.
        upper: upper limit [rad or m]; None if the URDF gives none.
        velocity: speed limit [rad/s or m/s]; None if the URDF gives none.
        effort: torque or force limit [N m or N]; None if the URDF gives none.
        mimics: name of the joint that this joint follows (`<mimic>`); None if it follows none.
    """

    name: str
    kind: str
    parent: str
    child: str
    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    effort: float | None = None
    mimics: str | None = None

    @property
    def movable(self) -> bool:
        """Whether the joint moves independently: it is not fixed and does not follow another joint."""
        return self.kind != FIXED and self.mimics is None


@dataclass(frozen=True)
class UrdfTree:
    """Tree of all joints and links of a URDF, with the XML element that contains them.

    The root is the only link that is not the child of a joint.
    """

    name: str
    root: str
    links: tuple[str, ...]
    joints: tuple[UrdfJoint, ...]
    element: ElementTree.Element

    def joint(self, name: str) -> UrdfJoint:
        """Return a joint by its name.

        Raises:
            ConfigurationError: the URDF has no joint of this name.
        """
        for joint in self.joints:
            if joint.name == name:
                return joint
        raise ConfigurationError(f"the URDF has no joint {name}; it has {', '.join(j.name for j in self.joints)}")

    def path_to(self, link: str) -> list[UrdfJoint]:
        """Return the joints on the path from the root to a link, in order from the root."""
        above = {joint.child: joint for joint in self.joints}
        path: list[UrdfJoint] = []
        while link in above:
            path.insert(0, above[link])
            link = above[link].parent
        return path

    def refuse_no_chain(self, names: Sequence[str]) -> None:
        """Raise ConfigurationError if the joints with these names do not form one serial chain in this order."""
        if len(names) > LONGEST_CHAIN:
            raise ConfigurationError(
                f"the chain has {len(names)} joints, expected at most {LONGEST_CHAIN}: choose its last link"
            )
        for before, name in zip((None, *names), names, strict=False):
            joint = self.joint(name)
            if joint.kind not in MOVABLE:
                raise ConfigurationError(
                    f"joint {name} is {joint.kind}; expected {', '.join(MOVABLE)}: remove it from the robot's joints"
                )
            above = [one.name for one in self.path_to(joint.parent) if one.name in names]
            if above != list(names[: names.index(name)]):
                carried = f"is carried by {above[-1]}" if above else "is carried by no other"
                wanted = "first" if before is None else f"carried by {before}"
                raise ConfigurationError(
                    f"the joints are not one serial chain: {name} {carried}, expected {wanted} in the order "
                    f"{', '.join(names)}. dynid handles serial chains only: choose one branch, or list the joint as "
                    "decoupled"
                )


def _number(element: ElementTree.Element | None, key: str, joint: str) -> float | None:
    text = None if element is None else element.get(key)
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"joint {joint} of the URDF has limit {key} '{text}', expected a number") from None


def _joint(element: ElementTree.Element) -> UrdfJoint:
    name, kind = element.get("name") or "", element.get("type") or ""
    parent, child = element.find("parent"), element.find("child")
    if not name or not kind or parent is None or child is None:
        raise ConfigurationError(f"joint '{name}' of the URDF lacks its name, type, parent or child")
    limit, mimic = element.find("limit"), element.find("mimic")
    values = {key: _number(limit, key, name) for key in ("lower", "upper", "velocity", "effort")}
    if kind not in ("fixed", "floating"):  # exporters write a zero axis for these kinds
        _refuse_no_axis(element, name)
    mimics = None if mimic is None else mimic.get("joint")
    return UrdfJoint(name, kind, parent.get("link") or "", child.get("link") or "", **values, mimics=mimics)


def _refuse_no_axis(element: ElementTree.Element, joint: str) -> None:
    """Raise ConfigurationError if the axis of a joint element is not three finite numbers, or has zero length.

    `joint` is the name of the joint.
    """
    axis = element.find("axis")
    text = None if axis is None else axis.get("xyz")
    if text is None:
        return
    try:
        numbers = [float(one) for one in text.split()]
    except ValueError:
        numbers = []
    if len(numbers) != 3 or not 0.0 < sum(one * one for one in numbers) < float("inf"):
        raise ConfigurationError(f"joint {joint} of the URDF has axis xyz '{text}', expected three numbers, not all 0")


def read_tree(urdf_text: str, file: str = "the text") -> UrdfTree:
    """Parse the text of a URDF to a tree; `file` is the file's name in error messages.

    Raises:
        ConfigurationError: the text is not a URDF, a link is missing or duplicate, or links form a loop or several
            trees.
    """
    try:
        element = ElementTree.fromstring(urdf_text)  # noqa: S314 - no DOCTYPE gets here
    except ElementTree.ParseError as error:
        raise ConfigurationError(f"{file} is not a valid URDF: {error}") from error
    if element.tag != "robot":
        raise ConfigurationError(
            f"{file} is not a valid URDF: the outermost element is <{element.tag}>, expected <robot>"
        )
    links = tuple(link.get("name") or "" for link in element.findall("link"))
    if len(links) > MOST_LINKS:
        raise ConfigurationError(f"{file} has {len(links)} links, expected at most {MOST_LINKS}: cut out the arm")
    # <joint> below <transmission> or <gazebo> only refers to a joint
    joints = tuple(_joint(one) for one in element.findall("joint"))
    _refuse_no_tree(links, joints)
    children = {joint.child for joint in joints}
    roots = [link for link in links if link not in children]
    if len(roots) != 1:
        raise ConfigurationError(f"the URDF has {len(roots)} root links ({', '.join(roots)}), expected one")
    tree = UrdfTree(element.get("name") or "", roots[0], links, joints, element)
    reached, above = {roots[0]}, {joint.child: joint.parent for joint in joints}
    for link in links:
        way = [link]
        while way[-1] not in reached and len(way) <= len(links):
            way.append(above[way[-1]])
        if way[-1] not in reached:
            raise ConfigurationError(
                f"the URDF has a closed loop: link {link} is its own ancestor, and the root {tree.root} is not an "
                "ancestor"
            )
        reached.update(way)
    return tree


def _refuse_no_tree(links: Sequence[str], joints: Sequence[UrdfJoint]) -> None:
    """Raise ConfigurationError for duplicate names, missing links, and links with two parent joints."""
    for kind, names in (("link", list(links)), ("joint", [joint.name for joint in joints])):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f"the URDF has the {kind} {', '.join(twice)} more than once")
    carried: dict[str, str] = {}
    for joint in joints:
        for link in (joint.parent, joint.child):
            if link not in links:
                raise ConfigurationError(
                    f"joint {joint.name} of the URDF names the link '{link}', which does not exist"
                )
        if joint.child in carried:
            raise ConfigurationError(
                f"the URDF has a closed loop: link {joint.child} is carried by the joints {carried[joint.child]} and "
                f"{joint.name}. dynid identifies serial chains: open the loop, or model the arm by its driven chain"
            )
        carried[joint.child] = joint.name


def with_limited_turns(tree: UrdfTree) -> str:
    """Replace continuous joints in the tree by revolute joints with wide limits; return the URDF text.

    The replacement gives pinocchio's model one position variable per joint: pinocchio represents a continuous joint by
    two variables, and a revolute joint by one.
    """
    for element in tree.element.findall("joint"):
        if element.get("type") == "continuous":
            element.set("type", "revolute")
            limit = element.find("limit")
            if limit is None:
                limit = ElementTree.SubElement(element, "limit")
            for key, default in (("lower", "-1e3"), ("upper", "1e3"), ("effort", "0"), ("velocity", "0")):
                limit.set(key, limit.get(key, default))
    return ElementTree.tostring(tree.element, encoding="unicode")


def rename_links_of_joints(tree: UrdfTree) -> None:
    """Rename every link that has the same name as a joint, in the tree's XML element.

    pinocchio has frames for both links and joints, and cannot distinguish equal names when it reduces a model.
    """
    taken = {*tree.links, *(joint.name for joint in tree.joints)}
    for name in set(tree.links) & {joint.name for joint in tree.joints}:
        other = next(one for k in itertools.count() if (one := f"{name}_link{k or ''}") not in taken)
        taken.add(other)
        for path, key in (("link", "name"), ("joint/parent", "link"), ("joint/child", "link")):
            for element in tree.element.findall(path):
                if element.get(key) == name:
                    element.set(key, other)
