"""Defaults of the middleware: this machine only, no shared memory; a user's settings override them."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.hostile.sockets import listens_on

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from dynid.errors import UnknownNameError
from dynid.nodes.common import LOST_ANSWER, log_lost_answers, refuse_unknown_parameters
from dynid.nodes.middleware import LOCALHOST_PROFILE, PROFILE_FILES
from dynid.nodes.processes import ProcessGroup
from dynid.nodes.supervisor import Supervisor

NAMES = ("ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY", "FASTDDS_BUILTIN_TRANSPORTS", *PROFILE_FILES)
SCRIPT = """
import json, os
from dynid.nodes.common import set_middleware_defaults
set_middleware_defaults()
print(json.dumps({name: os.environ[name] for name in %r if name in os.environ}))
"""


def chosen(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults that a process chooses in an environment."""
    inherited = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT % (NAMES,)], env=inherited | dict(environment), capture_output=True, check=True
    )
    return dict(json.loads(done.stdout))


def threads(pid: int) -> set[str]:
    return {path.read_text().strip() for path in Path(f"/proc/{pid}/task").glob("*/comm")}


@pytest.mark.slow
def test_without_a_choice_only_this_machine_is_discovered_by_a_profile_of_ours() -> None:
    found = chosen({})
    assert {found[name] for name in PROFILE_FILES} == {str(LOCALHOST_PROFILE)}
    assert found["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "SYSTEM_DEFAULT"
    assert chosen({"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}) == found == chosen(found)


@pytest.mark.slow
def test_user_settings_are_kept() -> None:
    wide = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}
    assert chosen(wide) == {**wide, "FASTDDS_BUILTIN_TRANSPORTS": "UDPv4"}
    assert chosen({**wide, "FASTDDS_BUILTIN_TRANSPORTS": "DEFAULT"})["FASTDDS_BUILTIN_TRANSPORTS"] == "DEFAULT"
    for own in (*PROFILE_FILES, "FASTDDS_BUILTIN_TRANSPORTS", "ROS_LOCALHOST_ONLY"):
        assert chosen({own: "1"}) == {own: "1", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    assert PROFILE_FILES[0] in chosen({"ROS_LOCALHOST_ONLY": "0"})  # that is no choice


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="names of threads are read from Linux's /proc")
@pytest.mark.parametrize("asked", ["LOCALHOST", "SUBNET"])
def test_nodes_find_each_other_without_shared_memory(
    group: ProcessGroup, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """Shared memory holds a driver up for 333 ms whenever a port of it is opened."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", asked)
    node = group.start_node("recorder_node", "recorder")
    with Supervisor(group.check) as client:
        client.transition("recorder", "configure")
        names = threads(node.pid) | threads(os.getpid())
        addresses = listens_on(node.pid)
    assert any(name.startswith("dds.udp") for name in threads(node.pid))
    assert addresses and ((addresses == {"127.0.0.1"}) == (asked == "LOCALHOST"))
    assert not any(name.startswith("dds.shm") for name in names)


PUBLISHER = """
import os, sys, time
from pathlib import Path
from dynid.nodes.common import STREAM, set_middleware_defaults
set_middleware_defaults()
import rclpy
from std_msgs.msg import String
rclpy.init()
node = rclpy.create_node("publisher")
publisher = node.create_publisher(String, "waking", STREAM)
end_s = time.monotonic() + 60.0
while publisher.get_subscription_count() < 1 and time.monotonic() < end_s:
    time.sleep(0.01)
events = [task for task in Path("/proc/self/task").iterdir() if (task / "comm").read_text().startswith("dds.ev")]
def woken():
    return sum(int((task / "schedstat").read_text().split()[2]) for task in events)
time.sleep(1.0)  # the discovery that is still under way wakes the same thread
first = woken()
for _ in range(400):
    publisher.publish(String(data="x"))
    time.sleep(0.0005)
print(woken() - first)
"""
SUBSCRIBER = """
from dynid.nodes.common import STREAM, set_middleware_defaults
set_middleware_defaults()
import rclpy
from std_msgs.msg import String
rclpy.init()
node = rclpy.create_node("subscriber")
node.create_subscription(String, "waking", lambda _: None, STREAM)
rclpy.spin(node)
"""


def wake_ups(environment: Mapping[str, str]) -> int:
    """How often publishing 400 messages to another process wakes the publisher's thread of events."""
    child = subprocess.Popen([sys.executable, "-c", SUBSCRIBER], env=dict(environment))
    try:
        done = subprocess.run(
            [sys.executable, "-c", PUBLISHER], env=dict(environment), capture_output=True, check=True, timeout=120
        )
    finally:
        child.kill()
        child.wait()
    return int(done.stdout)


@pytest.mark.slow
def test_publishing_wakes_the_thread_of_events_seldom(tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if name not in NAMES}
    usual = wake_ups(inherited)
    text = LOCALHOST_PROFILE.read_text(encoding="utf-8")
    head, _, rest = text.partition("<data_writer")
    (tmp_path / "plain.xml").write_text(head + rest.partition("</data_writer>")[2], encoding="utf-8")
    plain = wake_ups(inherited | dict.fromkeys(PROFILE_FILES, str(tmp_path / "plain.xml")))
    assert usual < 0.5 * plain, (usual, plain)


def test_mistyped_parameter_is_refused_and_an_unknown_one_logged() -> None:
    told: list[str] = []
    node = SimpleNamespace(
        _parameters={"port_name": 1, "mount": 1, "use_sim_time": 1},
        _parameter_overrides={},
        get_name=lambda: "hardware",
        has_parameter=lambda name: name in ("port_name", "mount"),
        get_logger=lambda: SimpleNamespace(warning=told.append),
    )
    node._parameter_overrides = {"port_name": 1, "use_sim_time": 1, "site_of_the_cell": 1}
    refuse_unknown_parameters(node)
    assert told == ["there is no parameter 'site_of_the_cell' here; known: mount, port_name"]
    node._parameter_overrides = {"portname": 1}
    with pytest.raises(UnknownNameError, match="unknown parameter of node hardware 'portname'"):
        refuse_unknown_parameters(node)


def test_a_lost_answer_is_logged_as_info_and_other_warnings_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    others: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_, **__: others.append(str(message)))
    logger = SimpleNamespace(info=logged.append)
    log_lost_answers(SimpleNamespace(get_logger=lambda: logger))  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for text in (f"{LOST_ANSWER} (timeout): client will not receive response", "divide by zero"):
            warnings.warn(text, RuntimeWarning, stacklevel=1)
    assert others == ["divide by zero"]
    assert logged == ["an answer was lost: its client was not discovered yet, and has to ask again"]
