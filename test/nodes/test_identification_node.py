"""The identification node as a process: its refusals, and how it passes on a model."""

import json
import multiprocessing
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DynidError, NodeError
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import read_model_file
from dynid.nodes.identification_node import IdentificationNode
from dynid.nodes.processes import Process, ProcessGroup
from dynid.nodes.supervisor import Supervisor
from dynid.parallel import in_processes
from dynid.recording.bag_writer import BagWriter, Topic
from dynid.recording.messages import STRING, encode_string
from dynid.robot import load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")
NAMES = ArmModel.of(ROBOT).names


def simulated(folder: Path, name: str, friction: str | None = None) -> Path:
    settings = load_controller(ROBOT)
    run = simulate(ROBOT, load_excitation(ROBOT).trajectory(name), FeedforwardPd(settings), friction=friction)
    write_bag(run, ROBOT, settings, folder, profile="limited")
    return folder


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("bags") / "identification", "demo_identification")


@pytest.fixture(scope="module")
def held_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("bags") / "validation", "demo_validation")


@pytest.fixture
def node(group: ProcessGroup) -> Process:
    return group.start_node("identification_node", "identification")


def phi(client: Supervisor) -> np.ndarray:
    return np.array(
        [v.double_value for v in client.get_parameters("identification", [f"model.phi.{n}" for n in NAMES])]
    )


def test_invalid_parameters_are_refused_when_set(client: Supervisor, node: Process, bag: Path, tmp_path: Path) -> None:
    impossible: list[tuple[dict[str, object], str]] = [
        ({"bags": [str(tmp_path / "nowhere")]}, "no such bag: .*nowhere"),
        ({"bags": [str(bag), str(tmp_path / "nowhere")]}, "no such bag: .*nowhere"),
        ({"validation_bags": ["x" * 5000]}, "no such bag"),
        ({"output": str(tmp_path)}, "exists; choose another"),
        ({"model.phi.ZZR1": 1.0}, "model.phi.ZZR1 is an output"),
        ({"model.accepted": True}, "model.accepted is an output"),
        ({"controllers": ["no such name!"]}, "no such name!"),
        ({"method": "magic"}, "unknown method 'magic'; known: regression, closed-loop, campaign"),
        ({"model.structure_hash": "x", "output": str(tmp_path / "new")}, "is an output"),
    ]
    for values, words in impossible:
        with pytest.raises(NodeError, match=words):
            client.set_parameters("identification", values)
    with pytest.raises(NodeError, match="'bags' is empty"):
        client.trigger("identification/identify")
    client.set_parameters("identification", {"bags": [str(bag)]})
    with pytest.raises(NodeError, match="'output' is empty"):
        client.trigger("identification/identify")
    accepted, structure = client.get_parameters("identification", ["model.accepted", "model.structure_hash"])
    assert not accepted.bool_value and structure.string_value == "" and np.isnan(phi(client)).all()


def test_a_bag_without_the_needed_topics_is_refused_and_the_node_goes_on(
    client: Supervisor, group: ProcessGroup, node: Process, bag: Path, held_out: Path, tmp_path: Path
) -> None:
    group.start_node("executor_node", "executor")
    writer = BagWriter(tmp_path / "words", [Topic("/chatter", STRING)])
    writer.open()
    writer.write("/chatter", 1, encode_string("hello"))
    writer.close()
    output = tmp_path / "model"
    client.set_parameters("identification", {"bags": [str(tmp_path / "words")], "output": str(output)})
    with pytest.raises(NodeError, match=r"has no torques of robot.*its topics are: /chatter"):
        client.trigger("identification/identify")
    assert not output.exists() and np.isnan(phi(client)).all()
    before = client.latched_text("robot_description")
    client.set_parameters("identification", {"bags": [str(bag)], "validation_bags": [str(held_out)]})
    answer = client.trigger("identification/identify", timeout_s=120.0)
    assert answer.endswith("; accepted and handed over; executor accepted it")
    _is_handed_over(client, output, before)
    client.set_parameters("executor", {"controller": "computed_torque"})  # its model is there
    names = ["model.structure_hash", *(f"model.phi.{name}" for name in NAMES)]
    structure, *values = client.get_parameters("executor", names)
    assert structure.string_value == read_model_file(output / "model.yaml").structure_hash
    np.testing.assert_array_equal([value.double_value for value in values], _values(output))
    with pytest.raises(NodeError, match=r"exists"):  # the same output once more
        client.trigger("identification/identify", timeout_s=120.0)
    np.testing.assert_array_equal(phi(client), _values(output))


def _values(output: Path) -> np.ndarray:
    return np.array([row.value for row in read_model_file(output / "model.yaml").parameters])


