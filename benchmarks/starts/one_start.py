"""Single start of the chain, which then runs for some seconds and prints a report as JSON.

python -m benchmarks.starts.one_start FOLDER SECONDS
"""

import json
import sys
import time
from pathlib import Path

from dynid.errors import DynidError
from dynid.hardware.loop.diagnostics import LINE, LOOP
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.supervisor import Supervisor
from dynid.robot import load_robot

ROBOT = "crane_x7"
REPORT_TIMEOUT_S = 20.0


def counted(call: Supervisor) -> tuple[int, int]:
    """Return the driver's cycles and missed cycles, as it reports them."""
    call.wait(lambda: LOOP in call.reports, REPORT_TIMEOUT_S, "the driver's diagnostics")
    values = {one.key: one.value for one in call.reports[LOOP].values}
    return int(values["cycles"]), int(values["missed"])


def start_once(folder: Path, seconds: float) -> dict[str, object]:
    """Start the chain on a line with a clock of its own, enable the arm, and count cycles for some seconds.

    Args:
        folder: a new folder for the logs.
        seconds: time in which cycles are counted [s].

    Returns:
        Whether the chain came up, the reason if not, the duration of the start [s], the chosen rate [Hz], and the share
            of missed cycles.
    """
    begin = time.monotonic()
    options = ChainOptions(ROBOT, identification=False, paused_clock=False)
    try:
        with Chain(load_robot(ROBOT), options, folder) as chain:
            chain.bring_up()
            took = time.monotonic() - begin
            call = chain.supervisor
            cycles, missed = counted(call)
            call.reports.clear()
            end_s = call.now() + seconds
            call.wait(lambda: call.now() >= end_s and LOOP in call.reports, seconds + 60.0, "the passing of time")
            after, missed_after = counted(call)
            rate = next((one.value for one in call.reports[LINE].values if one.key == "cycle rate"), "")
    except DynidError as error:
        return {"up": False, "why": str(error), "seconds": time.monotonic() - begin}
    share = (missed_after - missed) / max(1, after - cycles)
    return {"up": True, "why": "", "seconds": took, "rate": rate, "missed_share": share}


if __name__ == "__main__":
    print(json.dumps(start_once(Path(sys.argv[1]), float(sys.argv[2]))))
