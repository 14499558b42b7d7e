"""The robot description: xacro and plain URDF agree with each other, robot.yaml and three readers."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import mujoco
import numpy as np
import pinocchio
import pytest
import xacro
import yaml

from dynid.documents import read_yaml
from dynid.resources import share_folder
from dynid.robot import load_robot

FOLDER = share_folder() / "urdf" / "crane_x7"
XACRO = FOLDER / "crane_x7.urdf.xacro"
URDF = FOLDER / "crane_x7.urdf"
ORIGIN_Z_M = (0.036, 0.064, 0.065, 0.185, 0.121, 0.129, 0.019)


def expand(**arguments: str) -> ElementTree.Element:
    return ElementTree.fromstring(xacro.process_file(str(XACRO), mappings=arguments).toxml())


def elements(root: ElementTree.Element) -> list[tuple[str, dict[str, str]]]:
    return [(element.tag, dict(element.attrib)) for element in root.iter()]


def joints(root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    return {joint.attrib["name"]: joint for joint in root.findall("joint")}


def vector(element: ElementTree.Element, tag: str, attribute: str = "xyz") -> list[float]:
    return [float(value) for value in element.find(tag).attrib[attribute].split()]


def test_plain_urdf_is_the_xacro_with_its_defaults():
    assert elements(ElementTree.parse(URDF).getroot()) == elements(expand())


def test_a_change_of_the_xacro_is_detected():
    assert elements(ElementTree.parse(URDF).getroot()) != elements(expand(prefix="left_"))


def test_chain_has_the_products_axes_and_origins():
    found = joints(ElementTree.parse(URDF).getroot())
    chain = [found[name] for name in load_robot("crane_x7").joint_names[:7]]
    for joint, z in zip(chain, ORIGIN_Z_M, strict=True):
        assert vector(joint, "origin") == [0, 0, z]
        assert vector(joint, "origin", "rpy") == [0, 0, 0]
    assert [vector(joint, "axis") for joint in chain] == [[0, 0, 1], [0, -1, 0]] * 3 + [[0, 0, 1]]
    parents = [joint.find("parent").attrib["link"] for joint in chain]
    children = [joint.find("child").attrib["link"] for joint in chain]
    assert parents == ["base_link", *children[:-1]]


def test_limits_are_those_of_robot_yaml():
    robot = load_robot("crane_x7")
    found = joints(ElementTree.parse(URDF).getroot())
    for index, name in enumerate(robot.joint_names):
        limit = found[name].find("limit").attrib
        np.testing.assert_allclose(float(limit["lower"]), robot.lower[index], atol=1e-12)
        np.testing.assert_allclose(float(limit["upper"]), robot.upper[index], atol=1e-12)
        np.testing.assert_allclose(float(limit["velocity"]), robot.velocity_limits[index], atol=1e-12)


def test_second_finger_mimics_the_first():
    mimic = joints(ElementTree.parse(URDF).getroot())["crane_x7_gripper_finger_b_joint"].find("mimic").attrib
    assert mimic == {"joint": "crane_x7_gripper_finger_a_joint", "multiplier": "1", "offset": "0"}


def test_hand_can_be_left_out_and_the_arm_weighs_the_same():
    without = expand(hand="false")
    assert len(joints(without)) == 7
    masses = [sum(float(link.attrib["value"]) for link in root.iter("mass")) for root in (without, expand())]
    assert abs(masses[0] - masses[1]) < 1e-8


def test_prefix_reaches_every_link_joint_and_reference():
    root = expand(prefix="left_")
    names = [e.attrib["name"] for e in root if e.tag in ("link", "joint")]
    references = [e.attrib["link"] for j in root.findall("joint") for e in j if e.tag in ("parent", "child")]
    references += [e.attrib["joint"] for e in root.iter("mimic")]
    assert names and all(name.startswith("left_") for name in names + references)
    assert set(references) <= set(names)


def test_description_holds_no_mesh():
    assert not list(ElementTree.parse(URDF).getroot().iter("mesh"))


def test_every_moving_link_is_drawn_collides_and_has_a_positive_inertia():
    for link in ElementTree.parse(URDF).getroot().findall("link"):
        assert link.find("visual") is not None and link.find("collision") is not None
        if link.attrib["name"] == "base_link":
            continue
        tensor = {key: float(value) for key, value in link.find("inertial/inertia").attrib.items()}
        matrix = np.array(
            [
                [tensor["ixx"], tensor["ixy"], tensor["ixz"]],
                [tensor["ixy"], tensor["iyy"], tensor["iyz"]],
                [tensor["ixz"], tensor["iyz"], tensor["izz"]],
            ]
        )
        moments = np.linalg.eigvalsh(matrix)
        assert moments[0] > 0 and moments[0] + moments[1] >= moments[2] * (1 - 1e-9)


def test_inertias_and_damping_are_those_of_the_nominal_model():
    robot = load_robot("crane_x7")
    nominal = read_yaml(robot.folder / robot.file.simulation.standard_parameters)
    root = ElementTree.parse(URDF).getroot()
    links = {link.attrib["name"]: link for link in root.findall("link")}
    for name, row in zip(robot.joint_names[:7], nominal["links"], strict=True):
        link = links[joints(root)[name].find("child").attrib["link"]]
        assert float(link.find("inertial/mass").attrib["value"]) == row["mass_kg"]
        assert vector(link.find("inertial"), "origin") == row["centre_of_mass_m"]
        tensor = link.find("inertial/inertia").attrib
        assert [float(tensor[f"i{k}"]) for k in ("xx", "xy", "xz", "yy", "yz", "zz")] == row["inertia_kg_m2"]
    for axis in nominal["axes"]:
        dynamics = joints(root)[axis["joint"]].find("dynamics").attrib
        assert float(dynamics["damping"]) == axis["viscous_friction_nm_s_per_rad"]


def test_inertias_can_come_from_an_identified_model(tmp_path):
    robot = load_robot("crane_x7")
    nominal = read_yaml(robot.folder / robot.file.simulation.standard_parameters)
    nominal["links"][2]["mass_kg"] = 0.123
    model = tmp_path / "model.yaml"
    model.write_text(yaml.safe_dump({"robot": "crane_x7", "standard": nominal}))
    masses = [float(mass.attrib["value"]) for mass in expand(inertials=str(model)).iter("mass")]
    assert masses[2] == 0.123


def test_a_file_of_inertias_that_does_not_exist_is_named():
    with pytest.raises(xacro.XacroException, match=r"no_such_file\.yaml"):
        expand(inertials="/no_such_file.yaml")


def test_pinocchio_and_mujoco_read_the_same_kinematics():
    robot = load_robot("crane_x7")
    model = pinocchio.buildModelFromUrdf(str(URDF), mimic=True)
    data = model.createData()
    spec = mujoco.MjSpec.from_file(str(URDF))
    plant = spec.compile()
    state = mujoco.MjData(plant)
    assert list(model.names)[1:9] == list(robot.joint_names)
    rng = np.random.default_rng(1)
    for q in rng.uniform(robot.lower, robot.upper, size=(20, 8)):
        pinocchio.framesForwardKinematics(model, data, q)
        state.qpos[:] = [*q, q[7]]
        mujoco.mj_kinematics(plant, state)
        for link in ("crane_x7_gripper_base_link", "crane_x7_gripper_finger_b_link"):
            ours = data.oMf[model.getFrameId(link)].translation
            np.testing.assert_allclose(ours, state.body(link).xpos, atol=1e-12)


def test_urdfdom_accepts_the_description():
    tool = Path(sys.prefix) / "bin" / "check_urdf"
    if not tool.exists():
        pytest.skip("check_urdf comes with the pin wheel's urdfdom and is not in this environment")
    good = subprocess.run([str(tool), str(URDF)], capture_output=True, text=True, check=False)
    assert good.returncode == 0 and "Successfully Parsed XML" in good.stdout, good.stdout + good.stderr


def test_urdfdom_rejects_a_broken_description(tmp_path):
    tool = Path(sys.prefix) / "bin" / "check_urdf"
    if not tool.exists():
        pytest.skip("check_urdf comes with the pin wheel's urdfdom and is not in this environment")
    broken = tmp_path / "broken.urdf"
    broken.write_text(URDF.read_text().replace('<parent link="base_link"/>', '<parent link="no_such_link"/>'))
    assert subprocess.run([str(tool), str(broken)], capture_output=True, check=False).returncode != 0


PROFILES = {
    "real": "joint_state_topic_hardware_interface/JointStateTopicSystem",
    "mock": "mock_components/GenericSystem",
    "gazebo": "gz_ros2_control/GazeboSimSystem",
    "mujoco": "mujoco_ros2_control/MujocoSystemInterface",
}
NEEDED = {"mujoco": {"mujoco_model": "/tmp/model.xml"}, "gazebo": {"controllers_file": "/tmp/controllers.yaml"}}


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_a_ros2_control_block_commands_efforts_within_the_drivers_limits(profile: str):
    robot = load_robot("crane_x7")
    block = expand(ros2_control=profile, **NEEDED.get(profile, {})).find("ros2_control")
    assert block.find("hardware/plugin").text == PROFILES[profile]
    found = {joint.attrib["name"]: joint for joint in block.findall("joint")}
    passive = found.pop("crane_x7_gripper_finger_b_joint", None)  # Gazebo drives a mimic joint only if it is listed
    assert (passive is not None) == (profile == "gazebo")
    assert passive is None or not passive.findall("command_interface")
    assert list(found) == list(robot.joint_names)
    for index, joint in enumerate(found.values()):
        assert [one.attrib["name"] for one in joint.findall("command_interface")] == ["effort"]
        assert [one.attrib["name"] for one in joint.findall("state_interface")] == ["position", "velocity", "effort"]
        bounds = {one.attrib["name"]: float(one.text) for one in joint.findall("command_interface/param")}
        most = robot.current_limits[index] * robot.torque_constants[index]
        assert bounds == {"min": pytest.approx(-most), "max": pytest.approx(most)}
        start = joint.find("state_interface/param")  # a real arm is nowhere before it was measured
        assert (start is None) == (profile == "real")
        assert start is None or float(start.text) == pytest.approx(np.deg2rad(robot.file.rest_posture_deg[index]))


@pytest.mark.slow
def test_the_real_profile_always_sends_commands_over_the_topics_given():
    block = expand(ros2_control="real", joint_commands_topic="/a/commands", joint_states_topic="/a/states")
    given = {one.attrib["name"]: one.text for one in block.findall("ros2_control/hardware/param")}
    assert given == {
        "joint_commands_topic": "/a/commands",
        "joint_states_topic": "/a/states",
        "trigger_joint_command_threshold": "-1",
    }


@pytest.mark.parametrize(("mount", "up"), [("upright", 1.0), ("hanging", -1.0)])
def test_gazebo_gets_a_bolted_arm_and_its_plugin(mount: str, up: float):
    root = expand(ros2_control="gazebo", controllers_file="/tmp/c.yaml", mount=mount, namespace="left")
    model = pinocchio.buildModelFromXML(ElementTree.tostring(root, encoding="unicode"))
    data = model.createData()
    pinocchio.framesForwardKinematics(model, data, pinocchio.neutral(model))
    base = data.oMf[model.getFrameId("base_link")]
    np.testing.assert_allclose(base.rotation[:, 2], [0, 0, up], atol=1e-9)
    masses = {link.attrib["name"]: link.find("inertial/mass") for link in root.findall("link")}
    assert masses.pop("world") is None  # and of all others none is without mass, or Gazebo drops what it carries
    assert all(mass is not None and float(mass.attrib["value"]) >= 0.005 for mass in masses.values())
    assert root.find("gazebo/plugin").attrib["name"] == "gz_ros2_control::GazeboSimROS2ControlPlugin"
    assert root.find("gazebo/plugin/parameters").text == "/tmp/c.yaml"
    assert root.find("gazebo/plugin/ros/namespace").text == "left"


def test_without_a_hand_no_controller_moves_it():
    block = expand(ros2_control="mock", hand="false").find("ros2_control")
    assert [joint.attrib["name"] for joint in block.findall("joint")] == list(load_robot("crane_x7").joint_names[:7])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"ros2_control": "simulated"}, "none of real, mock, gazebo, mujoco"),
        ({"ros2_control": "mujoco"}, "needs mujoco_model"),
        ({"ros2_control": "gazebo"}, "needs controllers_file"),
        ({"ros2_control": "gazebo", "controllers_file": "x", "mount": "sideways"}, "neither upright nor hanging"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, str], said: str):
    with pytest.raises(xacro.XacroException, match=said):
        expand(**arguments)
