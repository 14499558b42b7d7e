"""The recorder node as a process: bags begin and end on request, and nothing is overwritten."""

from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from dynid.errors import NodeError
from dynid.nodes.common import LATCHED, STREAM
from dynid.nodes.processes import Process, ProcessGroup
from dynid.nodes.recorder_node import GIVEN_UP, UNMATCHED
from dynid.nodes.supervisor import Supervisor
from dynid.recording.bag_reader import read_bag
from dynid.recording.settings import ExperimentSettings


@pytest.fixture
def node(group: ProcessGroup) -> Process:
    return group.start_node("recorder_node", "recorder")


def activate(client: Supervisor) -> None:
    client.transition("recorder", "configure")
    client.transition("recorder", "activate")


def recorded(client: Supervisor, topic: str = "/joint_states") -> int:
    return int(client.reported("recorder", topic) or 0)


def publish_until_recorded(client: Supervisor, count: int) -> int:
    """Publish joint states until so many are in the open bag; returns how many were sent."""
    publisher = client.node.create_publisher(JointState, "joint_states", STREAM)
    sent: list[int] = []

    def publish() -> None:
        sent.append(len(sent))
        publisher.publish(JointState(name=["a"], position=[float(len(sent))]))

    timer = client.node.create_timer(0.005, publish)
    client.wait(lambda: recorded(client) >= count, 30.0, "the recording")
    client.node.destroy_timer(timer)
    client.node.destroy_publisher(publisher)  # a bag of two publishers is doubtful
    return len(sent)


def test_bag_from_start_to_stop_contains_earlier_latched_messages(
    client: Supervisor, node: Process, tmp_path: Path
) -> None:
    latched = client.node.create_publisher(String, "robot_description", LATCHED)
    latched.publish(String(data="<robot/>"))
    activate(client)
    with pytest.raises(NodeError, match="parameter 'output' is empty"):
        client.trigger("recorder/start")
    with pytest.raises(NodeError, match="nothing is being recorded"):
        client.trigger("recorder/stop")
    for name in ("first", "second"):
        client.set_parameters("recorder", {"output": str(tmp_path / name)})
        assert str(tmp_path / name) in client.trigger("recorder/start")
        with pytest.raises(NodeError, match="a bag is already open"):
            client.trigger("recorder/start")
        sent = publish_until_recorded(client, 50)
        client.trigger("recorder/stop")
        bag = read_bag(tmp_path / name)
        assert bag.findings == () and 50 <= bag.counts["/joint_states"] <= sent
        # in the first bag the recorder's own comes before it, where the published one was only on its way
        assert bag.counts["/robot_description"] == 1 or (name, bag.counts["/robot_description"]) == ("first", 2)
        client.reports.clear()
        client.wait(lambda: "recorder" in client.reports, 10.0, "a new report")


def test_bag_of_two_publishers_is_reported_as_doubtful(client: Supervisor, node: Process, tmp_path: Path) -> None:
    own = client.node.create_publisher(JointState, "applied_commands", STREAM)
    activate(client)
    client.set_parameters("recorder", {"completion_timeout_s": 0.0})
    for name in ("one", "two", "one again"):
        client.wait(lambda: own.get_subscription_count() == 1, 30.0, "the recorder's subscription")
        client.set_parameters("recorder", {"output": str(tmp_path / name)})
        client.trigger("recorder/start")
        if name != "two":
            assert client.trigger("recorder/stop").startswith("bag ")
            continue
        forger = client.node.create_publisher(JointState, "applied_commands", STREAM)
        client.wait(lambda: bool(client.reported("recorder", "doubtful")), 30.0, "the finding")
        client.node.destroy_publisher(forger)
        with pytest.raises(NodeError, match="the bag is doubtful: 2 publishers send applied_commands"):
            client.trigger("recorder/stop")
        assert read_bag(tmp_path / name).findings == ()


