"""Work in several processes: results in order, errors, and no process left running."""

import contextlib
import math
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from child import Child

from dynid.parallel import cores, in_processes
from dynid.threads import THREAD_VARIABLES

VARIABLE = THREAD_VARIABLES[0]


def test_results_come_with_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dict(in_processes(math.sqrt, [9, 16, 25], processes=2)) == {0: 3.0, 1: 4.0, 2: 5.0}
    monkeypatch.delenv(VARIABLE, raising=False)
    threads = in_processes(os.getenv, [VARIABLE, VARIABLE], processes=2)
    assert [value for _, value in threads] == ["1", "1"]
    assert VARIABLE not in os.environ  # this process is as it was


def test_one_process_works_in_the_calling_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "3")
    assert list(in_processes(os.getenv, [VARIABLE, "NOTHING_OF_THIS_NAME"], processes=1)) == [(0, "3"), (1, None)]
    assert list(in_processes(math.sqrt, [])) == []
    assert cores() >= 1


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_in_a_worker_is_raised_in_the_caller(processes: int) -> None:
    with pytest.raises(ValueError, match="invalid literal for int"):
        list(in_processes(int, ["1", "x", "4"], processes=processes))


INTERRUPTED = """
import os, signal, sys, tempfile
from dynid.parallel import in_processes

def stop_here(word):
    os.write(1, f"{word}\\n".encode())  # at once: two processes share the pipe
    while signal.SIGINT not in signal.sigpending():
        pass

def work(where):
    with tempfile.TemporaryDirectory(dir=where):
        stop_here("working")

if __name__ == "__mp_main__" and sys.argv[1] == "loading":
    stop_here("loading")
if __name__ == "__main__":
    try:
        list(in_processes(work, [sys.argv[2]] * 2, processes=2))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["loading", "working"])
def test_an_interrupt_ends_children_silently_and_removes_their_files(tmp_path: Path, moment: str) -> None:
    (tmp_path / "program.py").write_text(INTERRUPTED)
    (tmp_path / "out").mkdir()
    command = [sys.executable, str(tmp_path / "program.py"), moment, str(tmp_path / "out")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with Child(command, start_new_session=True, **pipes) as program:
        try:
            assert [program.stdout.readline().strip() for _ in range(2)] == [moment] * 2
            os.killpg(program.pid, signal.SIGINT)
            assert program.communicate(timeout=60)[1] == "interrupted\n"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)  # whatever still waits for an interrupt
    assert list((tmp_path / "out").iterdir()) == []


IGNORING = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from dynid.parallel import in_processes

def work(number):
    os.kill(os.getpid(), signal.SIGINT)
    return number

if __name__ == "__main__":
    print(sorted(value for _, value in in_processes(work, [1, 2, 3], processes=2)))
"""


def test_workers_that_ignore_interrupts_continue(tmp_path: Path) -> None:
    """As a script's job in the background."""
    (tmp_path / "program.py").write_text(IGNORING)
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, check=True)
    assert done.stdout == "[1, 2, 3]\n"


KILLED = """
import os, threading
from dynid.parallel import in_processes

def work(_):
    os.write(1, f"{os.getpid()}\\n".encode())  # in one piece: print may write the end of the line on its own
    threading.Event().wait()

if __name__ == "__main__":
    list(in_processes(work, [1, 2], processes=2))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_children_end_with_a_parent_that_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "program.py").write_text(KILLED)
    with Child([sys.executable, str(tmp_path / "program.py")], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        children = [os.pidfd_open(int(parent.stdout.readline())) for _ in range(2)]
        parent.send_signal(number)
    for child in children:
        ended, _, _ = select.select([child], [], [], 60.0)
        os.close(child)
        assert ended


def test_commands_run_their_linear_algebra_with_one_thread() -> None:
    """What is set after numpy was loaded has no effect: every matrix would be shared out among spinning threads."""
    code = (
        "import os, sys, dynid.commands\n"
        f"assert all(os.environ[name] == '1' for name in {THREAD_VARIABLES!r})\n"
        "assert 'numpy' not in sys.modules, 'numpy was loaded before its threads were limited'"
    )
    own = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    subprocess.run([sys.executable, "-c", code], env=own, check=True)
