"""Check whether a plain node in the environment of dynid's launch files listens on the network."""

import os
import subprocess
import sys
import time

from benchmarks.hostile.sockets import listens_on, reachable
from dynid.errors import NodeError
from dynid.nodes.middleware import PROFILE_FILES, RANGE, TRANSPORTS, middleware_defaults

PLAIN = "network: a plain node of a launch file"
STARTS_S = 120.0
PROGRAM = """
import sys
import rclpy
rclpy.init()
node = rclpy.create_node("plain")
print("ready", flush=True)
sys.stdin.read()
"""


def launched_environment() -> dict[str, str]:
    """Return the environment of a process of the launch files, for a user who chose nothing."""
    chosen = (*PROFILE_FILES, RANGE, TRANSPORTS, "ROS_LOCALHOST_ONLY")
    plain = {key: value for key, value in os.environ.items() if key not in chosen}
    return plain | middleware_defaults(plain, plain.get("RMW_IMPLEMENTATION") or "rmw_fastrtps_cpp")


def plain_node_reachable(environment: dict[str, str] | None = None) -> tuple[str, ...]:
    """Return in words on which addresses a plain node can be reached from the network, () if on none.

    Raises:
        NodeError: the node does not start, or has no sockets at all.
    """
    node = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=launched_environment() if environment is None else environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        if node.stdout is None or node.stdout.readline() != "ready\n":
            raise NodeError("a plain node of ROS did not start")
        end_s = time.monotonic() + STARTS_S
        while not listens_on(node.pid):
            if time.monotonic() > end_s:
                raise NodeError("a plain node of ROS has no sockets")
            time.sleep(0.1)
        return tuple(f"a plain node listens on {one}" for one in sorted(reachable(node.pid)))
    finally:
        node.kill()
        node.communicate()
