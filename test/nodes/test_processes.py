"""Groups of processes: no process is left running, whenever an interrupt arrives."""

import os
import signal
from pathlib import Path

import pytest

from dynid.errors import NodeError
from dynid.nodes import processes
from dynid.nodes.processes import Process, ProcessGroup


def test_an_interrupt_while_a_process_starts_leaves_it_in_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> Process:
        made = Process(*arguments)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGINT)
        return made

    monkeypatch.setattr(processes, "Process", interrupted)
    before = signal.getsignal(signal.SIGINT)
    group = ProcessGroup(tmp_path, {})
    with pytest.raises(KeyboardInterrupt):
        group.start("sleeper", ["-c", "import time; time.sleep(60)"])
    assert [one.name for one in group.processes] == ["sleeper"] and group.processes[0].running
    assert signal.getsignal(signal.SIGINT) is before
    group.processes[0].kill()


def test_a_child_starts_with_the_default_interrupt_handler(tmp_path: Path) -> None:
    group = ProcessGroup(tmp_path, {})
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    child = group.start("child", ["-c", code])
    while child.running:
        pass
    assert child.log.read_text().strip() == "True"


BRIEF = """
import os, rclpy
from rclpy.node import Node
from std_srvs.srv import Trigger
from dynid.nodes.common import set_middleware_defaults
set_middleware_defaults()
rclpy.init()
node = Node("brief")
def end(request, response):
    node.destroy_node()
    rclpy.shutdown()
    os._exit(0)
node.create_service(Trigger, "~/serve", end)
rclpy.spin(node)
"""


def test_a_client_does_not_wait_for_a_node_that_has_ended(tmp_path: Path) -> None:
    pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")
    from dynid.nodes.supervisor import Supervisor

    with ProcessGroup(tmp_path, {}) as group, Supervisor() as call:
        group.start("brief", ["-c", BRIEF])
        with pytest.raises(NodeError, match="the node of brief/serve ended before it answered"):
            call.trigger("brief/serve", timeout_s=300.0)
