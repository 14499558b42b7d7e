"""Entry points of the executables that launch files and `ros2 run` start; each loads its node and runs it."""

import os
import signal
import sys
from functools import partial
from importlib import import_module

from dynid.errors import DynidError
from dynid.threads import one_thread_each

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # SIGHUP: the terminal or ssh connection has closed


def end_at_once() -> None:
    """Make termination signals end this process immediately.

    While the process loads there is nothing to clean up, and a traceback would not help.
    """
    for number in ENDING:
        signal.signal(number, lambda *_: os._exit(0))


def _run(module: str) -> None:
    """Run a module's `main`; if a required library is missing, print one sentence and exit with code 1."""
    end_at_once()
    one_thread_each()
    os.environ.setdefault("MUJOCO_GL", "disable")  # nodes do not render; finding a display starts a Python process
    try:
        main = import_module(module).main
    except DynidError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    main()


hardware_node = partial(_run, "dynid.nodes.hardware_node")
executor_node = partial(_run, "dynid.nodes.executor_node")
trajectory_action_node = partial(_run, "dynid.nodes.trajectory_action_node")
recorder_node = partial(_run, "dynid.nodes.recorder_node")
identification_node = partial(_run, "dynid.nodes.identification_node")
external_torque_node = partial(_run, "dynid.nodes.external_torque_node")
payload_node = partial(_run, "dynid.nodes.payload_node")
bilateral_node = partial(_run, "dynid.nodes.bilateral_node")
collect_client = partial(_run, "dynid.nodes.collect")
hold_client = partial(_run, "dynid.nodes.holding")
adaptive_client = partial(_run, "dynid.nodes.adaptive")
trigger_client = partial(_run, "dynid.nodes.trigger")
simulated_arm = partial(_run, "dynid.simulation.bus.process")
