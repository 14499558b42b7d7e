"""Running nodes against their documentation: namespaces, quality of service, security policies, views."""

import contextlib
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from rclpy.qos import DurabilityPolicy, ReliabilityPolicy

from dynid.errors import NodeError
from dynid.nodes.processes import ProcessGroup
from dynid.nodes.recorder_node import TOPICS
from dynid.nodes.supervisor import Supervisor
from dynid.robot import load_robot

ROOT = Path(__file__).parents[2]
NODES = ("hardware", "executor", "recorder", "identification")
EVERYWHERE = {"/rosout", "/parameter_events"}
LEFT, RIGHT = "/left", "/right"


@pytest.fixture
def arms(group: ProcessGroup, client: Supervisor) -> Iterator[Supervisor]:
    """Two arms' nodes, a namespace for each; the left one's recorder is active."""
    for namespace in (LEFT, RIGHT):
        for name in NODES if namespace == LEFT else ("hardware",):
            module = ["-m", f"dynid.nodes.{name}_node", "--ros-args", "-r", f"__ns:={namespace}"]
            group.start(f"{namespace[1:]}_{name}", module)
    for name in NODES:
        client.get_parameters(f"{LEFT}/{name}", ["robot"])
    client.get_parameters(f"{RIGHT}/hardware", ["robot"])
    for transition in ("configure", "activate"):
        client.transition(f"{LEFT}/recorder", transition)
    yield client


def graph(client: Supervisor, name: str, namespace: str = LEFT) -> dict[str, set[str]]:
    """What a node publishes, subscribes to, serves and asks for."""
    node = client.node
    if (name, namespace) not in node.get_node_names_and_namespaces():
        return {"publish": set(), "subscribe": set(), "reply": set(), "request": set()}  # the middleware tells it late
    found = {
        "publish": node.get_publisher_names_and_types_by_node(name, namespace),
        "subscribe": node.get_subscriber_names_and_types_by_node(name, namespace),
        "reply": node.get_service_names_and_types_by_node(name, namespace),
        "request": node.get_client_names_and_types_by_node(name, namespace),
    }
    return {kind: {text for text, _ in rows} for kind, rows in found.items()}


def policies(text: str, namespace: str = LEFT) -> dict[str, dict[str, set[str]]]:
    """What the policies allow each node, names expanded as in a namespace."""
    allowed: dict[str, dict[str, set[str]]] = {}
    for profile in ElementTree.fromstring(text).iter("profile"):
        name = profile.attrib["node"]
        rules = allowed.setdefault(name, {"publish": set(), "subscribe": set(), "reply": set(), "request": set()})
        for group in profile:
            (kind,) = [key for key, value in group.attrib.items() if value == "ALLOW"]
            for item in group:
                rules[kind].add(expanded(str(item.text), name, namespace))
    return allowed


def expanded(name: str, node: str, namespace: str) -> str:
    return name if name.startswith("/") else f"{namespace}/{re.sub('^~', node, name)}"


def test_namespaces_are_kept_and_policies_allow_only_used_topics(arms: Supervisor) -> None:
    allowed = policies((ROOT / "config/sros2/policies.xml").read_text(encoding="utf-8"))
    for name in NODES:
        with contextlib.suppress(NodeError):  # the graph is complete a moment after the nodes answer
            arms.wait(lambda name=name: graph(arms, name) == allowed[name], 30.0, "the graph")
        assert graph(arms, name) == allowed[name]
        names = set().union(*graph(arms, name).values())
        assert {text for text in names if not text.startswith(f"{LEFT}/")} <= EVERYWHERE
    arms.wait(lambda: f"{RIGHT}/hardware/enable" in graph(arms, "hardware", RIGHT)["reply"], 10.0, "the right arm")
    right = set().union(*graph(arms, "hardware", RIGHT).values())
    assert right & set().union(*graph(arms, "hardware").values()) <= EVERYWHERE
    check_quality(arms)


def check_quality(client: Supervisor) -> None:
    """The table of docs/ros2.md against the publishers' quality of service."""
    text = (ROOT / "docs/ros2.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (\w+) \| (\w+) \| (\d+)", text, re.MULTILINE)
    told = {name: row[1:3] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    published = set().union(*(graph(client, name)["publish"] for name in NODES))
    assert {f"{LEFT}/{name}" for name in told} == {text for text in published if text.count("/") == 2}
    for name, (reliability, durability) in told.items():
        for info in client.node.get_publishers_info_by_topic(f"{LEFT}/{name}"):
            assert (info.qos_profile.reliability is ReliabilityPolicy.RELIABLE) == (reliability == "reliable")
            assert (info.qos_profile.durability is DurabilityPolicy.TRANSIENT_LOCAL) == (durability == "latched")


def test_views_show_existing_topics_and_joints_only() -> None:
    joints = load_robot("crane_x7").joint_names
    layout = json.loads((ROOT / "config/views/dynid_foxglove.json").read_text(encoding="utf-8"))
    panels = layout["configById"]
    assert set(panels) == set(re.findall(r'"([\w]+!\w+)"', json.dumps(layout["layout"])))
    shown = {path["value"] for panel in panels.values() for path in panel.get("paths", [])}
    fields = {"joint_states": {"position", "velocity", "effort"}, "applied_commands": {"effort"}}
    for text in shown:
        topic, field, index = re.fullmatch(r"/(\w+)\.(?:points\[0\]\.)?(\w+)\[(\d+)\]", text).groups()
        assert topic in TOPICS and int(index) < len(joints) and field in fields.get(topic, {"positions"})
    curves = ElementTree.parse(ROOT / "config/views/dynid_plotjuggler.xml").getroot().iter("curve")
    names = [curve.attrib["name"] for curve in curves]
    for text in names:
        topic, joint, field = re.fullmatch(r"/(\w+)/([\w\[\]]+)/([\w\[\]]+)", text).groups()
        assert topic in TOPICS and (joint in joints or (topic, joint) == ("reference", "points[0]")), text
    assert len(names) == len(set(names)) == 6 * len(joints)
