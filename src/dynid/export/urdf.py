"""Export of an identified model as URDF: the robot's own file with inertials, damping and friction replaced.

A URDF cannot hold springs or rotor inertias, although rotors cause most of the inertia at the wrist joints of small
geared arms. A comment in the file states this. `rotor_inertias` returns the rotor inertias as the text of a separate
file, and the MuJoCo export holds them as armature.
"""

import xml.etree.ElementTree as ElementTree  # safe: DOCTYPEs are refused before parsing

from dynid.errors import ConfigurationError
from dynid.model.mdh import MdhChain
from dynid.model.parameters import StandardParameters
from dynid.model.springs import is_spring
from dynid.model.standard import LinkInertia, six, springs_among, to_link_frame
from dynid.resources import yaml_text
from dynid.robot import Robot
from dynid.robot.urdf_text import read_urdf_text

TOKEN_MASS_KG = 1e-9  # mass of links of a decoupled axis, such as fingers; the carrying link includes their mass
TOKEN_INERTIA_KG_M2 = 1e-12

WARNING = (
    " Rotor inertias are NOT in this file (a URDF cannot hold them): {listing} [kg m^2]. Simulators need them as "
    "armature; without them the inertia of the wrist is wrong by an order of magnitude. "
)


def _number(value: float) -> str:
    return f"{value:.10g}"


def _inertial_element(body: LinkInertia) -> ElementTree.Element:
    """Return the <inertial> element of a link."""
    inertial = ElementTree.Element("inertial")
    ElementTree.SubElement(inertial, "origin", xyz=" ".join(map(_number, body.centre_of_mass)), rpy="0 0 0")
    ElementTree.SubElement(inertial, "mass", value=_number(body.mass))
    names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    ElementTree.SubElement(inertial, "inertia", dict(zip(names, map(_number, six(body.inertia)), strict=True)))
    return inertial


def _replace_inertial(link: ElementTree.Element, inertial: ElementTree.Element | None) -> None:
    for old in link.findall("inertial"):
        link.remove(old)
    if inertial is not None:
        link.insert(0, inertial)


def _set_dynamics(joint: ElementTree.Element, damping: float, friction: float) -> None:
    for old in joint.findall("dynamics"):
        joint.remove(old)
    ElementTree.SubElement(joint, "dynamics", damping=_number(damping), friction=_number(friction))


def _carried_links(root: ElementTree.Element, link: str, chain: set[str]) -> list[tuple[str, bool]]:
    """Return the links that a link carries: all links that are connected to it by joints outside the model's chain.

    Args:
        root: root element of the URDF.
        link: name of the carrying link.
        chain: names of the joints of the model's kinematic chain, which excludes decoupled axes such as a gripper's.

    Returns:
        Names of the carried links, each with a flag whether it is connected to `link` by fixed joints only.
    """
    found: list[tuple[str, bool]] = []
    pending = [(link, True)]
    while pending:
        parent, fixed = pending.pop()
        for joint in root.findall("joint"):
            if joint.find("parent") is None or joint.get("name") in chain:
                continue
            if joint.find("parent").get("link") == parent:  # type: ignore[union-attr]
                child = (str(joint.find("child").get("link")), fixed and joint.get("type") == "fixed")  # type: ignore[union-attr]
                found.append(child)
                pending.append(child)
    return found


def identified_urdf(robot: Robot, mdh: MdhChain, standard: StandardParameters, note: str = "") -> str:
    """Return the robot's URDF with identified inertials, damping and friction.

    The identified parameters of a link of the model's chain include all links that it carries. So the inertials of
    links that are fixed to it are removed. Carried links that can move, such as fingers, get a negligible mass.

    Args:
        robot: the robot.
        mdh: geometry of the chain.
        standard: identified standard parameters in the modified DH frames.
        note: text that is appended to the comment at the top of the file.

    Raises:
        ConfigurationError: the URDF lacks a joint of the robot, or is not XML.
    """
    try:
        root = ElementTree.fromstring(read_urdf_text(robot.urdf_path))  # noqa: S314 - no DOCTYPE gets here
    except ElementTree.ParseError as error:
        raise ConfigurationError(f"{robot.urdf_path} is not XML: {error}") from error
    links = {link.get("name"): link for link in root.findall("link")}
    joints = {joint.get("name"): joint for joint in root.findall("joint")}
    missing = [name for name in robot.joint_names if name not in joints]
    if missing:
        raise ConfigurationError(f"{robot.urdf_path} has no joint {', '.join(missing)}")
    viscous, coulomb = standard.axis("FV"), standard.axis("FC")
    chain = set(robot.joint_names[: robot.chain_size])
    for j, name in enumerate(robot.joint_names):
        _set_dynamics(joints[name], float(viscous[j]), float(coulomb[j]))
        if j >= robot.chain_size:
            continue
        child = str(joints[name].find("child").get("link"))  # type: ignore[union-attr]
        _replace_inertial(links[child], _inertial_element(to_link_frame(standard.link(j), mdh.in_link[j])))
        for carried, fixed in _carried_links(root, child, chain):
            _replace_inertial(links[carried], None if fixed else _token_inertial())
    comment = WARNING.format(listing=_listing(robot, standard)) + _left_out(robot, standard)
    root.insert(0, ElementTree.Comment(f"{comment}{note} " if note else comment))
    ElementTree.indent(root)
    return '<?xml version="1.0"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _token_inertial() -> ElementTree.Element:
    inertial = ElementTree.Element("inertial")
    ElementTree.SubElement(inertial, "mass", value=_number(TOKEN_MASS_KG))
    token = _number(TOKEN_INERTIA_KG_M2)
    ElementTree.SubElement(inertial, "inertia", ixx=token, ixy="0", ixz="0", iyy=token, iyz="0", izz=token)
    return inertial


def _left_out(robot: Robot, standard: StandardParameters) -> str:
    """Return sentences on friction terms and springs that a URDF cannot hold; '' if there are none."""
    names, values = (one[10 * robot.chain_size + 3 * robot.size :] for one in (standard.names, standard.values))
    extra = [f"{name} {value:.6g}" for name, value in zip(names, values, strict=True) if not is_spring(name)]
    sentence = (
        f"Offsets, Stribeck friction and friction of coupled motors are not either: {', '.join(extra)}. "
        if extra
        else ""
    )
    if springs := springs_among(robot, standard):
        formulas = (one.words(robot.joint_names[one.joint], robot.prismatic[one.joint]) for one in springs)
        sentence += (
            f"Springs are NOT in this file either: {'; '.join(formulas)}. Without them a simulated motor carries what "
            "they carry. "
        )
    return sentence


def _listing(robot: Robot, standard: StandardParameters) -> str:
    pairs = zip(robot.joint_names, standard.axis("IA"), strict=True)
    return ", ".join(f"{name} {value:.6g}" for name, value in pairs)


def rotor_inertias(robot: Robot, standard: StandardParameters) -> str:
    """Return the content of a YAML file with the rotor inertia of each joint [kg m^2; kg if prismatic].

    The file supplements the URDF, which cannot hold rotor inertias.
    """
    values = dict(zip(robot.joint_names, map(float, standard.axis("IA")), strict=True))
    head = "# rotor inertias [kg m^2; kg where a joint slides] for the URDF in this folder; use them as armature\n"
    return head + yaml_text({"rotor_inertia_kg_m2": values})
