"""The executables that launch files and `ros2 run` start: each loads its node and runs it."""

import os
import signal
import sys
from functools import partial
from importlib import import_module

from dynid.errors import DynidError
from dynid.threads import one_thread_each

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # HUP: the terminal or the ssh line is gone


def end_at_once() -> None:
    """From now on, a signal to end this process does so: while it loads, nothing is to be tidied up, or traced back."""
    for number in ENDING:
        signal.signal(number, lambda *_: os._exit(0))


def _run(module: str) -> None:
    """Run a module's `main`; one sentence and exit code 1 if a library that it needs is missing."""
    end_at_once()
    one_thread_each()
    os.environ.setdefault("MUJOCO_GL", "disable")  # no node draws, and what looks for a display is a Python more
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
