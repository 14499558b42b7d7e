"""Groups of processes: none is left behind, whenever an interrupt comes."""

import os
import signal
import sys
from pathlib import Path

import pytest

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


def test_a_child_begins_with_the_usual_handling_of_signals(tmp_path: Path) -> None:
    group = ProcessGroup(tmp_path, {})
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    child = group.start("child", ["-c", code])
    while child.running:
        pass
    assert child.log.read_text().strip() == "True" and sys.executable
