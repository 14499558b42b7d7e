"""Hardware node with a wall clock that SIGUSR1 steps, to test that a stepping clock does not disturb the arm.

All processes share the system's clock, so only the time that Python returns in this process steps.
"""

import os
import signal
import time

from dynid.nodes import hardware_node

VARIABLE = "DYNID_CLOCK_STEP_S"


def main() -> None:
    """Run the hardware node; its wall clock steps by DYNID_CLOCK_STEP_S [s] at every SIGUSR1."""
    step_ns = round(float(os.environ[VARIABLE]) * 1e9)
    stepped_ns = 0
    seconds, nanoseconds = time.time, time.time_ns

    def step(*_: object) -> None:
        nonlocal stepped_ns
        stepped_ns += step_ns

    time.time = lambda: seconds() + stepped_ns * 1e-9
    time.time_ns = lambda: nanoseconds() + stepped_ns
    signal.signal(signal.SIGUSR1, step)
    hardware_node.main()


if __name__ == "__main__":
    main()
