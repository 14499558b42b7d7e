"""A run's ROS domain is private."""

import os
import subprocess
import sys

import pytest
from child import Child

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.node import Node
from std_msgs.msg import String

from dynid.errors import NodeError
from dynid.nodes import domain as module
from dynid.nodes.chain import refuse_running_nodes
from dynid.nodes.collect import states_arrive
from dynid.nodes.domain import DOMAIN_VARIABLE, PrivateDomain, reserve_chain
from dynid.nodes.supervisor import Supervisor
from dynid.recording.settings import ExperimentSettings

HOLD = """
import sys
from dynid.nodes.domain import PrivateDomain
domain = PrivateDomain()
print(domain.number, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def domain(monkeypatch: pytest.MonkeyPatch) -> None:
    """None chosen: each test reserves its own, from few enough that two would meet."""
    monkeypatch.delenv(DOMAIN_VARIABLE, raising=False)
    monkeypatch.setattr(module, "_is_free", lambda _: True)  # as before the first node runs


def test_private_domains_are_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    for _ in range(module.LARGEST_DOMAIN // 2):
        held.append(PrivateDomain())
        monkeypatch.delenv(DOMAIN_VARIABLE)  # another run's environment does not name it
    assert len({one.number for one in held}) == len(held)
    for one in held:
        monkeypatch.setenv(DOMAIN_VARIABLE, one.number)
        one.release()


def test_a_domain_is_free_again_once_the_process_with_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", HOLD]
    with Child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        number = int(other.stdout.readline())
        monkeypatch.setattr(module.random, "sample", lambda *_: [number])
        with pytest.raises(NodeError, match=f"set {DOMAIN_VARIABLE} yourself"):
            PrivateDomain()
        other.kill()  # whatever its end was like
    with PrivateDomain() as own:
        assert own.number == str(number) == os.environ[DOMAIN_VARIABLE]
    assert DOMAIN_VARIABLE not in os.environ


def test_a_domain_that_the_user_has_set_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DOMAIN_VARIABLE, "7")
    with PrivateDomain() as one, PrivateDomain() as other:
        assert one.number == other.number == "7"
    assert os.environ[DOMAIN_VARIABLE] == "7"


def test_a_second_chain_in_one_domain_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two demos in the user's domain: the second would stop the first one's arm."""
    monkeypatch.setenv(DOMAIN_VARIABLE, "7")
    assert PrivateDomain().chosen
    with reserve_chain("7"), reserve_chain("8"), pytest.raises(NodeError, match="drives an arm in ROS domain 7"):
        reserve_chain("7")
    reserve_chain("7").close()


def test_nodes_of_another_start_are_refused() -> None:
    with PrivateDomain() as own:
        refuse_running_nodes(own.number)
        with Supervisor() as other:
            node = Node("executor", context=other.node.context)
            with pytest.raises(NodeError, match=f"executor already run in ROS domain {own.number}"):
                refuse_running_nodes(own.number)
            node.destroy_node()


def test_a_message_that_is_no_experiment_ends_no_client() -> None:
    with PrivateDomain(), Supervisor() as call:
        good = ExperimentSettings(trajectory="a", profile="b", controller="c", gains={}, duration_s=1.0)
        for text in ("{not json", "[]", good.model_dump_json(), "", '{"duration_s": -1}'):
            call._on_experiment(String(data=text))
        assert call.experiment == good
        call.reports["executor"] = DiagnosticStatus(values=[KeyValue(key="state_age_s", value="soon")])
        assert not states_arrive(call)
        call.reports["executor"].values[0].value = "0.01"
        assert states_arrive(call)