def _is_handed_over(client: Supervisor, output: Path, before: str) -> None:
    """Parameters, verdict and description are those of the files; a process of its own sees the same."""
    model = read_model_file(output / "model.yaml")
    np.testing.assert_array_equal(phi(client), _values(output))
    accepted, structure = client.get_parameters("identification", ["model.accepted", "model.structure_hash"])
    assert accepted.bool_value and structure.string_value == model.structure_hash
    verdict = json.loads(client.latched_text("verdict"))
    assert verdict["accepted"] and [c["name"] for c in verdict["checks"]] == [c.name for c in model.verdict]
    description = client.latched_text("robot_description")
    assert description == (output / "model.urdf").read_text() != before
    command = [sys.executable, "-m", "dynid.nodes.readback", "identification", *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    read = json.loads(done.stdout)
    assert list(read["phi"].values()) == _values(output).tolist() and read["robot_description"] == description


def test_a_model_that_is_not_accepted_is_written_and_not_handed_over(
    client: Supervisor, group: ProcessGroup, bag: Path, tmp_path: Path, robot_folder: Path
) -> None:
    file = robot_folder / "identification.yaml"
    text, count = re.subn(r"relative_torque_error: [\d.]+", "relative_torque_error: 0.01", file.read_text())
    assert count == 1
    file.write_text(text)
    group.start_node("identification_node", "identification", {"robot": str(robot_folder)})
    output = tmp_path / "model"
    client.set_parameters("identification", {"bags": [str(bag)], "output": str(output)})
    before = client.latched_text("robot_description")
    with pytest.raises(NodeError, match=r"not accepted and not handed over: relative torque error, identification"):
        client.trigger("identification/identify", timeout_s=120.0)
    assert read_model_file(output / "model.yaml").accepted is False
    assert "✗ Not accepted" in (output / "report.html").read_text(encoding="utf-8")
    assert np.isnan(phi(client)).all() and client.latched_text("robot_description") == before


@pytest.fixture
def few_intervals(robot_folder: Path) -> Path:
    """A robot with two sampling intervals, a known structure of friction and few poses: the node's part is tested."""
    file = robot_folder / "identification.yaml"
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    content["campaign_intervals_s"] = [0.04, 0.06, 0.08]
    content.setdefault("coulomb_friction", {})["structure"] = "Coulomb-viscous"
    content.setdefault("acceptance", {})["fresh_poses"] = 10_000
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return robot_folder


@pytest.mark.parametrize("method", ["closed-loop", "campaign"])
def test_every_method_hands_its_accepted_model_over(
    client: Supervisor, group: ProcessGroup, tmp_path: Path, few_intervals: Path, method: str
) -> None:
    bag = simulated(tmp_path / "identification", "demo_identification", "viscous")
    held_out = simulated(tmp_path / "validation", "demo_validation", "viscous")
    group.start_node("executor_node", "executor", {"robot": str(few_intervals)})
    group.start_node("identification_node", "identification", {"robot": str(few_intervals), "method": method})
    output = tmp_path / "model"
    values = {"bags": [str(bag)], "validation_bags": [str(held_out)], "output": str(output)}
    client.set_parameters("identification", values)
    answer = client.trigger("identification/identify", timeout_s=300.0)
    assert answer.endswith("; accepted and handed over; executor accepted it")
    model = read_model_file(output / "model.yaml")
    assert model.accepted and model.provenance["method"] == method
    assert (output / "runs").is_dir() == (method == "campaign") and not (tmp_path / "model.runs").exists()
    np.testing.assert_array_equal(phi(client), _values(output))
    client.set_parameters("executor", {"controller": "computed_torque"})  # its model is there
    names = ["model.structure_hash", *(f"model.phi.{name}" for name in NAMES)]
    structure, *values_there = client.get_parameters("executor", names)
    assert structure.string_value == model.structure_hash
    np.testing.assert_array_equal([value.double_value for value in values_there], _values(output))


def test_a_node_that_ends_ends_the_processes_of_its_campaign() -> None:
    node = SimpleNamespace()
    with ThreadPoolExecutor(1) as thread:
        campaign = thread.submit(lambda: list(in_processes(time.sleep, [600.0, 600.0], 2)))
        while len(multiprocessing.active_children()) < 2:
            assert not campaign.done()
        IdentificationNode.shut_down(node)  # type: ignore[arg-type]
        with pytest.raises(DynidError, match="a process that worked on a piece has ended"):
            campaign.result(timeout=300.0)
    assert multiprocessing.active_children() == []


def test_unknown_parameter_gives_one_sentence(client: Supervisor, node: Process) -> None:
    command = [sys.executable, "-m", "dynid.nodes.readback", "identification", "NOPE"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines()[-1] == "error: identification does not have all of the parameters model.phi.NOPE"
