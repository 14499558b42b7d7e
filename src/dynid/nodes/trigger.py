"""Client that calls one Trigger service and says its answer: parameters `service` and `timeout_s`.

Exit code 0 only if the service succeeded.
"""

import contextlib
import sys

import rclpy.logging

from dynid.errors import DynidError, NodeError
from dynid.nodes.common import StopFlag, declare, end_with_expected_parent
from dynid.nodes.supervisor import Supervisor


def main() -> None:
    """Call the service."""
    end_with_expected_parent()
    stop = StopFlag()

    def watch() -> None:
        if stop.stopped:
            raise NodeError("interrupted")

    logger = rclpy.logging.get_logger("trigger")
    with contextlib.ExitStack() as stack:
        try:
            call = stack.enter_context(Supervisor(watch))
            service = declare(call.node, "service", "", "name of the service, relative or absolute")
            timeout_s = declare(call.node, "timeout_s", 20.0, "how long to wait for the answer [s]")
            logger.info(f"{service}: {call.trigger(service, timeout_s)}")
        except DynidError as error:
            logger.error(str(error))
            sys.exit(1)


if __name__ == "__main__":
    main()