def test_an_experiment_that_is_over_is_not_in_the_next_bag(client: Supervisor, node: Process, tmp_path: Path) -> None:
    publisher = client.node.create_publisher(String, "experiment", LATCHED)
    begun = ExperimentSettings(trajectory="AG01", profile="paper", controller="ff_pd", gains={}, duration_s=1.0)
    running = begun.entered("approach", 1)
    activate(client)
    client.set_parameters("recorder", {"completion_timeout_s": 0.0})
    for name, state, counted in (("under_way", running, 1), ("over", running.entered("done", 2), 0)):
        client.set_parameters("recorder", {"output": str(tmp_path / f"first_{name}")})
        client.trigger("recorder/start")
        publisher.publish(String(data=state.model_dump_json()))
        client.wait(lambda: recorded(client, "/experiment") > 0, 10.0, "the recording")
        answer = client.trigger("recorder/stop")  # at once, as asked for
        assert answer.endswith(", without the end of the motion on /experiment" if name == "under_way" else " messages")
        client.set_parameters("recorder", {"output": str(tmp_path / name)})
        client.trigger("recorder/start")
        client.trigger("recorder/stop")
        assert read_bag(tmp_path / name).counts["/experiment"] == counted
        client.reports.clear()


@pytest.mark.parametrize("how", ["the states come", "a second call", "a full disk"])
def test_stop_answers_once_the_bag_is_complete(client: Supervisor, node: Process, tmp_path: Path, how: str) -> None:
    """The message that a motion has ended may arrive before its last states."""
    experiment = client.node.create_publisher(String, "experiment", LATCHED)
    states = client.node.create_publisher(JointState, "joint_states", STREAM)
    begun = ExperimentSettings(trajectory="AG01", profile="paper", controller="ff_pd", gains={}, duration_s=1.0)
    activate(client)
    client.set_parameters("recorder", {"output": str(tmp_path / "bag")})
    client.trigger("recorder/start")
    client.wait(lambda: states.get_subscription_count() == 1, 30.0, "the recorder's subscription")

    def publish(nanoseconds: int) -> None:
        message = JointState(name=["a"], position=[0.0])
        message.header.stamp.nanosec = nanoseconds
        states.publish(message)

    publish(1)
    client.wait(lambda: recorded(client) == 1, 10.0, "the first state")
    experiment.publish(String(data=begun.entered("approach", 1).entered("done", 9).model_dump_json()))
    client.wait(lambda: recorded(client, "/experiment") == 1, 10.0, "the end of the motion")
    stop = client.node.create_client(Trigger, "recorder/stop")
    client.wait(stop.service_is_ready, 10.0, "the service")
    answer = stop.call_async(Trigger.Request())
    client.reports.clear()
    client.wait(lambda: "recorder" in client.reports, 10.0, "a report")
    assert not answer.done() and "recording to" in client.reports["recorder"].message
    if how == "the states come":
        publish(9)
    elif how == "a second call":
        with pytest.raises(NodeError, match="the recorder still awaits /joint_states"):
            client.trigger("recorder/stop")
    else:
        client.set_parameters("recorder", {"minimum_free_mib": 10**9})
    client.wait(answer.done, 10.0, "the answer")
    whole = how == "the states come"
    assert answer.result().success == whole
    assert answer.result().message.startswith(f"bag {tmp_path / 'bag'} closed" if whole else "the bag is incomplete: ")
    assert read_bag(tmp_path / "bag").findings == ()


def test_wait_timeout_names_its_reason(client: Supervisor) -> None:
    with pytest.raises(NodeError, match=r"^it did not happen within 0 s$"):
        client.wait(lambda: False, 0.1, "it")
    looks: list[int] = []
    with pytest.raises(NodeError, match=r"^nobody came, \d+ looks$"):
        client.wait(lambda: looks.append(1) is not None, 0.1, "it", lambda: f"nobody came, {len(looks)} looks")


