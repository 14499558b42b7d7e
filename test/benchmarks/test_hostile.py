"""What the benchmarks of hostile peers and interrupts count: each figure has a fault that raises it."""

import json
import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from benchmarks.hostile import interrupts
from benchmarks.hostile.interrupts import Ended, children, figures, interrupt

from dynid.parent import PARENT_VARIABLE

OFF = json.dumps({"torque_enabled": [False, False], "drive_current_a": [0.0, 0.0]})
ON = json.dumps({"torque_enabled": [False, True], "drive_current_a": [0.0, 0.0]})
TRACE = "Traceback (most recent call last):\n  x\nKeyboardInterrupt\n"


def ended(arm: str = f"/dev/pts/0\n{OFF}", demo: str = "interrupted", left: tuple[str, ...] = ()) -> Ended:
    texts = {"simulated_arm": arm, "demo": demo, "hardware": "cycle rate 1000 Hz"}
    return Ended(int(signal.SIGINT), 1.0, 2.0, 130, texts, left)


@pytest.mark.parametrize(
    ("run", "counts"),
    [
        (ended(), (0, 0, 0)),
        (ended(arm=""), (0, 0, 0)),
        (ended(left=("process 7", "/tmp/dynid-clock-1")), (2, 0, 0)),
        (ended(demo=TRACE), (0, 1, 0)),
        (ended(arm=f"/dev/pts/0\n{ON}"), (0, 0, 1)),
        (ended(arm="/dev/pts/0"), (0, 0, 1)),  # it was driven, and did not say how it was left
    ],
    ids=["in order", "not started", "left", "traceback", "torque", "silent"],
)
def test_what_an_interrupt_leaves_is_counted(run: Ended, counts: tuple[int, int, int]) -> None:
    found = figures([ended(), run])
    assert (found["left_behind"], found["tracebacks"], found["torque_on_at_end"]) == counts
    assert len(found["findings"]) == bool(any(counts)) and found["slowest_s"] == 2.0 and found["runs"] == 2


VULNERABLE = f"""
import os, signal, subprocess, sys, tempfile, time
open(os.path.join(tempfile.gettempdir(), "dynid-clock-planted"), "w").close()
signal.signal(signal.SIGINT, signal.SIG_DFL)
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", child], env={{**os.environ, {PARENT_VARIABLE!r}: str(os.getpid())}})
print("Traceback (most recent call last)", flush=True)
time.sleep(60)
"""


def test_a_demo_that_leaves_things_behind_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(interrupts, "TIMEOUT_S", 0.5)
    started: list[int] = []

    def until(condition: object, longest_s: float) -> None:
        if not started:  # the interrupt comes once the fault is planted
            started.append(1)
            while not list(tmp_path.rglob("output.txt")) or not next(tmp_path.rglob("output.txt")).read_text():
                pass
        else:
            original(condition, longest_s)

    original = interrupts._wait
    monkeypatch.setattr(interrupts, "_wait", until)
    run = interrupt([sys.executable, "-c", VULNERABLE], 5.0, signal.SIGINT)
    assert sorted(one.split()[0] for one in run.left) == [str(tmp_path / "dynid-clock-planted"), "process"]
    assert run.traces == 1 and not run.torque_on and run.seconds >= 0.5
    assert not children(0)
