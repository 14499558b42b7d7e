"""Client that calls one Trigger service and logs its answer; configured by parameters `service` and `timeout_s`.

The exit code is 0 only if the service succeeded.
"""

from dynid.nodes.common import declare
from dynid.nodes.supervisor import Supervisor, run_client


def trigger(call: Supervisor) -> str:
    """Call the service that ROS parameter `service` of the client's node names; return its name and answer as text."""
    service = declare(call.node, "service", "", "name of the service, relative or absolute")
    timeout_s = declare(call.node, "timeout_s", 20.0, "how long to wait for the answer [s]")
    return f"{service}: {call.trigger(service, timeout_s)}"


def main() -> None:
    """Run the client that calls one Trigger service."""
    run_client("trigger", trigger)


if __name__ == "__main__":
    main()