def test_unmatched_publishers_are_reported_again_after_leaving(
    client: Supervisor, group: ProcessGroup, node: Process
) -> None:
    activate(client)
    drivers = "joint_states, applied_commands, hardware_settings"
    everything = "joint_states, joint_commands, applied_commands, reference, hardware_settings, experiment"
    client.wait(lambda: client.reported("recorder", UNMATCHED) == everything, 10.0, "its own diagnostics")
    executor = group.start_node("executor_node", "executor")
    client.wait(lambda: client.reported("recorder", UNMATCHED) == drivers, 30.0, "the executor's topics")
    group.processes.remove(executor)
    assert executor.stop() == 0
    client.wait(lambda: client.reported("recorder", UNMATCHED) == everything, 10.0, "the executor's leave")


def test_existing_or_invalid_output_is_refused_and_kept(client: Supervisor, node: Process, tmp_path: Path) -> None:
    kept = tmp_path / "bag" / "kept.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    with pytest.raises(NodeError, match="not active"):
        client.trigger("recorder/start")
    activate(client)
    impossible = {
        str(kept.parent): "exists",
        str(kept / "below"): "kept.txt",
        str(tmp_path / ("x" * 300)): "too long",
        "/proc/nowhere/bag": "nowhere",
    }
    for output, words in impossible.items():
        client.set_parameters("recorder", {"output": output})
        with pytest.raises(NodeError, match=words):
            client.trigger("recorder/start")
    client.set_parameters("recorder", {"output": str(tmp_path / "new"), "storage": "paper"})
    with pytest.raises(NodeError, match="unknown bag storage 'paper'"):
        client.trigger("recorder/start")
    assert kept.read_text() == "mine" and not (tmp_path / "new").exists()
    client.set_parameters("recorder", {"storage": "sqlite3"})
    client.trigger("recorder/start")
    client.trigger("recorder/stop")
    assert read_bag(tmp_path / "new").storage == "sqlite3"


def test_a_disk_without_room_is_refused_before_and_ends_a_recording_whole(
    client: Supervisor, node: Process, tmp_path: Path
) -> None:
    activate(client)
    client.set_parameters("recorder", {"output": str(tmp_path / "bag"), "minimum_free_mib": 10**9})
    with pytest.raises(NodeError, match=r"no room for .*bag: \d+ MiB are free, but at least 1000000000 are needed"):
        client.trigger("recorder/start")
    assert not (tmp_path / "bag").exists()
    client.set_parameters("recorder", {"minimum_free_mib": 0})
    client.trigger("recorder/start")
    publish_until_recorded(client, 50)
    client.set_parameters("recorder", {"minimum_free_mib": 10**9})
    client.wait(lambda: "recording ended, the bag is closed" in node.last_error(), 10.0, "the end of the recording")
    client.wait(lambda: "no room for" in client.reported("recorder", GIVEN_UP), 10.0, "a report of the reason")
    assert read_bag(tmp_path / "bag").counts["/joint_states"] >= 50
    with pytest.raises(NodeError, match=r"the bag is incomplete: recording ended, .* no room for"):
        client.trigger("recorder/stop")


def test_a_transition_that_is_not_possible_is_refused_and_the_node_lives_on(client: Supervisor, node: Process) -> None:
    with pytest.raises(NodeError, match="refused to activate"):
        client.transition("recorder", "activate")
    assert "is not possible in state unconfigured" in node.last_error()
    activate(client)
    assert node.running


@pytest.mark.parametrize("how", ["stop", "deactivate", "kill"])
def test_a_bag_survives_the_end_of_its_recorder(
    client: Supervisor, group: ProcessGroup, node: Process, tmp_path: Path, how: str
) -> None:
    activate(client)
    client.set_parameters("recorder", {"output": str(tmp_path / "bag")})
    client.trigger("recorder/start")
    publish_until_recorded(client, 200)
    reported = recorded(client)
    if how == "deactivate":
        client.transition("recorder", "deactivate")
    elif how == "stop":
        group.processes.remove(node)
        assert node.stop() == 0
    else:
        group.processes.remove(node)
        node.kill()
    bag = read_bag(tmp_path / "bag")
    assert bag.counts["/joint_states"] >= reported
    assert bool(bag.findings) == (how == "kill")
